/* automaton - finds every one of many texts in a text, in one pass. A trie whose nodes are numbered level by level, so
 * that the children of a node lie side by side, with the failure links of Aho and Corasick (Communications of the ACM
 * 18, 1975). Built in O(bytes log texts), a step of a search takes O(1) amortized, whatever the texts are. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    const char *text; /* [n] the caller's; only needed while the automaton is built */
    uint32_t n;
    int value; /* >= 0 */
} AutomatonText;

typedef struct {
    uint32_t first, fail; /* first child; node of the longest proper suffix that is one */
    uint32_t shorter;     /* the longest proper suffix that is a text; 0: none */
    uint32_t depth;       /* bytes */
    int32_t value;        /* of the text that ends here; -1: none */
} AutomatonNode;

typedef struct {
    AutomatonNode *nodes;  /* [n + 1] node 0 is the root; the children of i are nodes[i].first to nodes[i + 1].first */
    unsigned char *labels; /* [n] the byte that leads to a node */
    uint32_t n;
    uint32_t root[256]; /* its children, 0: none */
} Automaton;

/* automaton_init - of equal texts the first counts, empty ones are left out; texts is sorted. backward: the bytes of
 * the texts, and of what is searched, are read from the last to the first. `what` is for messages. */
int automaton_init(Automaton *a, AutomatonText *texts, size_t n, bool backward, const char *what, Error *e);
void automaton_close(Automaton *a);

/* automaton_child - the node behind one more byte; 0: there is none. */
uint32_t automaton_child(const Automaton *a, uint32_t node, unsigned char byte);
/* automaton_step - the state after one more byte of the searched text: the node of the longest suffix that is one. */
uint32_t automaton_step(const Automaton *a, uint32_t state, unsigned char byte);
/* automaton_longest - the node of the longest text that ends at this state (or is it); 0: none. The next shorter one is
 * nodes[].shorter of that. */
uint32_t automaton_longest(const Automaton *a, uint32_t state);

/* merge - the one loop behind every BPE: again and again, the best adjacent pair of symbols becomes one.
 *
 * A linked list of symbols and a heap of candidate pairs: O(n log n). A candidate that a later merge
 * made stale is noticed by its size, since symbols only grow. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    uint32_t at, n;     /* bytes in the text; n is 0 once it is merged into its neighbour */
    int id;             /* token, or -1 */
    int32_t prev, next; /* -1: none */
} Symbol;

/* Small, since a long text keeps a million of them in the heap. */
typedef struct {
    float order;   /* smallest first; of equals the leftmost */
    uint32_t left; /* merges with the symbol next to it */
    uint32_t n;    /* bytes of both */
    int id;        /* what they become */
} Candidate;

/* Memory that one call of encode reuses from word to word. Zeroed: empty. */
typedef struct {
    Symbol *symbols; /* [room] */
    Candidate *heap; /* [2 * room] */
    size_t n_symbols, room;
} MergeSpace;

/* merge_reserve - room for n symbols (a text of n bytes has no more); refuses 2 GiB of text. */
int merge_reserve(MergeSpace *s, size_t n, Error *e);
void merge_close(MergeSpace *s);

/* What left and right become and when; false: they do not merge. */
typedef bool MergeRule(const void *rules, const Symbol *left, const Symbol *right, float *order, int *id);

/* merge_all - links symbols[0..n_symbols) (at, n, id set) and merges until no pair is left.
 * The result is the list from symbols[0] along next. */
void merge_all(MergeSpace *s, MergeRule *rule, const void *rules);

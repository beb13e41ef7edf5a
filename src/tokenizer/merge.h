/* merge - the one loop behind every BPE: again and again, the best adjacent pair of symbols becomes one.
 *
 * A linked list of symbols and a heap of candidate pairs: O(n log n). A candidate that a later merge
 * made stale is noticed by its size, since symbols only grow. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct {
    const char *text; /* first byte */
    size_t n;         /* bytes, at least 1; 0 once merged into its neighbour */
    int id;           /* token, or -1 */
    bool frozen;      /* merges with nothing */
    ptrdiff_t prev, next; /* -1: none */
} Symbol;

typedef struct {
    double order; /* smallest first; of equals the leftmost */
    ptrdiff_t left, right;
    size_t n;     /* bytes of both */
    int id;       /* what they become */
} Candidate;

/* Memory that one call of encode reuses from word to word. Zeroed: empty. */
typedef struct {
    Symbol *symbols; /* [room] */
    Candidate *heap; /* [2 * room] */
    size_t n_symbols, room;
} MergeSpace;

/* merge_reserve - room for n symbols. */
int merge_reserve(MergeSpace *s, size_t n, Error *e);
void merge_close(MergeSpace *s);

/* What left and right become and when; false: they do not merge. */
typedef bool MergeRule(const void *rules, const Symbol *left, const Symbol *right, double *order, int *id);

/* merge_all - links symbols[0..n_symbols) (text, n, id, frozen set) and merges until no pair is left.
 * The result is the list from symbols[0] along next. */
void merge_all(MergeSpace *s, MergeRule *rule, const void *rules);

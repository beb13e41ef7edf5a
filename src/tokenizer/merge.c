#include "tokenizer/merge.h"

#include <stdint.h>
#include <stdlib.h>

int merge_reserve(MergeSpace *s, size_t n, Error *e) {
    if (n <= s->room) return 0;
    size_t room = n < 64 ? 64 : n;
    merge_close(s);
    if (room < INT32_MAX) {
        s->symbols = malloc(room * sizeof *s->symbols);
        s->heap = malloc(2 * room * sizeof *s->heap);
    }
    if (!s->symbols || !s->heap) return fail(e, "text: memory: expected room for %zu symbols, found none", n);
    s->room = room;
    return 0;
}

void merge_close(MergeSpace *s) {
    free(s->symbols);
    free(s->heap);
    *s = (MergeSpace){0};
}

static bool before(const Candidate *a, const Candidate *b) {
    return a->order != b->order ? a->order < b->order : a->left < b->left;
}

/* Four children a node: half the levels of a binary heap, and four siblings share a cache line. */
enum { CHILDREN = 4 };

static void heap_push(Candidate *heap, size_t *n, Candidate c) {
    size_t i = (*n)++;
    for (size_t parent; i > 0 && before(&c, &heap[parent = (i - 1) / CHILDREN]); i = parent) heap[i] = heap[parent];
    heap[i] = c;
}

static Candidate heap_pop(Candidate *heap, size_t *n) {
    Candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = CHILDREN * i + 1) < *n; i = child) {
        size_t end = child + CHILDREN < *n ? child + CHILDREN : *n;
        for (size_t k = child + 1; k < end; k++)
            if (before(&heap[k], &heap[child])) child = k;
        if (!before(&heap[child], &last)) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* Puts the pair that begins at symbol `left` into the heap, when it merges. */
static void consider(MergeSpace *s, size_t *n_heap, int32_t left, MergeRule *rule, const void *rules) {
    const Symbol *a = &s->symbols[left];
    if (a->next < 0) return;
    const Symbol *b = &s->symbols[a->next];
    Candidate c = {.left = (uint32_t)left, .n = a->n + b->n};
    if (rule(rules, a, b, &c.order, &c.id)) heap_push(s->heap, n_heap, c);
}

void merge_all(MergeSpace *s, MergeRule *rule, const void *rules) {
    Symbol *symbols = s->symbols;
    int32_t n = (int32_t)s->n_symbols;
    for (int32_t i = 0; i < n; i++) {
        symbols[i].prev = i - 1;
        symbols[i].next = i + 1 < n ? i + 1 : -1;
    }
    /* At most n - 1 pairs at first, and each of at most n - 1 merges takes one out and puts two in:
     * 2n is enough. */
    size_t n_heap = 0;
    for (int32_t i = 0; i < n; i++) consider(s, &n_heap, i, rule, rules);
    while (n_heap) {
        Candidate best = heap_pop(s->heap, &n_heap);
        Symbol *left = &symbols[best.left];
        if (left->n == 0 || left->next < 0) continue;
        Symbol *right = &symbols[left->next];
        if (left->n + right->n != best.n) continue; /* one of them has grown since */
        left->n = best.n;
        left->id = best.id;
        left->next = right->next;
        right->n = 0;
        if (left->next >= 0) symbols[left->next].prev = (int32_t)best.left;
        if (left->prev >= 0) consider(s, &n_heap, left->prev, rule, rules);
        consider(s, &n_heap, (int32_t)best.left, rule, rules);
    }
}

#include "tokenizer/merge.h"

#include <stdint.h>
#include <stdlib.h>

int merge_reserve(MergeSpace *s, size_t n, Error *e) {
    if (n <= s->room) return 0;
    size_t room = n < 64 ? 64 : n;
    merge_close(s);
    if (room <= SIZE_MAX / (2 * sizeof *s->heap)) {
        s->symbols = malloc(room * sizeof *s->symbols);
        s->heap = malloc(2 * room * sizeof *s->heap);
    }
    if (!s->symbols || !s->heap)
        return fail(e, "text: memory: expected room for %zu symbols, found none", n);
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

static void heap_push(Candidate *heap, size_t *n, Candidate c) {
    size_t i = (*n)++;
    while (i > 0 && before(&c, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = c;
}

static Candidate heap_pop(Candidate *heap, size_t *n) {
    Candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

void merge_all(MergeSpace *s, MergeRule *rule, const void *rules) {
    Symbol *symbols = s->symbols;
    ptrdiff_t n = (ptrdiff_t)s->n_symbols;
    for (ptrdiff_t i = 0; i < n; i++) {
        symbols[i].prev = i - 1;
        symbols[i].next = i + 1 < n ? i + 1 : -1;
    }
    /* At most n - 1 pairs at first, and each of at most n - 1 merges takes one out and puts two in:
     * 2n is enough. */
    size_t n_heap = 0;
    Candidate c;
    for (ptrdiff_t i = 0; i + 1 < n; i++) {
        if (symbols[i].frozen || symbols[i + 1].frozen) continue;
        if (rule(rules, &symbols[i], &symbols[i + 1], &c.order, &c.id)) {
            c.left = i, c.right = i + 1, c.n = symbols[i].n + symbols[i + 1].n;
            heap_push(s->heap, &n_heap, c);
        }
    }
    while (n_heap) {
        Candidate best = heap_pop(s->heap, &n_heap);
        Symbol *left = &symbols[best.left], *right = &symbols[best.right];
        if (left->n == 0 || right->n == 0 || left->n + right->n != best.n) continue;
        left->n = best.n;
        left->id = best.id;
        left->next = right->next;
        right->n = 0;
        if (left->next >= 0) symbols[left->next].prev = best.left;
        ptrdiff_t pairs[2][2] = {{left->prev, best.left}, {best.left, left->next}};
        for (int i = 0; i < 2; i++) {
            if (pairs[i][0] < 0 || pairs[i][1] < 0) continue;
            Symbol *a = &symbols[pairs[i][0]], *b = &symbols[pairs[i][1]];
            if (a->frozen || b->frozen || !rule(rules, a, b, &c.order, &c.id)) continue;
            c.left = pairs[i][0], c.right = pairs[i][1], c.n = a->n + b->n;
            heap_push(s->heap, &n_heap, c);
        }
    }
}

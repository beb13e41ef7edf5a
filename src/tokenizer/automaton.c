#include "tokenizer/automaton.h"

#include <stdlib.h>
#include <string.h>

/* A text while the automaton is built: its first bytes as a number, so that most comparisons look nowhere else. */
typedef struct {
    uint64_t head;
    const AutomatonText *text;
    bool backward;
} Sorted;

static unsigned char byte_of(const Sorted *s, uint32_t i) {
    return (unsigned char)s->text->text[s->backward ? s->text->n - 1 - i : i];
}

static int compare(const void *a, const void *b) {
    const Sorted *x = a, *y = b;
    uint32_t n = x->text->n < y->text->n ? x->text->n : y->text->n;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    for (uint32_t i = n < 8 ? n : 8; i < n; i++)
        if (byte_of(x, i) != byte_of(y, i)) return byte_of(x, i) < byte_of(y, i) ? -1 : 1;
    if (x->text->n != y->text->n) return x->text->n < y->text->n ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text; /* equal texts: in the caller's order */
}

static uint32_t common_prefix(const Sorted *x, const Sorted *y) {
    uint32_t n = x->text->n < y->text->n ? x->text->n : y->text->n, i = 0;
    while (i < n && byte_of(x, i) == byte_of(y, i)) i++;
    return i;
}

uint32_t automaton_child(const Automaton *a, uint32_t node, unsigned char byte) {
    if (node == 0) return a->root[byte];
    uint32_t low = a->nodes[node].first, end = a->nodes[node + 1].first, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a->labels[middle] < byte) low = middle + 1;
        else high = middle;
    }
    return low < end && a->labels[low] == byte ? low : 0;
}

uint32_t automaton_step(const Automaton *a, uint32_t state, unsigned char byte) {
    for (uint32_t child; state; state = a->nodes[state].fail)
        if ((child = automaton_child(a, state, byte))) return child;
    return a->root[byte];
}

uint32_t automaton_longest(const Automaton *a, uint32_t state) {
    return a->nodes[state].value >= 0 ? state : a->nodes[state].shorter;
}

/* The nodes level by level: node i has the sorted texts ranges[2 * i] to ranges[2 * i + 1], which all begin with what
 * it stands for. */
static void add_nodes(Automaton *a, const Sorted *sorted, uint32_t n_sorted, uint32_t *ranges) {
    uint32_t next = 1;
    ranges[0] = 0;
    ranges[1] = n_sorted;
    for (uint32_t i = 0; i < a->n; i++) {
        AutomatonNode *node = &a->nodes[i];
        uint32_t at = ranges[2 * i], end = ranges[2 * i + 1];
        node->first = next;
        node->value = -1;
        for (; at < end && sorted[at].text->n == node->depth; at++)
            if (node->value < 0) node->value = sorted[at].text->value;
        while (at < end) {
            unsigned char label = byte_of(&sorted[at], node->depth);
            ranges[2 * next] = at;
            while (at < end && byte_of(&sorted[at], node->depth) == label) at++;
            ranges[2 * next + 1] = at;
            a->labels[next] = label;
            a->nodes[next].depth = node->depth + 1;
            if (i == 0) a->root[label] = next;
            next++;
        }
    }
    a->nodes[a->n].first = next;
}

/* A parent's link is known before its children's, since their level comes later. */
static void add_links(Automaton *a) {
    for (uint32_t parent = 0; parent < a->n; parent++)
        for (uint32_t i = a->nodes[parent].first; i < a->nodes[parent + 1].first; i++) {
            AutomatonNode *node = &a->nodes[i];
            node->fail = parent ? automaton_step(a, a->nodes[parent].fail, a->labels[i]) : 0;
            node->shorter = automaton_longest(a, node->fail);
        }
}

int automaton_init(Automaton *a, AutomatonText *texts, size_t n, bool backward, const char *what, Error *e) {
    *a = (Automaton){0};
    Sorted *sorted = n < UINT32_MAX / 2 ? malloc((n + 1) * sizeof *sorted) : NULL;
    if (!sorted) return fail(e, "%s: memory: expected room for %zu texts, found none", what, n);
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (texts[i].n == 0) continue;
        Sorted *s = &sorted[count++];
        *s = (Sorted){0, &texts[i], backward};
        for (uint32_t k = 0; k < 8; k++) s->head = s->head << 8 | (k < texts[i].n ? byte_of(s, k) : 0);
    }
    qsort(sorted, count, sizeof *sorted, compare);
    size_t n_nodes = 1; /* one for each beginning that differs from those before */
    for (uint32_t i = 0; i < count; i++)
        n_nodes += sorted[i].text->n - (i ? common_prefix(&sorted[i - 1], &sorted[i]) : 0);
    uint32_t *ranges = NULL;
    if (n_nodes < UINT32_MAX / 2) {
        a->n = (uint32_t)n_nodes;
        a->nodes = calloc(n_nodes + 1, sizeof *a->nodes);
        a->labels = calloc(n_nodes + 1, 1);
        ranges = malloc(2 * n_nodes * sizeof *ranges);
    }
    int status = 0;
    if (a->nodes && a->labels && ranges) {
        add_nodes(a, sorted, count, ranges);
        add_links(a);
    } else {
        status = fail(e, "%s: memory: expected room for texts of %zu bytes, found none", what, n_nodes);
    }
    free(ranges);
    free(sorted);
    return status;
}

void automaton_close(Automaton *a) {
    free(a->nodes);
    free(a->labels);
    *a = (Automaton){0};
}

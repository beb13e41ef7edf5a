#include "rows.h"

#include <string.h>

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Bytes of d, of sum and of d_sum, each. */
static size_t each_bytes(size_t blocks) { return round_up(blocks * sizeof(float) + 64, 64); }

static size_t int8_bytes(size_t n, size_t dim) {
    size_t blocks = round_up(n, ROWS_TILE) * (dim / QK);
    return blocks * QK + 3 * each_bytes(blocks);
}

static size_t own_floats(size_t dim) { return round_up(OWN_MAX_ROWS * dim, 16); }

void row_buffer_take(RowBuffer *b, Arena *a, int n_batch, int dim) {
    b->dim = dim;
    b->x = arena_take(a, (size_t)n_batch * (size_t)dim, sizeof *b->x);
    b->int8 = arena_take(a, int8_bytes((size_t)n_batch, (size_t)dim), 1);
}

void row_buffer_take_own(RowBuffer *b, Arena *a, int n_threads) {
    size_t dim = (size_t)b->dim;
    b->own_bytes = round_up(own_floats(dim) * sizeof(float) + int8_bytes(OWN_MAX_ROWS, dim), 64);
    b->own = arena_take(a, (size_t)n_threads, b->own_bytes);
}

void row_buffer_take_tiles(RowBuffer *b, Arena *a, int n_tiles, int dim) {
    b->dim = dim;
    b->x = arena_take(a, (size_t)n_tiles * ROWS_TILE, (size_t)dim * sizeof *b->x);
    b->int8 = arena_take(a, (size_t)n_tiles, int8_bytes(ROWS_TILE, (size_t)dim));
}

static Rows open_at(float *x, void *int8, int dim, const Pass *p, int n) {
    Rows a = {.kernels = p->kernels, .x = x, .n = n, .dim = dim, .exact = p->exact};
    a.tile = a.n > 1 ? ROWS_TILE : 1;
    a.blocks = p->int8 && p->kernels->int8 && dim % QK == 0 ? dim / QK : 0;
    if (!a.blocks) return a;
    size_t blocks = round_up((size_t)a.n, (size_t)a.tile) * (size_t)a.blocks, each = each_bytes(blocks);
    char *q = int8, *d = q + round_up(blocks * QK, 64);
    a.q = (int8_t *)q;
    a.d = (float *)(void *)d;
    a.sum = (int16_t(*)[2])(void *)(d + each);
    a.d_sum = (float *)(void *)(d + 2 * each);
    return a;
}

Rows rows_open(const RowBuffer *b, const Pass *p) { return open_at(b->x, b->int8, b->dim, p, p->n); }

Rows rows_open_tiles(const RowBuffer *b, const Pass *p, int tile, int n) {
    size_t dim = (size_t)b->dim, at = (size_t)tile;
    return open_at(b->x + at * ROWS_TILE * dim, (char *)b->int8 + at * int8_bytes(ROWS_TILE, dim), b->dim, p, n);
}

Rows rows_open_own(const RowBuffer *b, const Pass *p) {
    float *own = (float *)(void *)(b->own + (size_t)p->t->id * b->own_bytes);
    return open_at(own, own + own_floats((size_t)b->dim), b->dim, p, p->n);
}

Rows rows_some(const Rows *a, int from, int n) {
    Rows some = *a;
    some.n = n;
    some.x += (size_t)from * (size_t)a->dim;
    if (!a->blocks) return some;
    size_t at = (size_t)from * (size_t)a->blocks; /* whole tiles */
    some.q += at * QK;
    some.d += at;
    some.sum += at;
    some.d_sum += at;
    return some;
}

float *rows_at(const Rows *a, int r) { return a->x + (size_t)r * (size_t)a->dim; }

void rows_quantize(const Rows *a, int r, int from, int to) {
    if (!a->blocks || from % QK || to % QK) return;
    int blocks = (to - from) / QK, tile = a->tile;
    size_t at = ((size_t)(r / tile) * (size_t)a->blocks + (size_t)(from / QK)) * (size_t)tile + (size_t)(r % tile);
    a->kernels->quantize(a->q + at * QK, a->d + at, a->sum + at, a->d_sum + at, tile, rows_at(a, r) + from, blocks);
}

void rows_quantize_all(const Pass *p, const Rows *a) {
    size_t from, to;
    team_share(p->t, (size_t)a->n, ROWS_TILE, &from, &to);
    for (int r = (int)from; r < (int)to; r++) rows_quantize(a, r, 0, a->dim);
    team_barrier(p->t);
}

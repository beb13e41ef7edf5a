#include "ops.h"

#include <math.h>
#include <string.h>

/* ---- Activations ------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* The 8-bit form of n rows: q, d, sum, weight_of_min. */
static size_t form_bytes(size_t n, size_t dim) {
    size_t blocks = n * (dim / QK);
    return round_up(blocks * QK, 64) + 3 * round_up(blocks * sizeof(float) + 64, 64);
}

/* What one thread keeps for itself: a few rows in f32 and in 8 bits. */
static size_t own_bytes(size_t dim) {
    return round_up(ACT_OWN_ROWS * dim * sizeof(float), 64) + form_bytes(ACT_OWN_ROWS, dim);
}

size_t act_bytes(size_t n, size_t dim, size_t n_threads) {
    return n_threads * own_bytes(dim) + form_bytes(round_up(n, ACT_TILE), dim);
}

void act_open(Act *a, const Thread *t, void *memory, size_t memory_dim, float *x, float *room, int n, int dim,
              bool exact) {
    const Kernels *k = kernels_best();
    bool shared = n > ACT_OWN_ROWS;
    *a = (Act){.kernels = k, .n = n, .dim = dim, .tile = shared ? ACT_TILE : 1, .exact = exact, .shared = shared};
    a->blocks = dim % QK == 0 ? dim / QK : 0;
    size_t own = own_bytes(memory_dim), rows = shared ? round_up((size_t)n, ACT_TILE) : (size_t)n;
    char *p = (char *)memory + (size_t)(shared ? team_size(t->team) : t->id) * own;
    a->x = x ? x : shared ? room : (float *)(void *)p;
    if (!shared) p += round_up(ACT_OWN_ROWS * memory_dim * sizeof(float), 64);
    size_t blocks = rows * (size_t)a->blocks, each = round_up(blocks * sizeof(float) + 64, 64);
    a->q = (int8_t *)p;
    p += round_up(blocks * QK, 64);
    a->d = (float *)(void *)p;
    a->sum = (int16_t(*)[2])(void *)(p + each);
    a->weight_of_min = (float *)(void *)(p + 2 * each);
}

void act_mine(const Thread *t, const Act *a, int *from, int *to) {
    size_t first = 0, end = (size_t)a->n;
    if (a->shared) team_share(t, (size_t)a->n, ACT_TILE, &first, &end);
    *from = (int)first;
    *to = (int)end;
}

float *act_row(const Act *a, int r) { return a->x + (size_t)r * (size_t)a->dim; }

void act_ready(const Thread *t, Act *a, bool quantized) {
    int from, to;
    act_mine(t, a, &from, &to);
    if (quantized && a->kernels->int8 && a->blocks) {
        int padded = (to + a->tile - 1) / a->tile * a->tile; /* the last tile is filled up with zeros */
        for (int r = from; r < padded && from < to; r++) {
            size_t at = (size_t)(r / a->tile * a->tile) * (size_t)a->blocks + (size_t)(r % a->tile);
            if (r < to)
                a->kernels->quantize(a->q + at * QK, a->d + at, a->sum + at, a->weight_of_min + at, a->tile,
                                     act_row(a, r), a->blocks);
            for (int b = 0; r >= to && b < a->blocks; b++, at += (size_t)a->tile) {
                memset(a->q + at * QK, 0, QK);
                a->d[at] = a->weight_of_min[at] = 0;
                a->sum[at][0] = a->sum[at][1] = 0;
            }
        }
    }
    if (a->shared) team_barrier(t);
}

/* ---- Products ---------------------------------------------------------------------------------- */

enum {
    GRAIN = 32,       /* columns of a piece: a multiple of it; whole panels of every instruction set */
    PIECES = 8,       /* of each thread in decode, so that the last ones to finish wait little */
    LEAST = 64,       /* ... but not less columns than this, which are worth the asking */
    CACHED_ROWS = 64, /* rows of weights that stay in the cache for the second and third row of activations */
};

bool matmul_next(const Thread *t, int rows, const Act *a, int *from, int *to) {
    int size = rows, piece;
    if (t->n > 1) {
        size = a->shared ? GRAIN : rows / (PIECES * t->n) / GRAIN * GRAIN;
        if (!a->shared && size < LEAST) size = LEAST;
    }
    if (!team_next(t, (rows + size - 1) / size, &piece)) return false;
    *from = piece * size;
    *to = rows - *from < size ? rows : *from + size;
    return true;
}

void matmul_piece(float *y, size_t y_stride, const Mat *w, const float *bias, const Act *a, bool add, int from, int to) {
    if (a->shared || a->exact) {
        a->kernels->gemm(y, y_stride, w, from, to, a, add);
    } else {
        int size = a->n == 1 ? to - from : CACHED_ROWS;
        for (int r = from; r < to; r += size)
            for (int i = 0; i < a->n; i++)
                a->kernels->gemv(y + (size_t)i * y_stride, w, r, r + size < to ? r + size : to, a, i, add);
    }
    for (int i = 0; i < a->n && bias; i++)
        a->kernels->add(y + (size_t)i * y_stride + from, bias + from, (size_t)(to - from));
}

void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const float *bias, const Act *a, bool add) {
    int from, to;
    while (matmul_next(t, w->rows, a, &from, &to)) matmul_piece(y, y_stride, w, bias, a, add, from, to);
}

/* ---- Functions of numbers ---------------------------------------------------------------------- */

void softmax(float *x, int n) {
    float max = -INFINITY, total = 0;
    kernels_best()->softmax_step(x, n, n, &max, &total);
    for (int i = 0; i < n; i++) x[i] /= total;
}

float silu(float z) { return z / (1 + expf(-z)); }

float gelu_tanh(float z) {
    const float sqrt_2_over_pi = 0.7978845608028654f;
    return 0.5f * z * (1 + tanhf(sqrt_2_over_pi * (z + 0.044715f * z * z * z)));
}

#include "ops.h"

#include <math.h>
#include <string.h>

/* ---- Activations ------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Bytes of d, of sum and of weight_of_min, each. */
static size_t each_bytes(size_t blocks) { return round_up(blocks * sizeof(float) + 64, 64); }

size_t act_bytes(size_t n, size_t dim) {
    size_t blocks = round_up(n, ACT_TILE) * (dim / QK);
    return blocks * QK + 3 * each_bytes(blocks);
}

void act_open(Act *a, float *x, int n, int dim, void *memory, bool quantized, bool exact) {
    const Kernels *k = kernels_best();
    *a = (Act){.kernels = k, .x = x, .n = n, .dim = dim, .exact = exact};
    a->tile = n > ACT_FEW ? ACT_TILE : 1;
    a->blocks = quantized && k->int8 && dim % QK == 0 ? dim / QK : 0;
    if (!a->blocks) return;
    size_t blocks = round_up((size_t)n, (size_t)a->tile) * (size_t)a->blocks, each = each_bytes(blocks);
    char *p = memory;
    a->q = (int8_t *)p;
    p += round_up(blocks * QK, 64);
    a->d = (float *)(void *)p;
    a->sum = (int16_t(*)[2])(void *)(p + each);
    a->weight_of_min = (float *)(void *)(p + 2 * each);
}

float *act_row(const Act *a, int r) { return a->x + (size_t)r * (size_t)a->dim; }

void act_fill(const Act *a, int r, int from, int to) {
    if (!a->blocks || from % QK || to % QK) return;
    int blocks = (to - from) / QK, tile = a->tile;
    size_t at = ((size_t)(r / tile) * (size_t)a->blocks + (size_t)(from / QK)) * (size_t)tile + (size_t)(r % tile);
    a->kernels->quantize(a->q + at * QK, a->d + at, a->sum + at, a->weight_of_min + at, tile, act_row(a, r) + from, blocks);
    for (int pad = r + 1; r == a->n - 1 && pad % tile; pad++) { /* the last tile is filled up with zeros */
        at++;
        for (size_t i = at, end = at + (size_t)(blocks * tile); i < end; i += (size_t)tile) {
            memset(a->q + i * QK, 0, QK);
            a->d[i] = a->weight_of_min[i] = 0;
            a->sum[i][0] = a->sum[i][1] = 0;
        }
    }
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
        size = a->tile > 1 ? GRAIN : rows / (PIECES * t->n) / GRAIN * GRAIN;
        if (a->tile == 1 && size < LEAST) size = LEAST;
    }
    if (!team_next(t, (rows + size - 1) / size, &piece)) return false;
    *from = piece * size;
    *to = rows - *from < size ? rows : *from + size;
    return true;
}

void matmul_piece(float *y, size_t y_stride, const Mat *w, const float *bias, const Act *a, bool add, int from, int to) {
    if (a->tile > 1) {
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

/* ref - the specification of the kernels: weights are dequantized to f32, activations stay f32. Those of a swap's own
 * formula are in the swap's file: norm.c, ffn.c. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/ref.h"

static bool all_finite(const float x[QK]) {
    bool finite = true;
    for (int i = 0; i < QK; i++) finite &= isfinite(x[i]) != 0;
    return finite;
}

void ref_quantize(int8_t *q, float *d, int16_t (*sum)[2], float *d_sum, int step, const float *x, int blocks) {
    for (int b = 0; b < blocks; b++, q += step * QK, d += step, sum += step, d_sum += step, x += QK) {
        float max = 0;
        for (int i = 0; i < QK; i++) max = fmaxf(max, fabsf(x[i]));
        if (!all_finite(x)) { /* no product with it may look like a value */
            memset(q, 0, QK);
            *d = *d_sum = NAN;
            memset(sum, 0, sizeof *sum);
            continue;
        }
        *d = max / 127;
        float inverse = 127 / max <= FLT_MAX ? 127 / max : 0; /* 0, and what is as good as 0 */
        int half[2] = {0, 0};
        for (int i = 0; i < QK; i++) {
            q[i] = (int8_t)rintf(x[i] * inverse);
            half[i / 16] += q[i];
        }
        for (int i = 0; i < 2; i++) (*sum)[i] = (int16_t)half[i];
        *d_sum = *d * (float)(half[0] + half[1]);
    }
}

/* Not inlined: compiled once, it adds up in one order wherever it is called. */
__attribute__((noinline)) static float dot(const float *a, const float *b, int n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Each weight row is dequantized in pieces and multiplied with every row of activations. */
static void multiply(float *y, size_t y_stride, const Mat *w, int from, int to, const float *x, int n, int dim,
                     bool add) {
    enum { PIECE = 256 };
    float piece[PIECE];
    for (int r = from; r < to; r++) {
        for (int i = 0; i < n && !add; i++) y[(size_t)i * y_stride + (size_t)r] = 0;
        for (int c = 0; c < w->cols; c += PIECE) {
            int m = w->cols - c < PIECE ? w->cols - c : PIECE;
            mat_dequantize(piece, w, r, c, m);
            for (int i = 0; i < n; i++)
                y[(size_t)i * y_stride + (size_t)r] += dot(piece, x + (size_t)i * (size_t)dim + c, m);
        }
    }
}

void ref_gemv(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add) {
    multiply(y, 0, w, from, to, a->x + (size_t)row * (size_t)a->dim, 1, a->dim, add);
}

void ref_gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add) {
    multiply(y, y_stride, w, from, to, a->x, a->n, a->dim, add);
}

enum { ROWS = REF_TILE_ROWS, COLS = REF_TILE_COLS };

/* x = b[j][col .. col + COLS) */
static void tile_row(float x[COLS], const TileB *b, int col, int j) {
    const char *row = (const char *)b->data + (size_t)j * b->stride;
    if (b->form == TILE_F32) {
        memcpy(x, (const float *)(const void *)row + col, COLS * sizeof *x);
    } else if (b->form == TILE_F16) {
        for (int i = 0; i < COLS; i++) x[i] = f16_to_f32(((const uint16_t *)(const void *)row)[col + i]);
    } else if (b->form == TILE_Q8_KEYS) {
        const char *group = (const char *)b->data + (size_t)(j / QK) * KEYS_Q8_BYTES;
        const int8_t *q = (const int8_t *)group + (2 + j % QK) * KV_BLOCK + col;
        for (int i = 0; i < COLS; i++)
            x[i] = f16_to_f32(((const uint16_t *)(const void *)group)[col + i]) * (float)q[i];
    } else {
        const BlockQ8_0 *block = (const BlockQ8_0 *)(const void *)row + col / QK;
        for (int i = 0; i < COLS; i++) x[i] = f16_to_f32(block->d) * (float)block->q[col % QK + i];
    }
}

void ref_tile(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add) {
    float sum[ROWS][COLS] = {0}, x[COLS];
    for (int i = 0; i < m && add; i++) memcpy(sum[i], c[i], sizeof sum[i]);
    for (int j = 0; j < k; j++) {
        tile_row(x, b, col, j);
        for (int i = 0; i < m; i++)
            for (int n = 0; n < COLS; n++) sum[i][n] += a[i][j] * x[n];
    }
    for (int i = 0; i < m; i++) memcpy(c[i], sum[i], sizeof sum[i]);
}

float ref_softmax_step(float *s, int valid, int n, float *max, float *denom) {
    float larger = *max;
    for (int i = 0; i < valid; i++) larger = fmaxf(larger, s[i]);
    float rescale = expf(*max - larger), sum = 0;
    for (int i = 0; i < valid; i++) sum += s[i] = expf(s[i] - larger);
    for (int i = valid; i < n; i++) s[i] = 0;
    *max = larger;
    *denom = *denom * rescale + sum;
    return rescale;
}

void ref_exp(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = expf(x[i]);
}

void ref_from_f16(float *y, const uint16_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f16_to_f32(x[i]);
}

void ref_to_f16(uint16_t *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = f32_to_f16(x[i]);
}

const Kernels kernels_ref = {.name = "ref", .gemm = ref_gemm, REF_LOOPS};

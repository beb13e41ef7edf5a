#include "ops.h"

#include <math.h>
#include <string.h>

size_t act_bytes(size_t n, size_t dim) {
    (void)n, (void)dim;
    return 0;
}

void act_prepare(const Thread *t, Act *a, const Mat *w) { (void)t, (void)a, (void)w; }

/* matmul, the specification: each weight row is dequantized to f32 in pieces and multiplied with
 * every row of activations. */
void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const Act *a) {
    enum { PIECE = 256 };
    float piece[PIECE];
    size_t from, to;
    team_share(t, (size_t)w->rows, 1, &from, &to);
    for (size_t r = from; r < to; r++) {
        for (int i = 0; i < a->n; i++) y[(size_t)i * y_stride + r] = 0;
        for (int c = 0; c < w->cols; c += PIECE) {
            int n = w->cols - c < PIECE ? w->cols - c : PIECE;
            mat_dequantize(piece, w, (int)r, c, n);
            for (int i = 0; i < a->n; i++) {
                const float *x = a->x + (size_t)i * (size_t)a->dim + c;
                float sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int j = 0; j < n; j++) sum += piece[j] * x[j];
                y[(size_t)i * y_stride + r] += sum;
            }
        }
    }
}

void softmax(float *x, int n) {
    float max = x[0], sum = 0;
    for (int i = 1; i < n; i++) max = fmaxf(max, x[i]);
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - max);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

float silu(float z) { return z / (1 + expf(-z)); }

float gelu_tanh(float z) {
    const float sqrt_2_over_pi = 0.7978845608028654f;
    return 0.5f * z * (1 + tanhf(sqrt_2_over_pi * (z + 0.044715f * z * z * z)));
}

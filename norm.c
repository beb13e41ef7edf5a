#include "norm.h"

#include <math.h>
#include <stddef.h>

void rmsnorm(float *y, const float *x, const float *weight, int dim, float eps) {
    const Kernels *k = kernels_best();
    double mean_square = (double)k->sum_squares(x, dim) / dim;
    k->scale(y, x, weight, (float)(1.0 / sqrt(mean_square + (double)eps)), dim);
}

void layernorm(float *y, const float *x, const float *weight, const float *bias, int dim, float eps) {
    double mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
    for (int i = 0; i < dim; i++) mean += (double)x[i];
    mean /= dim;
#pragma omp simd reduction(+ : variance)
    for (int i = 0; i < dim; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    float scale = (float)(1.0 / sqrt(variance / dim + (double)eps));
    for (int i = 0; i < dim; i++) {
        y[i] = (x[i] - (float)mean) * scale * weight[i];
        if (bias) y[i] += bias[i];
    }
}

void norm(float *y, const float *x, NormKind kind, const float *weight, const float *bias, int dim, float eps) {
    if (kind == NORM_RMSNORM) rmsnorm(y, x, weight, dim, eps);
    else layernorm(y, x, weight, bias, dim, eps);
}

Rows norm_rows(const Pass *p, const RowBuffer *out, const float *x, Norm w) {
    bool few = p->n <= ACT_FEW;
    Rows y = few ? rows_open_own(out, p) : rows_open(out, p);
    size_t from = 0, to = (size_t)p->n;
    if (!few) team_share(p->t, to, ACT_TILE, &from, &to);
    for (int r = (int)from; r < (int)to; r++) {
        norm(rows_at(&y, r), x + (size_t)r * (size_t)y.dim, w.kind, w.weight, w.bias, y.dim, w.eps);
        rows_quantize(&y, r, 0, y.dim);
    }
    if (!few) team_barrier(p->t);
    return y;
}

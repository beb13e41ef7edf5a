#include "norm.h"

#include <math.h>
#include <stddef.h>

#include "kernels/kernels.h"

void rmsnorm(float *y, const float *x, const float *weight, int dim, float eps) {
    const Kernels *k = kernels_best();
    double mean_square = (double)k->sum_squares(x, dim) / dim;
    k->scale(y, x, weight, (float)(1.0 / sqrt(mean_square + (double)eps)), dim);
}

void layernorm(float *y, const float *x, const float *weight, const float *bias, int dim,
               float eps) {
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

void norm(float *y, const float *x, NormKind kind, const float *weight, const float *bias, int dim,
          float eps) {
    if (kind == NORM_RMSNORM) rmsnorm(y, x, weight, dim, eps);
    else layernorm(y, x, weight, bias, dim, eps);
}

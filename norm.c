#include "norm.h"

#include <math.h>
#include <stddef.h>

/* Sums are kept in double: a row is short, and a wide residual stream loses nothing to rounding. */

void rmsnorm(float *y, const float *x, const float *weight, int dim, float eps) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    float scale = (float)(1.0 / sqrt(sum / dim + (double)eps));
    for (int i = 0; i < dim; i++) y[i] = weight[i] * (x[i] * scale);
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

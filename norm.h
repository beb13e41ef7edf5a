/* norm - swap 1: LayerNorm (GPT-2) or RMSNorm (LLaMA). */
#pragma once
#include "rows.h"

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } NormKind;

typedef struct {
    NormKind kind;
    float eps;
    const float *weight, *bias; /* [dim]; bias may be NULL */
} Norm;

/* rmsnorm - y[dim] = x / sqrt(mean(x^2) + eps) * weight. No mean is subtracted, there is no bias.
 * Source: Zhang & Sennrich, arXiv:1910.07467, equation 4; LlamaRMSNorm in transformers. */
void rmsnorm(const Kernels *k, float *y, const float *x, const float *weight, int dim, float eps);

/* layernorm - y[dim] = (x - mean) / sqrt(variance + eps) * weight + bias (bias may be NULL).
 * Source: Ba et al., arXiv:1607.06450, equations 3 and 4; the variance is the biased one. */
void layernorm(float *y, const float *x, const float *weight, const float *bias, int dim, float eps);

/* norm_row - y[dim] = x by the norm w. */
void norm_row(const Kernels *k, float *y, const float *x, const Norm *w, int dim);

/* norm_rows - the pass's rows x [n, dim], normed into out. Every thread norms a few rows into its private buffer, which
 * is cheaper than a barrier; many are shared out. */
Rows norm_rows(const Pass *p, const RowBuffer *out, const float *x, Norm w);

/* norm - swap 1: LayerNorm (GPT-2) or RMSNorm (LLaMA). */
#pragma once
#include "rows.h"

typedef enum { NORM_LAYERNORM, NORM_RMSNORM, NORM_NONE } NormKind; /* NORM_NONE: y = x */

typedef struct {
    NormKind kind;
    float eps;
    const float *weight, *bias; /* [dim]; NULL: no weight (OLMo), no bias */
    float offset;               /* of the weight: 1 where x is multiplied by 1 + weight (Gemma, Nemotron), else 0 */
} Norm;

/* rmsnorm - y[dim] = x / sqrt(mean(x^2) + eps) * (offset + weight). No mean is subtracted, there is no bias.
 * Source: Zhang & Sennrich, arXiv:1910.07467, equation 4; LlamaRMSNorm in transformers. */
void rmsnorm(const Kernels *k, float *y, const float *x, const Norm *w, int dim);

/* layernorm - y[dim] = (x - mean) / sqrt(variance + eps) * (offset + weight) + bias.
 * Source: Ba et al., arXiv:1607.06450, equations 3 and 4; the variance is the biased one. */
void layernorm(float *y, const float *x, const Norm *w, int dim);

/* norm_row - y[dim] = x by the norm w. */
void norm_row(const Kernels *k, float *y, const float *x, const Norm *w, int dim);

/* norm_whole_rows - the norm w in place of rows x[n, dim]. With ranks it is RMSNorm, and x their columns of `whole`:
 * they add up their sums of squares, `sharers` of them those of the same columns; p->spare is scratch. No barrier. */
void norm_whole_rows(const Pass *p, float *x, const Norm *w, int dim, int whole, int sharers);

/* norm_rows - the pass's rows x [n, dim], normed into out. Every thread norms a few rows into its private buffer, which
 * is cheaper than a barrier; many are shared out. */
Rows norm_rows(const Pass *p, const RowBuffer *out, const float *x, Norm w);

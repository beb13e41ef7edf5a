/* norm - swap 1: LayerNorm (GPT-2) or RMSNorm (LLaMA), one row at a time. */
#pragma once

typedef enum { NORM_LAYERNORM, NORM_RMSNORM } NormKind;

/* rmsnorm - y[dim] = x / sqrt(mean(x^2) + eps) * weight. No mean is subtracted, there is no bias.
 * Source: Zhang & Sennrich, arXiv:1910.07467, equation 4; LlamaRMSNorm in transformers. */
void rmsnorm(float *y, const float *x, const float *weight, int dim, float eps);

/* layernorm - y[dim] = (x - mean) / sqrt(variance + eps) * weight + bias (bias may be NULL).
 * Source: Ba et al., arXiv:1607.06450, equations 3 and 4; the variance is the biased one. */
void layernorm(float *y, const float *x, const float *weight, const float *bias, int dim, float eps);

/* norm - the one that kind says. */
void norm(float *y, const float *x, NormKind kind, const float *weight, const float *bias, int dim,
          float eps);

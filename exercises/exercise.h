/* exercise.h - the eight functions of the exercises. `make exercise N=K` builds your file with K's function and takes
 * the other seven from exercises/answers. */
#pragma once

/* 1. y[dim] = x / sqrt(mean of x^2 + eps) * weight. RMSNorm, arXiv:1910.07467, equation 4. */
void my_rmsnorm(float *y, const float *x, const float *weight, int dim, float eps);

/* 2. y[n] = silu(gate) * up, silu(z) = z / (1 + exp(-z)): the inside of SwiGLU, arXiv:2002.05202, equation 6. */
void my_swiglu(float *y, const float *gate, const float *up, int n);

/* 3. freq[i] = theta^(-2i / head_dim) radians a token, i = 0 .. head_dim / 2 - 1. RoFormer, arXiv:2104.09864. */
void my_inv_freq(double *freq, int head_dim, double theta);

/* 4. One head x[head_dim] rotated to position pos, in place: pair i is (x[2i], x[2i + 1]), its angle pos * freq[i]. */
void my_rotate(float *x, int head_dim, int pos, const double *freq);

/* 5. out = w with the rows of each head in another order. w [n_heads * head_dim, cols] has pair i of a head in its rows
 * (i, i + head_dim / 2), as Hugging Face keeps W_q and W_k; out has it in rows (2i, 2i + 1), as the paper does. */
void my_half_to_pairs(float *out, const float *w, int n_heads, int head_dim, int cols);

/* 6. One token more. The cache keys, values [.., n_kv_heads, head_dim] holds n_cached rows; q [n_heads, head_dim], k, v
 * [n_kv_heads, head_dim] are the new token's, as the matrices made them. Rotate q in place; put the key, rotated, and
 * the value, as it is, into the cache. Returns how many rows the cache holds now. k and v stay as they are. */
int my_append(float *keys, float *values, int n_cached, float *q, int n_heads, const float *k, const float *v,
              int n_kv_heads, int head_dim, const double *freq);

/* 7. The KV head that a query head reads. Grouped-query attention, arXiv:2305.13245. */
int my_kv_head_of(int query_head, int n_heads, int n_kv_heads);

/* 8. freq as in 3, but for a text `factor` times as long: the fastest pair is kept, the slowest slowed by the factor,
 * by way of another theta. NTK-aware scaling. head_dim is above 2. */
void my_ntk_freq(double *freq, int head_dim, double theta, double factor);

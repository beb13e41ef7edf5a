/* plain.h - a LLaMA in the plainest C, one token at a time: what the exercises are parts of. */
#pragma once
#include "model.h"

/* Parts - the functions of exercise.h, those of the reference or yours. */
typedef struct {
    void (*rmsnorm)(float *y, const float *x, const float *weight, int dim, float eps);
    void (*swiglu)(float *y, const float *gate, const float *up, int n);
    void (*inv_freq)(double *freq, int head_dim, double theta);
    void (*rotate)(float *x, int head_dim, int pos, const double *freq);
    void (*half_to_pairs)(float *out, const float *w, int n_heads, int head_dim, int cols);
    int (*append)(float *keys, float *values, int n_cached, float *q, int n_heads, const float *k, const float *v,
                  int n_kv_heads, int head_dim, const double *freq);
    int (*kv_head_of)(int query_head, int n_heads, int n_kv_heads);
    void (*ntk_freq)(double *freq, int head_dim, double theta, double factor);
} Parts;

/* plain_surprise - the sum of -log2 p(ids[i]) over i = from .. n - 1, each given the ids before it: how many bits the
 * model needs for them. factor above 1: frequencies of ntk_freq. The weights of q and k are half-split. NaN: no memory,
 * or a part that returned nonsense. */
double plain_surprise(const Config *c, const Weights *w, const Parts *p, const int *ids, int n, int from,
                      double factor);

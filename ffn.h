/* ffn - swap 2: the GELU MLP of GPT-2 or the SwiGLU of LLaMA. */
#pragma once
#include "ops.h"

typedef enum { FFN_GELU, FFN_SWIGLU } FfnKind;

typedef struct {
    Mat w_gate, w_up;                    /* [hidden_dim, dim]; w_gate only for SwiGLU */
    Mat w_down;                          /* [dim, hidden_dim] */
    const float *b_gate, *b_up, *b_down; /* [rows of w_gate, w_up, w_down]; NULL: none */
} FfnWeights;

typedef struct {
    RowBuffer hidden; /* [n_batch, hidden_dim] */
    float *up;        /* the same, for SwiGLU */
} FfnState;

void ffn_take(FfnState *s, Arena *a, int n_batch, int hidden_dim);

/* ffn - x[n, dim] += w_down (silu(w_gate xn) * w_up xn), or += w_down gelu(w_up xn + b_up) + b_down. */
void ffn(const Pass *p, float *x, const Rows *xn, FfnKind kind, const FfnWeights *w, const FfnState *s);

/* swiglu - gate[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + exp(-z)). Source: Shazeer, arXiv:2002.05202, equation 5.
 */
void swiglu(const Kernels *k, float *gate, const float *up, size_t n);

/* gelu - x[i] = gelu_tanh(x[i]): GPT-2's activation ("gelu_new"), arXiv:1606.08415, section 2. */
void gelu(const Kernels *k, float *x, size_t n);

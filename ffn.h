/* ffn - swap 2: the GELU MLP of GPT-2 or the SwiGLU of LLaMA. Of models with many FFNs (experts): src/moe.h. */
#pragma once
#include "residual.h"

/* The activation, and whether it gates a second product: w_down act(w_up x), or w_down (act(w_gate x) * w_up x). */
typedef enum {
    FFN_GELU,      /* gelu_tanh: GPT-2 */
    FFN_SWIGLU,    /* silu, gated: LLaMA; arXiv:2002.05202 */
    FFN_GEGLU,     /* gelu_tanh, gated: Gemma; arXiv:2002.05202 */
    FFN_GELU_ERF,  /* the exact GELU: GPT-NeoX, Falcon */
    FFN_GEGLU_ERF, /* the same, gated */
    FFN_RELU2,     /* relu(x)^2: Nemotron, Arcee; Primer, arXiv:2109.08668 */
    FFN_XIELU,     /* Apertus; arXiv:2411.13010 */
    FFN_SWIGLU_OSS /* (up + 1) gate sigmoid(alpha gate), both clamped, gated: gpt-oss */
} FfnKind;

bool ffn_is_gated(FfnKind kind); /* has w_gate */

typedef struct {
    Mat w_gate, w_up;                    /* [hidden_dim, dim]; w_gate only where it is gated */
    Mat w_down;                          /* [dim, hidden_dim] */
    const float *b_gate, *b_up, *b_down; /* [rows of w_gate, w_up, w_down]; NULL: none */
    struct {
        float alpha_p, alpha_n, beta, eps; /* as in the file: before softplus */
    } xielu;                               /* FFN_XIELU */
    float alpha, limit;                    /* FFN_SWIGLU_OSS */
} FfnWeights;

typedef struct {
    RowBuffer hidden; /* [n_batch, hidden_dim] */
    float *up;        /* the same, where it is gated */
} FfnState;

void ffn_take(FfnState *s, Arena *a, int n_batch, int hidden_dim);

/* ffn_piece - features [from, to) of the hidden layer h [n, hidden_dim] of x's rows; `up` is as large. For the FFN and
 * for each expert of a mixture of them (src/moe.c). */
void ffn_piece(const Rows *h, float *up, const Rows *x, FfnKind kind, const FfnWeights *w, int from, int to);

/* ffn - x[n, dim] += w_down (silu(w_gate xn) * w_up xn), or += w_down gelu(w_up xn + b_up) + b_down, or so with another
 * activation; r says how it is added. */
void ffn(const Pass *p, float *x, const Rows *xn, FfnKind kind, const FfnWeights *w, const FfnState *s,
         const Residual *r);

/* swiglu - gate[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + exp(-z)). Source: Shazeer, arXiv:2002.05202, equation 5.
 */
void swiglu(const Kernels *k, float *gate, const float *up, size_t n);

/* gelu - x[i] = gelu_tanh(x[i]): GPT-2's activation ("gelu_new"), arXiv:1606.08415, section 2. */
void gelu(const Kernels *k, float *x, size_t n);

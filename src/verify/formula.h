/* formula - the model's formulas in plain double precision, and their usual mistakes as settings, for explain.
 *
 * They share no code with rope.c, norm.c, ffn.c, attention.c and the kernels: a fault there must not be repeated in
 * what it is judged by. Test: tests/test_verify.c (the_formulas_agree_with_the_reference, broken_code_is_told) */
#pragma once
#include "model.h"

/* formula_multiply - y[n, w.rows] = x[n, w.cols] w^T + bias [w.rows] (NULL: none). -1: no memory. */
int formula_multiply(float *y, const Mat *w, const float *bias, const float *x, int n);

/* NormFormula - y = (x - centre) / sqrt(mean((x - centre)^2) + eps) * (weight + plus) + bias */
typedef struct {
    bool none;           /* y = x */
    bool centre;         /* subtract the mean: LayerNorm */
    bool sum;            /* mistake: the sum of the squares, not their mean */
    bool no_root;        /* mistake: divide by the mean square, not by its root */
    bool no_scale;       /* mistake: do not divide at all */
    double eps;          /* inside of the root */
    double plus;         /* 1 where the file has weight - 1 (Gemma) */
    const float *weight; /* [dim]; NULL: ones */
    const float *bias;   /* [dim]; NULL: none */
} NormFormula;
void formula_norm(float *y, const float *x, int n, int dim, const NormFormula *f);

/* Rotation - the angle a token of each pair, and the factor on cos and sin. */
typedef struct {
    double freq[ROPE_MAX_PAIRS], scale;
    int pairs;
} Rotation;

/* formula_rotation - of a model's RoPE for a text of seq_len tokens. Sources: RoFormer, arXiv:2104.09864, equation 15;
 * the scaling rules as transformers' modeling_rope_utils.py has them. */
void formula_rotation(Rotation *r, const RopeConfig *c, int seq_len);

/* formula_rotate - rotates x [n, heads, head_dim] in place, pairs (i, i + pairs): token t to position[t]. */
void formula_rotate(float *x, int n, int heads, int head_dim, const Rotation *r, const int *position);

/* AttentionFormula - softmax(q k^T * factor) v for every query head, right or wrong. What else a family does to the
 * scores (temperature by position) is taken from Config and weights. */
typedef struct {
    int window;       /* 0: none */
    double cap;       /* of the scores; 0: none */
    bool no_sinks;    /* mistake: the sinks take no weight */
    bool interleaved; /* mistake: query head h reads KV head h % n_kv_heads */
    int ahead;        /* mistake: tokens that are seen beyond the own one; INT_MAX / 2: no mask. -1: not even itself */
    int together;     /* with ahead: the first so many tokens were computed at once and see only each other; 0: all */
    bool no_softmax;  /* mistake: the weights are not divided by their sum */
    double factor;    /* of the scores */
    const float *q;   /* [n, n_heads, head_dim] */
    const float *k, *v; /* [n, n_kv_heads, head_dim] */
} AttentionFormula;
/* formula_attention - out[n, n_heads, head_dim]. -1: no memory. */
int formula_attention(float *out, const Config *c, const AttentionWeights *w, int n, const AttentionFormula *f);

/* Activation - of one value; w has xIELU's parameters. */
typedef double Activation(double x, const FfnWeights *w);
double formula_silu(double x, const FfnWeights *w);
double formula_gelu_tanh(double x, const FfnWeights *w); /* GPT-2's approximation */
double formula_gelu(double x, const FfnWeights *w);      /* x times the normal distribution function */
double formula_relu(double x, const FfnWeights *w);
double formula_relu2(double x, const FfnWeights *w);
double formula_xielu(double x, const FfnWeights *w);
double formula_sigmoid(double x, const FfnWeights *w);
double formula_identity(double x, const FfnWeights *w);

/* formula_activation - the one of a model. */
Activation *formula_activation(FfnKind kind);

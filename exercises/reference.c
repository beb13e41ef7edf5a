/* reference - the eight functions once more, in double and written another way than in norm.c, ffn.c, rope.c and
 * attention.c, and the usual mistakes: a wrong answer is compared with each of them. */
#include "reference.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/* ---- 1 ----------------------------------------------------------------------------------------- */

typedef struct {
    double mean, root, eps_outside, sum, plain;
} NormShape;

static void norm_shaped(float *y, const float *x, const float *weight, int dim, float eps, NormShape s) {
    double mean = 0, power = 0;
    for (int i = 0; i < dim; i++) mean += s.mean * (double)x[i] / dim;
    for (int i = 0; i < dim; i++) power += pow((double)x[i] - mean, 2);
    if (s.sum == 0) power /= dim;
    double size = s.eps_outside != 0 ? pow(power, s.root) + (double)eps : pow(power + (double)eps, s.root);
    for (int i = 0; i < dim; i++) y[i] = (float)(((double)x[i] - mean) / size * (s.plain != 0 ? 1 : (double)weight[i]));
}
static void norm_right(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 0.5});
}
static void norm_no_root(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 1});
}
static void norm_layernorm(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 0.5, .mean = 1});
}
static void norm_eps_outside(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 0.5, .eps_outside = 1});
}
static void norm_no_eps(float *y, const float *x, const float *w, int dim, float eps) {
    (void)eps;
    norm_shaped(y, x, w, dim, 0, (NormShape){.root = 0.5});
}
static void norm_sum(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 0.5, .sum = 1});
}
static void norm_no_weight(float *y, const float *x, const float *w, int dim, float eps) {
    norm_shaped(y, x, w, dim, eps, (NormShape){.root = 0.5, .plain = 1});
}
static void norm_none(float *y, const float *x, const float *w, int dim, float eps) {
    (void)y, (void)x, (void)w, (void)dim, (void)eps;
}

/* ---- 2 ----------------------------------------------------------------------------------------- */

static double sigmoid(double z) { return (1 + tanh(z / 2)) / 2; }
static void gate_right(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = (float)((double)g[i] * sigmoid((double)g[i]) * (double)u[i]);
}
static void gate_swapped(float *y, const float *g, const float *u, int n) { gate_right(y, u, g, n); }
static void gate_sigmoid(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = (float)(sigmoid((double)g[i]) * (double)u[i]);
}
static void gate_alone(float *y, const float *g, const float *u, int n) {
    (void)u;
    for (int i = 0; i < n; i++) y[i] = (float)((double)g[i] * sigmoid((double)g[i]));
}
static void gate_sign(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = (float)((double)g[i] * sigmoid(-(double)g[i]) * (double)u[i]);
}
static void gate_gelu(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = (float)((double)g[i] * erfc(-(double)g[i] / sqrt(2)) / 2 * (double)u[i]);
}
static void gate_none(float *y, const float *g, const float *u, int n) { (void)y, (void)g, (void)u, (void)n; }

/* ---- 3 and 8 ----------------------------------------------------------------------------------- */

static void freq_shaped(double *f, int d, double theta, double first, double step) {
    for (int i = 0; i < d / 2; i++) f[i] = exp(-(first + step * i) / d * log(theta));
}
static void freq_right(double *f, int d, double theta) { freq_shaped(f, d, theta, 0, 2); }
static void freq_half_step(double *f, int d, double theta) { freq_shaped(f, d, theta, 0, 1); }
static void freq_one_based(double *f, int d, double theta) { freq_shaped(f, d, theta, 2, 2); }
static void freq_growing(double *f, int d, double theta) { freq_shaped(f, d, theta, 0, -2); }
static void freq_flipped(double *f, int d, double theta) { freq_shaped(f, d, theta, d - 2, -2); }
static void freq_one(double *f, int d, double theta) { freq_shaped(f, d, theta, 0, 0); }
static void freq_integer(double *f, int d, double theta) {
    for (int i = 0; i < d / 2; i++) f[i] = pow(theta, -(double)(2 * i / d));
}
static void freq_none(double *f, int d, double theta) { (void)f, (void)d, (void)theta; }

static void ntk_right(double *f, int d, double theta, double factor) {
    for (int i = 0; i < d / 2; i++) f[i] = exp(-2.0 * i / d * log(theta) - 2.0 * i / (d - 2) * log(factor));
}
static void ntk_linear(double *f, int d, double theta, double factor) {
    freq_right(f, d, theta);
    for (int i = 0; i < d / 2; i++) f[i] /= factor;
}
static void ntk_plain(double *f, int d, double theta, double factor) { (void)factor, freq_right(f, d, theta); }
static void ntk_times(double *f, int d, double theta, double factor) { freq_right(f, d, theta * factor); }
static void ntk_inverse(double *f, int d, double theta, double factor) {
    freq_right(f, d, theta * pow(factor, (d - 2.0) / d));
}
static void ntk_integer(double *f, int d, double theta, double factor) {
    freq_right(f, d, theta * pow(factor, (double)(d / (d - 2))));
}
static void ntk_none(double *f, int d, double theta, double factor) { (void)f, (void)d, (void)theta, (void)factor; }

/* ---- 4 ----------------------------------------------------------------------------------------- */

static void rotated(float *x, int d, double pos, const double *freq, int half) {
    for (int i = 0; i < d / 2; i++) {
        int a = half ? i : 2 * i, b = half ? i + d / 2 : 2 * i + 1;
        double complex z = ((double)x[a] + I * (double)x[b]) * cexp(I * (pos * freq[i]));
        x[a] = (float)creal(z);
        x[b] = (float)cimag(z);
    }
}
static void rotate_right(float *x, int d, int pos, const double *f) { rotated(x, d, pos, f, 0); }
static void rotate_back(float *x, int d, int pos, const double *f) { rotated(x, d, -pos, f, 0); }
static void rotate_half(float *x, int d, int pos, const double *f) { rotated(x, d, pos, f, 1); }
static void rotate_one_based(float *x, int d, int pos, const double *f) { rotated(x, d, pos + 1, f, 0); }
static void rotate_no_pos(float *x, int d, int pos, const double *f) { (void)pos, rotated(x, d, 1, f, 0); }
static void rotate_one_freq(float *x, int d, int pos, const double *f) {
    for (int i = 0; i < d / 2; i++) rotated(x + 2 * i, 2, pos, f, 0);
}
static void rotate_overwritten(float *x, int d, int pos, const double *f) {
    for (int i = 0; i < d / 2; i++) {
        double c = cos(pos * f[i]), s = sin(pos * f[i]), b = (double)x[2 * i + 1];
        x[2 * i] = (float)((double)x[2 * i] * c - b * s);
        x[2 * i + 1] = (float)((double)x[2 * i] * s + b * c);
    }
}
static void rotate_none(float *x, int d, int pos, const double *f) { (void)x, (void)d, (void)pos, (void)f; }

/* ---- 5 ----------------------------------------------------------------------------------------- */

static void reordered(float *out, const float *w, int heads, int d, int cols, int back) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < d / 2; i++)
            for (int j = 0; j < 2; j++) {
                int half = h * d + i + j * (d / 2), pair = h * d + 2 * i + j;
                memcpy(out + (back ? half : pair) * cols, w + (back ? pair : half) * cols, (unsigned)cols * sizeof *w);
            }
}
static void pairs_right(float *o, const float *w, int h, int d, int cols) { reordered(o, w, h, d, cols, 0); }
static void pairs_back(float *o, const float *w, int h, int d, int cols) { reordered(o, w, h, d, cols, 1); }
static void pairs_one_head(float *o, const float *w, int h, int d, int cols) { reordered(o, w, 1, h * d, cols, 0); }
static void pairs_first_head(float *o, const float *w, int h, int d, int cols) {
    memcpy(o, w, (unsigned)(h * d * cols) * sizeof *w);
    reordered(o, w, 1, d, cols, 0);
}
static void pairs_same(float *o, const float *w, int h, int d, int cols) {
    memcpy(o, w, (unsigned)(h * d * cols) * sizeof *w);
}
static void pairs_none(float *o, const float *w, int h, int d, int cols) {
    (void)o, (void)w, (void)h, (void)d, (void)cols;
}

/* ---- 6 ----------------------------------------------------------------------------------------- */

typedef struct {
    int q_at, k_at, v_at; /* added to the position; NOT_ROTATED */
    int row, grows;       /* added to the row that is written, rows that are counted */
} AppendShape;
enum { NOT_ROTATED = -1000 };

static void head_at(float *x, int heads, int d, int pos, int shift, const double *freq) {
    for (int h = 0; h < heads && shift != NOT_ROTATED; h++) rotated(x + h * d, d, pos + shift, freq, 0);
}

static int append_shaped(float *keys, float *values, int n, float *q, int n_heads, const float *k, const float *v,
                         int n_kv, int d, const double *freq, AppendShape s) {
    int size = n_kv * d;
    float *key = keys + (n + s.row) * size, *value = values + (n + s.row) * size;
    memcpy(key, k, (unsigned)size * sizeof *key);
    memcpy(value, v, (unsigned)size * sizeof *value);
    head_at(q, n_heads, d, n, s.q_at, freq);
    head_at(key, n_kv, d, n, s.k_at, freq);
    head_at(value, n_kv, d, n, s.v_at, freq);
    return n + s.grows;
}
#define APPEND(name, ...)                                                                                              \
    static int name(float *keys, float *values, int n, float *q, int n_heads, const float *k, const float *v,          \
                    int n_kv, int d, const double *freq) {                                                             \
        return append_shaped(keys, values, n, q, n_heads, k, v, n_kv, d, freq, (AppendShape){__VA_ARGS__});            \
    }
APPEND(append_right, 0, 0, NOT_ROTATED, 0, 1)
APPEND(append_k_plain, 0, NOT_ROTATED, NOT_ROTATED, 0, 1)
APPEND(append_q_plain, NOT_ROTATED, 0, NOT_ROTATED, 0, 1)
APPEND(append_neither, NOT_ROTATED, NOT_ROTATED, NOT_ROTATED, 0, 1)
APPEND(append_v_rotated, 0, 0, 0, 0, 1)
APPEND(append_late, 1, 1, NOT_ROTATED, 0, 1)
APPEND(append_early, -1, -1, NOT_ROTATED, 0, 1)
APPEND(append_no_growth, 0, 0, NOT_ROTATED, 0, 0)
static int append_none(float *keys, float *values, int n, float *q, int n_heads, const float *k, const float *v,
                       int n_kv, int d, const double *freq) {
    (void)keys, (void)values, (void)q, (void)n_heads, (void)k, (void)v, (void)n_kv, (void)d, (void)freq;
    return n;
}

/* ---- 7 ----------------------------------------------------------------------------------------- */

static int kv_right(int h, int n, int kv) {
    int group = 0, seen = 0; /* count through the groups */
    while (h >= seen + n / kv) seen += n / kv, group++;
    return group;
}
static int kv_modulo(int h, int n, int kv) { return (void)n, h % kv; }
static int kv_divided(int h, int n, int kv) { return (void)n, h / kv; }
static int kv_same(int h, int n, int kv) { return (void)n, (void)kv, h; }
static int kv_first(int h, int n, int kv) { return (void)h, (void)n, (void)kv, 0; }
static int kv_none(int h, int n, int kv) { return (void)h, (void)n, (void)kv, -1; }

/* ---- The table --------------------------------------------------------------------------------- */

const Parts reference = {norm_right,  gate_right,   freq_right, rotate_right,
                         pairs_right, append_right, kv_right,   ntk_right};

#define WRONG(field, function, ...)                                                                                    \
    { {.field = function}, __VA_ARGS__ }
#define NOT_YET "not written yet: nothing was done"
const Wrong wrong[EXERCISES][MAX_WRONG] = {
    {WRONG(rmsnorm, norm_none, NOT_YET),
     WRONG(rmsnorm, norm_no_root, "the root is missing: it divides by the mean of the squares, not by its root"),
     WRONG(rmsnorm, norm_layernorm, "the mean is subtracted: that is LayerNorm; RMSNorm leaves the mean where it is"),
     WRONG(rmsnorm, norm_sum, "the sum of the squares is taken, not their mean: it is off by sqrt(dim)"),
     WRONG(rmsnorm, norm_no_weight, "the weight is left out"),
     WRONG(rmsnorm, norm_no_eps, "eps is left out: a row of zeros divides by zero"),
     WRONG(rmsnorm, norm_eps_outside, "eps is added after the root; it belongs under it")},
    {WRONG(swiglu, gate_none, NOT_YET),
     WRONG(swiglu, gate_swapped, "gate and up are exchanged: silu belongs on the gate"),
     WRONG(swiglu, gate_sigmoid, "a sigmoid where silu should be: silu(z) is z times the sigmoid of z"),
     WRONG(swiglu, gate_alone, "up is left out: the gate has nothing to let through"),
     WRONG(swiglu, gate_sign, "the sign in exp: silu(z) = z / (1 + exp(-z))"),
     WRONG(swiglu, gate_gelu, "GELU where silu should be: that is GeGLU")},
    {WRONG(inv_freq, freq_none, NOT_YET),
     WRONG(inv_freq, freq_half_step, "the 2 is missing: the exponent is -2i / head_dim, not -i / head_dim"),
     WRONG(inv_freq, freq_one_based, "i counts from 1: the first pair has i = 0 and turns one radian a token"),
     WRONG(inv_freq, freq_growing, "the sign of the exponent: frequencies fall with i"),
     WRONG(inv_freq, freq_flipped, "the order is flipped: pair 0 is the fastest, the last one the slowest"),
     WRONG(inv_freq, freq_integer, "2 * i / head_dim of two ints is an int: it is 0 for every pair"),
     WRONG(inv_freq, freq_one, "one frequency for all pairs")},
    {WRONG(rotate, rotate_none, NOT_YET),
     WRONG(rotate, rotate_back,
           "the other direction: the sign of the sine; q and k of one model must turn as it was trained"),
     WRONG(rotate, rotate_half, "the other pairing: features i and i + head_dim / 2 were rotated, not 2i and 2i + 1"),
     WRONG(rotate, rotate_overwritten,
           "the first feature of a pair was overwritten before the second was computed from it"),
     WRONG(rotate, rotate_one_based, "positions count from 1: position 0 is not rotated at all"),
     WRONG(rotate, rotate_no_pos, "the position is left out of the angle"),
     WRONG(rotate, rotate_one_freq, "every pair has the frequency of pair 0")},
    {WRONG(half_to_pairs, pairs_none, NOT_YET),
     WRONG(half_to_pairs, pairs_back, "the other way round: this makes half-split rows of adjacent pairs"),
     WRONG(half_to_pairs, pairs_one_head, "all heads were reordered as if they were one: rows left their head"),
     WRONG(half_to_pairs, pairs_first_head, "only the first head was reordered"),
     WRONG(half_to_pairs, pairs_same, "the rows were copied in the order they had")},
    {WRONG(append, append_none, NOT_YET),
     WRONG(append, append_k_plain, "the key went into the cache before it was rotated"),
     WRONG(append, append_q_plain, "q is not rotated"), WRONG(append, append_neither, "neither q nor k is rotated"),
     WRONG(append, append_v_rotated, "the value is rotated too: it says what, not where"),
     WRONG(append, append_late, "the position is one too large: it is the number of rows before the new one is added"),
     WRONG(append, append_early, "the position is one too small: it is the number of rows that are there already"),
     WRONG(append, append_no_growth, "the new row is not counted")},
    {WRONG(kv_head_of, kv_none, NOT_YET),
     WRONG(kv_head_of, kv_modulo, "modulo: neighbouring query heads share a KV head, they do not take turns"),
     WRONG(kv_head_of, kv_divided, "divided by n_kv_heads: divide by the size of a group, n_heads / n_kv_heads"),
     WRONG(kv_head_of, kv_same, "each query head reads a KV head of its own: that is multi-head attention"),
     WRONG(kv_head_of, kv_first, "all read the first KV head: that is multi-query attention")},
    {WRONG(ntk_freq, ntk_none, NOT_YET),
     WRONG(ntk_freq, ntk_linear, "every frequency is divided by the factor: that is position interpolation"),
     WRONG(ntk_freq, ntk_plain, "the factor is left out"),
     WRONG(ntk_freq, ntk_times,
           "theta times the factor: the exponent d / (d - 2) is missing, so the slowest pair is too fast"),
     WRONG(ntk_freq, ntk_inverse, "the exponent is upside down: d / (d - 2), not (d - 2) / d"),
     WRONG(ntk_freq, ntk_integer, "d / (d - 2) of two ints is an int")},
};

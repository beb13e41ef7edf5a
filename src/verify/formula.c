#include "verify/formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int formula_multiply(float *y, const Mat *w, const float *bias, const float *x, int n) {
    float *row = malloc((size_t)w->cols * sizeof *row);
    if (!row) return -1;
    for (int r = 0; r < w->rows; r++) {
        mat_dequantize_row(row, w, r);
        for (int t = 0; t < n; t++) {
            const float *xt = x + (size_t)t * (size_t)w->cols;
            double sum = bias ? (double)bias[r] : 0;
            for (int i = 0; i < w->cols; i++) sum += (double)row[i] * (double)xt[i];
            y[(size_t)t * (size_t)w->rows + (size_t)r] = (float)sum;
        }
    }
    free(row);
    return 0;
}

void formula_norm(float *y, const float *x, int n, int dim, const NormFormula *f) {
    for (int t = 0; t < n; t++, x += dim, y += dim) {
        double centre = 0, squares = 0;
        if (f->none) memmove(y, x, (size_t)dim * sizeof *y);
        if (f->none) continue;
        for (int i = 0; f->centre && i < dim; i++) centre += (double)x[i] / dim;
        for (int i = 0; i < dim; i++) squares += ((double)x[i] - centre) * ((double)x[i] - centre);
        double under = squares / (f->sum ? 1 : dim) + f->eps, divisor = f->no_root ? under : sqrt(under);
        if (f->no_scale) divisor = 1;
        for (int i = 0; i < dim; i++) {
            double weight = f->weight ? (double)f->weight[i] + f->plus : 1;
            y[i] = (float)(((double)x[i] - centre) / divisor * weight + (f->bias ? (double)f->bias[i] : 0));
        }
    }
}

/* ---- RoPE ---------------------------------------------------------------------------------------- */

/* How much of pair i is kept as it is, 1 to 0; the rest is interpolated. llama3: by the rotations that the pair makes
 * in the original context, from high_freq_factor of them down to low_freq_factor. */
static double llama3_kept(const RopeConfig *c, double freq) {
    double rotations = c->original_ctx * freq / (2 * M_PI);
    double kept = (rotations - c->low_freq_factor) / (c->high_freq_factor - c->low_freq_factor);
    return kept < 0 ? 0 : kept > 1 ? 1 : kept;
}

/* yarn: by the pair's index, between the pairs that make beta_fast and beta_slow rotations in the original context. */
static double yarn_kept(const RopeConfig *c, int i) {
    double per_log = c->rotary_dim / (2 * log(c->theta));
    double first = per_log * log(c->original_ctx / (c->beta_fast * 2 * M_PI));
    double last = per_log * log(c->original_ctx / (c->beta_slow * 2 * M_PI));
    if (c->truncate) first = floor(first), last = ceil(last);
    if (first < 0) first = 0;
    if (last > c->rotary_dim - 1) last = c->rotary_dim - 1;
    if (first == last) last += 0.001;
    double kept = 1 - (i - first) / (last - first);
    return kept < 0 ? 0 : kept > 1 ? 1 : kept;
}

static double scale_of(const RopeConfig *c) {
    if (c->attention_factor > 0) return c->attention_factor;
    double growth = c->factor > 1 ? log(c->factor) : 0;
    if (c->scaling == ROPE_SCALING_LONGROPE) return c->factor > 1 ? sqrt(1 + growth / log(c->original_ctx)) : 1;
    if (c->scaling != ROPE_SCALING_YARN) return 1;
    bool both = c->mscale != 0 && c->mscale_all_dim != 0;
    return both ? (1 + 0.1 * c->mscale * growth) / (1 + 0.1 * c->mscale_all_dim * growth) : 1 + 0.1 * growth;
}

void formula_rotation(Rotation *r, const RopeConfig *c, int seq_len) {
    double theta = c->theta, d = c->rotary_dim;
    r->pairs = c->rotary_dim / 2;
    r->scale = scale_of(c);
    if (c->scaling == ROPE_SCALING_DYNAMIC && seq_len > c->original_ctx && d > 2)
        theta *= pow(c->factor * seq_len / c->original_ctx - c->factor + 1, d / (d - 2));
    if (c->scaling == ROPE_SCALING_NTK && d > 2) theta *= pow(c->factor, d / (d - 2));
    for (int i = 0; i < r->pairs; i++) {
        double freq = exp(-2.0 * i / d * log(theta)), divisor = 1, kept = 0;
        if (c->scaling == ROPE_SCALING_LINEAR) divisor = c->factor;
        if (c->scaling == ROPE_SCALING_LLAMA3) kept = llama3_kept(c, freq), divisor = c->factor;
        if (c->scaling == ROPE_SCALING_YARN) kept = yarn_kept(c, i), divisor = c->factor;
        if (c->scaling == ROPE_SCALING_LONGROPE)
            divisor = (double)(seq_len > c->original_ctx ? c->long_factor : c->short_factor)[i];
        r->freq[i] = kept * freq + (1 - kept) * freq / divisor;
        if (c->freq_factors) r->freq[i] /= (double)c->freq_factors[i];
    }
}

void formula_rotate(float *x, int n, int heads, int head_dim, const Rotation *r, const int *position) {
    for (int t = 0; t < n; t++)
        for (int i = 0; i < r->pairs; i++) {
            double angle = position[t] * r->freq[i], cosine = r->scale * cos(angle), sine = r->scale * sin(angle);
            for (int h = 0; h < heads; h++) {
                float *head = x + ((size_t)t * (size_t)heads + (size_t)h) * (size_t)head_dim;
                double a = (double)head[i], b = (double)head[i + r->pairs];
                head[i] = (float)(a * cosine - b * sine);
                head[i + r->pairs] = (float)(a * sine + b * cosine);
            }
        }
}

/* ---- Attention ----------------------------------------------------------------------------------- */

int formula_attention(float *out, const Config *c, const AttentionWeights *w, int n, const AttentionFormula *f) {
    size_t d = (size_t)c->head_dim, q_dim = (size_t)c->n_heads * d, kv_dim = (size_t)c->n_kv_heads * d;
    double *p = calloc((size_t)n, sizeof *p);
    if (!p) return -1;
    for (int t = 0; t < n; t++)
        for (int h = 0; h < c->n_heads; h++) {
            size_t g = (size_t)(f->interleaved ? h % c->n_kv_heads : h / (c->n_heads / c->n_kv_heads));
            const float *q = f->q + (size_t)t * q_dim + (size_t)h * d, *k = f->k + g * d, *v = f->v + g * d;
            int known = !f->together ? n : t < f->together ? f->together : t + 1;
            int seen = known - t > f->ahead + 1 ? t + f->ahead + 1 : known;
            if (seen < 1) seen = 1; /* the first token has nothing but itself to see */
            int first = f->window && t >= f->window ? t - f->window + 1 : 0;
            bool sinks = w->sinks && !f->no_sinks;
            double sink = sinks ? (double)w->sinks[h] : -INFINITY, max = sink, sum = 0;
            double factor = f->factor;
            if (c->attn.temperature > 0)
                factor *= 1 + (double)c->attn.temperature * log(1 + floor((double)t / c->attn.temperature_ctx));
            for (int s = first; s < seen; s++) {
                p[s] = 0;
                for (size_t i = 0; i < d; i++) p[s] += (double)q[i] * (double)k[(size_t)s * kv_dim + i];
                p[s] *= factor;
                if (f->cap > 0) p[s] = f->cap * tanh(p[s] / f->cap);
                max = fmax(max, p[s]);
            }
            for (int s = first; s < seen; s++) sum += p[s] = exp(p[s] - max);
            if (sinks) sum += exp(sink - max);
            if (f->no_softmax) sum = exp(-max); /* leaves exp(score) */
            for (size_t i = 0; i < d; i++) {
                double mixed = 0;
                for (int s = first; s < seen; s++) mixed += p[s] * (double)v[(size_t)s * kv_dim + i];
                out[(size_t)t * q_dim + (size_t)h * d + i] = (float)(mixed / sum);
            }
        }
    free(p);
    return 0;
}

/* ---- Activations --------------------------------------------------------------------------------- */

double formula_sigmoid(double x, const FfnWeights *w) { return (void)w, 1 / (1 + exp(-x)); }
double formula_silu(double x, const FfnWeights *w) { return (void)w, x / (1 + exp(-x)); }
double formula_gelu(double x, const FfnWeights *w) { return (void)w, 0.5 * x * (1 + erf(x * M_SQRT1_2)); }
double formula_gelu_tanh(double x, const FfnWeights *w) {
    return (void)w, 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double formula_relu(double x, const FfnWeights *w) { return (void)w, x > 0 ? x : 0; }
double formula_relu2(double x, const FfnWeights *w) { return (void)w, x > 0 ? x * x : 0; }
double formula_identity(double x, const FfnWeights *w) { return (void)w, x; }
double formula_xielu(double x, const FfnWeights *w) {
    double beta = (double)w->xielu.beta, p = log1p(exp((double)w->xielu.alpha_p));
    double q = beta + log1p(exp((double)w->xielu.alpha_n)), eps = (double)w->xielu.eps;
    return beta * x + (x > 0 ? p * x * x : q * (expm1(x < eps ? x : eps) - x));
}

Activation *formula_activation(FfnKind kind) {
    switch (kind) {
    case FFN_SWIGLU:
    case FFN_SWIGLU_OSS: return formula_silu;
    case FFN_GELU:
    case FFN_GEGLU: return formula_gelu_tanh;
    case FFN_GELU_ERF:
    case FFN_GEGLU_ERF: return formula_gelu;
    case FFN_RELU2: return formula_relu2;
    case FFN_XIELU: return formula_xielu;
    }
    return formula_identity;
}

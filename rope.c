#include "rope.h"

#include <math.h>

/* ---- The rotation ------------------------------------------------------------------------------ */

/* One pair rotated by an angle: the 2 x 2 rotation matrix, or (a + ib) * exp(i * angle). */
static inline void rotate_pair(float *a, float *b, float cosine, float sine) {
    float x = *a, y = *b;
    *a = x * cosine - y * sine;
    *b = x * sine + y * cosine;
}

void rope_apply(float *x, int n_tok, int n_heads, int stride, const RopeTable *t, int pos) {
    int pairs = t->rotary_dim / 2;
    for (int r = 0; r < n_tok; r++) {
        const float *cosine = t->cos + (long)(pos + r) * pairs;
        const float *sine = t->sin + (long)(pos + r) * pairs;
        for (int h = 0; h < n_heads; h++) {
            float *head = x + (long)r * stride + (long)h * t->head_dim;
            if (t->pairing == ROPE_HALF) {
#pragma omp simd
                for (int i = 0; i < pairs; i++) rotate_pair(&head[i], &head[i + pairs], cosine[i], sine[i]);
            } else {
#pragma omp simd
                for (int i = 0; i < pairs; i++) rotate_pair(&head[2 * i], &head[2 * i + 1], cosine[i], sine[i]);
            }
        }
    }
}

const char *const rope_scaling_name[] = {"none", "linear", "dynamic", "yarn", "llama3", "longrope", "ntk"};

/* ---- The frequencies: one function for each scaling rule -------------------------------------- */

/* theta^(-2i / d): pair 0 rotates by one radian a token, the last one hardly at all. */
static double plain_freq(double theta, int i, int d) { return pow(theta, -2.0 * i / d); }

/* NTK-aware scaling: a base at which the slowest pair is slowed by `stretch` and the fastest not at all. Static: by the
 * factor. Dynamic: once the text is longer than the model was made for, by more the longer it is. */
double rope_base(const RopeConfig *c, int seq_len) {
    int d = c->rotary_dim;
    double stretch = 1;
    if (c->scaling == ROPE_SCALING_NTK) stretch = c->factor;
    else if (c->scaling == ROPE_SCALING_DYNAMIC && seq_len > c->original_ctx)
        stretch = c->factor * seq_len / c->original_ctx - (c->factor - 1);
    return d > 2 ? c->theta * pow(stretch, (double)d / (d - 2)) : c->theta;
}

/* Llama 3.1: long wavelengths are divided by the factor, short ones kept, a straight line between. */
static double llama3_freq(const RopeConfig *c, double freq) {
    double wavelength = 2 * M_PI / freq;
    if (wavelength < c->original_ctx / c->high_freq_factor) return freq;
    if (wavelength > c->original_ctx / c->low_freq_factor) return freq / c->factor;
    double keep = (c->original_ctx / wavelength - c->low_freq_factor) / (c->high_freq_factor - c->low_freq_factor);
    return (1 - keep) * freq / c->factor + keep * freq;
}

/* YaRN, equation 17 onwards: the pair with `rotations` full turns over the original context. */
static double yarn_pair(const RopeConfig *c, double rotations) {
    return c->rotary_dim * log(c->original_ctx / (rotations * 2 * M_PI)) / (2 * log(c->theta));
}

/* YaRN: high frequencies are kept, low ones divided by the factor. */
static double yarn_freq(const RopeConfig *c, int i, double freq) {
    double low = yarn_pair(c, c->beta_fast), high = yarn_pair(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, c->rotary_dim - 1);
    if (low == high) high += 0.001;
    double interpolate = fmin(fmax((i - low) / (high - low), 0), 1);
    return freq / c->factor * interpolate + freq * (1 - interpolate);
}

static double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

/* What cos and sin are multiplied with, so that attention keeps its sharpness over a longer context. */
static double attention_factor_of(const RopeConfig *c) {
    if (c->attention_factor > 0) return c->attention_factor;
    if (c->scaling == ROPE_SCALING_YARN) {
        if (c->mscale != 0 && c->mscale_all_dim != 0)
            return yarn_mscale(c->factor, c->mscale) / yarn_mscale(c->factor, c->mscale_all_dim);
        return yarn_mscale(c->factor, 1);
    }
    if (c->scaling == ROPE_SCALING_LONGROPE && c->factor > 1) return sqrt(1 + log(c->factor) / log(c->original_ctx));
    return 1;
}

void rope_inv_freq(double *inv_freq, double *attention_factor, const RopeConfig *c, int seq_len) {
    double theta = rope_base(c, seq_len);
    const float *long_or_short = seq_len > c->original_ctx ? c->long_factor : c->short_factor;
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        double freq = plain_freq(theta, i, c->rotary_dim);
        switch (c->scaling) {
        case ROPE_SCALING_NONE:
        case ROPE_SCALING_DYNAMIC:
        case ROPE_SCALING_NTK: break;
        case ROPE_SCALING_LINEAR: freq /= c->factor; break;
        case ROPE_SCALING_LLAMA3: freq = llama3_freq(c, freq); break;
        case ROPE_SCALING_YARN: freq = yarn_freq(c, i, freq); break;
        case ROPE_SCALING_LONGROPE: freq /= (double)long_or_short[i]; break;
        }
        if (c->freq_factors) freq /= (double)c->freq_factors[i];
        inv_freq[i] = freq;
    }
    *attention_factor = attention_factor_of(c);
}

void rope_row(float *cosine, float *sine, const double *inv_freq, double scale, int pairs, int pos) {
    for (int i = 0; i < pairs; i++) {
        double angle = pos * inv_freq[i]; /* not a running sum: exact at any position */
        cosine[i] = (float)(cos(angle) * scale);
        sine[i] = (float)(sin(angle) * scale);
    }
}

static void fill_rows(RopeTable *t, const RopeConfig *config, int from, int to, int seq_len) {
    double inv_freq[ROPE_MAX_PAIRS], scale;
    int pairs = t->rotary_dim / 2;
    rope_inv_freq(inv_freq, &scale, config, seq_len);
    for (int pos = from; pos < to; pos++)
        rope_row(t->cos + (long)pos * pairs, t->sin + (long)pos * pairs, inv_freq, scale, pairs, pos);
}

void rope_table_fill(RopeTable *t, const RopeConfig *config, int seq_len) {
    fill_rows(t, config, 0, t->n_ctx, seq_len);
}

int rope_table_key(const RopeConfig *c, int seq_len) {
    bool longer = seq_len > c->original_ctx;
    if (c->scaling == ROPE_SCALING_DYNAMIC && longer) return seq_len;
    return c->scaling == ROPE_SCALING_LONGROPE && longer;
}

void rope_table_reach(RopeTable *t, const RopeConfig *config, int pos, int n, int seq_len) {
    int key = rope_table_key(config, seq_len);
    if (key != t->key || pos < t->from || pos > t->to) t->from = t->to = pos;
    t->key = key;
    if (pos + n <= t->to) return;
    fill_rows(t, config, t->to, pos + n, seq_len);
    t->to = pos + n;
}

/* ---- What makes no sense is refused ------------------------------------------------------------ */

int rope_check(const RopeConfig *c, int head_dim, const char *what, Error *e) {
    if (head_dim % 2) return fail(e, "%s: head_dim: expected an even number, found %d", what, head_dim);
    if (c->rotary_dim < 2 || c->rotary_dim % 2 || c->rotary_dim > head_dim)
        return fail(e, "%s: rotary dimension: expected an even number from 2 to head_dim %d, found %d", what, head_dim,
                    c->rotary_dim);
    if (c->rotary_dim / 2 > ROPE_MAX_PAIRS)
        return fail(e, "%s: rotary dimension: expected at most %d, found %d", what, 2 * ROPE_MAX_PAIRS, c->rotary_dim);
    if (!isfinite(c->theta) || c->theta <= 0)
        return fail(e, "%s: rope_theta: expected a positive number, found %g", what, c->theta);
    if (c->scaling == ROPE_SCALING_NONE) return 0;
    if (c->scaling != ROPE_SCALING_LONGROPE && !(isfinite(c->factor) && c->factor >= 1))
        return fail(e, "%s: rope factor: expected a number from 1, found %g", what, c->factor);
    if (c->scaling != ROPE_SCALING_LINEAR && c->scaling != ROPE_SCALING_NTK && c->original_ctx < 1)
        return fail(e, "%s: rope original context: expected at least 1, found %d", what, c->original_ctx);
    if (!isfinite(c->attention_factor) || c->attention_factor < 0)
        return fail(e, "%s: rope attention_factor: expected a positive number, found %g", what, c->attention_factor);
    switch (c->scaling) {
    case ROPE_SCALING_LLAMA3:
        if (!(c->low_freq_factor > 0) || !(c->high_freq_factor > c->low_freq_factor))
            return fail(e, "%s: llama3 rope: expected 0 < low_freq_factor < high_freq_factor, found %g and %g", what,
                        c->low_freq_factor, c->high_freq_factor);
        break;
    case ROPE_SCALING_YARN:
        if (!(c->beta_slow > 0) || !(c->beta_fast > 0))
            return fail(e, "%s: yarn rope: expected beta_fast and beta_slow above 0, found %g and %g", what,
                        c->beta_fast, c->beta_slow);
        if (c->theta == 1) return fail(e, "%s: rope_theta: expected other than 1 with yarn, found 1", what);
        break;
    case ROPE_SCALING_LONGROPE:
        if (!c->short_factor || !c->long_factor)
            return fail(e, "%s: longrope: expected short_factor and long_factor, found none", what);
        if (c->attention_factor == 0 && c->factor > 1 && c->original_ctx < 2) /* 1 + ln(factor) / ln(1) */
            return fail(e, "%s: longrope: expected an original context above 1, found %d", what, c->original_ctx);
        break;
    default: break;
    }
    return 0;
}

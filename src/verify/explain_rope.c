/* explain, third part: RoPE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/explain.h"

const RopeConfig *explain_rope(const Case *c) {
    const Config *k = &c->m->config;
    return c->m->weights.layers[c->layer < 0 ? 0 : c->layer].attn.rope == ROPE_LOCAL ? &k->rope_local : &k->rope;
}

void explain_clamp(const Case *c, float *x, size_t n) {
    float clamp = c->m->config.attn.clamp;
    for (size_t i = 0; i < n && clamp > 0; i++) x[i] = x[i] > clamp ? clamp : x[i] < -clamp ? -clamp : x[i];
}

static bool normed_after(const Case *c) { return c->m->config.attn.qk_norm == QK_NORM_AFTER_ROPE; }

/* The model's norm of q or k, in place. Its weights are in the order that the file has. */
static void norm_heads(Case *c, float *x) {
    const Config *k = &c->m->config;
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    const float *weight = c->step == STEP_Q_ROT ? w->q_norm : w->k_norm;
    const float *bias = c->step == STEP_Q_ROT ? w->q_norm_bias : w->k_norm_bias;
    int d = k->head_dim, cols = trace_cols(k, c->step), heads = cols / d, rotary = k->rope.rotary_dim;
    NormFormula f = {.centre = k->norm == NORM_LAYERNORM,
                     .eps = (double)k->norm_eps,
                     .plus = (double)k->norm_offset,
                     .weight = weight,
                     .bias = bias};
    if (!weight) return;
    if (c->stored_in_pairs) explain_reorder(x, c->ref->n, cols, heads, rotary, false, c->line);
    for (int row = 0; row < c->ref->n * heads; row++) {
        float *at = x + (size_t)row * (size_t)d;
        if (k->attn.qk_norm == QK_NORM_EACH_HEAD) f.weight = weight + (row % heads) * d;
        if (k->attn.qk_norm != QK_NORM_WHOLE) formula_norm(at, at, 1, d, &f);
        else if (row % heads == 0) formula_norm(at, at, 1, cols, &f);
    }
    if (c->stored_in_pairs) explain_reorder(x, c->ref->n, cols, heads, rotary, true, c->line);
}

/* q or k as RoPE gets it: normed and clamped where the model does so. The caller frees it; NULL: no memory. */
static float *rotation_input(Case *c, const float *x, bool norm) {
    size_t n = explain_size(c, c->step);
    float *y = malloc(n * sizeof *y);
    c->no_memory |= !y;
    if (!y) return NULL;
    memcpy(y, x, n * sizeof *y);
    if (norm && !normed_after(c)) norm_heads(c, y);
    explain_clamp(c, y, n);
    return y;
}

/* Does what was rotated in scratch, normed where the model does so after RoPE, reproduce the target? */
static bool finish(Case *c) {
    if (normed_after(c)) norm_heads(c, c->scratch);
    return explain_by(c, c->scratch);
}

/* x rotated by r, token t to position[t] + offset (all of them from token `from` on). */
static void rotate(Case *c, const float *x, const Rotation *r, int from, int offset) {
    const Config *k = &c->m->config;
    int n = c->ref->n, heads = trace_cols(k, c->step) / k->head_dim;
    memcpy(c->scratch, x, explain_size(c, c->step) * sizeof *x);
    for (int t = 0; t < n; t++) c->position[t] = t < from ? t : t + offset;
    formula_rotate(c->scratch, n, heads, k->head_dim, r, c->position);
}

static bool rotation_fits(Case *c, const float *x, const Rotation *r, int from, int offset) {
    rotate(c, x, r, from, offset);
    return finish(c);
}

/* Measures the rotation between x and y: the angle of each pair between position 0 and 1 gives a first value of its
 * frequency, every further position one more digit. */
static void measure(const Case *c, const float *x, const float *y, Rotation *r) {
    const Config *k = &c->m->config;
    size_t cols = (size_t)trace_cols(k, c->step), d = (size_t)k->head_dim;
    double before = 0, after = 0;
    r->pairs = k->rope.rotary_dim / 2;
    for (int i = 0; i < r->pairs; i++) {
        double start = 0;
        r->freq[i] = 0;
        for (int t = 0; t < c->ref->n; t++) {
            double dot = 0, cross = 0;
            for (size_t h = 0; h < cols / d; h++) {
                size_t at = (size_t)t * cols + h * d + (size_t)i, other = at + (size_t)r->pairs;
                double a = (double)x[at], b = (double)x[other], u = (double)y[at], v = (double)y[other];
                dot += a * u + b * v, cross += a * v - b * u;
                before += a * a + b * b, after += u * u + v * v;
            }
            double angle = atan2(cross, dot);
            if (t == 0) start = angle;
            else r->freq[i] += remainder(angle - start - t * r->freq[i], 2 * M_PI) / t;
        }
    }
    r->scale = before > 0 ? sqrt(after / before) : 1;
}

/* Ways of computing the frequencies wrong. */
static bool wrong_frequencies(Case *c, const float *x, const Rotation *right) {
    const RopeConfig *rope = explain_rope(c);
    Rotation r = *right;
    for (int i = 0; i < r.pairs; i++) r.freq[i] = -right->freq[i];
    if (rotation_fits(c, x, &r, 0, 0))
        return explain_say(c, "direction: %s the rotation is the other way round", explain_side(c));
    for (int i = 0; i < r.pairs; i++) r.freq[i] = right->freq[0];
    if (rotation_fits(c, x, &r, 0, 0))
        return explain_say(c, "frequencies: %s every pair is rotated by the angle of pair 0", explain_side(c));
    for (int i = 0; i < r.pairs; i++) r.freq[i] = right->freq[r.pairs - 1 - i];
    if (rotation_fits(c, x, &r, 0, 0))
        return explain_say(c, "frequencies: %s they are in reverse order: pair 0 must be the fastest", explain_side(c));
    static const struct {
        double exponent;
        const char *formula;
    } exponents[] = {{1, "theta^(-i / d)"}, {4, "theta^(-4i / d)"}, {-2, "theta^(2i / d)"}};
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        for (int i = 0; i < r.pairs; i++) r.freq[i] = pow(rope->theta, -exponents[e].exponent * i / rope->rotary_dim);
        if (rotation_fits(c, x, &r, 0, 0))
            return explain_say(c, "frequencies: %s they are %s, it must be theta^(-2i / d)", explain_side(c),
                               exponents[e].formula);
    }
    return false;
}

/* The pairs of the other pairing: x and the target are in half-split order, the rotation was not. */
static bool wrong_pairing(Case *c, const float *x, const Rotation *r) {
    const Config *k = &c->m->config;
    int n = c->ref->n, cols = trace_cols(k, c->step), heads = cols / k->head_dim, rotary = k->rope.rotary_dim;
    memcpy(c->scratch, x, explain_size(c, c->step) * sizeof *x);
    for (int t = 0; t < n; t++) c->position[t] = t;
    explain_reorder(c->scratch, n, cols, heads, rotary, !c->stored_in_pairs, c->line);
    formula_rotate(c->scratch, n, heads, k->head_dim, r, c->position);
    explain_reorder(c->scratch, n, cols, heads, rotary, c->stored_in_pairs, c->line);
    return finish(c);
}

static bool explain_ours(Case *c, const float *x, const Rotation *right, const char *what) {
    const RopeConfig *rope = explain_rope(c);
    int n = c->ref->n, decoded = explain_decoded_at(c);
    Rotation r = *right;
    if (wrong_pairing(c, x, right))
        return explain_say(
            c, "pairing wrong: q and k differ only after RoPE, only at positions >= 1; the other pairing (%s) matches",
            c->stored_in_pairs ? "pairs" : "half");
    memcpy(c->scratch, x, explain_size(c, c->step) * sizeof *x);
    if (finish(c)) {
        if (c->step == STEP_K_ROT)
            return explain_say(c, "keys unrotated: q is rotated and k is not: it went into the cache before RoPE");
        return c->layer ? explain_say(c,
                                      "RoPE in layer 0 only: from layer %d on q is not rotated; RoPE belongs in every "
                                      "layer",
                                      c->layer)
                        : explain_say(c, "RoPE missing: q is not rotated");
    }
    for (int offset = -8; offset <= 8; offset++) {
        if (decoded && rotation_fits(c, x, right, decoded, offset))
            return explain_say(c, DECODE_OFFSET, decoded, "is rotated to", offset);
        if (rotation_fits(c, x, right, 0, offset))
            return explain_say(c, "position offset: here token t is rotated to position t%+d", offset);
    }
    memcpy(c->scratch, x, explain_size(c, c->step) * sizeof *x);
    for (int t = 0; t < n; t++) c->position[t] = t < c->ours->n_prefill ? 0 : t;
    formula_rotate(c->scratch, n, trace_cols(&c->m->config, c->step) / c->m->config.head_dim, c->m->config.head_dim,
                   right, c->position);
    if (finish(c))
        return explain_say(c, "position: here every row of a batch is rotated to the position of its first row");
    if (wrong_frequencies(c, x, right)) return true;
    r.scale = 1;
    if (right->scale != 1 && rotation_fits(c, x, &r, 0, 0))
        return explain_say(c, "attention factor: here cos and sin are not multiplied by %.6g", right->scale);
    RopeConfig plain = *rope;
    plain.scaling = ROPE_SCALING_NONE;
    plain.freq_factors = NULL;
    formula_rotation(&r, &plain, n);
    if (rotation_fits(c, x, &r, 0, 0) || (r.scale = 1, rotation_fits(c, x, &r, 0, 0)))
        return explain_say(c, "scaling: here the model's RoPE scaling is not applied");
    measure(c, x, c->target, &r);
    int worst = 0;
    for (int i = 0; i < r.pairs; i++)
        if (fabs(r.freq[i] - right->freq[i]) > fabs(r.freq[worst] - right->freq[worst])) worst = i;
    if (rotation_fits(c, x, &r, 0, 0))
        return explain_say(
            c,
            "frequencies: here pair %d is rotated by %.6g radians a token, it must be %.6g; the factor on "
            "cos and sin is %.6g, it must be %.6g",
            worst, r.freq[worst], right->freq[worst], r.scale, right->scale);
    return explain_say(c, "rotation: what is done to %s here is no rotation of its pairs (i, i + %d) by the position",
                       what, r.pairs);
}

static bool explain_theirs(Case *c, const float *x, const Rotation *ours, const char *what) {
    const RopeConfig *rope = explain_rope(c);
    int n = c->ref->n, pairs = ours->pairs;
    Rotation found, r = *ours, unscaled;
    for (int offset = -8; offset <= 8; offset++)
        if (rotation_fits(c, x, ours, 0, offset))
            return explain_say(c, "position offset: the reference rotates token t to position t%+d", offset);
    if (wrong_frequencies(c, x, ours)) return true;
    measure(c, x, c->target, &found);
    r.scale = found.scale;
    if (rotation_fits(c, x, &r, 0, 0))
        return explain_say(
            c,
            "attention factor: the reference's cos and sin carry %.6g, here %.6g: scaling missing or with "
            "another factor",
            found.scale, ours->scale);
    RopeConfig plain = *rope;
    plain.scaling = ROPE_SCALING_NONE;
    plain.freq_factors = NULL;
    plain.attention_factor = 0;
    formula_rotation(&unscaled, &plain, n);
    bool scaled_here = rope->scaling != ROPE_SCALING_NONE || rope->freq_factors;
    if (scaled_here && rotation_fits(c, x, &unscaled, 0, 0))
        return explain_say(c, "scaling: the reference rotates with theta %g and no scaling; this model scales",
                           rope->theta);
    double slowed = unscaled.freq[pairs - 1] / found.freq[pairs - 1]; /* by how much the slowest pair was scaled */
    for (int i = 0; i < pairs; i++) r.freq[i] = unscaled.freq[i] / slowed;
    if (pairs > 1 && rotation_fits(c, x, &r, 0, 0))
        return explain_say(
            c, "scaling %s: every frequency of the reference is divided by %.6g (linear scaling with that factor)",
            scaled_here ? "wrong" : "missing", slowed);
    /* Another base: ln f is a straight line through 0. The second pair gives the slope, the rest must follow. */
    for (int i = 1; i < pairs; i++) {
        double theta = pow(found.freq[i], -(double)rope->rotary_dim / (2.0 * i));
        if (!isfinite(theta) || theta <= 0) continue;
        RopeConfig based = plain;
        based.theta = theta;
        formula_rotation(&r, &based, n);
        r.scale = found.scale;
        if (rotation_fits(c, x, &r, 0, 0) && rope->theta == 1)
            return explain_say(
                c, "one frequency: here every pair turns one radian a token; the reference has theta %.6g", theta);
        if (rotation_fits(c, x, &r, 0, 0))
            return explain_say(c,
                               "theta wrong: the reference rotates with theta %.6g, this model with %.6g (a base that "
                               "grows with the text is dynamic scaling)",
                               theta, rope->theta);
    }
    if (!rotation_fits(c, x, &found, 0, 0))
        return explain_say(c, "RoPE: the reference's %s_rot is no rotation of its %s by pairs (i, i + %d)", what, what,
                           pairs);
    int first = 0;
    while (first < pairs - 1 && fabs(unscaled.freq[first] / found.freq[first] - 1) < 1e-3) first++;
    return explain_say(
        c,
        "scaling %s: in the reference the first %d of %d pairs keep their frequency, the others are slowed, "
        "the last by %.4g; attention factor %.6g (a rule like llama3, yarn or longrope)",
        scaled_here ? "wrong" : "missing", first, pairs, slowed, found.scale);
}

/* Is y = x times one number for each head at a position and one for each feature, as a norm with weights makes it? */
static bool is_normed(const Case *c, const float *x, const float *y) {
    int d = c->m->config.head_dim, rows = c->ref->n * (trace_cols(&c->m->config, c->step) / d), compared = 0;
    double small = explain_largest(x, (size_t)rows * (size_t)d) / 20, first_scale = 0;
    bool scaled = false; /* by another number in another row: weights alone would not do that */
    for (int i = 1; i < d; i++) {
        double first = 0;
        for (int r = 0; r < rows; r++) {
            const float *from = x + (size_t)r * (size_t)d, *to = y + (size_t)r * (size_t)d;
            if (fabs((double)from[0]) < small || fabs((double)from[i]) < small) continue;
            double scale = (double)to[0] / (double)from[0], ratio = (double)to[i] / (double)from[i] / scale;
            if (first_scale == 0) first_scale = scale;
            scaled |= fabs(scale - first_scale) > 1e-2 * fabs(scale);
            if (first == 0) first = ratio;
            else if (!(fabs(ratio / first - 1) < 1e-2)) return false;
            else compared++;
        }
    }
    return scaled && compared > d;
}

/* What families do otherwise: a norm of q and k, and a second table of angles. */
static bool explain_family(Case *c, const float *plain, const float *x, const Rotation *right, const char *what) {
    const Config *k = &c->m->config;
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    const char *side = explain_side(c);
    int n = c->ref->n;
    if (w->q_norm) {
        rotate(c, plain, right, 0, 0);
        if (explain_by(c, c->scratch)) return explain_say(c, "q/k norm missing: %s %s is not normed", side, what);
    } else {
        Rotation back = *right;
        for (int i = 0; i < back.pairs; i++) back.freq[i] = -right->freq[i];
        back.scale = 1 / right->scale;
        rotate(c, c->target, &back, 0, 0);
        if (is_normed(c, plain, c->scratch))
            return explain_say(c, "q/k norm missing: %s %s is normed before RoPE, this model has no such norm", side,
                               what);
    }
    bool two = false;
    for (int i = 0; i < k->n_layers; i++) two |= c->m->weights.layers[i].attn.rope == ROPE_LOCAL;
    for (int other = 0; two && other < 2; other++) {
        const RopeConfig *rope = other ? &k->rope_local : &k->rope;
        Rotation r;
        if (rope == explain_rope(c)) continue;
        formula_rotation(&r, rope, n);
        if (rotation_fits(c, x, &r, 0, 0))
            return explain_say(
                c,
                "theta of the wrong layer kind: %s layer %d is rotated as the layers with%s a window are, by "
                "theta %g",
                side, c->layer, other ? "" : "out", rope->theta);
    }
    return false;
}

void explain_rotation(Case *c) {
    const char *what = c->step == STEP_Q_ROT ? "q" : "k";
    Step before = c->step == STEP_Q_ROT ? STEP_Q : STEP_K;
    const float *theirs = explain_of(c->ref, c->layer, before), *ours = explain_of(c->ours, c->layer, before);
    Rotation right;
    if (!theirs || !ours || c->ref->n < 2) {
        explain_say(c, "RoPE: the reference lacks %s before it, or has one position only", what);
        return;
    }
    formula_rotation(&right, explain_rope(c), c->ref->n);
    if (c->m->weights.layers[c->layer].attn.rope == ROPE_NONE)
        for (int i = 0; i < right.pairs; i++) right.freq[i] = 0, right.scale = 1;
    float *x = rotation_input(c, theirs, true), *y = rotation_input(c, ours, true);
    if (x && y) {
        rotate(c, x, &right, 0, 0);
        if (normed_after(c)) norm_heads(c, c->scratch);
        explain_judge(c, c->scratch);
        float *plain = rotation_input(c, c->here ? ours : theirs, false);
        if (!plain || explain_family(c, plain, c->here ? y : x, &right, what)) free(plain);
        else if (free(plain), c->here) explain_ours(c, y, &right, what);
        else explain_theirs(c, x, &right, what);
    }
    free(x);
    free(y);
}

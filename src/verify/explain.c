/* explain, first part: what all steps share; embedding, norms, FFN, residual stream, logits. */
#include "verify/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Distances and judgement ------------------------------------------------------------------- */

double explain_largest(const float *x, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

double explain_distance(const float *a, const float *b, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= max)) max = isnan(d) ? INFINITY : d;
    }
    return max;
}

/* Wider than the tolerance, far narrower than any of the mistakes. */
bool explain_fits(const float *a, const float *b, size_t n) {
    return explain_distance(a, b, n) <= 5e-4 * fmax(1e-3, explain_largest(b, n));
}

bool explain_say(Case *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->cause, VERIFY_CAUSE, format, args);
    va_end(args);
    return true;
}

void explain_judge(Case *c, const float *plain) {
    const float *ref = explain_of(c->ref, c->layer, c->step), *ours = explain_of(c->ours, c->layer, c->step);
    size_t n = explain_size(c, c->step);
    c->here = plain && explain_distance(plain, ref, n) <= verify_tolerance(c->step, explain_largest(ref, n));
    c->target = c->here ? ours : ref;
    c->plain_error = plain ? explain_distance(plain, c->target, n) : INFINITY;
}

bool explain_by(const Case *c, const float *x) {
    size_t n = explain_size(c, c->step);
    return explain_fits(x, c->target, n) && explain_distance(x, c->target, n) < c->plain_error / 4;
}

const char *explain_side(const Case *c) { return c->here ? "here" : "in the reference"; }

void explain_multiply(Case *c, float *y, const Mat *w, const float *bias, const float *x) {
    c->no_memory |= formula_multiply(y, w, bias, x, c->ref->n) != 0;
}

bool explain_arithmetic(Case *c, const char *what) {
    bool int8 = c->m->int8 && kernels_best()->int8;
    return explain_say(c, "%s: the weights here, given the reference's input, give its output; this run's is off: %s",
                       what,
                       int8 ? "its activations are int8 at this CPU level (RUN_CPU=ref computes in float32)"
                            : "a mistake in the code that computes it");
}

int explain_decoded_at(const Case *c) { return c->ours->n_prefill < c->ours->n ? c->ours->n_prefill : 0; }

void explain_reorder(float *x, int n, int cols, int heads, int rotary, bool to_half, float *line) {
    int d = cols / heads, half = rotary / 2;
    for (size_t h = 0; h < (size_t)n * (size_t)heads; h++) {
        float *at = x + h * (size_t)d;
        memcpy(line, at, (size_t)rotary * sizeof *line);
        for (int i = 0; i < half; i++) {
            if (to_half) at[i] = line[2 * i], at[i + half] = line[2 * i + 1];
            else at[2 * i] = line[i], at[2 * i + 1] = line[i + half];
        }
    }
}

Mat explain_transposed(Case *c, const Mat *const *parts, int n) {
    size_t in = (size_t)parts[0]->cols, out = 0, at = 0;
    for (int i = 0; i < n; i++) out += (size_t)parts[i]->rows;
    float *data = malloc((out * in + 1) * sizeof *data), *row = malloc(in * sizeof *row);
    if (!data || !row) {
        c->no_memory = true;
        free(data);
        data = NULL;
    }
    for (int i = 0; data && i < n; i++)
        for (int r = 0; r < parts[i]->rows; r++) {
            mat_dequantize_row(row, parts[i], r);
            for (size_t j = 0; j < in; j++, at++) data[at % out * in + at / out] = row[j];
        }
    free(row);
    return (Mat){
        .dtype = DTYPE_F32, .rows = (int)out, .cols = (int)in, .stride_bytes = in * sizeof *data, .data = data};
}

/* ---- Embedding --------------------------------------------------------------------------------- */

/* Row t: the token's embedding, plus the position embedding of t + offset where there is one, times the scale. */
static void embed(Case *c, int from, int offset) {
    const Config *k = &c->m->config;
    for (int t = 0; t < c->ref->n; t++) {
        float *row = c->scratch + (size_t)t * (size_t)k->dim;
        int pos = t < from ? t : t + offset;
        mat_dequantize_row(row, &c->m->weights.tok_emb, c->ref->tokens[t]);
        if (pos < 0) pos = 0;
        if (pos >= k->n_ctx) pos = k->n_ctx - 1;
        if (k->pos == POS_LEARNED) mat_dequantize_row(c->line, &c->m->weights.pos_emb, pos);
        for (int i = 0; i < k->dim && k->pos == POS_LEARNED; i++) row[i] += c->line[i];
        for (int i = 0; i < k->dim && k->embedding_scale > 0; i++) row[i] *= k->embedding_scale;
    }
}

static bool explain_embed(Case *c) {
    bool learned = c->m->config.pos == POS_LEARNED;
    size_t n = explain_size(c, STEP_EMBED);
    embed(c, 0, 0);
    explain_judge(c, c->scratch);
    int decoded = explain_decoded_at(c);
    for (int offset = -2; learned && offset <= 2; offset++) {
        embed(c, 0, offset);
        if (explain_by(c, c->scratch))
            return explain_say(c, "position offset: %s token t gets the position embedding of t%+d", explain_side(c),
                               offset);
        embed(c, decoded, offset);
        if (c->here && decoded && explain_by(c, c->scratch))
            return explain_say(c, DECODE_OFFSET, decoded, "gets the position embedding of", offset);
    }
    if (learned) {
        for (int t = 0; t < c->ref->n; t++)
            mat_dequantize_row(c->scratch + (size_t)t * (size_t)c->m->config.dim, &c->m->weights.tok_emb,
                               c->ref->tokens[t]);
        if (explain_by(c, c->scratch))
            return explain_say(c, "positions missing: %s no position embedding is added", explain_side(c));
    }
    embed(c, 0, 0);
    double top = 0, bottom = 1e-300;
    for (size_t i = 0; i < n; i++) {
        top += (double)c->target[i] * (double)c->scratch[i];
        bottom += (double)c->scratch[i] * (double)c->scratch[i];
    }
    for (size_t i = 0; i < n; i++) c->scratch[i] = (float)((double)c->scratch[i] * top / bottom);
    if (top != 0 && explain_by(c, c->scratch))
        return explain_say(c, "embedding scale: %s the embedding is multiplied by %.6g more than this model says",
                           explain_side(c), top / bottom);
    if (c->here) return explain_arithmetic(c, "embedding");
    return explain_say(
        c, "tok_emb: the token embeddings are not the reference's: another checkpoint, or rows in another order");
}

/* ---- Norms ------------------------------------------------------------------------------------- */

/* Weight and bias of the norm `step` of a layer. */
static NormFormula norm_of(const Case *c, int layer, Step step) {
    const Config *k = &c->m->config;
    const Weights *w = &c->m->weights;
    const Layer *l = &w->layers[layer < 0 ? 0 : layer];
    bool final = step == STEP_FINAL_NORM, attn = step == STEP_ATTN_NORM;
    if (step == STEP_FFN_NORM && k->parallel && !l->ffn_norm) attn = true; /* both blocks read the same norm */
    return (NormFormula){.none = k->norm == NORM_NONE || (k->no_pre_norm && !final),
                         .centre = k->norm == NORM_LAYERNORM,
                         .eps = (double)k->norm_eps,
                         .plus = (double)k->norm_offset,
                         .weight = final  ? w->final_norm
                                   : attn ? l->attn_norm
                                          : l->ffn_norm,
                         .bias = final  ? w->final_norm_bias
                                 : attn ? l->attn_norm_bias
                                        : l->ffn_norm_bias};
}

/* x += times * what a block adds: its output, normed and scaled where the model does so. y: memory of the same size. */
static void add_block(const Case *c, float *x, const float *block, const float *post_norm, float times, float *y) {
    const Config *k = &c->m->config;
    NormFormula f = norm_of(c, 0, STEP_FINAL_NORM);
    f.none = !post_norm;
    f.weight = post_norm;
    f.bias = NULL;
    formula_norm(y, block, c->ref->n, k->dim, &f);
    float scale = times * (k->residual_scale > 0 ? k->residual_scale : 1);
    for (size_t i = 0; i < explain_size(c, STEP_OUT); i++) x[i] += scale * y[i];
}

/* The norm's input, malloc'ed: what the reference's residual stream was there. NULL: the reference lacks a part of it.
 */
static float *norm_input(Case *c) {
    const float *before = c->step == STEP_FINAL_NORM ? explain_of(c->ref, c->m->config.n_layers - 1, STEP_OUT)
                          : c->layer == 0            ? explain_of(c->ref, 0, STEP_EMBED)
                                                     : explain_of(c->ref, c->layer - 1, STEP_OUT);
    bool after_attention = c->step == STEP_FFN_NORM && !c->m->config.parallel;
    const float *attended = after_attention ? explain_of(c->ref, c->layer, STEP_ATTN_OUT) : NULL;
    if (!before || (after_attention && !attended)) return NULL;
    size_t n = explain_size(c, STEP_OUT);
    float *x = malloc(n * sizeof *x);
    c->no_memory |= !x;
    if (x) memcpy(x, before, n * sizeof *x);
    if (x && attended) add_block(c, x, attended, c->m->weights.layers[c->layer].attn_post_norm, 1, c->scratch);
    return x;
}

static bool norm_by(Case *c, const float *x, const NormFormula *f) {
    formula_norm(c->scratch, x, c->ref->n, c->m->config.dim, f);
    return explain_by(c, c->scratch);
}

/* The same norm with another epsilon: the best of the usual ones. */
static double norm_eps(Case *c, const float *x, NormFormula f) {
    static const double usual[] = {0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
    double best = c->plain_error, best_eps = -1;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        f.eps = usual[i];
        if (!norm_by(c, x, &f)) continue;
        double error = explain_distance(c->scratch, c->target, explain_size(c, c->step));
        if (error < best) best = error, best_eps = usual[i];
    }
    return best_eps;
}

/* Is the target the normed input times one vector, the same at every position? */
static bool norm_of_another_weight(Case *c, const float *x, NormFormula f) {
    size_t dim = (size_t)c->m->config.dim;
    double size = explain_largest(c->target, explain_size(c, c->step));
    f.weight = f.bias = NULL;
    formula_norm(c->scratch, x, c->ref->n, (int)dim, &f);
    for (size_t i = 0; i < dim; i++) {
        double top = 0, bottom = 1e-30;
        for (int t = 0; t < c->ref->n; t++) {
            double normed = (double)c->scratch[(size_t)t * dim + i];
            top += normed * (double)c->target[(size_t)t * dim + i], bottom += normed * normed;
        }
        for (int t = 0; t < c->ref->n; t++) {
            size_t at = (size_t)t * dim + i;
            if (!(fabs(top / bottom * (double)c->scratch[at] - (double)c->target[at]) <= 1e-3 * size)) return false;
        }
    }
    return c->ref->n > 1;
}

static bool explain_norm_of(Case *c, const float *x) {
    const Config *k = &c->m->config;
    const NormFormula plain = norm_of(c, c->layer, c->step);
    NormFormula f = plain;
    formula_norm(c->scratch, x, c->ref->n, k->dim, &f);
    explain_judge(c, c->scratch);
    const char *side = explain_side(c);
    if (plain.none) return c->here ? explain_arithmetic(c, "norm") : explain_say(c, "norm: the reference has one here");
    f.centre = !f.centre;
    if (norm_by(c, x, &f)) {
        const char *kind = f.centre ? "LayerNorm" : "RMSNorm", *other = f.centre ? "RMSNorm" : "LayerNorm";
        return c->here ? explain_say(c, "norm kind: here %s is computed, this model's is %s", kind, other)
                       : explain_say(c, "norm kind: the reference's is %s, this model's %s", kind, other);
    }
    const struct {
        NormFormula f;
        const char *what;
    } mistakes[] = {
        {{.sum = true}, "norm: %s the mean is left out: x is divided by the root of the sum of the squares"},
        {{.no_root = true}, "norm: %s the root is left out: x is divided by the mean of the squares"},
        {{.no_scale = true}, "norm: %s x is not divided by the root of the mean of the squares"},
        {{.plus = 1}, "norm weight: %s x is multiplied by 1 + weight (as Gemma does), not by the weight"},
        {{.plus = 0}, "norm weight: %s x is multiplied by the weight, not by 1 + weight"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        f = plain;
        f.sum = mistakes[i].f.sum, f.no_root = mistakes[i].f.no_root, f.no_scale = mistakes[i].f.no_scale;
        f.plus = mistakes[i].f.plus;
        if (norm_by(c, x, &f)) return explain_say(c, mistakes[i].what, side);
    }
    double eps = norm_eps(c, x, plain);
    if (eps >= 0)
        return c->here ? explain_say(c, "eps: here the norm is computed with eps %g, this model has %g", eps, plain.eps)
                       : explain_say(c, "eps: the reference's norm fits eps %g, this model has %g", eps, plain.eps);
    f = plain;
    f.bias = NULL;
    if (plain.bias && norm_by(c, x, &f)) return explain_say(c, "norm bias: %s none is added", side);
    f.weight = NULL;
    if (norm_by(c, x, &f)) return explain_say(c, "norm weight: %s none is applied", side);
    for (int slot = 0; slot < c->ref->n_slots; slot++) {
        char name[TRACE_NAME];
        int layer;
        Step step;
        trace_name(name, slot, k->n_layers, &layer, &step);
        if (step != STEP_ATTN_NORM && step != STEP_FFN_NORM && step != STEP_FINAL_NORM) continue;
        f = norm_of(c, layer, step);
        if (norm_by(c, x, &f)) return explain_say(c, "norm weight: %s %s has the weight of %s", side, c->name, name);
    }
    bool ones = true;
    for (int i = 0; i < k->dim && plain.weight; i++) ones &= fabs((double)plain.weight[i] + plain.plus - 1) < 1e-6;
    bool same = norm_of_another_weight(c, x, plain);
    if (same && ones && !c->here)
        return explain_say(c,
                           "norm weight missing: all ones here, and the reference's output divided by the normed input "
                           "is one and the same other vector at every position");
    if (same)
        return explain_say(
            c,
            "norm weight: %s %s has another weight (the output over the normed input is the same vector at "
            "every position)",
            side, c->name);
    if (c->here) return explain_arithmetic(c, "norm");
    return explain_say(c, "norm: neither another eps, another weight nor the other norm explains %s", c->name);
}

static bool explain_norm(Case *c) {
    float *x = norm_input(c);
    bool said = x ? explain_norm_of(c, x) : explain_say(c, "norm: the reference lacks the input of %s", c->name);
    free(x);
    return said;
}

/* ---- FFN --------------------------------------------------------------------------------------- */

/* h[n] = act(gate) * up, or act(up) alone. */
static void activate(float *h, const float *gate, const float *up, size_t n, Activation *act, const FfnWeights *w) {
    for (size_t i = 0; i < n; i++)
        h[i] = (float)(gate ? act((double)gate[i], w) * (up ? (double)up[i] : 1) : act((double)up[i], w));
}

static bool explain_ffn_of(Case *c, float *gate, float *up, float *h) {
    const Config *k = &c->m->config;
    const FfnWeights *w = &c->m->weights.layers[c->layer].ffn;
    const float *in = explain_of(c->ref, c->layer, STEP_FFN_NORM);
    size_t hidden = (size_t)c->ref->n * (size_t)w->w_up.rows;
    bool gated = ffn_is_gated(k->ffn);
    if (gated) explain_multiply(c, gate, &w->w_gate, w->b_gate, in);
    explain_multiply(c, up, &w->w_up, w->b_up, in);
    Activation *usual = formula_activation(k->ffn);
    activate(h, gated ? gate : NULL, up, hidden, usual, w);
    explain_multiply(c, c->scratch, &w->w_down, w->b_down, h);
    explain_judge(c, c->scratch);
    const struct {
        bool gated_only, exchanged, no_up, no_bias;
        Activation *act;
        const char *what;
    } mistakes[] = {
        {true, true, false, false, NULL, "FFN: %s w_gate and w_up are exchanged"},
        {false, false, false, false, formula_gelu_tanh, "activation: %s it is GELU, not this model's"},
        {false, false, false, false, formula_gelu, "activation: %s it is GELU by erf, not this model's"},
        {false, false, false, false, formula_silu, "activation: %s it is SiLU, not this model's"},
        {false, false, false, false, formula_relu, "activation: %s it is ReLU, not this model's"},
        {false, false, false, false, formula_relu2, "activation: %s it is the square of ReLU, not this model's"},
        {false, false, false, false, formula_sigmoid, "activation: %s it is the sigmoid alone, not this model's"},
        {false, false, false, false, formula_identity, "activation: %s there is none"},
        {true, false, true, false, NULL, "FFN: %s the gate is not multiplied with w_up's output"},
        {false, false, false, true, NULL, "FFN: %s b_down is not added"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if ((mistakes[i].gated_only && !gated) || (mistakes[i].no_bias && !w->b_down)) continue;
        const float *first = mistakes[i].exchanged ? up : gate, *second = mistakes[i].exchanged ? gate : up;
        activate(h, gated ? first : NULL, mistakes[i].no_up ? NULL : second, hidden,
                 mistakes[i].act ? mistakes[i].act : usual, w);
        explain_multiply(c, c->scratch, &w->w_down, mistakes[i].no_bias ? NULL : w->b_down, h);
        if (explain_by(c, c->scratch)) return explain_say(c, mistakes[i].what, explain_side(c));
    }
    if (c->here) return explain_arithmetic(c, "FFN");
    return explain_say(c, "FFN: its input is the reference's, its output is not: other weights or another activation");
}

static bool explain_ffn(Case *c) {
    if (!explain_of(c->ref, c->layer, STEP_FFN_NORM))
        return explain_say(c, "FFN: the reference lacks its input, ffn_norm");
    size_t hidden = (size_t)c->ref->n * (size_t)c->m->weights.layers[c->layer].ffn.w_up.rows * sizeof(float);
    float *gate = malloc(hidden), *up = malloc(hidden), *h = malloc(hidden);
    bool said = false;
    if (gate && up && h) said = explain_ffn_of(c, gate, up, h);
    else c->no_memory = true;
    free(gate);
    free(up);
    free(h);
    return said;
}

/* ---- Residual stream and logits ------------------------------------------------------------------ */

static bool explain_residual_of(Case *c, const float *before, const float *attn, const float *ffn, float *y) {
    const Layer *l = &c->m->weights.layers[c->layer];
    size_t n = explain_size(c, STEP_OUT);
    static const struct {
        float before, attn, ffn;
        const char *what;
    } sums[] = {
        {1, 1, 1, ""},
        {0, 1, 1, "residual: %s the layer's input is not added"},
        {1, 0, 1, "residual: %s attention's output is not added"},
        {1, 1, 0, "residual: %s the FFN's output is not added"},
        {0, 0, 1, "residual: %s the FFN's output replaces the residual stream"},
        {1, 1, 2, "residual: %s the FFN's output is added twice"},
        {1, 2, 1, "residual: %s attention's output is added twice"},
    };
    for (size_t s = 0; s < sizeof sums / sizeof *sums; s++) {
        for (size_t i = 0; i < n; i++) c->scratch[i] = sums[s].before * before[i];
        add_block(c, c->scratch, attn, l->attn_post_norm, sums[s].attn, y);
        add_block(c, c->scratch, ffn, l->ffn_post_norm, sums[s].ffn, y);
        if (s == 0) explain_judge(c, c->scratch);
        else if (explain_by(c, c->scratch)) return explain_say(c, sums[s].what, explain_side(c));
    }
    if (c->here) return explain_arithmetic(c, "residual");
    return explain_say(c, "residual: in the reference it is not the sum of its parts: another residual rule");
}

static bool explain_residual(Case *c) {
    const float *before = c->layer ? explain_of(c->ref, c->layer - 1, STEP_OUT) : explain_of(c->ref, 0, STEP_EMBED);
    const float *attn = explain_of(c->ref, c->layer, STEP_ATTN_OUT), *ffn = explain_of(c->ref, c->layer, STEP_FFN_OUT);
    if (!before || !attn || !ffn) return explain_say(c, "residual: the reference lacks a part of the sum");
    float *y = malloc(explain_size(c, STEP_OUT) * sizeof *y);
    bool said = y && explain_residual_of(c, before, attn, ffn, y);
    c->no_memory |= !y;
    free(y);
    return said;
}

/* The head's product x [n, vocab_size], scaled and capped where the model does so. */
static void head(Case *c, const Mat *w, const float *in) {
    const Config *k = &c->m->config;
    double scale = k->logit_scale > 0 ? (double)k->logit_scale : 1, cap = (double)k->logit_softcap;
    explain_multiply(c, c->scratch, w, c->m->weights.lm_head_bias, in);
    for (size_t i = 0; i < explain_size(c, STEP_LOGITS); i++) {
        double x = scale * (double)c->scratch[i];
        c->scratch[i] = (float)(cap > 0 ? cap * tanh(x / cap) : x);
    }
}

static bool explain_logits(Case *c) {
    const Weights *w = &c->m->weights;
    const float *in = explain_of(c->ref, 0, STEP_FINAL_NORM);
    if (!in)
        return explain_say(
            c, "logits: the reference holds nothing but logits; write it without --logits-only to find the cause");
    head(c, &w->lm_head, in);
    explain_judge(c, c->scratch);
    if (!c->m->config.tied) {
        head(c, &w->tok_emb, in);
        if (explain_by(c, c->scratch))
            return explain_say(c, "lm_head: %s the head is the token embedding (tied), this model has its own weights",
                               explain_side(c));
    }
    if (c->here) return explain_arithmetic(c, "logits");
    return explain_say(c, "lm_head: its input is the reference's, the logits are not: other weights");
}

void explain(Case *c) {
    switch (c->step) {
    case STEP_EMBED: explain_embed(c); break;
    case STEP_ATTN_NORM:
    case STEP_FFN_NORM:
    case STEP_FINAL_NORM: explain_norm(c); break;
    case STEP_Q:
    case STEP_K:
    case STEP_V: explain_projection(c); break;
    case STEP_Q_ROT:
    case STEP_K_ROT: explain_rotation(c); break;
    case STEP_ATTN_OUT: explain_attention(c); break;
    case STEP_ROUTER: explain_router(c); break;
    case STEP_ROUTER_WEIGHTS: explain_router_weights(c); break;
    case STEP_FFN_OUT: c->m->weights.layers[c->layer].moe.experts ? explain_experts(c) : explain_ffn(c); break;
    case STEP_OUT: explain_residual(c); break;
    case STEP_LOGITS: explain_logits(c); break;
    case STEP_COUNT: break;
    }
}

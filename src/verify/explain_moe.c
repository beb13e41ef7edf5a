/* explain, the mixture of experts: the router's scores, the weights it gives to the experts, their sum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verify/explain.h"

/* MoeFormula - the block in double precision, and its usual mistakes. */
typedef struct {
    int n_used;
    bool renormalize, sigmoid; /* the weights of the chosen experts add up to 1; each is a sigmoid of its score */
    bool no_shared, no_shared_gate, exchanged, unweighted;
    Activation *act;
} MoeFormula;

static const MoeWeights *weights_of(const Case *c) { return &c->m->weights.layers[c->layer].moe; }

static MoeFormula usual(const Case *c) {
    const MoeConfig *k = &c->m->config.moe;
    return (MoeFormula){
        .n_used = k->n_used, .renormalize = k->renormalize, .act = formula_activation(c->m->config.ffn)};
}

/* ---- Which experts, and how much of each --------------------------------------------------------- */

/* weights [n, n_experts] of scores [n, n_experts]. */
static void choose(const Case *c, float *weights, const float *scores, const MoeFormula *f) {
    int n_experts = c->m->config.moe.n_experts;
    for (int t = 0; t < c->ref->n; t++) {
        const float *s = &scores[(size_t)t * (size_t)n_experts];
        float *w = &weights[(size_t)t * (size_t)n_experts];
        double max = -HUGE_VAL, all = 0, chosen = 0;
        for (int e = 0; e < n_experts; e++) max = fmax(max, (double)s[e]);
        for (int e = 0; e < n_experts; e++) {
            int above = 0; /* experts before this one */
            for (int i = 0; i < n_experts; i++) above += s[i] > s[e] || (i < e && s[i] == s[e]);
            double x = f->sigmoid ? 1 / (1 + exp(-(double)s[e])) : exp((double)s[e] - max);
            all += x;
            if (above < f->n_used) chosen += x;
            w[e] = above < f->n_used ? (float)x : 0;
        }
        double by = f->renormalize ? chosen : f->sigmoid ? 1 : all;
        for (int e = 0; e < n_experts; e++) w[e] = (float)((double)w[e] / by);
    }
}

bool explain_router(Case *c) {
    const MoeWeights *w = weights_of(c);
    const float *in = explain_of(c->ref, c->layer, STEP_FFN_NORM);
    if (!in) return explain_say(c, "router: the reference lacks its input, ffn_norm");
    explain_multiply(c, c->scratch, &w->router, w->router_bias, in);
    explain_judge(c, c->scratch);
    explain_multiply(c, c->scratch, &w->router, NULL, in);
    if (w->router_bias && explain_by(c, c->scratch))
        return explain_say(c, "router: %s its bias is not added", explain_side(c));
    if (c->here) return explain_arithmetic(c, "router");
    return explain_say(c, "router: its input is the reference's, its scores are not: other weights");
}

bool explain_router_weights(Case *c) {
    const MoeConfig *k = &c->m->config.moe;
    const float *scores = explain_of(c->ref, c->layer, STEP_ROUTER);
    if (!scores) return explain_say(c, "experts: the reference lacks the router's scores");
    MoeFormula f = usual(c);
    choose(c, c->scratch, scores, &f);
    explain_judge(c, c->scratch);
    f.renormalize = !k->renormalize;
    choose(c, c->scratch, scores, &f);
    if (explain_by(c, c->scratch))
        return explain_say(c, "experts' renormalisation: %s the weights of the chosen experts %s", explain_side(c),
                           f.renormalize ? "add up to 1, this model's are shares of all experts'"
                                         : "are shares of all experts', this model's add up to 1");
    for (int i = 0; i < 2 * k->n_experts; i++) {
        f = usual(c);
        f.n_used = i / 2 + 1;
        f.renormalize = i % 2;
        choose(c, c->scratch, scores, &f);
        if (explain_by(c, c->scratch))
            return explain_say(c, "experts used: %s a token goes through %d of the %d experts, this model says %d",
                               explain_side(c), f.n_used, k->n_experts, k->n_used);
    }
    for (int renormalize = 0; renormalize < 2; renormalize++) {
        f = usual(c);
        f.sigmoid = true;
        f.renormalize = renormalize;
        choose(c, c->scratch, scores, &f);
        if (explain_by(c, c->scratch))
            return explain_say(c, "router: %s an expert's weight is the sigmoid of its score, this model's softmax",
                               explain_side(c));
    }
    if (c->here) return explain_arithmetic(c, "experts");
    return explain_say(c, "experts: the router's scores are the reference's, the weights are not: another rule");
}

/* ---- What they add -------------------------------------------------------------------------------- */

/* y [n, dim] += share [n] * the expert's output. gate, up: [n, its width]. */
static void add_expert(Case *c, float *y, const FfnWeights *w, const float *in, const float *share, const MoeFormula *f,
                       float *gate, float *up) {
    size_t dim = (size_t)c->m->config.dim, width = (size_t)w->w_up.rows, n = (size_t)c->ref->n;
    bool clamped = c->m->config.ffn == FFN_SWIGLU_OSS;
    explain_multiply(c, gate, &w->w_gate, w->b_gate, in);
    explain_multiply(c, up, &w->w_up, w->b_up, in);
    for (size_t i = 0; i < n * width; i++) {
        double g = (double)(f->exchanged ? up[i] : gate[i]), u = (double)(f->exchanged ? gate[i] : up[i]);
        if (clamped) g = fmin(g, (double)w->limit), u = 1 + fmax(fmin(u, (double)w->limit), -(double)w->limit);
        gate[i] = (float)(u * (clamped ? g / (1 + exp(-(double)w->alpha * g)) : f->act(g, w)));
    }
    float *out = malloc(n * dim * sizeof *out);
    c->no_memory |= !out;
    if (!out) return;
    explain_multiply(c, out, &w->w_down, w->b_down, gate);
    for (size_t i = 0; i < n * dim; i++) y[i] += (share ? share[i / dim] : 1) * out[i];
    free(out);
}

/* c->scratch = what the block adds. shares [n, n_experts]. */
static void mix(Case *c, const float *in, const float *shares, const MoeFormula *f, float *gate, float *up) {
    const MoeConfig *k = &c->m->config.moe;
    const MoeWeights *w = weights_of(c);
    size_t n = (size_t)c->ref->n;
    float *own = malloc(n * sizeof *own);
    c->no_memory |= !own;
    for (size_t i = 0; i < explain_size(c, STEP_FFN_OUT); i++) c->scratch[i] = 0;
    for (int e = 0; e < k->n_experts && own; e++) {
        for (size_t t = 0; t < n; t++) {
            float share = shares[t * (size_t)k->n_experts + (size_t)e];
            own[t] = f->unweighted && share != 0 ? 1 : share;
        }
        add_expert(c, c->scratch, &w->experts[e], in, own, f, gate, up);
    }
    if (own && k->shared_dim && !f->no_shared) {
        bool gated = w->shared_gate.data && !f->no_shared_gate;
        if (gated) explain_multiply(c, own, &w->shared_gate, NULL, in);
        for (size_t t = 0; t < n && gated; t++) own[t] = (float)(1 / (1 + exp(-(double)own[t])));
        add_expert(c, c->scratch, &w->shared, in, gated ? own : NULL, f, gate, up);
    }
    free(own);
}

static bool explain_experts_of(Case *c, const float *in, float *shares, float *gate, float *up) {
    const MoeWeights *w = weights_of(c);
    MoeFormula f = usual(c);
    const float *scores = explain_of(c->ref, c->layer, STEP_ROUTER);
    if (!scores) explain_multiply(c, up, &w->router, w->router_bias, in); /* it is as wide as n_experts too */
    choose(c, shares, scores ? scores : up, &f);
    mix(c, in, shares, &f, gate, up);
    explain_judge(c, c->scratch);
    const struct {
        MoeFormula f;
        bool wanted;
        const char *what;
    } mistakes[] = {
        {{.no_shared = true},
         c->m->config.moe.shared_dim,
         "experts: %s the one that every token goes through is left out"},
        {{.no_shared_gate = true}, w->shared_gate.data, "experts: %s the shared one is not multiplied by its gate"},
        {{.unweighted = true}, true, "experts: %s their outputs are added without the router's weights"},
        {{.exchanged = true}, true, "experts: %s w_gate and w_up are exchanged"},
        {{.act = formula_gelu_tanh}, true, "activation: %s it is GELU, not this model's"},
        {{.act = formula_silu}, c->m->config.ffn != FFN_SWIGLU, "activation: %s it is SiLU, not this model's"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        f = mistakes[i].f;
        if (!mistakes[i].wanted) continue;
        if (!f.act) f.act = formula_activation(c->m->config.ffn);
        mix(c, in, shares, &f, gate, up);
        if (explain_by(c, c->scratch)) return explain_say(c, mistakes[i].what, explain_side(c));
    }
    if (!scores) { /* the weights are not in the reference: by their effect */
        f = usual(c);
        explain_multiply(c, up, &w->router, w->router_bias, in);
        f.renormalize = !f.renormalize;
        choose(c, shares, up, &f);
        mix(c, in, shares, &f, gate, up);
        if (explain_by(c, c->scratch))
            return explain_say(c, "experts' renormalisation: %s the weights of the chosen experts %s", explain_side(c),
                               f.renormalize ? "add up to 1" : "do not add up to 1");
    }
    if (c->here) return explain_arithmetic(c, "experts");
    return explain_say(c, "experts: their input is the reference's, the output is not: other weights or activation");
}

bool explain_experts(Case *c) {
    const Config *k = &c->m->config;
    const float *in = explain_of(c->ref, c->layer, STEP_FFN_NORM);
    if (!in) return explain_say(c, "experts: the reference lacks their input, ffn_norm");
    size_t n = (size_t)c->ref->n, widest = (size_t)k->hidden_dim;
    if (widest < (size_t)k->moe.shared_dim) widest = (size_t)k->moe.shared_dim;
    if (widest < (size_t)k->moe.n_experts) widest = (size_t)k->moe.n_experts;
    float *shares = malloc(n * (size_t)k->moe.n_experts * sizeof *shares);
    float *gate = malloc(n * widest * sizeof *gate), *up = malloc(n * widest * sizeof *up);
    bool said = false;
    if (shares && gate && up) said = explain_experts_of(c, in, shares, gate, up);
    else c->no_memory = true;
    free(shares);
    free(gate);
    free(up);
    return said;
}

#include "gen/stages.h"

#include <math.h>
#include <stdlib.h>

#include "gen/chain.h"

/* The likeliest tokens and their probabilities, sorted; of equal ones the lowest id first. */
static int find_likeliest(Staged *out, int n, const float *logits, int n_vocab) {
    double sum = 0;
    float max = -INFINITY;
    int kept = 0;
    for (int i = 0; i < n_vocab; i++) max = fmaxf(max, logits[i]);
    for (int i = 0; i < n_vocab; i++) sum += exp((double)(logits[i] - max));
    for (int i = 0; i < n_vocab; i++) {
        float p = (float)(exp((double)(logits[i] - max)) / sum);
        if (kept == n && !(p > out[n - 1].p)) continue;
        int at = kept < n ? kept++ : n - 1;
        for (; at > 0 && p > out[at - 1].p; at--) out[at] = out[at - 1];
        out[at] = (Staged){.id = i, .p = p};
    }
    return kept;
}

/* Notes what is left of out[n] after the first samplers of the order, the last of which is called `stage`. */
static int run_first(Staged *out, int n, const Sampler *s, const SamplerParams *p, const float *logits, bool accepted,
                     const char *stage, Error *e) {
    Sampler part;
    double sum;
    if (sampler_init(&part, p, s->n_vocab, e)) return -1;
    part.rng = s->rng;
    for (int i = s->n_recent - 1; i >= (int)accepted; i--) sampler_accept(&part, sampler_recent(s, i));
    if (s->chain) chain_follow(part.chain, s->chain);
    int left = chain_filter(part.chain, &part, logits, &sum);
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < left && part.candidates[at].id != out[i].id) at++;
        out[i].left = at < left ? (float)((double)part.candidates[at].p / sum) : 0;
        if (at >= left && !out[i].stage) out[i].stage = stage;
    }
    sampler_close(&part);
    return 0;
}

int stages_find(Staged *out, int n, const Sampler *s, const float *logits, bool accepted, Error *e) {
    SamplerParams p = s->params;
    int n_order = p.n_order ? p.n_order : p.mirostat ? SAMPLER_TOP_K : SAMPLER_COUNT;
    for (int i = 0; i < n_order && p.n_order == 0; i++) p.order[i] = (SamplerStage)i;
    n = find_likeliest(out, n, logits, s->n_vocab);
    p.mirostat = 0;
    for (p.n_order = 1; p.n_order <= n_order; p.n_order++)
        if (run_first(out, n, s, &p, logits, accepted, sampler_stage_names[p.order[p.n_order - 1]], e)) return -1;
    p.n_order = n_order;
    p.mirostat = s->params.mirostat;
    if (p.mirostat && run_first(out, n, s, &p, logits, accepted, "mirostat", e)) return -1;
    return n;
}

/* sampler - logits to one token. Knows no model. */
#pragma once
#include <stdint.h>

#include "base/error.h"

typedef struct {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: off */
    float top_p, min_p;   /* 1 and 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last;      /* tokens that the penalty looks back on; 0: off */
    uint64_t seed;
} SamplerParams;

typedef struct {
    float p; /* weight: exp((logit - max) / temperature) */
    int id;
} Candidate;

typedef struct {
    SamplerParams params;
    uint64_t rng; /* splitmix64 */
    int n_vocab;
    int *recent; /* [repeat_last] ring of accepted tokens */
    int n_recent, next_recent;
    Candidate *candidates; /* [n_vocab] */
    float *weights;        /* [n_vocab] */
    float *block_max;      /* largest of each 256 weights */
} Sampler;

/* sampler_init - refuses parameters that mean nothing (NaN, negative, top_p above 1). */
int sampler_init(Sampler *s, const SamplerParams *p, int n_vocab, Error *e);
void sampler_close(Sampler *s);

/* sampler_next - the next token's id. logits [n_vocab] are changed. -1 when a logit is NaN or +infinity, or
 * none is finite. Filters apply in Hugging Face's order: penalty, temperature, top-k, top-p, min-p.
 * Ties go to the lowest id. Sources: CTRL, arXiv:1909.05858 (penalty); Holtzman et al.,
 * arXiv:1904.09751 (top-p); Nguyen et al., arXiv:2407.01082 (min-p). */
int sampler_next(Sampler *s, float *logits);

/* sampler_filter - the candidates that are left after every filter, and the sum of their weights: p / sum is
 * the probability that sampler_next draws by. Returns their number, -1 as above. */
int sampler_filter(Sampler *s, float *logits, double *sum);

/* sampler_draw - the candidate that u in [0, 1) falls on, of the n that sampler_filter left. */
int sampler_draw(const Sampler *s, int n, double sum, double u);

/* sampler_accept - tells the repetition penalty that id is part of the text (prompt tokens too). */
void sampler_accept(Sampler *s, int id);

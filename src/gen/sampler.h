/* sampler - logits to one token. Knows no model. */
#pragma once
#include <stdint.h>

#include "base/error.h"

typedef struct {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: off */
    float top_p, min_p;   /* 1 and 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last;      /* tokens that the penalty looks back on */
    uint64_t seed;
} SamplerParams;

typedef struct {
    SamplerParams params;
    uint64_t rng[2];
    int n_vocab;
    int *recent, n_recent, recent_at; /* [repeat_last] ring of accepted tokens */
    void *candidates;                 /* [n_vocab] scratch */
} Sampler;

int sampler_init(Sampler *s, const SamplerParams *p, int n_vocab, Error *e);
void sampler_close(Sampler *s);

/* sampler_next - the next token's id. logits [n_vocab] are changed. -1 when a logit is NaN or none is
 * finite. The order of filters is Hugging Face's: penalty, temperature, top-k, top-p, min-p.
 * Ties go to the lowest id. */
int sampler_next(Sampler *s, float *logits);

/* sampler_accept - tells the repetition penalty that id is part of the text (prompt tokens too). */
void sampler_accept(Sampler *s, int id);

/* sampler - logits to one token. Knows no model. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The samplers that sampler_filter runs one after the other, in this order unless SamplerParams says another. */
typedef enum {
    SAMPLER_PENALTIES, /* repeat, frequency, presence */
    SAMPLER_DRY,
    SAMPLER_TEMPERATURE,
    SAMPLER_TOP_K,
    SAMPLER_TOP_P,
    SAMPLER_MIN_P,
    SAMPLER_TYPICAL,
    SAMPLER_XTC,
    SAMPLER_COUNT
} SamplerStage;

/* A constant added to a token's logit; -INFINITY bans it. */
typedef struct {
    int id;
    float bias;
} LogitBias;

/* A breaker of several tokens: head, then tail [n]. */
enum { DRY_TAIL = 20 };
typedef struct {
    int head, n;
    int tail[DRY_TAIL];
} DryBreaker;

/* Fields that are 0 are off. */
typedef struct {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: off */
    float top_p, min_p;   /* 1 and 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last;      /* tokens that the penalty looks back on; 0: off */
    uint64_t seed;
    /* Those of chain.c, each as llama.cpp's of the same name: */
    float typical;                           /* locally typical sampling; 1: off too */
    float dynatemp_range, dynatemp_exponent; /* temperature +- range, by the entropy to this power */
    float xtc_probability, xtc_threshold;    /* exclude top choices */
    float frequency_penalty, presence_penalty;
    float dry_multiplier, dry_base;   /* "don't repeat yourself" */
    int dry_allowed_length, dry_last; /* dry_last: tokens looked back on */
    const bool *dry_breakers;         /* [n_vocab] tokens that no repetition goes across; NULL: none */
    const DryBreaker *dry_sequences;  /* [n_dry_sequences] and sequences of tokens, sorted by head */
    int n_dry_sequences;
    int mirostat; /* 2: version 2, in place of every filter */
    float mirostat_tau, mirostat_eta;
    const LogitBias *bias; /* [n_bias] */
    int n_bias;
    SamplerStage order[SAMPLER_COUNT]; /* [n_order] */
    int n_order;                       /* 0: the usual order, all of them */
} SamplerParams;

typedef struct {
    float p; /* weight: exp((logit - max) / temperature) */
    int id;
} Candidate;

typedef struct {
    SamplerParams params;
    uint64_t rng; /* splitmix64 */
    int n_vocab;
    int *recent; /* [window] ring of accepted tokens, as many as a penalty looks back on */
    int window, n_recent, next_recent;
    struct Chain *chain;   /* when more is wanted than temperature, top-k, top-p, min-p and the repeat penalty */
    Candidate *candidates; /* [n_vocab] */
    float *weights;        /* [n_vocab] */
    float *block_max;      /* largest of each 256 weights */
} Sampler;

/* sampler_init - refuses parameters that mean nothing (NaN, negative, top_p above 1). */
int sampler_init(Sampler *s, const SamplerParams *p, int n_vocab, Error *e);
void sampler_close(Sampler *s);

/* sampler_next - the next token's id. logits [n_vocab] are changed. -1 when a logit is NaN or +infinity, or
 * none is finite. Filters apply in Hugging Face's order: penalties, temperature, top-k, top-p, min-p, typical.
 * Ties go to the lowest id. Sources: CTRL, arXiv:1909.05858 (penalty); Holtzman et al.,
 * arXiv:1904.09751 (top-p); Nguyen et al., arXiv:2407.01082 (min-p). */
int sampler_next(Sampler *s, float *logits);

/* sampler_filter - the candidates that are left after every filter, and the sum of their weights: p / sum is
 * the probability that sampler_next draws by. Returns their number, -1 as above. */
int sampler_filter(Sampler *s, float *logits, double *sum);

/* sampler_largest - only so many of the largest logits decide what sampler_filter leaves; 0: all do. */
int sampler_largest(const Sampler *s);

/* sampler_pick - draws one of the n candidates that sampler_filter left. sampler_next is both. */
int sampler_pick(Sampler *s, int n, double sum);

/* Proposal - a token that another distribution q has proposed: id was drawn from candidates q [n], whose weights have
 * that sum. q NULL: id was certain. */
typedef struct {
    int id;
    const Candidate *q;
    int n;
    double sum;
} Proposal;

/* sampler_next_proposed - as sampler_next, whose distribution p it keeps: the proposal with probability min(1, p / q),
 * else a token drawn from max(0, p - q), renormalized. Where the proposal is certain, that is a token drawn from p:
 * with probability p it is the proposal. Source: Leviathan et al., arXiv:2211.17192, algorithm 1 and appendix A.1. */
int sampler_next_proposed(Sampler *s, float *logits, const Proposal *proposal);

/* sampler_follow - takes over what another one looks back on: the text, and what Mirostat has learned. */
void sampler_follow(Sampler *s, const Sampler *other);

/* logits_log_sum - the logarithm of the sum of e^logits[n]: what a logit has more than it is a log probability. */
double logits_log_sum(const float *logits, int n);

/* sampler_draw - the candidate that u in [0, 1) falls on, of the n that sampler_filter left. */
int sampler_draw(const Sampler *s, int n, double sum, double u);

/* sampler_accept - tells the repetition penalty that id is part of the text (prompt tokens too). */
void sampler_accept(Sampler *s, int id);

/* sampler_recent - the token accepted `back` tokens ago (0: the last); back < n_recent. */
int sampler_recent(const Sampler *s, int back);

/* sampler_uniform - the next draw of the seed, in [0, 1). */
double sampler_uniform(Sampler *s);

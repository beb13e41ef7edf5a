/* chain - the samplers beyond those that sampler.c has a fast way for, and any order of them. Each takes and leaves
 * tokens sorted by their logits. Test: tests/test_sampler.c */
#pragma once
#include <stddef.h>

#include "gen/sampler.h"

typedef struct Chain Chain;

/* chain_check - refuses parameters that mean nothing. chain_wanted - is there anything that sampler.c alone cannot? */
int chain_check(const SamplerParams *p, int n_vocab, Error *e);
bool chain_wanted(const SamplerParams *p);

/* chain_new - NULL when out of memory. */
Chain *chain_new(const SamplerParams *p, int n_vocab);
void chain_free(Chain *c);

/* chain_filter - as sampler_filter, which calls it: fills s->candidates. */
int chain_filter(Chain *c, Sampler *s, const float *logits, double *sum);

/* chain_drawn - the token that was drawn of the n left: Mirostat learns from it. */
void chain_drawn(Chain *c, const Sampler *s, int n, double sum, int id);

/* chain_follow - takes over what Mirostat has learned in another. */
void chain_follow(Chain *c, const Chain *other);

/* sampler_stage_named - by its name in --samplers; -1: none. */
int sampler_stage_named(const char *name, size_t n);
extern const char *const sampler_stage_names[SAMPLER_COUNT];

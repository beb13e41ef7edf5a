/* breakers - the tokens that a text of --dry-sequence-breaker consists of: whole in one token, or begun by one and
 * completed by those after it. Source: llama.cpp's get_overlapping_token_sequences. Test: tests/test_breakers.c */
#pragma once
#include "gen/sampler.h"
#include "tokenizer.h"

typedef struct {
    bool *single;     /* [n_vocab] the token's text has a breaker in it */
    DryBreaker *list; /* [n] those of several tokens, sorted by their first */
    int n;
} Breakers;

/* breakers_find - for texts [n_texts]; tokens from tokenizer_vocab_size to n_vocab have no text. */
int breakers_find(Breakers *b, const Tokenizer *t, int n_vocab, const char *const *texts, int n_texts, Error *e);
void breakers_close(Breakers *b);

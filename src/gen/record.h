/* record - what a generation was, as JSON: --json in generate, one object in the end; --json=lines, one a token as it
 * comes before that. Test: tests/test_cli.sh */
#pragma once
#include "gen/generate.h"

enum { MAX_LOGPROBS = 100 };

/* A token and the logarithm of its probability by the model alone, before any sampler. */
typedef struct {
    int id;
    float logprob;
} TokenLogprob;

typedef struct {
    const Options *o;
    FILE *out;      /* where the objects go */
    const char *id; /* JSON, the first key; NULL: none */
    FILE *text;     /* what the Stream writes to, in memory */
    char *bytes;    /* [n_bytes] behind text */
    size_t n_bytes;
    size_t n_said;        /* bytes that lines have told of */
    TokenLogprob *chosen; /* [n] the tokens of the text */
    TokenLogprob *likely; /* [n, o->logprobs] the likeliest at each step, the first the likeliest */
    int n, room;
} Record;

/* record_open - for one text to out. */
int record_open(Record *r, const Options *o, FILE *out, Error *e);
void record_close(Record *r);

/* record_token - the Generator's `each`: notes the token it has just put into the stream. */
int record_token(void *record, const Generator *g, int id, const float *logits, Error *e);

/* record_print - the object: prompt, text, tokens, why it ended, seed, what was computed in what time. ids [n] stand
 * for a prompt without a text of its own (NULL). */
int record_print(Record *r, const Generator *g, const char *prompt, size_t n_prompt, const int *ids, int n, Error *e);

/* generate - the loop every text comes out of: prefill the prompt, then sample, write, forward, again. */
#pragma once
#include "gen/options.h"
#include "gen/sampler.h"
#include "gen/breakers.h"
#include "gen/draft.h"
#include "gen/session.h"
#include "gen/stream.h"

/* Generator - each: told of every token of the text, once its bytes are in the stream; logits are those it was chosen
 * from, NULL unless want_logits. NULL: nobody is told. */
typedef struct Generator Generator;
struct Generator {
    const Options *o;
    Session *session; /* with State and Tokenizer; borrowed */
    Sampler sampler;
    Breakers breakers; /* across which DRY finds no repetition */
    bool say_seed;     /* a fresh seed is to be said once, when the text begins */
    int *cached;       /* [n_ctx] the tokens whose keys and values are in the cache */
    int n_cached;
    int stop[MAX_STOPS], n_stop; /* control tokens that are a --stop text: no text of theirs would end the answer */
    int prev;                    /* for tokenizer_decode: the last token that is no control token; -1: none */
    int next;                    /* the token sampled last; -1: none */
    float *ahead;            /* [vocab_size] the logits after next, whose row is in the cache already; NULL: not yet */
    bool accepted;           /* next is part of the text that the sampler looks back on */
    Drafts drafts;           /* --lookup, --draft */
    const char *reason;      /* why the last text ended: eos, steps, stop-text, context, interrupt */
    int n_prefill, n_decode; /* tokens of the last text */
    double prefill_seconds, decode_seconds;
    int (*each)(void *arg, const Generator *g, int id, const float *logits, Error *e);
    void *each_arg;
    float *logits; /* [vocab_size] a copy from before the sampler, for each; NULL: not wanted */
    /* make_room - called when the context is full in the middle of a text: 1 when there is room again
     * (generator_rewrite), 0 when the text ends here, -1 on failure. NULL: it ends. */
    int (*make_room)(Generator *g, void *arg, Error *e);
    void *room_arg;
};

/* generator_init - seeds the sampler. A fresh seed is said on o->log when the text begins. */
int generator_init(Generator *g, const Options *o, Session *session, Error *e);

/* generator_tell - each is told of every token from now on; want_logits: with what it was chosen from. */
int generator_tell(Generator *g, int (*each)(void *arg, const Generator *g, int id, const float *logits, Error *e),
                   void *arg, bool want_logits, Error *e);
void generator_close(Generator *g);

/* generator_prompt - brings the cache to ids[n] and samples the first new token. That token is forwarded too, so that a
 * model whose numbers do not survive it fails before anything is printed. What the cache already holds
 * of ids is kept, so that a chat reads only what is new. Progress is shown on o->log.
 * Fails when n exceeds the context. Ctrl-C leaves `next` at -1. */
int generator_prompt(Generator *g, const int *ids, int n, Error *e);

/* generator_say_seed - prints a fresh seed once, on a line of its own: call it before the prompt is echoed. */
void generator_say_seed(Generator *g);

/* generator_sample - the next token from logits [vocab_size], which it changes. generator_put - writes it to the
 * stream: 1 when the text goes on, 0 when it ends there (g->reason says why). What generator_text does for one text
 * after another, gen/batch.c for several at once. */
int generator_sample(Generator *g, float *logits, Error *e);
int generator_put(Generator *g, Stream *stream, Error *e);

/* generator_text - writes tokens to the stream until one of the reasons, which it leaves in g->reason. */
int generator_text(Generator *g, Stream *stream, Error *e);

/* Tokens a second of the last text. */
double generator_prefill_rate(const Generator *g);
double generator_decode_rate(const Generator *g);

/* generator_report - "prefill: N tokens, X tok/s; decode: N tokens, X tok/s". */
void generator_report(const Generator *g);

/* generator_reuse - after tokens were dropped from the middle of a text: moves what the cache holds of ids[n] further
 * back to where ids has it, its keys rotated again (gen/shift.h), where the model allows it. The cache is then a
 * beginning of ids. generator_rewrite - the same, and reads what is left of ids anew; n < n_ctx. Nothing is sampled. */
void generator_reuse(Generator *g, const int *ids, int n);
int generator_rewrite(Generator *g, const int *ids, int n, Error *e);

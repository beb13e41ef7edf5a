/* draft - speculative decoding: how the text may go on is guessed, and one pass over the sampled token and the guessed
 * ones gives the logits after each of them. A guessed token that the sampler chooses too costs no pass of its own; from
 * the first that it does not choose on, the rows of the pass are forgotten. The text is the one that single tokens
 * give: greedy the same, sampled of the same distribution. Source: Leviathan et al., arXiv:2211.17192. Test:
 * tests/test_draft.c, tests/test_draft.sh */
#pragma once
#include "gen/session.h"

enum {
    DRAFT_MOST = 64,      /* tokens that one pass checks at most, as of --lookup */
    DRAFT_MODEL_MOST = 8, /* of --draft */
    DRAFT_CLASSES = 9     /* of a guess by how sure it is; 0: there is none */
};

/* Drafter - who guesses. */
typedef struct Drafter Drafter;
struct Drafter {
    /* read - the prompt, before its first guess; NULL: need not. */
    void (*read)(Drafter *d, const int *text, int n);
    /* sure - is there a guess at what follows text[n], and of which class? One class is as likely to be right as it was
     * before. A guess that is i tokens further on is of a class higher by i. */
    int (*sure)(Drafter *d, const int *text, int n);
    /* guess - after sure() of the same text: fills out[most]; returns how many. s: the sampler that will check them. */
    int (*guess)(Drafter *d, const int *text, int n, const Sampler *s, Proposal *out, int most);
    void (*close)(Drafter *d);
    int least;   /* tokens to guess, even where that does not seem to pay */
    double cost; /* of a guessed token, in passes of the model */
};

/* draft_lookup_open - prompt lookup: what followed the last time when the text ended alike. NULL: no memory. */
Drafter *draft_lookup_open(Error *e);

/* draft_model_open - the model of --draft, which has the vocabulary of the session's. params: of the sampler that its
 * guesses are for. NULL on failure. */
Drafter *draft_model_open(const Options *o, const Session *session, const SamplerParams *params, Error *e);

/* Score - how often the guesses of a class were right, the recent ones counting more. */
typedef struct {
    double right, checked;
} Score;

typedef struct {
    Drafter *drafter; /* NULL: each pass is of one token */
    int most;
    Proposal guess[DRAFT_MOST]; /* [n] those of the last pass */
    int n;
    int row;            /* of the last pass, the logits after the token sampled last; -1: that token is not in it */
    int sure;           /* class of guess[0] */
    bool only_compared; /* guess[0] is not in the pass, but whether it is right tells something too */
    Score score[DRAFT_CLASSES];
    int n_passes, n_drafted, n_accepted; /* of the last text */
} Drafts;

/* drafts_open - as --lookup and --draft say. */
int drafts_open(Drafts *d, const Options *o, const Session *session, const SamplerParams *params, Error *e);
void drafts_close(Drafts *d);

/* drafts_rows - logits that one pass has to have room for. */
int drafts_rows(const Options *o);

/* drafts_begin - a new text that begins with ids[n]. drafts_forget - what is behind the sampled token in the cache is
 * no longer there. */
void drafts_begin(Drafts *d, const int *ids, int n);
void drafts_forget(Drafts *d);

/* drafts_report - "drafts: N tokens, N accepted (X%); X tokens a pass"; nothing where none are drafted. */
void drafts_report(const Drafts *d, FILE *log);
double drafts_tokens_a_pass(const Drafts *d);

/* drafts_forward - the logits [vocab_size] after text[n - 1], which was sampled last; the cache holds the tokens before
 * it. Guesses at most `most` tokens; n + most <= n_ctx. */
float *drafts_forward(Drafts *d, Session *session, const Sampler *s, const int *text, int n, int most);

/* drafts_sample - the next token from these logits; -1 as sampler_next. */
int drafts_sample(Drafts *d, Sampler *s, float *logits);

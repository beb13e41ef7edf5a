/* session - what most modes begin with: checkpoint, tokenizer, model and one State, checked against each
 * other and against the memory there is. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "gen/options.h"
#include "verify/tripwire.h"
#include "model.h"
#include "shard.h"
#include "tokenizer.h"

typedef struct {
    Checkpoint checkpoint;
    Model model;
    Shard shard;          /* this rank's copies, where several ranks run the model */
    Tokenizer *tokenizer; /* NULL when the mode needs none */
    State state;
    Tripwire tripwire;  /* --check: watches the state; the Session must not move then */
    int eos[32], n_eos; /* end tokens of the checkpoint and of the tokenizer */
} Session;

enum { SESSION_TOKENIZER = 1, SESSION_STATE = 2 };

/* session_open - opens what `parts` asks for. */
int session_open(Session *s, const Options *o, int parts, Error *e);
void session_close(Session *s);

/* session_add_eos - more tokens that end a text. */
void session_add_eos(Session *s, const int *ids, int n);

/* session_tokenizer - the tokenizer of -z, of the checkpoint (which must outlive it), or beside it. NULL on failure. */
Tokenizer *session_tokenizer(const Options *o, const Checkpoint *ck, Error *e);

/* session_note - says on o->log what the user should know of the vocabulary. */
void session_note(const Tokenizer *t, const Options *o);

/* session_state - opens the State for a context of n_ctx tokens (0: the default, capped at the model's, 4096
 * and what memory allows, which is said on o->log). */
int session_state(Session *s, const Options *o, int n_ctx, Error *e);

/* session_ctx - the context that -c asks for, in tokens; 0: it was not given. */
int session_ctx(const Options *o, const Config *c);

/* session_prompt - the ids of --tokens, or of the prompt text (with BOS where the model has it); no prompt: BOS
 * alone. *ids is malloc'ed; so is *text, the prompt's bytes (NULL after --tokens). */
int session_prompt(const Session *s, const Options *o, int **ids, int *n, char **text, size_t *size, Error *e);

/* options_text - the prompt's bytes from -i or -f; *text is malloc'ed. No prompt: "" */
int options_text(const Options *o, char **text, size_t *size, Error *e);

/* rope_override - puts the --rope-* flags over what the checkpoint says, and checks the result. */
int rope_override(Config *config, const Options *o, const char *what, Error *e);

/* tokens_check - every id in [0, vocab_size). */
int tokens_check(const int *ids, int n, int vocab_size, Error *e);

/* session_check - may the logits of the last forward pass be believed? Fails when a key or a value was too large for
 * the type of the KV cache, or when --check saw a NaN or an infinity. */
int session_check(const Session *s, Error *e);

/* session_check_cache - the first of the two, of one text's cache. */
int session_check_cache(const Session *s, const KvCache *cache, Error *e);

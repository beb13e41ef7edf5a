/* options - the command line as a struct. One table drives parsing and --help. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "checkpoint/mistake.h"
#include "gen/sampler.h"
#include "model.h"

enum { MAX_STOPS = 16, MAX_BIAS = 256 };

/* Switch - a flag with a default that depends on the mode. */
typedef enum { SWITCH_DEFAULT, SWITCH_OFF, SWITCH_ON } Switch;

typedef struct {
    const char *checkpoint; /* NULL: left out */
    char *found;            /* the path behind a name of -m models; owned */
    const char *mode;
    const char *prompt, *prompt_file, *system, *chat_template, *tokenizer, *output, *reference, *type;
    const char *tokens_text;
    int *tokens, n_tokens; /* --tokens, owned; tokens is NULL when the flag was not given */
    int steps;             /* -n; -1: not given */
    int threads;           /* 0: not given */
    int ctx;               /* -1: not given; 0: the model's */
    int batch;             /* rows of one prefill step */
    SamplerParams sampler; /* its bias and dry_breakers are NULL: see below */
    LogitBias bias[MAX_BIAS];
    const char *breaker[MAX_STOPS];
    int n_bias, n_breaker; /* n_breaker -1: the usual ones */
    bool seed_given, temperature_given, top_p_given, top_k_given;
    const char *stop[MAX_STOPS];
    int n_stop;
    KvType kv_type;
    bool kv_type_given;
    /* RoPE overrides */
    double rope_theta, rope_factor; /* 0: not given */
    int rope_scaling;               /* RopeScaling, -1: not given */
    int rope_pairing;               /* RopePairing, -1: not given */
    int rope_original_ctx;          /* 0: not given */
    /* modes */
    bool json, json_lines, escape;
    int logprobs;        /* 0: none */
    const char *session; /* the file of a conversation's keys and values */
    size_t prompt_bytes; /* of prompt, which may hold a NUL; 0: it ends at its NUL */
    int keep;   /* tokens that stay when the context is full; -1: generate ends there, chat keeps the system prompt */
    int lookup; /* tokens drafted at most; 0: none */
    const char *draft; /* the checkpoint that drafts; NULL: none */
    char *found_draft; /* as found; owned */
    const char *receipt, *replay_file;
    struct Receipt *replay; /* what replay_file says; owned */
    const char **given;     /* [n_given] the arguments but checkpoint, receipt and replay; owned */
    int n_given;
    const char *program_version;
    Switch precise;
    bool csv, svg, all, no_echo, raw, quiet, color, check, deterministic, special, no_special, no_bos;
    const char *protocol; /* hf, llamacpp */
    int stride;           /* perplexity hf: 0: half the window */
    int score_from;       /* perplexity hf: first position of a window that is scored; 0: all that are new */
    int bench_prefill, bench_depth, bench_runs;
    const char *compare;                            /* bench: an earlier measurement; NULL: none */
    int parallel;                                   /* batch: prompts at once; 0: not given, and 1 in all other modes */
    int head_dim, rotary_dim, seq_len, pos, pos_k;  /* rope mode; -1 or 0: not given */
    int layer, head, pair;                          /* trace mode */
    const char *x, *q, *k, *rope_short, *rope_long; /* rope mode: lists of numbers */
    int kv_heads;                                   /* convert: 0: as they are */
    Mistake mistake;                                /* --break */
    bool decode;                                    /* perplexity: the scored tokens one at a time */
    bool help, version;
    int argc;
    char **argv; /* as given */
    Comm *comm;  /* the ranks that run the model together; NULL: this one alone */
    FILE *log;   /* standard error, for statistics, progress and warnings; never NULL */
} Options;

/* options_parse - fills o from argv. Returns 0, or -1 with a usage error in e. */
int options_parse(Options *o, int argc, char **argv, Error *e);
void options_close(Options *o);

/* options_set - one setting of a single text, by the name of its flag with - or _ (max_tokens: steps); those of
 * sampling, steps, stop and logprobs. text may have to outlive o. Fails as the flag does. */
int options_set(Options *o, const char *name, const char *text, Error *e);

/* A mode: what -m NAME runs. Returns the exit code; on 1 and 2 e holds the line to print. */
typedef struct {
    char letter; /* by which the table of flags names it */
    const char *name, *help;
    int (*run)(const Options *o, FILE *out, Error *e);
} Mode;

extern const Mode modes[]; /* ends with a NULL name; src/modes/modes.c */
const Mode *mode_find(const char *name);

/* options_help - every flag, its meaning and its default; program: what it is called by; only: those of one mode, NULL:
 * all. */
void options_help(FILE *out, const char *program, const Mode *only);

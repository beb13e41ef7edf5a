/* modes - one function for each value of -m; see Mode in options.h. */
#pragma once
#include <signal.h>

#include "checkpoint/convert.h"
#include "gen/options.h"

int mode_generate(const Options *o, FILE *out, Error *e);
int mode_chat(const Options *o, FILE *out, Error *e);
int mode_tokenize(const Options *o, FILE *out, Error *e);
int mode_logits(const Options *o, FILE *out, Error *e);
int mode_perplexity(const Options *o, FILE *out, Error *e);
int mode_bench(const Options *o, FILE *out, Error *e);
int mode_info(const Options *o, FILE *out, Error *e);
int mode_rope(const Options *o, FILE *out, Error *e);
int mode_verify(const Options *o, FILE *out, Error *e);
int mode_probe(const Options *o, FILE *out, Error *e);
int mode_convert(const Options *o, FILE *out, Error *e);

/* What run.c's signal handlers share with the modes: the only globals that change.
 *   interrupted  set by Ctrl-C. A mode that runs long looks at it and returns 130
 *   unfinished   the temporary name of what convert is writing, "" otherwise: removed when a signal ends the program */
extern volatile sig_atomic_t interrupted;
extern char unfinished[CONVERT_NAME];

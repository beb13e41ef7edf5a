/* modes - one function for each value of -m; see Mode in options.h. */
#pragma once
#include "gen/options.h"
#include "gen/signals.h"

/* version_print - version and commit, kernels, libraries. */
void version_print(FILE *out, const char *program);
extern const char program_version[];

int mode_models(const Options *o, FILE *out, Error *e);
int mode_generate(const Options *o, FILE *out, Error *e);
int mode_chat(const Options *o, FILE *out, Error *e);
int mode_tokenize(const Options *o, FILE *out, Error *e);
int mode_logits(const Options *o, FILE *out, Error *e);
int mode_perplexity(const Options *o, FILE *out, Error *e);
int mode_batch(const Options *o, FILE *out, Error *e);
int mode_bench(const Options *o, FILE *out, Error *e);
int mode_info(const Options *o, FILE *out, Error *e);
int mode_rope(const Options *o, FILE *out, Error *e);
int mode_kv(const Options *o, FILE *out, Error *e);
int mode_verify(const Options *o, FILE *out, Error *e);
int mode_trace(const Options *o, FILE *out, Error *e);
int mode_probe(const Options *o, FILE *out, Error *e);
int mode_convert(const Options *o, FILE *out, Error *e);

/* tiktoken - vocabularies of byte strings and their ranks: OpenAI's .tiktoken text files and Mistral's tekken.json. Two
 * neighbours merge when their joined bytes are a token; the one of the lowest rank first.
 * Source: openai/tiktoken, src/lib.rs; mistral-common, tokens/tokenizers/tekken.py. Test: tests/test_tiktoken.c. */
#pragma once
#include "io/file.h"

struct cJSON;

struct Tokenizer;

/* is_tiktoken - is the first line of the file a token in base64 and its rank? is_tekken - is the object a tekken.json?
 */
bool is_tiktoken(const File *file);
bool is_tekken(const struct cJSON *root);

/* read_tiktoken - what is not in such a file, its expression and its special tokens, is known by the number of ranks;
 * added (added_tokens_decoder of a tokenizer_config.json, or NULL) names special tokens beyond. */
int read_tiktoken(struct Tokenizer *t, const File *file, const struct cJSON *added, Error *e);

/* read_tekken - special tokens come first, then the ranks, as many as default_vocab_size leaves room for. */
int read_tekken(struct Tokenizer *t, const struct cJSON *root, const char *file, Error *e);

/* end_tokens - pieces of a GGUF vocabulary that end a text whatever the file calls them, known by their texts. */
#pragma once
#include "tokenizer/vocab.h"

struct Tokenizer;

/* known_pieces - called with kinds and texts filled, before vocab_finish: gives known control tokens that kind, and
 * notes the end tokens in t. Source: llama.cpp, src/llama-vocab.cpp, special_eog_ids. Test: tests/test_tokenizer.c. */
void known_pieces(struct Tokenizer *t);

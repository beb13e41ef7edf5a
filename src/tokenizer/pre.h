/* pre - what a GGUF's tokenizer.ggml.pre stands for: one row for each name that llama.cpp knows. */
#pragma once
#include <stddef.h>

enum { PRE_EXPRESSIONS = 8 };

/* What a pre-tokenizer says besides where the text is cut. */
enum {
    PRE_WHOLE_WORDS = 1, /* a word that is a token is that token, whatever the merges say */
    PRE_BOS = 2,         /* BOS first, unless add_bos_token says otherwise */
    PRE_NO_BOS_ID = 4,   /* without bos_token_id there is no BOS */
    PRE_NFC = 8,         /* the text is composed first, as in the tokenizer.json of these models */
    PRE_METASPACE = 16,  /* pieces are UTF-8 with U+2581 for a space and <0xNN> for bytes, not GPT-2's alphabet */
    PRE_NO_MERGES = 32,  /* a file without merges is taken */
};

typedef struct {
    const char *name;
    const char *const *expressions; /* [PRE_EXPRESSIONS], ends with NULL; each cuts what the one before left */
    unsigned flags;
} Pre;

/* pre_find - the row of a name; NULL: llama.cpp does not know it either.
 * Source: llama.cpp, src/llama-vocab.cpp; the expressions in the form that the models' own tokenizer.json has.
 * Test: tests/test_tokenizer.c, scripts/check_llama_cpp_vocabularies.py. */
const Pre *pre_find(const char *name, size_t n);

/* pre_at - row i, NULL behind the last. */
const Pre *pre_at(int i);

/* charsmap - sentencepiece's table of what becomes of characters (precompiled_charsmap), as tokenizer.json carries it.
 */
#pragma once
#include "tokenizer/bytes.h"

typedef struct {
    unsigned char *blob; /* owned: size of the trie, the trie, the texts that it points at */
    const unsigned char *trie;
    const char *texts; /* [n_texts] each ends with a NUL */
    size_t n_units, n_texts;
} Charsmap;

/* charsmap_init - from base64. `what` is the part's name in messages. */
int charsmap_init(Charsmap *m, const char *base64, size_t n, const char *what, Error *e);
/* charsmap_from_bytes - from the bytes themselves, which are copied. */
int charsmap_from_bytes(Charsmap *m, const void *bytes, size_t n, const char *what, Error *e);
void charsmap_close(Charsmap *m);

/* charsmap_apply - text, valid UTF-8, with each grapheme or character that the table has replaced; appended to out.
 * Source: Hugging Face tokenizers, normalizers/precompiled.rs; crate spm_precompiled. */
int charsmap_apply(const Charsmap *m, const char *text, size_t n, Bytes *out, Error *e);

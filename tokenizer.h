/* tokenizer - text to token ids and back, by the rules of the model's own vocabulary file. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "io/gguf.h"

typedef struct Tokenizer Tokenizer;

/* tokenizer_open - path is a sentencepiece .model, a llama2.c tokenizer.bin, a tokenizer.json, a .gguf,
 * or a directory that holds tokenizer.json or tokenizer.model. NULL on failure. */
Tokenizer *tokenizer_open(const char *path, Error *e);
/* tokenizer_from_gguf - g must outlive the tokenizer. NULL on failure, or when the file has no
 * vocabulary ("FILE: tokenizer.ggml.model: expected a vocabulary, found none"). */
Tokenizer *tokenizer_from_gguf(const Gguf *g, Error *e);
void tokenizer_close(Tokenizer *t);

int tokenizer_vocab_size(const Tokenizer *t);
/* tokenizer_limit - the model has n_ids ids: the text of an added token beyond them fails to encode. False when tokens
 * of the vocabulary itself lie beyond: it is another model's. */
bool tokenizer_limit(Tokenizer *t, int n_ids);
int tokenizer_bos(const Tokenizer *t);              /* -1: none */
bool tokenizer_adds_bos(const Tokenizer *t);        /* does TOKENIZE_BOS put BOS first? */
int tokenizer_eos(const Tokenizer *t, int ids[16]); /* every end token it names (eos, eot, <|im_end|>...); count */
const char *tokenizer_kind(const Tokenizer *t);     /* "sentencepiece", "llama2.c", "spm-bpe", "byte-bpe" */
/* tokenizer_note - what the user should know of the vocabulary ("tokenizer.ggml.pre: ..."), or NULL. */
const char *tokenizer_note(const Tokenizer *t);
/* tokenizer_chat_template - the Jinja text the files carry, or NULL. */
const char *tokenizer_chat_template(const Tokenizer *t);
/* tokenizer_find - id of the piece with exactly this content (special tokens included), or -1. */
int tokenizer_find(const Tokenizer *t, const char *piece);

enum {
    TOKENIZE_BOS = 1,     /* put BOS first, EOS last and whatever else the model's own files put around a text */
    TOKENIZE_SPECIAL = 2, /* text of special tokens becomes their ids, as Hugging Face's encode does; a sentencepiece
                           * .model or tokenizer.bin that comes alone reads "</s>" as text, as its library does */
    TOKENIZE_CONTROL = 4, /* special tokens in those too: for the text of a chat template. What a user types inside
                           * of a template is encoded with none of the flags: no special token comes of it */
};

/* tokenizer_encode - *ids is malloc'ed, *n its count. The text may hold any bytes, NUL too. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int **ids, int *n, Error *e);

/* tokenizer_encode_marked - the same for UTF-8 text that is in part a stranger's: no special token is found that
 * touches a byte with plain[i] = 1; plain [n_bytes], or NULL. */
int tokenizer_encode_marked(const Tokenizer *t, const char *text, const unsigned char *plain, size_t n_bytes,
                            unsigned flags, int **ids, int *n, Error *e);

/* tokenizer_piece - the piece as the vocabulary shows it ("▁the", "Ġthe", "<0x0A>"); for --json. */
const char *tokenizer_piece(const Tokenizer *t, int id, size_t *n_bytes);

/* tokenizer_decode - the raw bytes that id adds to the text after prev (-1: at the start; control tokens in between
 * do not count, see tokenizer_next); control tokens add none. Returns the length; *bytes stays valid until the next
 * call on this thread's buffer `buf`. */
size_t tokenizer_decode(const Tokenizer *t, int prev, int id, const char **bytes, char buf[8]);

/* tokenizer_next - prev for the token after id: id itself, or prev when id is a control token. */
int tokenizer_next(const Tokenizer *t, int prev, int id);

enum { TOKENIZER_WHY = 300 };

/* tokenizer_gguf_keys - the vocabulary, its rules, special tokens and chat template for a GGUF of a model with n_ids
 * ids. 1: written, and read back they give the same ids; 0: a GGUF cannot say these rules, why says which; -1: memory.
 */
int tokenizer_gguf_keys(const Tokenizer *t, int n_ids, GgufKeys *out, char why[TOKENIZER_WHY], Error *e);

/* HfTokenizer - the texts of tokenizer.json and tokenizer_config.json, malloc'ed. */
typedef struct {
    char *json, *config;
} HfTokenizer;

/* tokenizer_hf_files - the same for a Hugging Face directory, of the vocabulary of a GGUF, of llama2.c or of a
 * sentencepiece model of byte-pair encoding. */
int tokenizer_hf_files(const Tokenizer *t, HfTokenizer *out, char why[TOKENIZER_WHY], Error *e);
void hf_tokenizer_free(HfTokenizer *files);

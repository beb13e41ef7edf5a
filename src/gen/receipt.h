/* receipt - what a text came of, as JSON: --receipt writes one, --replay makes the text again from it or says what
 * differs. Test: tests/test_receipt.sh */
#pragma once
#include "base/sha256.h"
#include "gen/generate.h"

typedef struct Receipt {
    const char *path; /* of the receipt */
    char *model;      /* path of the checkpoint */
    char version[80], cpu[16], model_hash[SHA256_HEX], prompt_hash[SHA256_HEX], text_hash[SHA256_HEX];
    char **flags; /* [n_flags] the command line without checkpoint and receipt, then the seed */
    int n_flags;
    int *tokens; /* [n_tokens] of the text */
    int n_tokens;
} Receipt;

/* receipt_read - NULL on failure. */
Receipt *receipt_read(const char *path, Error *e);
void receipt_free(Receipt *r);

/* receipt_write - prompt and text are bytes; tokens [n_tokens] those of the text. Written aside and renamed. */
int receipt_write(const char *path, const Generator *g, const char *prompt, size_t n_prompt, const char *text,
                  size_t n_text, const int *tokens, int n_tokens, Error *e);

/* receipt_prompt - 0 when the n bytes are the receipt's prompt. */
int receipt_prompt(const Receipt *r, const char *prompt, size_t n, Error *e);

/* receipt_compare - 0 when the text is the receipt's, and a note on g->o->log when the model is another; else -1 with
 * what is another: the model, from which token on. */
int receipt_compare(const Receipt *r, const Generator *g, const char *text, size_t n_text, const int *tokens,
                    int n_tokens, Error *e);

/* bytes - a text that grows. What the steps of a stranger's file write comes out of one allowance for all of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    char *s; /* [n], malloc'ed, NUL behind its last byte once something was added */
    size_t n, room;
    size_t *left; /* how many bytes may still be added to this and all others of the allowance */
} Bytes;

/* bytes_add - appends; fails when the allowance or memory is used up ("text: ..."). */
int bytes_add(Bytes *b, const char *s, size_t n, Error *e);
int bytes_add_char(Bytes *b, unsigned code, Error *e); /* as UTF-8 */
void bytes_close(Bytes *b);

/* base64_decode - the bytes of a base64 text, padding and all, into out [n / 4 * 3 + 2]; false when it is none.
 * Source: RFC 4648, section 4. */
int base64_digit(unsigned char c); /* 0 to 63; -1: none */
bool base64_decode(const char *s, size_t n, unsigned char *out, size_t *n_out);

/* text_allowance - what all steps together may write for a text of n bytes: 1 MiB and 64 for each. A step writes a byte
 * for each or, at most, 11 (U+FDFA in NFKC). */
size_t text_allowance(size_t n);
/* text_words - how long the words may be in all that the model gets: 1 MiB and 8 bytes for each of the text. */
size_t text_words(size_t n);
/* text_steps - how many pieces Unigram and WordPiece may look at: 268 million and 256 for each byte of the text, some
 * half a second and half a microsecond. A vocabulary that was trained has a dozen at a place. */
uint64_t text_steps(size_t n);

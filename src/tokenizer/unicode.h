/* unicode - characters and their properties, as the steps of a tokenizer need them. The data are utf8proc's (Unicode
 * 14); the libraries compared with know some characters added since Unicode 8 and some added later that it does not. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "tokenizer/bytes.h"

/* char_at - the character that begins at text[at] of n bytes, valid UTF-8, and its bytes; -1 and 0 at the end.
 * char_before - the one that ends there. */
int char_at(const char *text, size_t n, size_t at, size_t *length);
int char_before(const char *text, size_t at, size_t *length);

/* grapheme_at - the bytes of the grapheme that begins there. */
size_t grapheme_at(const char *text, size_t n, size_t at);

bool is_white_space(int c); /* White_Space, Rust's char::is_whitespace */
bool is_word(int c);        /* \w of Rust's regex: letters, marks, digits, connectors, joiners */
bool is_mark(int c);        /* M */
bool is_nonspacing(int c);  /* Mn */
bool is_control(int c);     /* Cc, Cf, Co */

/* lower_case - text in lower case, character by character, appended to out. Source: Rust's char::to_lowercase. */
int lower_case(const char *text, size_t n, Bytes *out, Error *e);

typedef enum { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD } NormalForm;

/* normal_form - text[0, n), valid UTF-8, in the form, appended to out. O(n). Source: Unicode Standard Annex 15. */
int normal_form(NormalForm form, const char *text, size_t n, Bytes *out, Error *e);

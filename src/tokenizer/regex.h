/* regex - the expressions of tokenizer files, by Oniguruma: the engine and the syntax (Ruby's, UTF-8) that Hugging
 * Face's tokenizers match with, so that `&&`, nested classes, \w, \h and \p{Han} mean here what they mean there.
 *
 * A stranger wrote the expression, so the steps of a search are limited: by a constant and by the length of the text.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct Regex Regex;

/* The expressions of a file in all. An engine's class like \p{L} takes a thousand bytes for each of the expression. */
enum { REGEX_BYTES = 16 << 10 };

/* regex_new - literal: the pattern is a text, no expression. NULL, with "WHAT: expected ...", when it is no expression
 * or there is no memory. */
Regex *regex_new(const char *pattern, size_t n, bool literal, const char *what, Error *e);
void regex_free(Regex *r);

/* RegexSpace - what the steps of one text share: the engine's memory and what is left of the searches' steps, of their
 * time and of the bytes that may be written (see bytes.h). */
typedef struct RegexSpace RegexSpace;

/* regex_space_new - for texts of n_bytes in all. NULL when out of memory. */
RegexSpace *regex_space_new(size_t n_bytes);
void regex_space_free(RegexSpace *s);
size_t *regex_space_bytes(RegexSpace *s);

/* RegexCursor - where the next search begins. Zeroed: at the start of the text. */
typedef struct {
    size_t from, end; /* end: of the match before */
    bool any;         /* was there one? */
} RegexCursor;

/* regex_next - the next match in text[0, n), valid UTF-8: 1 and its span, 0 when there is none, -1 on failure. An empty
 * match right behind the match before does not count. Source: find_iter of the crate onig. */
int regex_next(const Regex *r, RegexSpace *space, const char *text, size_t n, RegexCursor *cursor, size_t *begin,
               size_t *end, Error *e);

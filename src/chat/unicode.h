/* unicode - characters as Python's str methods see them. Data: utf8proc. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* utf8_next - the character at s[n], n > 0, and its length; a byte that is none counts as U+FFFD. */
uint32_t utf8_next(const char *s, size_t n, size_t *length);

bool unicode_space(uint32_t c);     /* str.isspace */
bool unicode_line_end(uint32_t c);  /* str.splitlines */
bool unicode_printable(uint32_t c); /* str.isprintable */
bool unicode_alpha(uint32_t c);     /* str.isalpha */
bool unicode_digit(uint32_t c);     /* str.isdigit */
bool unicode_decimal(uint32_t c);   /* str.isdecimal */
bool unicode_numeric(uint32_t c);   /* str.isnumeric */
bool unicode_upper(uint32_t c);
bool unicode_lower(uint32_t c);
bool unicode_title(uint32_t c);
/* unicode_word - may stand in a name; start: at its beginning. */
bool unicode_word(uint32_t c, bool start);

/* unicode_case - how: 'u' upper, 'l' lower, 't' title, 'f' casefold. Writes up to 3 characters; returns how many. */
int unicode_case(uint32_t out[3], uint32_t c, char how);

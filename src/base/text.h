/* text - UTF-8 of strangers: checked, and made fit for a terminal. Test: tests/test_text.c */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* utf8_length - bytes of the UTF-8 sequence at s (1..4), of n bytes left; 0 when there is none (overlong forms and
 * surrogates are none). */
size_t utf8_length(const char *s, size_t n);

/* utf8_valid - true when all n bytes are UTF-8; else *bad is the offset of the first that is not. */
bool utf8_valid(const char *s, size_t n, size_t *bad);

/* utf8_code - the code point of the valid sequence of `length` bytes at s. */
unsigned utf8_code(const char *s, size_t length);

/* utf8_encode - writes a character of at most U+10FFFF, no surrogate; returns its bytes. */
size_t utf8_encode(char out[4], unsigned code);

/* text_show - the n bytes at s on one line of a message, without any way to speak to the terminal: controls (C0, DEL,
 * C1), format characters (Unicode's Cf: directions, joiners, marks of order), line and paragraph separators and bytes
 * that are no UTF-8 become \xHH or \u{HHHH}. At most `columns` columns; what is longer is cut, at the end or in the
 * middle, with "..." in place of the rest. out [room] is terminated; room of 4 bytes a column and 1 always suffices.
 * Returns its length. */
size_t text_show(char *out, size_t room, const char *s, size_t n, int columns, bool cut_middle);

/* text_print - writes the n bytes at s as what they are, text. When out is a terminal and raw is false, without
 * controls (newline and tab stay), overrides and isolates of direction; bytes that are no UTF-8 become U+FFFD. Returns
 * false when writing failed. */
bool text_print(FILE *out, const char *s, size_t n, bool raw);

/* text_print_json - the n bytes at s as a JSON string with its quotes: what text_show escapes is \uHHHH, a byte that is
 * no UTF-8 U+FFFD, as JSON has no bytes. */
void text_print_json(FILE *out, const char *s, size_t n);

/* text_drop_mark - drops a UTF-8 byte order mark at the start of the *n bytes; refuses UTF-16 and UTF-32, by their
 * marks or their zero bytes. what: whose text it is. */
int text_drop_mark(char *text, size_t *n, const char *what, Error *e);

/* text_list - adds an item to the list [room], behind the separator when it is not the first; cut at room. */
void text_list(char *list, size_t room, const char *separator, const char *item);

/* text - UTF-8, as every reader of a stranger's file needs it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* utf8_length - bytes of the UTF-8 sequence at s (1..4), of n bytes left; 0 when it is none (overlong
 * forms and surrogates are none). */
size_t utf8_length(const char *s, size_t n);

/* utf8_valid - true when all n bytes are UTF-8; else *bad is the offset of the first that is not. */
bool utf8_valid(const char *s, size_t n, size_t *bad);

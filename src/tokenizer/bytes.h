/* bytes - a text that grows, up to a limit: what strangers' steps make of a text cannot be more. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct {
    char *s; /* [n], malloc'ed, NUL behind its last byte once something was added */
    size_t n, room;
    size_t limit; /* bytes */
} Bytes;

/* bytes_add - appends; fails beyond the limit or without memory ("text: ..."). */
int bytes_add(Bytes *b, const char *s, size_t n, Error *e);
int bytes_add_char(Bytes *b, unsigned code, Error *e); /* as UTF-8 */
void bytes_close(Bytes *b);

/* text_limit - what a text of n bytes may become: 32 times as long and 64 KiB. No step of Unicode's makes more than 11
 * bytes of one. */
size_t text_limit(size_t n);

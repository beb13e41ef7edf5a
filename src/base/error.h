/* error - the text of the first thing that went wrong, owned by the caller. */
#pragma once
#include <stdbool.h>

typedef struct {
    char text[256]; /* "" while nothing failed; "file: thing: expected X, found Y" afterwards */
} Error;

/* fail - writes the message unless e already holds one (the first cause is the one worth reading).
 * Control characters that came out of a file are shown as '?', so that one failure is one line.
 * Returns -1, so that a reader can `return fail(e, ...)`. */
int fail(Error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* error_is_memory - was it a lack of memory ("file: memory: expected X, found Y", or the system's words)? Then another
 * way of reading the same file says nothing about the file. */
bool error_is_memory(const Error *e);

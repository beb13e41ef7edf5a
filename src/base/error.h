/* error - the text of the first thing that went wrong, owned by the caller. Test: tests/test_text.c */
#pragma once
#include <stdbool.h>

typedef struct {
    char text[1024]; /* "" while nothing failed; "file: thing: expected X, found Y" afterwards */
} Error;

/* fail - writes the message unless e already holds one (the first cause is the one worth reading). Returns -1, so that
 * a reader can `return fail(e, ...)`.
 *
 * The format is printf's; what %s and %c bring in is a stranger's text and passes through text_show: one failure is one
 * printable line. %s shows at most 60 columns, or 160 where the format begins with it (the file's path, cut in the
 * middle), %.Ns at most N columns (for the program's own longer texts), %.*s reads that many bytes at most. */
int fail(Error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fail_again - fails with the message of another failure. Returns -1. */
int fail_again(Error *e, const Error *cause);

/* error_is_memory - was it a lack of memory ("file: memory: expected X, found Y", or the system's words)? Then another
 * way of reading the same file says nothing about the file. */
bool error_is_memory(const Error *e);

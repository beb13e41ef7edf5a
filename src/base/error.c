#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail(Error *e, const char *format, ...) {
    if (!e || e->text[0]) return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    for (char *c = e->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    return -1;
}

bool error_is_memory(const Error *e) { return strstr(e->text, ": memory: ") || strstr(e->text, strerror(ENOMEM)); }

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* One conversion of a format: "%-8.3f" of the flags, width, precision and length that it has. */
typedef struct {
    char spec[32];
    int precision; /* -1: none */
    bool star;     /* the precision is an argument: the text may have no NUL */
    char length;   /* 'l', 'L' (ll), 'z', 't', 'j' or 0 */
    char kind;
} Conversion;

/* The arguments of a message, in an object so that they can be passed by address. */
typedef struct {
    va_list list;
} Arguments;

static const char *read_conversion(Conversion *c, const char *at, Arguments *args) {
    *c = (Conversion){.spec = "%", .precision = -1};
    size_t n = 1;
    while (*++at && strchr("-+ #0123456789.*lzjth", *at)) {
        int value = *at == '*' ? va_arg(args->list, int) : 0;
        if (*at == '.') c->precision = 0;
        else if (*at == '*' && c->precision == 0) c->precision = value, c->star = true;
        else if (c->precision >= 0 && *at >= '0' && *at <= '9') c->precision = 10 * c->precision + *at - '0';
        if (strchr("lzjt", *at)) c->length = c->length == 'l' ? 'L' : *at;
        if (*at == '*') n += (size_t)snprintf(c->spec + n, sizeof c->spec - n, "%d", value);
        else c->spec[n++] = *at;
        if (n > sizeof c->spec - 16) n = 1; /* no format of the program is so long */
    }
    c->kind = *at;
    c->spec[n++] = *at;
    c->spec[n] = 0;
    return *at ? at + 1 : at;
}

/* A format is written in this program: the warning is for those that come from outside. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int put_number(char *out, size_t room, const Conversion *c, Arguments *args) {
    if (strchr("aefgAEFG", c->kind)) return snprintf(out, room, c->spec, va_arg(args->list, double));
    switch (c->length) {
    case 'l': return snprintf(out, room, c->spec, va_arg(args->list, long));
    case 'L': return snprintf(out, room, c->spec, va_arg(args->list, long long));
    case 'z': return snprintf(out, room, c->spec, va_arg(args->list, size_t));
    case 't': return snprintf(out, room, c->spec, va_arg(args->list, ptrdiff_t));
    case 'j': return snprintf(out, room, c->spec, va_arg(args->list, intmax_t));
    default: return snprintf(out, room, c->spec, va_arg(args->list, int));
    }
}
#pragma GCC diagnostic pop

enum { NAME_COLUMNS = 60, PATH_COLUMNS = 160 };

static size_t put_text(char *out, size_t room, const Conversion *c, Arguments *args, bool path) {
    if (c->kind == 'c') return text_show(out, room, &(char){(char)va_arg(args->list, int)}, 1, NAME_COLUMNS, false);
    const char *s = va_arg(args->list, const char *);
    size_t n = c->star ? strnlen(s, c->precision < 0 ? 0 : (size_t)c->precision) : strlen(s);
    int columns = c->precision >= 0 && !c->star ? c->precision : path ? PATH_COLUMNS : NAME_COLUMNS;
    return text_show(out, room, s, n, columns, path);
}

int fail(Error *e, const char *format, ...) {
    if (!e || e->text[0]) return -1;
    Arguments args;
    size_t n = 0;
    va_start(args.list, format);
    for (const char *at = format; *at && n + 1 < sizeof e->text;) {
        char *out = e->text + n;
        size_t room = sizeof e->text - n, next = strcspn(at, "%");
        if (next) {
            n += next < room ? (memcpy(out, at, next), next) : room - 1;
            at += next;
        } else if (at[1] == '%') {
            *out = '%';
            n++, at += 2;
        } else {
            Conversion c;
            bool path = at == format;
            at = read_conversion(&c, at, &args);
            if (c.kind == 's' || c.kind == 'c') {
                n += put_text(out, room, &c, &args, path);
            } else {
                int written = put_number(out, room, &c, &args);
                n += written < 0 ? 0 : (size_t)written < room ? (size_t)written : room - 1;
            }
        }
    }
    va_end(args.list);
    e->text[n < sizeof e->text ? n : sizeof e->text - 1] = 0;
    return -1;
}

int fail_again(Error *e, const Error *cause) {
    if (e && !e->text[0]) *e = *cause;
    return -1;
}

bool error_is_memory(const Error *e) { return strstr(e->text, ": memory: ") || strstr(e->text, strerror(ENOMEM)); }

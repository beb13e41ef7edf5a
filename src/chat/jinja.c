#include "chat/jinja.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *start, *at, *end; /* what is read */
    char *out, *to;               /* what is written; out[0] is 0, so that one may look back from out + 1 */
} Shape;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool is_space(char c) { return isspace((unsigned char)c); }

static bool written(const Shape *s, const char *what) {
    size_t n = strlen(what);
    return (size_t)(s->to - s->out) > n && memcmp(s->to - n, what, n) == 0;
}

static void put(Shape *s, const char *what) {
    while (*what) *s->to++ = *what++;
}

static void put_in_string(Shape *s, char c) {
    if (c == '\'' || c == '\\') *s->to++ = '\\';
    *s->to++ = c;
}

/* 'a'+'b' goes on as 'ab'. */
static void begin_string(Shape *s) {
    if (written(s, "'+")) s->to -= 2;
    else put(s, "'");
}

static void begin_output(Shape *s) {
    if (written(s, "}}")) *(s->to-- - 2) = '+';
    else put(s, "{{");
}

static void read_string(Shape *s) {
    static const char letters[] = "ntr", meanings[] = "\n\t\r";
    char quote = *s->at++;
    begin_string(s);
    while (s->at < s->end && *s->at != quote) {
        const char *letter;
        if (*s->at == '\\' && s->at + 1 < s->end) {
            s->at++;
            if ((letter = strchr(letters, *s->at))) *s->to++ = meanings[letter - letters];
            else {
                if (!strchr("'\"\\", *s->at)) put_in_string(s, '\\');
                put_in_string(s, *s->at);
            }
        } else put_in_string(s, *s->at);
        s->at++;
    }
    if (s->at < s->end) s->at++;
    put(s, "'");
}

/* "x['name'" was written and "]" comes: x.name */
static void end_subscript(Shape *s) {
    char *from = s->to - 1; /* at the closing quote, perhaps */
    while (from > s->out + 1 && is_word(from[-1])) from--;
    bool name = s->to[-1] == '\'' && from < s->to - 1 && from - s->out > 3 && from[-1] == '\'' && from[-2] == '[' &&
                (is_word(from[-3]) || from[-3] == ']');
    if (!name) {
        put(s, "]");
        return;
    }
    size_t n = (size_t)(s->to - 1 - from);
    from[-2] = '.';
    memmove(from - 1, from, n);
    s->to = from - 1 + n;
}

/* The inside of a tag, up to the two bytes that close it. */
static void read_tag(Shape *s, const char *close) {
    bool space = false;
    while (s->at < s->end) {
        const char *here = s->at + (*s->at == '-');
        if (s->end - here >= 2 && memcmp(here, close, 2) == 0) break;
        char c = *s->at;
        if (space && is_word(c) && is_word(s->to[-1])) put(s, " ");
        space = is_space(c);
        if (c == '\'' || c == '"') {
            read_string(s);
            continue;
        }
        if (c == ']') end_subscript(s);
        else if (!space) *s->to++ = c;
        s->at++;
    }
}

/* After the inside of a tag: its end, and the white space that goes with it. */
static void end_tag(Shape *s, bool block) {
    bool strip = s->at < s->end && *s->at == '-';
    s->at += strip;
    s->at += s->end - s->at >= 2 ? 2 : s->end - s->at;
    while (strip && s->at < s->end && is_space(*s->at)) s->at++;
    if (!strip && block && s->at < s->end && *s->at == '\n') s->at++;
}

/* The text up to the next tag. */
static void read_text(Shape *s) {
    const char *from = s->at, *to = from;
    while (to < s->end && !(s->end - to >= 2 && to[0] == '{' && strchr("{%#", to[1]))) to++;
    s->at = to;
    if (s->end - to >= 3 && to[2] == '-') {
        while (to > from && is_space(to[-1])) to--;
    } else if (s->end - to >= 2 && to[1] != '{') { /* a block alone on its line: the blanks before it go */
        const char *line = to;
        while (line > from && (line[-1] == ' ' || line[-1] == '\t')) line--;
        if (line == s->start || line[-1] == '\n') to = line;
    }
    if (from == to) return;
    begin_output(s);
    begin_string(s);
    while (from < to) put_in_string(s, *from++);
    put(s, "'}}");
}

int jinja_shape(char **shape, const char *jinja, Error *e) {
    size_t n = strlen(jinja);
    if (n && jinja[n - 1] == '\n') n--; /* as Jinja does */
    /* At worst, one byte of text between tags becomes {{'\x'}}: eight. */
    char *out = n < SIZE_MAX / 16 ? malloc(8 * n + 2) : NULL;
    *shape = NULL;
    if (!out) return fail(e, "chat template: memory: expected room for %zu bytes, found less", n);
    out[0] = 0;
    Shape s = {jinja, jinja, jinja + n, out, out + 1};
    while (s.at < s.end) {
        read_text(&s);
        if (s.at == s.end) break;
        char kind = s.at[1];
        s.at += 2;
        if (s.at < s.end && *s.at == '-') s.at++;
        if (kind == '#') {
            const char *close = memmem(s.at, (size_t)(s.end - s.at), "#}", 2);
            s.at = close ? close - (close > s.at && close[-1] == '-') : s.end;
        } else if (kind == '%') {
            put(&s, "{%");
            read_tag(&s, "%}");
            put(&s, "%}");
        } else {
            begin_output(&s);
            read_tag(&s, "}}");
            put(&s, "}}");
        }
        end_tag(&s, kind != '{');
    }
    *s.to = 0;
    memmove(out, out + 1, (size_t)(s.to - out)); /* the byte to look back at */
    *shape = out;
    return 0;
}

#include "chat/jinja_lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/unicode.h"

typedef struct {
    Jinja *j;
    const char *start, *at, *end;
    const char *counted; /* line and column of j are those of this byte */
    Token *tokens;       /* [n] */
    int n, room;
    char open[200]; /* [n_open] closing brackets that are still to come */
    int n_open;
} Lexer;

/* Moves the position that errors name to `to`. */
static void locate(Lexer *l, const char *to) {
    for (; l->counted < to; l->counted++) {
        if (*l->counted == '\n') l->j->line++, l->j->column = 1;
        else if (((unsigned char)*l->counted & 0xc0) != 0x80) l->j->column++;
    }
}

static Token *add(Lexer *l, TokenKind kind) {
    j_step(l->j, 1);
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        Token *larger = j_alloc(l->j, (size_t)room * sizeof *larger);
        if (l->n) memcpy(larger, l->tokens, (size_t)l->n * sizeof *larger);
        l->tokens = larger;
        l->room = room;
    }
    Token *t = &l->tokens[l->n++];
    *t = (Token){.kind = kind, .line = l->j->line, .column = l->j->column};
    return t;
}

static bool here(const Lexer *l, const char *at, const char *text) {
    size_t n = strlen(text);
    return (size_t)(l->end - at) >= n && memcmp(at, text, n) == 0;
}

static const char *skip_space(const Lexer *l, const char *at) {
    for (size_t length; at < l->end; at += length)
        if (!unicode_space(utf8_next(at, (size_t)(l->end - at), &length))) break;
    return at;
}

static const char *skip_space_back(const char *from, const char *at) {
    while (at > from) {
        const char *c = at - 1;
        size_t length;
        while (c > from && ((unsigned char)*c & 0xc0) == 0x80) c--;
        if (!unicode_space(utf8_next(c, (size_t)(at - c), &length))) break;
        at = c;
    }
    return at;
}

/* Text from `from` to a tag at l->at whose sign is `sign`; variable: {{, before which no blanks are dropped. */
static void data(Lexer *l, const char *from, const char *to, char sign, bool variable) {
    locate(l, from);
    if (sign == '-') to = skip_space_back(from, to);
    else if (sign != '+' && !variable) {
        const char *line = to;
        while (line > from && line[-1] != '\n') line--;
        if ((line > from || from == l->start || from[-1] == '\n') && skip_space_back(line, to) == line) to = line;
    }
    if (to > from) add(l, TOK_DATA)->value = v_str(str_new(l->j, from, (size_t)(to - from), NULL));
}

/* The end of a comment or a block from `at`: the bytes behind it, or NULL. trim: a newline behind it goes. */
static const char *tag_end(const Lexer *l, const char *at, const char *close, bool plus, bool trim) {
    if (*at == '-' && here(l, at + 1, close)) return skip_space(l, at + 1 + strlen(close));
    if (plus && *at == '+' && here(l, at + 1, close)) return at + 1 + strlen(close);
    if (!here(l, at, close)) return NULL;
    at += strlen(close);
    return at + (trim && at < l->end && *at == '\n');
}

static void comment(Lexer *l) {
    for (const char *at = l->at; at < l->end; at++) {
        const char *end = *at == '-' || *at == '+' || *at == '#' ? tag_end(l, at, "#}", true, true) : NULL;
        if (!end) continue;
        l->at = end;
        return;
    }
    if (l->at < l->end) j_fail(l->j, "Missing end of comment tag"); /* with nothing behind {# jinja2 says nothing */
}

/* {% raw %} at l->at (behind its sign): text up to {% endraw %}. Returns false when it is another tag. */
static bool raw(Lexer *l) {
    const char *at = skip_space(l, l->at);
    if (!here(l, at, "raw")) return false;
    at = skip_space(l, at + 3);
    if (at == l->end || !(at = tag_end(l, at, "%}", false, false))) return false;
    for (const char *c = at; c < l->end; c++) {
        if (!here(l, c, "{%")) continue;
        const char *sign = c + 2, *word = sign + (sign < l->end && (*sign == '-' || *sign == '+'));
        word = skip_space(l, word);
        if (!here(l, word, "endraw")) continue;
        word = skip_space(l, word + 6);
        const char *end = word < l->end ? tag_end(l, word, "%}", true, true) : NULL;
        if (!end) continue;
        data(l, at, c, *sign, false);
        l->at = end;
        return true;
    }
    if (at < l->end) j_fail(l->j, "Missing end of raw directive");
    l->at = l->end;
    return true;
}

static bool is_digit(const Lexer *l, const char *at) { return at < l->end && isdigit((unsigned char)*at); }

/* Digits with single underscores between them; digits of one base. */
static const char *digits(const Lexer *l, const char *at, const char *set) {
    const char *first = at;
    while (at < l->end &&
           (strchr(set, tolower((unsigned char)*at)) ||
            (*at == '_' && at > first && at + 1 < l->end && strchr(set, tolower((unsigned char)at[1])))) &&
           *at)
        at++;
    return at;
}

#define DECIMAL "0123456789"

/* The end of a float at `at`, or NULL. */
static const char *float_end(const Lexer *l, const char *at) {
    const char *whole = digits(l, at, DECIMAL), *end = whole;
    if (whole == at || (at > l->start && at[-1] == '.')) return NULL;
    bool point = *end == '.' && is_digit(l, end + 1);
    if (end < l->end && point) end = digits(l, end + 1, DECIMAL);
    else point = false;
    if (end < l->end && (*end == 'e' || *end == 'E')) {
        const char *exponent = end + 1 + (end + 1 < l->end && (end[1] == '+' || end[1] == '-'));
        if (is_digit(l, exponent)) return digits(l, exponent, DECIMAL);
    }
    return point ? end : NULL;
}

static void number(Lexer *l) {
    char text[64];
    size_t n = 0;
    const char *end = float_end(l, l->at), *c = l->at;
    bool real = end != NULL;
    int base = 10;
    if (!end) {
        int letter = c + 1 < l->end ? tolower((unsigned char)c[1]) : 0;
        base = *c != '0' ? 10 : letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
        const char *set = base == 16 ? DECIMAL "abcdef" : base == 8 ? "01234567" : base == 2 ? "01" : DECIMAL;
        const char *from = base == 10 ? c : c + 2 + (c + 2 < l->end && c[2] == '_');
        end = digits(l, from, base == 10 && *c == '0' ? "0" : set);
        if (base != 10 && end == from) base = 10, end = c + 1; /* 0xg is 0 and a name */
        else if (base != 10) c = from;
    }
    for (; c < end; c++) {
        if (*c == '_') continue;
        if (n == sizeof text - 1) j_fail(l->j, "number: expected at most %zu digits, found more", sizeof text - 1);
        text[n++] = *c;
    }
    text[n] = 0;
    char *rest;
    Token *t = add(l, real ? TOK_FLOAT : TOK_INTEGER);
    if (real) t->value = v_float(strtod(text, NULL));
    else {
        unsigned long long u = strtoull(text, &rest, base);
        if (u > INT64_MAX) j_fail(l->j, "integer: expected at most 64 bits, found more");
        t->value = v_int((int64_t)u);
    }
    l->at = end;
}

/* \x41 and its like: `n` digits at *at, of the base. */
static uint32_t escape_digits(Lexer *l, const char **at, const char *end, int n, int base, const char *what) {
    uint32_t code = 0;
    int k = 0;
    for (; k < n && *at < end; k++, (*at)++) {
        int c = tolower((unsigned char)**at), digit = c >= 'a' && c <= 'f' ? c - 'a' + 10 : isdigit(c) ? c - '0' : 99;
        if (digit >= base) break;
        code = code * (uint32_t)base + (uint32_t)digit;
    }
    if (base == 16 && k < n) j_fail(l->j, "truncated \\%s escape", what);
    if (code > 0x10ffff) j_fail(l->j, "illegal Unicode character");
    if (code >= 0xd800 && code < 0xe000) j_fail(l->j, "surrogate: expected a character, found \\u%04x", (unsigned)code);
    return code;
}

/* The bytes of a string as Python's unicode-escape decodes them. */
static const Str *unescape(Lexer *l, const char *at, const char *end) {
    static const char letters[] = "abfnrtv\\'\"", meanings[] = "\a\b\f\n\r\t\v\\'\"";
    Builder b = {0};
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at)), *letter;
        if (!slash) slash = end;
        builder_bytes(l->j, &b, at, (size_t)(slash - at), NULL);
        at = slash + 1;
        if (slash == end) break;
        char c = *at++;
        if (c == '\n') continue;
        if ((letter = strchr(letters, c)) && c) builder_char(l->j, &b, meanings[letter - letters]);
        else if (c >= '0' && c <= '7') {
            at--;
            builder_code(l->j, &b, escape_digits(l, &at, end, 3, 8, ""), 0);
        } else if (c == 'x') builder_code(l->j, &b, escape_digits(l, &at, end, 2, 16, "xXX"), 0);
        else if (c == 'u') builder_code(l->j, &b, escape_digits(l, &at, end, 4, 16, "uXXXX"), 0);
        else if (c == 'U') builder_code(l->j, &b, escape_digits(l, &at, end, 8, 16, "UXXXXXXXX"), 0);
        else if (c == 'N') j_fail(l->j, "\\N{...}: expected a supported escape, found it");
        else if (c & 0x80) { /* the codec has spelled the character as an escape of its own, which the backslash ends */
            char spelled[12];
            size_t length;
            unsigned code = utf8_next(at - 1, (size_t)(end - at + 1), &length);
            snprintf(spelled, sizeof spelled, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
            builder_text(l->j, &b, spelled);
            at += length - 1;
        } else {
            builder_char(l->j, &b, '\\');
            builder_char(l->j, &b, c);
        }
    }
    return builder_done(l->j, &b);
}

static bool string(Lexer *l) {
    const char *at = l->at + 1;
    while (at < l->end && *at != *l->at) at += *at == '\\' ? 2 : 1;
    if (at >= l->end) return false;
    add(l, TOK_STRING)->value = v_str(unescape(l, l->at + 1, at));
    l->at = at + 1;
    return true;
}

static void operator(Lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const char *name = NULL;
    for (size_t i = 0; i < sizeof operators / sizeof *operators && !name; i++)
        if (here(l, l->at, operators[i])) name = operators[i];
    if (!name) {
        size_t length;
        utf8_next(l->at, (size_t)(l->end - l->at), &length);
        j_fail(l->j, "unexpected char '%.*s'", (int)length, l->at);
    }
    const char *opens = strchr("([{", *name), *closes = strchr(")]}", *name);
    if (opens) {
        if (l->n_open == (int)sizeof l->open)
            j_fail(l->j, "brackets: expected at most %zu, found more", sizeof l->open);
        l->open[l->n_open++] = ")]}"[opens - "([{"];
    } else if (closes) {
        if (l->n_open == 0) j_fail(l->j, "unexpected '%c'", *name);
        char expected = l->open[--l->n_open];
        if (expected != *name) j_fail(l->j, "unexpected '%c', expected '%c'", *name, expected);
    }
    add(l, TOK_OPERATOR)->name = name;
    l->at += strlen(name);
}

/* A name at l->at; false when there is none. */
static bool name(Lexer *l) {
    const char *at = l->at;
    for (size_t length; at < l->end; at += length)
        if (!unicode_word(utf8_next(at, (size_t)(l->end - at), &length), at == l->at)) break;
    if (at == l->at) return false;
    add(l, TOK_NAME)->name = j_intern(l->j, l->at, (size_t)(at - l->at));
    l->at = at;
    return true;
}

/* The inside of {{ }} or {% %}, with its end. */
static void tag(Lexer *l, bool block) {
    l->n_open = 0;
    for (;;) {
        l->at = skip_space(l, l->at);
        locate(l, l->at);
        if (l->at == l->end) return;
        const char *end = l->n_open ? NULL : tag_end(l, l->at, block ? "%}" : "}}", block, block);
        if (end) {
            add(l, block ? TOK_BLOCK_END : TOK_VARIABLE_END);
            l->at = end;
            return;
        }
        if (is_digit(l, l->at)) number(l);
        else if (name(l)) continue;
        else if ((*l->at == '\'' || *l->at == '"') && string(l)) continue;
        else operator(l);
    }
}

/* All line ends as "\n", and the last one dropped. */
static const char *normalize(Jinja *j, const char *s, size_t *n) {
    char *out = j_alloc(j, *n + 1);
    size_t k = 0;
    for (size_t i = 0; i < *n; i++) {
        if (s[i] == '\r' && i + 1 < *n && s[i + 1] == '\n') continue;
        out[k++] = s[i] == '\r' ? '\n' : s[i];
    }
    *n = k - (k && out[k - 1] == '\n');
    return out;
}

Token *jinja_lex(Jinja *j, const char *source, size_t n) {
    source = normalize(j, source, &n);
    Lexer l = {.j = j, .start = source, .at = source, .end = source + n, .counted = source};
    j->line = j->column = 1;
    while (l.at < l.end) {
        const char *from = l.at, *to = from;
        while (to < l.end && !(to[0] == '{' && to + 1 < l.end && strchr("{%#", to[1]) && to[1])) to++;
        if (to == l.end) {
            data(&l, from, to, '+', false);
            break;
        }
        char kind = to[1], sign = to + 2 < l.end && (to[2] == '-' || to[2] == '+') ? to[2] : 0;
        data(&l, from, to, sign, kind == '{');
        locate(&l, to);
        l.at = to + 2 + (sign != 0);
        if (kind == '#') comment(&l);
        else if (kind == '{' || !raw(&l)) {
            add(&l, kind == '{' ? TOK_VARIABLE_BEGIN : TOK_BLOCK_BEGIN);
            tag(&l, kind == '%');
        }
    }
    locate(&l, l.end);
    add(&l, TOK_EOF);
    return l.tokens;
}

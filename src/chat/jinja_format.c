/* "%d of %s" % (a, b) and "{} of {name}".format(a, name=b): Python's two ways to format a string. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/call.h"
#include "chat/text_methods.h"

typedef struct {
    const Str *fill;        /* NULL: a blank */
    char align, sign, kind; /* 0: not given */
    bool zero, alternate, comma;
    int width, precision; /* precision -1: not given */
} Spec;

enum { MOST = 10000 }; /* width and precision */

static int read_int(Jinja *j, const char **at, const char *end) {
    int n = 0;
    for (; *at < end && isdigit((unsigned char)**at); ++*at) {
        n = 10 * n + **at - '0';
        if (n > MOST) j_fail(j, "format: expected a width of at most %d, found more", MOST);
    }
    return n;
}

/* Digits of an integer, without a sign. */
static void int_digits(char text[80], int64_t i, const Spec *s) {
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (s->kind != 'b') {
        snprintf(text, 80,
                 s->kind == 'x'   ? "%llx"
                 : s->kind == 'X' ? "%llX"
                 : s->kind == 'o' ? "%llo"
                                  : "%llu",
                 (unsigned long long)u);
        return;
    }
    int n = 0;
    for (int bit = 63; bit >= 0; bit--)
        if (n || u >> bit & 1 || bit == 0) text[n++] = (char)('0' + (u >> bit & 1));
    text[n] = 0;
}

static const Str *with_commas(Jinja *j, const char *digits) {
    Builder b = {0};
    size_t whole = strspn(digits, "0123456789");
    for (size_t i = 0; digits[i]; i++) {
        if (i && i < whole && (whole - i) % 3 == 0) builder_char(j, &b, ',');
        builder_char(j, &b, digits[i]);
    }
    return builder_done(j, &b);
}

static const Str *float_digits(Jinja *j, double f, const Spec *s) {
    char text[512], pattern[8];
    f = fabs(f);
    if (!s->kind && s->precision < 0) float_repr(text, f);
    else if (isnan(f) || isinf(f)) strcpy(text, isnan(f) ? "nan" : "inf");
    else {
        int precision = s->precision < 0 ? 6 : s->precision;
        if (precision > 100 || (strchr("fF%", s->kind) && f > 1e300))
            j_fail(j, "format: expected a precision of at most 100, found more");
        snprintf(pattern, sizeof pattern, "%%.*%c", s->kind == '%' ? 'f' : s->kind ? s->kind : 'g');
        snprintf(text, sizeof text, pattern, precision, s->kind == '%' ? 100 * f : f);
        if (s->kind == '%') strcat(text, "%");
        if (!s->kind && !strpbrk(text, ".en")) strcat(text, ".0");
    }
    return s->comma ? with_commas(j, text) : str_text(j, text);
}

static const Str *pad(Jinja *j, const Str *body, const char *sign, const Spec *s, char usual) {
    Builder b = {0};
    int64_t room = s->width - (int64_t)body->chars - (int64_t)strlen(sign);
    const Str *fill = s->fill ? s->fill : str_text(j, s->zero ? "0" : " ");
    char align = s->align ? s->align : s->zero ? '=' : usual;
    int64_t left = room <= 0 ? 0 : align == '>' || align == '=' ? room : align == '^' ? room / 2 : 0;
    if (align == '=') builder_text(j, &b, sign);
    builder_fill(j, &b, fill, left);
    if (align != '=') builder_text(j, &b, sign);
    builder_str(j, &b, body);
    builder_fill(j, &b, fill, room - left);
    return builder_done(j, &b);
}

static const Str *format_number(Jinja *j, Value v, const Spec *s) {
    bool real = v.type == T_FLOAT || (s->kind && strchr("eEfFgG%", s->kind));
    double f = as_double(v);
    bool negative = real ? signbit(f) && !isnan(f) : f < 0;
    char digits[80], sign[8];
    const Str *body;
    if (real) body = float_digits(j, f, s);
    else {
        int_digits(digits, as_int(j, v, "format"), s);
        body = s->comma ? with_commas(j, digits) : str_text(j, digits);
        if (s->precision > (int)body->n) { /* of %: so many digits at least */
            Builder b = {0};
            builder_fill(j, &b, str_text(j, "0"), s->precision - (int64_t)body->n);
            builder_str(j, &b, body);
            body = builder_done(j, &b);
        }
    }
    bool prefix = s->alternate && !real && s->kind && strchr("xXob", s->kind);
    snprintf(sign, sizeof sign, "%s%s%.1s",
             negative         ? "-"
             : s->sign == '+' ? "+"
             : s->sign == ' ' ? " "
                              : "",
             prefix ? "0" : "", prefix ? &s->kind : "");
    return pad(j, body, sign, s, '>');
}

static const Str *format_text(Jinja *j, const Str *text, const Spec *s, char usual) {
    if (s->precision >= 0 && (size_t)s->precision < text->chars)
        text = str_sub(j, text, 0, str_at(j, text, (size_t)s->precision));
    return pad(j, text, "", s, usual);
}

static const Str *repr(Jinja *j, Value v) {
    Builder b = {0};
    v_repr(j, &b, v);
    return builder_done(j, &b);
}

/* ---- % ---- */

static Value next_argument(Jinja *j, Value args, int *used) {
    if (args.type != T_TUPLE && *used == 0) {
        ++*used;
        return args;
    }
    if (args.type != T_TUPLE || *used >= args.u.list->n) j_fail(j, "not enough arguments for format string");
    return args.u.list->v[(*used)++];
}

static const Str *percent_value(Jinja *j, Value v, Spec *s) {
    if (s->align || strchr("srac", s->kind)) s->zero = false; /* '-' overrides '0', and a text has no zeros */
    if (s->kind == 's') return format_text(j, v_to_str(j, v), s, '>');
    if (s->kind == 'r' || s->kind == 'a') return format_text(j, repr(j, v), s, '>');
    if (s->kind == 'c') {
        if (v.type == T_STR && v.u.str->chars == 1) return format_text(j, v.u.str, s, '>');
        j_fail(j, "%%c requires a character");
    }
    if (!strchr("diuxXoeEfFgG", s->kind)) j_fail(j, "unsupported format character '%c'", s->kind);
    if (!is_number(v)) j_fail(j, "%%%c format: a real number is required, not %s", s->kind, type_name(v));
    if (strchr("diu", s->kind)) {
        if (v.type == T_FLOAT && fabs(v.u.f) < 9.2e18) v = v_int((int64_t)v.u.f);
        s->kind = 'd';
    } else if (v.type == T_FLOAT && strchr("xXo", s->kind))
        j_fail(j, "%%%c format: an integer is required, not float", s->kind);
    return format_number(j, v, s);
}

const Str *percent_format(Jinja *j, const Str *format, Value args) {
    Builder b = {.safe = format->safe};
    const char *at = format->s, *end = at + format->n;
    int used = 0;
    bool named = false;
    while (at < end) {
        const char *percent = memchr(at, '%', (size_t)(end - at));
        if (!percent) percent = end;
        builder_bytes(j, &b, at, (size_t)(percent - at), format->mark ? format->mark + (at - format->s) : NULL);
        at = percent + 1;
        if (percent == end) break;
        Spec s = {.precision = -1};
        Value from = v_missing();
        if (at < end && *at == '(') {
            const char *close = memchr(at, ')', (size_t)(end - at));
            if (!close) j_fail(j, "incomplete format key");
            if (args.type != T_DICT) j_fail(j, "format requires a mapping");
            Value *value = dict_get(j, args.u.dict, v_str(str_new(j, at + 1, (size_t)(close - at - 1), NULL)));
            if (!value) j_fail(j, "format key: expected one of the arguments, found another");
            from = *value;
            named = true;
            at = close + 1;
        }
        for (; at < end && strchr("#0- +", *at) && *at; at++) {
            if (*at == '#') s.alternate = true;
            else if (*at == '0') s.zero = true;
            else if (*at == '-') s.align = '<';
            else if (s.sign != '+') s.sign = *at;
        }
        if (at < end && *at == '*') s.width = (int)as_int(j, next_argument(j, args, &used), "width"), at++;
        else s.width = read_int(j, &at, end);
        if (at < end && *at == '.') at++, s.precision = read_int(j, &at, end);
        while (at < end && strchr("hlL", *at) && *at) at++;
        if (at == end) j_fail(j, "incomplete format");
        if (s.width > MOST || s.width < -MOST) j_fail(j, "format: expected a width of at most %d, found more", MOST);
        s.kind = *at++;
        if (s.kind == '%') builder_char(j, &b, '%');
        else builder_str(j, &b, percent_value(j, from.type != T_MISSING ? from : next_argument(j, args, &used), &s));
    }
    bool left = args.type == T_TUPLE ? used < args.u.list->n : used == 0 && args.type != T_DICT;
    if (left && !named) j_fail(j, "not all arguments converted during string formatting");
    return builder_done(j, &b);
}

/* ---- {} ---- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static Spec read_spec(Jinja *j, const Str *text) {
    Spec s = {.precision = -1};
    const char *at = text->s, *end = at + text->n;
    size_t first = text->chars ? str_at(j, text, 1) : 0;
    if (first && at + first < end && strchr("<>^=", at[first]) && at[first]) {
        s.fill = str_sub(j, text, 0, first);
        s.align = at[first];
        at += first + 1;
    } else if (at < end && strchr("<>^=", *at) && *at) s.align = *at++;
    if (at < end && strchr("+- ", *at) && *at) s.sign = *at++;
    if (at < end && *at == '#') s.alternate = true, at++;
    if (at < end && *at == '0') s.zero = true, at++;
    s.width = read_int(j, &at, end);
    if (at < end && *at == ',') s.comma = true, at++;
    if (at < end && *at == '.') at++, s.precision = read_int(j, &at, end);
    if (at < end) s.kind = *at++;
    if (at < end || (s.kind && !strchr("bdoxXeEfFgG%sn", s.kind))) j_fail(j, "Invalid format specifier");
    return s;
}

static const Str *brace_value(Jinja *j, Value v, const Str *spec) {
    if (spec->n == 0) return v_to_str(j, v);
    Spec s = read_spec(j, spec);
    if (v.type == T_STR && (!s.kind || s.kind == 's')) return format_text(j, v.u.str, &s, '<');
    if (!is_number(v) || (v.type == T_BOOL && !s.kind) || s.kind == 's' || s.kind == 'n')
        j_fail(j, "format: expected a specifier for '%s', found another", type_name(v));
    if (v.type == T_FLOAT && s.kind && strchr("bdoxX", s.kind))
        j_fail(j, "Unknown format code '%c' for object of type 'float'", s.kind);
    if (v.type != T_FLOAT && s.precision >= 0 && (!s.kind || strchr("bdoxX", s.kind)))
        j_fail(j, "Precision not allowed in integer format specifier");
    if (s.kind == 'd') s.kind = 0;
    return format_number(j, v, &s);
}

/* "name.attribute[key]" */
static Value field(Jinja *j, const Str *path, const Args *args, int *automatic) {
    size_t n = 0;
    while (n < path->n && path->s[n] != '.' && path->s[n] != '[') n++;
    const char *at = path->s;
    Value v;
    if (n == 0 || isdigit((unsigned char)*at)) {
        if ((n == 0) == (*automatic < 0) && *automatic != 0)
            j_fail(j, "cannot switch between automatic and manual field numbering");
        int i = n == 0 ? (*automatic)++ : read_int(j, &at, path->s + n);
        if (n) *automatic = -1;
        if (i >= args->at->n) j_fail(j, "Replacement index %d out of range for positional args tuple", i);
        v = args->at->v[i];
    } else {
        const Value *named = args->named ? dict_get(j, args->named, v_str(str_sub(j, path, 0, n))) : NULL;
        if (!named) j_fail(j, "format: expected an argument of that name, found none");
        v = *named;
    }
    while (n < path->n) {
        bool item = path->s[n++] == '[';
        size_t from = n;
        while (n < path->n && (item ? path->s[n] != ']' : path->s[n] != '.' && path->s[n] != '[')) n++;
        const Str *name = str_sub(j, path, from, n);
        bool digits = item && name->n && strspn(name->s, "0123456789") >= name->n;
        const char *number = name->s;
        if (!item) v = v_getattr(j, v, str_name(j, v_str(name), "attribute"));
        else v = v_getitem(j, v, digits ? v_int(read_int(j, &number, name->s + name->n)) : v_str(name));
        n += item;
    }
    return v;
}

static const Str *replacement(Jinja *j, const Str *text, const Args *args, int *automatic) {
    size_t end = 0;
    while (end < text->n && text->s[end] != ':' && text->s[end] != '!') end++;
    Value v = field(j, str_sub(j, text, 0, end), args, automatic);
    if (end < text->n && text->s[end] == '!') {
        char how = end + 1 < text->n ? text->s[end + 1] : 0;
        if (how != 'r' && how != 's') j_fail(j, "Unknown conversion specifier");
        v = v_str(how == 'r' ? repr(j, v) : v_to_str(j, v));
        end += 2;
    }
    const Str *spec = str_sub(j, text, end < text->n ? end + 1 : text->n, text->n);
    if (spec->n && memchr(spec->s, '{', spec->n)) j_fail(j, "format: expected a specifier without fields, found one");
    return brace_value(j, v, spec);
}

const Str *brace_format(Jinja *j, const Str *f, const Args *args) {
    Builder b = {.safe = f->safe};
    int automatic = 0;
    for (size_t i = 0; i < f->n; i++) {
        char c = f->s[i];
        bool twice = i + 1 < f->n && f->s[i + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            builder_bytes(j, &b, f->s + i, 1, f->mark ? f->mark + i : NULL);
            i += (c == '{' || c == '}');
            continue;
        }
        size_t close = i;
        while (c == '{' && close < f->n && f->s[close] != '}') close++;
        if (c == '}' || close == f->n) j_fail(j, "Single '%c' encountered in format string", c);
        builder_str(j, &b, replacement(j, str_sub(j, f, i + 1, close), args, &automatic));
        i = close;
    }
    return builder_done(j, &b);
}

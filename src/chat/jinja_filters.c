/* Filters on text and numbers, in jinja2's order of names. Source: jinja2's filters.py. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/call.h"
#include "chat/text_methods.h"
#include "chat/unicode.h"

static bool given(Value v) { return v.type != T_MISSING; }
static bool flag(Value v) { return given(v) && v_true(v); }

/* jinja2's soft_str: str(), but Markup stays. */
static const Str *soft(Jinja *j, Value v) { return v_to_str(j, v); }

static Value f_abs(Jinja *j, Value v, Value *a) {
    (void)a;
    if (v.type == T_FLOAT) return v_float(fabs(v.u.f));
    int64_t i = as_int(j, v, "abs");
    return i < 0 ? v_negate(j, v_int(i)) : v_int(i);
}

static Value f_capitalize(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(text_capitalize(j, soft(j, v)));
}

static Value f_center(Jinja *j, Value v, Value *a) {
    return v_str(text_pad(j, soft(j, v), given(a[0]) ? as_int(j, a[0], "center") : 80, NULL, 'c'));
}

static Value f_default(Jinja *j, Value v, Value *a) {
    bool replace = v.type == T_UNDEFINED || (flag(a[1]) && !v_true(v));
    return !replace ? v : given(a[0]) ? a[0] : v_text(j, "");
}

static Value f_escape(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(escape_html(j, v));
}

static Value f_forceescape(Jinja *j, Value v, Value *a) {
    (void)a;
    Str plain = *v_to_str(j, v);
    plain.safe = false;
    return v_str(escape_html(j, v_str(&plain)));
}

static Value f_filesizeformat(Jinja *j, Value v, Value *a) {
    static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    char text[80];
    if (!is_number(v)) j_fail(j, "filesizeformat: expected a number, found '%s'", type_name(v));
    double bytes = as_double(v), base = flag(a[0]) ? 1024 : 1000, unit = base;
    int i = -1;
    if (bytes == 1) return v_text(j, "1 Byte");
    if (bytes < base) snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    else {
        do unit *= base, i++;
        while (bytes >= unit && i < 7);
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[flag(a[0])][i]);
    }
    return v_text(j, text);
}

/* A number in text, as float() reads it; false when it is none. */
static bool read_float(const Str *s, double *out) {
    char text[100], *end;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool between = i && i + 1 < s->n && isdigit((unsigned char)s->s[i - 1]) && isdigit((unsigned char)s->s[i + 1]);
        if (s->s[i] == '_' && between) continue;
        if (n == sizeof text - 1 || s->s[i] == '_' || tolower((unsigned char)s->s[i]) == 'x') return false;
        text[n++] = s->s[i];
    }
    text[n] = 0;
    *out = strtod(text, &end);
    while (isspace((unsigned char)*end)) end++;
    return n && end != text && !*end && strlen(text) == n && !strchr(text, '(');
}

static Value f_float(Jinja *j, Value v, Value *a) {
    double f;
    if (v.type == T_UNDEFINED) as_int(j, v, "float");
    if (is_number(v)) return v_float(as_double(v));
    if (v.type == T_STR && read_float(v.u.str, &f)) return v_float(f);
    return given(a[0]) ? a[0] : v_float(0);
}

static bool read_int(const Str *s, int base, int64_t *out) {
    char text[100], *end;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool between = i && i + 1 < s->n && isalnum((unsigned char)s->s[i - 1]) && isalnum((unsigned char)s->s[i + 1]);
        if (s->s[i] == '_' && between) continue;
        if (n == sizeof text - 1 || s->s[i] == '_') return false;
        text[n++] = s->s[i];
    }
    text[n] = 0;
    char *from = text;
    while (isspace((unsigned char)*from)) from++;
    char *digits = from + (*from == '-' || *from == '+');
    int letter = digits[0] == '0' ? tolower((unsigned char)digits[1]) : 0;
    int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix && (base == prefix || base == 0)) {
        digits[1] = '0'; /* strtoll knows neither 0o nor 0b */
        base = prefix;
    } else if (base == 0) base = 10;
    errno = 0;
    *out = strtoll(from, &end, base);
    while (isspace((unsigned char)*end)) end++;
    return isalnum((unsigned char)*digits) && !errno && !*end && strlen(text) == n;
}

static Value float_to_int(Jinja *j, double f, Value otherwise) {
    if (isnan(f) || isinf(f)) return otherwise;
    if (fabs(f) >= 9.2e18) j_fail(j, "integer: expected at most 64 bits, found more");
    return v_int((int64_t)f);
}

static Value f_int(Jinja *j, Value v, Value *a) {
    Value otherwise = given(a[0]) ? a[0] : v_int(0);
    int64_t i, base = given(a[1]) ? as_int(j, a[1], "int") : 10;
    double f;
    if (v.type == T_UNDEFINED) as_int(j, v, "int");
    if (v.type == T_FLOAT) return float_to_int(j, v.u.f, otherwise);
    if (is_number(v)) return v_int(as_int(j, v, "int"));
    if (v.type != T_STR) return otherwise;
    if (base != 0 && (base < 2 || base > 36)) j_fail(j, "int() base must be >= 2 and <= 36, or 0");
    if (read_int(v.u.str, (int)base, &i)) return v_int(i);
    return read_float(v.u.str, &f) ? float_to_int(j, f, otherwise) : otherwise;
}

static Value f_format(Jinja *j, Value v, const Args *args) {
    if (args->at->n && args->named && args->named->n)
        j_fail(j, "can't handle positional and keyword arguments at the same time");
    return v_str(
        percent_format(j, soft(j, v), args->named && args->named->n ? v_dict(args->named) : v_tuple(args->at)));
}

static Value f_indent(Jinja *j, Value v, Value *a) {
    static const Str blank = {.n = 1, .chars = 1, .s = " "}, newline = {.n = 1, .chars = 1, .s = "\n"};
    Builder by = {0}, out = {0};
    if (given(a[0]) && a[0].type == T_STR) builder_str(j, &by, a[0].u.str);
    else builder_fill(j, &by, &blank, given(a[0]) ? as_int(j, a[0], "indent") : 4);
    const Str *width = builder_done(j, &by), *s = as_str(j, v, "indent");
    out.safe = s->safe;
    List *lines = text_lines(j, v_binary(j, '+', v_str(s), v_str(&newline)).u.str, false);
    for (int i = 0; i < lines->n; i++) {
        const Str *line = lines->v[i].u.str;
        if (i) builder_char(j, &out, '\n');
        if (i ? flag(a[2]) || line->n : flag(a[1])) builder_str(j, &out, width);
        builder_str(j, &out, line);
    }
    return v_str(builder_done(j, &out));
}

static Value f_lower(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(text_case(j, soft(j, v), 'l'));
}

static Value f_upper(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(text_case(j, soft(j, v), 'u'));
}

static Value f_replace(Jinja *j, Value v, Value *a) {
    int64_t count = given(a[2]) && a[2].type != T_NONE ? as_int(j, a[2], "replace") : -1;
    Str plain = *v_to_str(j, v);
    plain.safe = false;
    return v_str(text_replace(j, &plain, v_to_str(j, a[0]), v_to_str(j, a[1]), count));
}

static double round_half_even(double x) { return nearbyint(x); }

/* round(x, precision) of Python: correct rounding of the decimal digits. */
static double python_round(double x, int precision) {
    char text[400];
    if (!isfinite(x)) return x;
    if (precision >= 0 && precision < 300) {
        snprintf(text, sizeof text, "%.*f", precision, x);
        return strtod(text, NULL);
    }
    double scale = pow(10, -precision);
    return round_half_even(x / scale) * scale;
}

static Value f_round(Jinja *j, Value v, Value *a) {
    int64_t precision = given(a[0]) ? as_int(j, a[0], "round") : 0;
    const char *method = given(a[1]) ? str_name(j, a[1], "round") : "common";
    if (precision < -300 || precision > 290) j_fail(j, "round: expected a precision from -300 to 290, found another");
    if (!is_number(v)) as_int(j, v, "round");
    bool up = strcmp(method, "ceil") == 0;
    if (strcmp(method, "common") == 0) {
        if (v.type == T_FLOAT) return v_float(python_round(v.u.f, (int)precision));
        if (precision >= 0) return v_int(as_int(j, v, "round"));
        return v_int((int64_t)python_round(as_double(v), (int)precision));
    }
    if (!up && strcmp(method, "floor") != 0) j_fail(j, "method must be common, ceil or floor");
    double scale = pow(10, (double)precision), x = as_double(v) * scale;
    return v_float((up ? ceil(x) : floor(x)) / scale);
}

static Value f_safe(Jinja *j, Value v, Value *a) {
    (void)a;
    Str *s = j_alloc(j, sizeof *s);
    *s = *v_to_str(j, v);
    s->safe = true;
    return v_str(s);
}

static Value f_string(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(soft(j, v));
}

static Value f_title(Jinja *j, Value v, Value *a) {
    (void)a;
    const Str *s = soft(j, v);
    Builder b = {.safe = s->safe};
    bool begins = true;
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t out[3], c = utf8_next(s->s + i, s->n - i, &length);
        int n = unicode_case(out, c, begins ? 'u' : 'l');
        for (int k = 0; k < n; k++) builder_code(j, &b, out[k], s->mark ? s->mark[i] : 0);
        begins = unicode_space(c) || (c < 128 && strchr("-({[<", (int)c));
    }
    return v_str(builder_done(j, &b));
}

static Value f_tojson(Jinja *j, Value v, Value *a) {
    return v_str(json_dump(j, v, flag(a[0]), given(a[1]) ? a[1] : v_none(), given(a[2]) ? a[2] : v_none(), flag(a[3])));
}

static Value f_trim(Jinja *j, Value v, Value *a) {
    const Str *chars = given(a[0]) && a[0].type != T_NONE ? as_str(j, a[0], "trim") : NULL;
    return v_str(text_strip(j, soft(j, v), chars, true, true));
}

static Value f_truncate(Jinja *j, Value v, Value *a) {
    const Str *s = as_str(j, v, "truncate"), *end = given(a[2]) ? as_str(j, a[2], "truncate") : str_text(j, "...");
    int64_t length = given(a[0]) ? as_int(j, a[0], "truncate") : 255;
    int64_t leeway = given(a[3]) && a[3].type != T_NONE ? as_int(j, a[3], "truncate") : 5;
    if (length < (int64_t)end->chars) j_fail(j, "expected length >= %zu, got %lld", end->chars, (long long)length);
    if (leeway < 0) j_fail(j, "expected leeway >= 0, got %lld", (long long)leeway);
    if ((int64_t)s->chars <= length + leeway) return v;
    size_t cut = str_at(j, s, (size_t)length - end->chars);
    if (!flag(a[1])) {
        size_t space = cut;
        while (space > 0 && s->s[space - 1] != ' ') space--;
        if (space > 0) cut = space - 1;
    }
    return v_binary(j, '+', v_str(str_sub(j, s, 0, cut)), v_str(end));
}

static Value f_wordcount(Jinja *j, Value v, Value *a) {
    (void)a;
    const Str *s = soft(j, v);
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        bool word = unicode_alpha(c) || unicode_numeric(c) || c == '_';
        words += word && !inside;
        inside = word;
    }
    return v_int(words);
}

static Value f_urlencode(Jinja *j, Value v, Value *a) {
    (void)a;
    if (v.type != T_STR && v_iterable(v)) j_fail(j, "urlencode: expected a string, found '%s'", type_name(v));
    const Str *s = v_to_str(j, v);
    Builder b = {0};
    for (size_t i = 0; i < s->n; i++) {
        char text[8];
        unsigned char c = (unsigned char)s->s[i];
        if (isalnum(c) || (c && strchr("_.-~/", c))) snprintf(text, sizeof text, "%c", c);
        else snprintf(text, sizeof text, "%%%02X", c);
        unsigned char marks[8] = {0};
        memset(marks, s->mark ? s->mark[i] : 0, sizeof marks);
        builder_bytes(j, &b, text, strlen(text), s->mark ? marks : NULL);
    }
    return v_str(builder_done(j, &b));
}

static Value f_refused(Jinja *j, Value v, const Args *args) {
    (void)v, (void)args;
    j_fail(j, "filter: expected a supported one, found pprint, random, striptags, urlize, wordwrap or xmlattr");
}

const Function jinja_text_filters[] = {
    {.name = "abs", .run = f_abs},
    {.name = "capitalize", .run = f_capitalize},
    {.name = "center", .params = "width", .run = f_center},
    {.name = "d", .params = "default_value boolean", .run = f_default},
    {.name = "default", .params = "default_value boolean", .run = f_default},
    {.name = "e", .run = f_escape},
    {.name = "escape", .run = f_escape},
    {.name = "filesizeformat", .params = "binary", .run = f_filesizeformat},
    {.name = "float", .params = "default", .run = f_float},
    {.name = "forceescape", .run = f_forceescape},
    {.name = "format", .run_args = f_format},
    {.name = "indent", .params = "width first blank", .run = f_indent},
    {.name = "int", .params = "default base", .run = f_int},
    {.name = "lower", .run = f_lower},
    {.name = "replace", .params = "old new count", .needed = 2, .run = f_replace},
    {.name = "round", .params = "precision method", .run = f_round},
    {.name = "safe", .run = f_safe},
    {.name = "string", .run = f_string},
    {.name = "title", .run = f_title},
    {.name = "tojson", .params = "ensure_ascii indent separators sort_keys", .run = f_tojson},
    {.name = "trim", .params = "chars", .run = f_trim},
    {.name = "truncate", .params = "length killwords end leeway", .run = f_truncate},
    {.name = "upper", .run = f_upper},
    {.name = "urlencode", .run = f_urlencode},
    {.name = "wordcount", .run = f_wordcount},
    {.name = "pprint", .run_args = f_refused},
    {.name = "random", .run_args = f_refused},
    {.name = "striptags", .run_args = f_refused},
    {.name = "urlize", .run_args = f_refused},
    {.name = "wordwrap", .run_args = f_refused},
    {.name = "xmlattr", .run_args = f_refused},
    {.name = NULL},
};

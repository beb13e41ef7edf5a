/* str() and repr() of every value, as Python writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "chat/call.h"
#include "chat/unicode.h"
#include "chat/value.h"

static const char *const type_names[T_COUNT] = {
    [T_MISSING] = "missing",
    [T_UNDEFINED] = "Undefined",
    [T_NONE] = "NoneType",
    [T_BOOL] = "bool",
    [T_INT] = "int",
    [T_FLOAT] = "float",
    [T_STR] = "str",
    [T_LIST] = "list",
    [T_TUPLE] = "tuple",
    [T_DICT] = "dict",
    [T_NAMESPACE] = "Namespace",
    [T_RANGE] = "range",
    [T_VIEW] = "dict_items",
    [T_ITERATOR] = "generator",
    [T_LOOP] = "LoopContext",
    [T_MACRO] = "Macro",
    [T_METHOD] = "builtin_function_or_method",
    [T_FUNCTION] = "function",
};

const char *type_name(Value v) {
    if (v.type == T_STR && v.u.str->safe) return "Markup";
    return v.type == T_VIEW ? v.u.view->kind : type_names[v.type];
}

const char *v_attribute_error(Jinja *j, const Undefined *u) {
    if (u->hint) return u->hint;
    Builder b = {0};
    if (u->owner) {
        builder_text(j, &b, "'");
        builder_text(j, &b, u->owner);
        builder_text(j, &b, u->name ? "' has no attribute '" : "' has no such element");
    } else builder_text(j, &b, "'");
    if (u->name) builder_text(j, &b, u->name);
    builder_text(j, &b, u->owner ? (u->name ? "'" : "") : "' is undefined");
    builder_char(j, &b, 0);
    return b.s;
}

/* The shortest digits that give the same double, in Python's layout: an exponent below 1e-4 and from 1e16 on. */
void float_repr(char out[32], double f) {
    char digits[32];
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, f);
        if (strtod(digits, NULL) == f) break;
    }
    char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1), n = (int)(e - digits) - (digits[0] == '-') - (e - digits > 2 + (digits[0] == '-'));
    if (exponent < -4 || exponent >= 16) strcpy(out, digits);
    else snprintf(out, 32, "%.*f", n - 1 - exponent > 1 ? n - 1 - exponent : 1, f);
}

/* Where the byte of a mark array is, or 0. */
static unsigned char mark_at(const Str *s, size_t i) { return s->mark ? s->mark[i] : 0; }

static void repr_str(Jinja *j, Builder *b, const Str *s) {
    bool single = memchr(s->s, '\'', s->n) != NULL, twice = memchr(s->s, '"', s->n) != NULL;
    char quote = single && !twice ? '"' : '\'', escape[16];
    if (s->safe) builder_text(j, b, "Markup(");
    builder_char(j, b, quote);
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        const char *named = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
        if (named) strcpy(escape, named);
        else if (c == (uint32_t)quote) snprintf(escape, sizeof escape, "\\%c", quote);
        else if (unicode_printable(c)) {
            builder_bytes(j, b, s->s + i, length, s->mark ? s->mark + i : NULL);
            continue;
        } else snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        unsigned char marks[16];
        memset(marks, mark_at(s, i), sizeof marks);
        builder_bytes(j, b, escape, strlen(escape), marks[0] ? marks : NULL);
    }
    builder_char(j, b, quote);
    if (s->safe) builder_char(j, b, ')');
}

static void repr_items(Jinja *j, Builder *b, const List *l, const char *open, const char *close) {
    builder_text(j, b, open);
    for (int i = 0; i < l->n; i++) {
        if (i) builder_text(j, b, ", ");
        v_repr(j, b, l->v[i]);
    }
    builder_text(j, b, close);
}

static void repr_dict(Jinja *j, Builder *b, const Dict *d, const char *open, const char *close) {
    builder_text(j, b, open);
    for (int i = 0; i < d->n; i++) {
        if (i) builder_text(j, b, ", ");
        v_repr(j, b, d->keys[i]);
        builder_text(j, b, ": ");
        v_repr(j, b, d->values[i]);
    }
    builder_text(j, b, close);
}

static void repr_view(Jinja *j, Builder *b, const View *v) {
    builder_text(j, b, v->kind);
    repr_items(j, b, v->items, "([", "])");
}

static void repr_range(Jinja *j, Builder *b, const Range *r) {
    char text[100];
    long long start = r->start, step = r->step, stop = start + step * r->n;
    if (step == 1) snprintf(text, sizeof text, "range(%lld, %lld)", start, stop);
    else snprintf(text, sizeof text, "range(%lld, %lld, %lld)", start, stop, step);
    builder_text(j, b, text);
}

void v_repr(Jinja *j, Builder *b, Value v) {
    char text[200];
    j_step(j, 1);
    j_enter(j);
    switch (v.type) {
    case T_NONE: builder_text(j, b, "None"); break;
    case T_BOOL: builder_text(j, b, v.u.b ? "True" : "False"); break;
    case T_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.u.i);
        builder_text(j, b, text);
        break;
    case T_FLOAT:
        float_repr(text, v.u.f);
        builder_text(j, b, text);
        break;
    case T_STR: repr_str(j, b, v.u.str); break;
    case T_LIST: repr_items(j, b, v.u.list, "[", "]"); break;
    case T_TUPLE: repr_items(j, b, v.u.list, "(", v.u.list->n == 1 ? ",)" : ")"); break;
    case T_DICT: repr_dict(j, b, v.u.dict, "{", "}"); break;
    case T_NAMESPACE: repr_dict(j, b, v.u.dict, "<Namespace {", "}>"); break;
    case T_RANGE: repr_range(j, b, v.u.range); break;
    case T_VIEW: repr_view(j, b, v.u.view); break;
    case T_LOOP:
        snprintf(text, sizeof text, "<LoopContext %d/%d>", loop_index(v.u.loop), loop_length(j, v.u.loop));
        builder_text(j, b, text);
        break;
    case T_MACRO:
        snprintf(text, sizeof text, "<Macro '%.150s'>", macro_name(v.u.macro));
        builder_text(j, b, text);
        break;
    case T_UNDEFINED:
    case T_MISSING: builder_text(j, b, "Undefined"); break;
    default: j_fail(j, "text of a %s: expected none, found it printed", type_name(v));
    }
    j_leave(j);
}

const Str *v_to_str(Jinja *j, Value v) {
    Builder b = {0};
    if (v.type == T_STR) return v.u.str;
    if (v.type != T_UNDEFINED) v_repr(j, &b, v);
    return builder_done(j, &b);
}

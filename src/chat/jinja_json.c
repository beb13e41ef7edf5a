/* The filter tojson: Python's json.dumps, as transformers sets it up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/call.h"
#include "chat/unicode.h"

typedef struct {
    Jinja *j;
    Builder b;
    bool ascii, sort;
    const Str *indent, *item, *key; /* indent NULL: all on one line */
    int level;
} Json;

static unsigned char mark_at(const Str *s, size_t i) { return s->mark ? s->mark[i] : 0; }

static void json_string(Json *o, const Str *s) {
    static const char specials[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    builder_char(o->j, &o->b, '"');
    for (size_t i = 0, length; i < s->n; i += length) {
        char text[16];
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        const char *special = c && c < 128 ? strchr(specials, (int)c) : NULL;
        if (special) snprintf(text, sizeof text, "\\%c", letters[special - specials]);
        else if (c < 0x20 || (o->ascii && c > 126 && c < 0x10000)) snprintf(text, sizeof text, "\\u%04x", c);
        else if (o->ascii && c >= 0x10000)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
        else {
            builder_bytes(o->j, &o->b, s->s + i, length, s->mark ? s->mark + i : NULL);
            continue;
        }
        unsigned char marks[16];
        memset(marks, mark_at(s, i), sizeof marks);
        builder_bytes(o->j, &o->b, text, strlen(text), marks);
    }
    builder_char(o->j, &o->b, '"');
}

static void newline(Json *o) {
    if (!o->indent) return;
    builder_char(o->j, &o->b, '\n');
    builder_fill(o->j, &o->b, o->indent, o->level);
}

static void json_value(Json *o, Value v);

static void json_list(Json *o, const List *l) {
    builder_char(o->j, &o->b, '[');
    o->level++;
    for (int i = 0; i < l->n; i++) {
        if (i) builder_str(o->j, &o->b, o->item);
        newline(o);
        json_value(o, l->v[i]);
    }
    o->level--;
    if (l->n) newline(o);
    builder_char(o->j, &o->b, ']');
}

static void json_scalar(Json *o, Value v) {
    char text[32];
    if (v.type == T_NONE) builder_text(o->j, &o->b, "null");
    else if (v.type == T_BOOL) builder_text(o->j, &o->b, v.u.b ? "true" : "false");
    else if (v.type == T_INT) {
        snprintf(text, sizeof text, "%lld", (long long)v.u.i);
        builder_text(o->j, &o->b, text);
    } else if (isnan(v.u.f) || isinf(v.u.f))
        builder_text(o->j, &o->b, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
    else {
        float_repr(text, v.u.f);
        builder_text(o->j, &o->b, text);
    }
}

static void json_key(Json *o, Value key) {
    if (key.type == T_STR) json_string(o, key.u.str);
    else if (key.type == T_NONE || is_number(key)) {
        builder_char(o->j, &o->b, '"');
        json_scalar(o, key);
        builder_char(o->j, &o->b, '"');
    } else j_fail(o->j, "keys must be str, int, float, bool or None, not %s", type_name(key));
}

/* The order of a dict's items by their keys. */
static int *key_order(Json *o, const Dict *d) {
    int *order = j_alloc(o->j, (size_t)d->n * sizeof *order + 1);
    for (int i = 0; i < d->n; i++) {
        int k = i;
        while (o->sort && k > 0 && v_compare(o->j, d->keys[i], d->keys[order[k - 1]], "<") < 0) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = i;
    }
    return order;
}

static void json_dict(Json *o, const Dict *d) {
    const int *order = key_order(o, d);
    builder_char(o->j, &o->b, '{');
    o->level++;
    for (int i = 0; i < d->n; i++) {
        if (i) builder_str(o->j, &o->b, o->item);
        newline(o);
        json_key(o, d->keys[order[i]]);
        builder_str(o->j, &o->b, o->key);
        json_value(o, d->values[order[i]]);
    }
    o->level--;
    if (d->n) newline(o);
    builder_char(o->j, &o->b, '}');
}

static void json_value(Json *o, Value v) {
    j_step(o->j, 1);
    j_enter(o->j);
    if (v.type == T_STR) json_string(o, v.u.str);
    else if (v.type == T_LIST || v.type == T_TUPLE) json_list(o, v.u.list);
    else if (v.type == T_DICT) json_dict(o, v.u.dict);
    else if (v.type == T_NONE || is_number(v)) json_scalar(o, v);
    else j_fail(o->j, "Object of type %s is not JSON serializable", type_name(v));
    j_leave(o->j);
}

const Str *json_dump(Jinja *j, Value v, bool ascii, Value indent, Value separators, bool sort) {
    Json o = {.j = j, .ascii = ascii, .sort = sort, .key = str_text(j, ": ")};
    if (indent.type == T_STR) o.indent = indent.u.str;
    else if (indent.type != T_NONE) {
        Builder b = {0};
        builder_fill(j, &b, str_text(j, " "), as_int(j, indent, "indent"));
        o.indent = builder_done(j, &b);
    }
    o.item = str_text(j, o.indent ? "," : ", ");
    if (separators.type != T_NONE) {
        List *l = v_iterable(separators) ? v_items(j, separators) : list_new(j, 0);
        if (l->n != 2) j_fail(j, "separators: expected two strings, found %d", l->n);
        o.item = as_str(j, l->v[0], "separators");
        o.key = as_str(j, l->v[1], "separators");
    }
    json_value(&o, v);
    return builder_done(j, &o.b);
}

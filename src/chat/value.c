#include "chat/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { CHUNK = 64 << 10 };

struct Chunk {
    Chunk *next;
    size_t used, size;
    max_align_t data[];
};

noreturn void j_fail(Jinja *j, const char *format, ...) {
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail(j->e, "chat template: line %d, column %d: %.600s", j->line, j->column, text);
    longjmp(j->escape, 1);
}

void j_step(Jinja *j, size_t n) {
    if (n >= (size_t)(j->max_steps - j->steps)) j_fail(j, "steps: expected at most %ld, found more", j->max_steps);
    j->steps += (long)n;
}

void j_enter(Jinja *j) {
    if (++j->depth > JINJA_DEPTH) j_fail(j, "depth: expected at most %d, found more", JINJA_DEPTH);
}

void *j_alloc(Jinja *j, size_t n) {
    n = (n + 15) & ~(size_t)15;
    Chunk *c = j->chunks;
    if (!c || c->size - c->used < n) {
        size_t size = n > CHUNK ? n : CHUNK;
        if (size > j->max_heap - j->heap_bytes)
            j_fail(j, "heap: expected at most %zu MiB, found more", j->max_heap >> 20);
        if (!(c = calloc(1, sizeof *c + size))) j_fail(j, "memory: expected %zu bytes, found less", size);
        c->size = size;
        j->heap_bytes += size;
        c->next = j->chunks;
        j->chunks = c;
    }
    void *at = (char *)c->data + c->used;
    c->used += n;
    return at;
}

void j_free(Jinja *j) {
    for (Chunk *c = j->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    j->chunks = NULL;
}

const char *j_intern(Jinja *j, const char *s, size_t n) {
    for (int i = 0; i < j->n_names; i++)
        if (strncmp(j->names[i], s, n) == 0 && j->names[i][n] == 0) return j->names[i];
    j_step(j, (size_t)j->n_names);
    if (j->n_names == j->names_room) {
        int room = j->names_room ? 2 * j->names_room : 64;
        const char **names = j_alloc(j, (size_t)room * sizeof *names);
        if (j->n_names) memcpy(names, j->names, (size_t)j->n_names * sizeof *names);
        j->names = names;
        j->names_room = room;
    }
    char *copy = j_alloc(j, n + 1);
    memcpy(copy, s, n);
    return j->names[j->n_names++] = copy;
}

/* ---- Strings ---- */

static size_t count_chars(const char *s, size_t n) {
    size_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    return chars;
}

/* A Str of bytes that stay where they are. */
static Str *str_of(Jinja *j, const char *s, size_t n, const unsigned char *mark) {
    Str *to = j_alloc(j, sizeof *to);
    j_step(j, n / 16);
    *to = (Str){.n = n, .chars = count_chars(s, n), .s = s, .mark = mark};
    return to;
}

const Str *str_new(Jinja *j, const char *s, size_t n, const unsigned char *mark) {
    char *copy = j_alloc(j, n + 1);
    if (n) memcpy(copy, s, n);
    unsigned char *marks = NULL;
    if (mark && n) {
        marks = j_alloc(j, n);
        memcpy(marks, mark, n);
    }
    return str_of(j, copy, n, marks);
}

const Str *str_text(Jinja *j, const char *s) { return str_new(j, s, strlen(s), NULL); }

const Str *str_sub(Jinja *j, const Str *s, size_t from, size_t to) {
    Str *sub = str_of(j, s->s + from, to - from, s->mark ? s->mark + from : NULL);
    sub->safe = s->safe;
    return sub;
}

bool str_is(const Str *s, const char *text) { return s->n == strlen(text) && memcmp(s->s, text, s->n) == 0; }

int str_compare(Jinja *j, const Str *a, const Str *b) {
    size_t n = a->n < b->n ? a->n : b->n;
    j_step(j, n / 16);
    int order = n ? memcmp(a->s, b->s, n) : 0;
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

size_t str_at(Jinja *j, const Str *s, size_t index) {
    if (s->chars == s->n) return index;
    size_t at = 0;
    for (size_t i = 0; i < index && at < s->n; i++)
        for (at++; at < s->n && ((unsigned char)s->s[at] & 0xc0) == 0x80;) at++;
    j_step(j, at / 16);
    return at;
}

/* ---- Builders ---- */

void builder_reserve(Jinja *j, Builder *b, size_t n) {
    if (n > j->max_heap - b->n) j_fail(j, "heap: expected at most %zu MiB, found more", j->max_heap >> 20);
    if (b->n + n <= b->room) return;
    size_t room = 2 * (b->n + n) + 32;
    char *s = j_alloc(j, room);
    if (b->n) memcpy(s, b->s, b->n);
    b->s = s;
    if (b->mark) {
        unsigned char *mark = j_alloc(j, room);
        memcpy(mark, b->mark, b->n);
        b->mark = mark;
    }
    b->room = room;
}

void builder_bytes(Jinja *j, Builder *b, const char *s, size_t n, const unsigned char *mark) {
    builder_reserve(j, b, n);
    j_step(j, n / 16);
    if (mark && !b->mark) b->mark = j_alloc(j, b->room);
    if (n) memcpy(b->s + b->n, s, n);
    if (n && mark) memcpy(b->mark + b->n, mark, n);
    b->n += n;
}

void builder_char(Jinja *j, Builder *b, char c) { builder_bytes(j, b, &c, 1, NULL); }
void builder_str(Jinja *j, Builder *b, const Str *s) { builder_bytes(j, b, s->s, s->n, s->mark); }
void builder_text(Jinja *j, Builder *b, const char *s) { builder_bytes(j, b, s, strlen(s), NULL); }

void builder_code(Jinja *j, Builder *b, uint32_t code, unsigned char mark) {
    char out[4];
    unsigned char marks[4] = {mark, mark, mark, mark};
    builder_bytes(j, b, out, utf8_encode(out, code), mark ? marks : NULL);
}

void builder_fill(Jinja *j, Builder *b, const Str *s, int64_t times) {
    for (int64_t i = 0; i < times && s->n; i++) {
        j_step(j, 1);
        builder_str(j, b, s);
    }
}

const Str *builder_done(Jinja *j, Builder *b) {
    Str *s = str_of(j, b->n ? b->s : "", b->n, b->n ? b->mark : NULL);
    s->safe = b->safe;
    return s;
}

/* ---- Lists and dicts ---- */

List *list_new(Jinja *j, int room) {
    List *l = j_alloc(j, sizeof *l);
    l->v = room ? j_alloc(j, (size_t)room * sizeof *l->v) : NULL;
    l->room = room;
    return l;
}

void list_add(Jinja *j, List *l, Value v) {
    j_step(j, 1);
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 8;
        Value *larger = j_alloc(j, (size_t)room * sizeof *larger);
        if (l->n) memcpy(larger, l->v, (size_t)l->n * sizeof *larger);
        l->v = larger;
        l->room = room;
    }
    l->v[l->n++] = v;
}

Dict *dict_new(Jinja *j) { return j_alloc(j, sizeof(Dict)); }

static void check_hashable(Jinja *j, Value key) {
    if (key.type == T_LIST || key.type == T_DICT) j_fail(j, "unhashable type: '%s'", type_name(key));
    for (int i = 0; key.type == T_TUPLE && i < key.u.list->n; i++) check_hashable(j, key.u.list->v[i]);
}

Value *dict_get(Jinja *j, const Dict *d, Value key) {
    check_hashable(j, key);
    for (int i = 0; i < d->n; i++) {
        bool same_type = d->keys[i].type == key.type;
        if (same_type && key.type == T_STR && d->keys[i].u.str->n != key.u.str->n) continue;
        j_step(j, 1);
        if (v_equal(j, d->keys[i], key)) return &d->values[i];
    }
    j_step(j, (size_t)d->n / 4);
    return NULL;
}

Value *dict_get_text(const Dict *d, const char *key) {
    for (int i = 0; i < d->n; i++)
        if (d->keys[i].type == T_STR && str_is(d->keys[i].u.str, key)) return &d->values[i];
    return NULL;
}

void dict_set(Jinja *j, Dict *d, Value key, Value value) {
    Value *there = dict_get(j, d, key);
    if (there) {
        *there = value;
        return;
    }
    if (d->n == d->room) {
        int room = d->room ? 2 * d->room : 8;
        Value *keys = j_alloc(j, (size_t)room * sizeof *keys), *values = j_alloc(j, (size_t)room * sizeof *values);
        for (int i = 0; i < d->n; i++) keys[i] = d->keys[i], values[i] = d->values[i];
        d->keys = keys;
        d->values = values;
        d->room = room;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = value;
}

Value v_iterator(Jinja *j, List *items) {
    Iterator *it = j_alloc(j, sizeof *it);
    it->items = items;
    return (Value){T_ITERATOR, {.iterator = it}};
}

Value v_undefined(Jinja *j, const char *hint, const char *owner, const char *name) {
    Undefined *u = j_alloc(j, sizeof *u);
    *u = (Undefined){hint, owner, name};
    return (Value){T_UNDEFINED, {.undefined = u}};
}

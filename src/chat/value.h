/* value - what a chat template computes with: Python's values, as far as jinja2's sandbox lets a template see them.
 *
 * Everything lives on the heap of one Jinja, which jinja_render frees whole. What goes wrong anywhere in the
 * interpreter - an error of the template, a limit, no memory - unwinds by j_fail to jinja_render: no function here
 * returns a failure. Strings are immutable UTF-8 with a mark for each byte that a person or the model wrote. */
#pragma once
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <time.h>

#include "base/error.h"

typedef enum {
    T_MISSING, /* no argument was given; never seen by a template */
    T_UNDEFINED,
    T_NONE,
    T_BOOL,
    T_INT,
    T_FLOAT,
    T_STR,
    T_LIST,
    T_TUPLE,
    T_DICT,
    T_NAMESPACE,
    T_RANGE,
    T_VIEW,     /* dict.items(), keys(), values() */
    T_ITERATOR, /* of map, select, ...: once through, always true, no length */
    T_LOOP,
    T_MACRO,
    T_METHOD,   /* bound: "a".upper */
    T_FUNCTION, /* range, dict, ... */
    T_COUNT
} Type;

typedef struct {
    size_t n, chars;
    bool safe; /* markupsafe's Markup, from the filters safe and escape */
    const char *s;
    const unsigned char *mark; /* [n] 1: a message's byte; NULL: all are the template's */
} Str;

typedef struct Value Value;
typedef struct List List;
typedef struct Dict Dict;
typedef struct Loop Loop;
typedef struct Macro Macro;
typedef struct Method Method;
typedef struct Function Function;

typedef struct {
    int64_t start, step, n;
} Range;

typedef struct {
    const char *hint;  /* the whole message, or NULL */
    const char *owner; /* the type that has no such attribute; NULL: a name that is not defined */
    const char *name;
} Undefined;

typedef struct {
    List *items;
    const char *kind; /* "dict_items" */
} View;

typedef struct {
    List *items;
    int at;
} Iterator;

struct Value {
    Type type;
    union {
        bool b;
        int64_t i;
        double f;
        const Str *str;
        List *list; /* T_LIST, T_TUPLE */
        Dict *dict; /* T_DICT, T_NAMESPACE */
        Range *range;
        View *view;
        Iterator *iterator;
        Loop *loop;
        Macro *macro;
        Method *method;
        const Function *function;
        const Undefined *undefined;
    } u;
};

struct List {
    Value *v; /* [n] */
    int n, room;
    bool group; /* a tuple of the filter groupby: .grouper, .list */
};

struct Dict {
    Value *keys, *values; /* [n] in the order of insertion */
    int n, room;
};

/* Builder - a string that grows. */
typedef struct {
    char *s;
    unsigned char *mark; /* NULL until a marked byte comes */
    size_t n, room;
    bool safe;
} Builder;

/* Limits on a template of a stranger. A step is one node, one item, or 16 bytes that are compared or copied. The heap
 * has so much for each byte of the template and of what it sees, on top. */
enum { JINJA_STEPS = 50000000, JINJA_DEPTH = 2000, JINJA_HEAP = 40 << 20, JINJA_HEAP_PER_BYTE = 32 };

typedef struct Chunk Chunk;
typedef struct Scope Scope;

typedef struct {
    Chunk *chunks;
    size_t heap_bytes, max_heap;
    long steps, max_steps;
    int depth;
    int line, column; /* of what is run or read now, from 1 */
    time_t now;
    const char **names; /* [n_names] interned */
    int n_names, names_room;
    Scope *globals;
    Builder *out; /* where {{ }} writes */
    Error *e;
    jmp_buf escape;
} Jinja;

/* j_fail - "chat template: line L, column C: ..." in e, and back to jinja_render. */
noreturn void j_fail(Jinja *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* j_step - counts n steps; fails at the limit. j_enter, j_leave - one level of recursion. */
void j_step(Jinja *j, size_t n);
void j_enter(Jinja *j);
static inline void j_leave(Jinja *j) { j->depth--; }
/* j_alloc - n zeroed bytes. */
void *j_alloc(Jinja *j, size_t n);
void j_free(Jinja *j);
/* j_intern - the one copy of a name: equal names are equal pointers. */
const char *j_intern(Jinja *j, const char *s, size_t n);

/* ---- Making values ---- */
static inline Value v_none(void) { return (Value){.type = T_NONE}; }
static inline Value v_missing(void) { return (Value){.type = T_MISSING}; }
static inline Value v_bool(bool b) { return (Value){T_BOOL, {.b = b}}; }
static inline Value v_int(int64_t i) { return (Value){T_INT, {.i = i}}; }
static inline Value v_float(double f) { return (Value){T_FLOAT, {.f = f}}; }
static inline Value v_str(const Str *s) { return (Value){T_STR, {.str = s}}; }
static inline Value v_list(List *l) { return (Value){T_LIST, {.list = l}}; }
static inline Value v_tuple(List *l) { return (Value){T_TUPLE, {.list = l}}; }
static inline Value v_dict(Dict *d) { return (Value){T_DICT, {.dict = d}}; }
Value v_iterator(Jinja *j, List *items);
/* v_undefined - hint, or the name that owner (NULL: no owner) lacks. */
Value v_undefined(Jinja *j, const char *hint, const char *owner, const char *name);

/* str_new - a copy of s[n]; mark [n] or NULL. str_text - of a C string. str_sub - bytes [from, to) of s, shared. */
const Str *str_new(Jinja *j, const char *s, size_t n, const unsigned char *mark);
const Str *str_text(Jinja *j, const char *s);
const Str *str_sub(Jinja *j, const Str *s, size_t from, size_t to);
static inline Value v_text(Jinja *j, const char *s) { return v_str(str_text(j, s)); }
bool str_is(const Str *s, const char *text);
int str_compare(Jinja *j, const Str *a, const Str *b);
/* str_at - the byte at which character `index` begins; index may be s->chars. */
size_t str_at(Jinja *j, const Str *s, size_t index);

/* builder_reserve - room for n more bytes. */
void builder_reserve(Jinja *j, Builder *b, size_t n);
void builder_bytes(Jinja *j, Builder *b, const char *s, size_t n, const unsigned char *mark);
void builder_char(Jinja *j, Builder *b, char c);
void builder_code(Jinja *j, Builder *b, uint32_t code, unsigned char mark);
void builder_str(Jinja *j, Builder *b, const Str *s);
void builder_text(Jinja *j, Builder *b, const char *s);
void builder_fill(Jinja *j, Builder *b, const Str *s, int64_t times);
const Str *builder_done(Jinja *j, Builder *b);

List *list_new(Jinja *j, int room);
void list_add(Jinja *j, List *l, Value v);
Dict *dict_new(Jinja *j);
/* dict_get - a pointer to the value of key, or NULL; fails when the key is not hashable. */
Value *dict_get(Jinja *j, const Dict *d, Value key);
Value *dict_get_text(const Dict *d, const char *key);
void dict_set(Jinja *j, Dict *d, Value key, Value value);

/* ---- What every value can do; v_text.c ---- */
const char *type_name(Value v);                              /* "str", as Python says */
const char *v_attribute_error(Jinja *j, const Undefined *u); /* the message of an undefined value */
const Str *v_to_str(Jinja *j, Value v);                      /* str(v) */
void v_repr(Jinja *j, Builder *b, Value v);
void float_repr(char out[32], double f);

/* ---- v_ops.c ---- */
bool v_true(Value v);
bool v_equal(Jinja *j, Value a, Value b);
int v_compare(Jinja *j, Value a, Value b, const char *op); /* < 0, 0, > 0; fails for types that have no order */
bool v_contains(Jinja *j, Value in, Value what);
int64_t v_length(Jinja *j, Value v);
bool v_has_length(Value v);
bool v_iterable(Value v);
/* v_items - all items of an iterable, in a list that must not be changed; an iterator is used up. */
List *v_items(Jinja *j, Value v);
Value v_binary(Jinja *j, int op, Value a, Value b); /* op: a character, 'f' for //, 'p' for ** */
Value v_negate(Jinja *j, Value a);
Value v_getattr(Jinja *j, Value v, const char *name);
Value v_getitem(Jinja *j, Value v, Value key);
Value v_slice(Jinja *j, Value v, Value start, Value stop, Value step);
Value range_at(const Range *r, int64_t i);
bool is_number(Value v); /* bool, int, float */
double as_double(Value v);
int64_t as_int(Jinja *j, Value v, const char *what); /* bool and int only */
const Str *as_str(Jinja *j, Value v, const char *what);

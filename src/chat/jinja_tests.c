/* Tests ("is defined"), the functions a template may call, and the methods of lists, dicts and ranges. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chat/call.h"

static bool given(Value v) { return v.type != T_MISSING; }

#define TEST(name, condition)                                                                                          \
    static Value name(Jinja *j, Value v, Value *a) {                                                                   \
        (void)j, (void)a;                                                                                              \
        return v_bool(condition);                                                                                      \
    }
TEST(t_defined, v.type != T_UNDEFINED)
TEST(t_undefined, v.type == T_UNDEFINED)
TEST(t_none, v.type == T_NONE)
TEST(t_boolean, v.type == T_BOOL)
TEST(t_true, v.type == T_BOOL && v.u.b)
TEST(t_false, v.type == T_BOOL && !v.u.b)
TEST(t_integer, v.type == T_INT)
TEST(t_float, v.type == T_FLOAT)
TEST(t_number, is_number(v))
TEST(t_string, v.type == T_STR)
TEST(t_mapping, v.type == T_DICT)
TEST(t_iterable, v_iterable(v))
TEST(t_sequence, v_has_length(v) && v.type != T_VIEW && v.type != T_LOOP)
TEST(t_callable, v.type == T_UNDEFINED || v.type == T_LOOP || v.type >= T_MACRO)
TEST(t_escaped, v.type == T_STR && v.u.str->safe)
TEST(t_filter, filter_find(str_name(j, v, "filter")) != NULL)
TEST(t_test, test_find(str_name(j, v, "test")) != NULL)
TEST(t_eq, v_equal(j, v, a[0]))
TEST(t_ne, !v_equal(j, v, a[0]))
TEST(t_in, v_contains(j, a[0], v))
TEST(t_lt, v_compare(j, v, a[0], "<") < 0)
TEST(t_le, v_compare(j, v, a[0], "<=") <= 0)

/* Greater: a NaN compares as 2. */
static bool ordered(Value v, int order) { return !(is_number(v) && order == 2); }

static Value t_gt(Jinja *j, Value v, Value *a) {
    int order = v_compare(j, v, a[0], ">");
    return v_bool(order > 0 && ordered(v, order));
}

static Value t_ge(Jinja *j, Value v, Value *a) {
    int order = v_compare(j, v, a[0], ">=");
    return v_bool(order >= 0 && ordered(v, order));
}

static Value remainder_is(Jinja *j, Value v, Value by, int64_t wanted) {
    return v_bool(v_equal(j, v_binary(j, '%', v, by), v_int(wanted)));
}
static Value t_odd(Jinja *j, Value v, Value *a) {
    (void)a;
    return remainder_is(j, v, v_int(2), 1);
}
static Value t_even(Jinja *j, Value v, Value *a) {
    (void)a;
    return remainder_is(j, v, v_int(2), 0);
}
static Value t_divisibleby(Jinja *j, Value v, Value *a) { return remainder_is(j, v, a[0], 0); }

static Value case_test(Jinja *j, Value v, const char *method) {
    Args none = {list_new(j, 0), NULL};
    Value text = v_str(v_to_str(j, v));
    return function_call(j, method_find(text, method), text, &none);
}
static Value t_lower(Jinja *j, Value v, Value *a) {
    (void)a;
    return case_test(j, v, "islower");
}
static Value t_upper(Jinja *j, Value v, Value *a) {
    (void)a;
    return case_test(j, v, "isupper");
}

/* The same object: what is no container has no identity here. */
static Value t_sameas(Jinja *j, Value v, Value *a) {
    if (v.type != a[0].type) return v_bool(false);
    if (v.type == T_STR || v.type <= T_FLOAT) return v_bool(v_equal(j, v, a[0]));
    return v_bool(v.u.list == a[0].u.list);
}

#define ONE .params = "other", .needed = 1
const Function jinja_tests[] = {
    {.name = "odd", .run = t_odd},
    {.name = "even", .run = t_even},
    {.name = "divisibleby", .params = "num", .needed = 1, .run = t_divisibleby},
    {.name = "defined", .run = t_defined},
    {.name = "undefined", .run = t_undefined},
    {.name = "filter", .run = t_filter},
    {.name = "test", .run = t_test},
    {.name = "none", .run = t_none},
    {.name = "boolean", .run = t_boolean},
    {.name = "false", .run = t_false},
    {.name = "true", .run = t_true},
    {.name = "integer", .run = t_integer},
    {.name = "float", .run = t_float},
    {.name = "lower", .run = t_lower},
    {.name = "upper", .run = t_upper},
    {.name = "string", .run = t_string},
    {.name = "mapping", .run = t_mapping},
    {.name = "number", .run = t_number},
    {.name = "sequence", .run = t_sequence},
    {.name = "iterable", .run = t_iterable},
    {.name = "callable", .run = t_callable},
    {.name = "sameas", ONE, .run = t_sameas},
    {.name = "escaped", .run = t_escaped},
    {.name = "in", .params = "seq", .needed = 1, .run = t_in},
    {.name = "==", ONE, .run = t_eq},
    {.name = "eq", ONE, .run = t_eq},
    {.name = "equalto", ONE, .run = t_eq},
    {.name = "!=", ONE, .run = t_ne},
    {.name = "ne", ONE, .run = t_ne},
    {.name = ">", ONE, .run = t_gt},
    {.name = "gt", ONE, .run = t_gt},
    {.name = "greaterthan", ONE, .run = t_gt},
    {.name = "ge", ONE, .run = t_ge},
    {.name = ">=", ONE, .run = t_ge},
    {.name = "<", ONE, .run = t_lt},
    {.name = "lt", ONE, .run = t_lt},
    {.name = "lessthan", ONE, .run = t_lt},
    {.name = "<=", ONE, .run = t_le},
    {.name = "le", ONE, .run = t_le},
    {.name = NULL},
};

/* ---- Functions ---- */

static Value g_range(Jinja *j, Value self, Value *a) {
    (void)self;
    int64_t start = given(a[1]) ? as_int(j, a[0], "range") : 0, stop = as_int(j, given(a[1]) ? a[1] : a[0], "range");
    int64_t step = given(a[2]) ? as_int(j, a[2], "range") : 1;
    enum { MOST = 100000 }; /* jinja2's sandbox */
    if (step == 0) j_fail(j, "range() arg 3 must not be zero");
    if (start < -INT32_MAX || start > INT32_MAX || stop < -INT32_MAX || stop > INT32_MAX || step < -INT32_MAX ||
        step > INT32_MAX)
        j_fail(j, "Range too big. The sandbox blocks ranges larger than %d.", MOST);
    int64_t span = step > 0 ? stop - start : start - stop, by = step > 0 ? step : -step;
    Range *r = j_alloc(j, sizeof *r);
    *r = (Range){start, step, span > 0 ? (span - 1) / by + 1 : 0};
    if (r->n > MOST) j_fail(j, "Range too big. The sandbox blocks ranges larger than %d.", MOST);
    return (Value){T_RANGE, {.range = r}};
}

/* dict(mapping or pairs, name=value, ...) */
static Dict *dict_of(Jinja *j, const Args *args, const char *what) {
    Dict *d = dict_new(j);
    if (args->at->n > 1) j_fail(j, "%s expected at most 1 argument, got %d", what, args->at->n);
    Value from = args->at->n ? args->at->v[0] : v_none();
    if (from.type == T_DICT)
        for (int i = 0; i < from.u.dict->n; i++) dict_set(j, d, from.u.dict->keys[i], from.u.dict->values[i]);
    else if (args->at->n) {
        if (!v_iterable(from)) j_fail(j, "'%s' object is not iterable", type_name(from));
        List *pairs = v_items(j, from);
        for (int i = 0; i < pairs->n; i++) {
            if (!v_iterable(pairs->v[i]))
                j_fail(j, "cannot convert dictionary update sequence element #%d to a sequence", i);
            List *pair = v_items(j, pairs->v[i]);
            if (pair->n != 2)
                j_fail(j, "dictionary update sequence element #%d has length %d; 2 is required", i, pair->n);
            dict_set(j, d, pair->v[0], pair->v[1]);
        }
    }
    for (int i = 0; args->named && i < args->named->n; i++)
        dict_set(j, d, args->named->keys[i], args->named->values[i]);
    return d;
}

static Value g_dict(Jinja *j, Value self, const Args *args) {
    (void)self;
    return v_dict(dict_of(j, args, "dict"));
}

static Value g_namespace(Jinja *j, Value self, const Args *args) {
    (void)self;
    Dict *d = dict_of(j, args, "namespace");
    for (int i = 0; i < d->n; i++)
        if (d->keys[i].type == T_STR && d->keys[i].u.str->n && d->keys[i].u.str->s[0] == '_')
            j_fail(j, "namespace attribute '%s': expected no underscore first, found one",
                   str_name(j, d->keys[i], "name"));
    return (Value){T_NAMESPACE, {.dict = d}};
}

static Value g_raise(Jinja *j, Value self, Value *a) {
    (void)self;
    const Str *text = v_to_str(j, a[0]);
    j_fail(j, "%.*s", (int)(text->n < 500 ? text->n : 500), text->s);
}

/* datetime.now().strftime: the local time, without a zone. */
static Value g_strftime(Jinja *j, Value self, Value *a) {
    (void)self;
    const Str *format = as_str(j, a[0], "strftime_now");
    Builder b = {0};
    struct tm now;
    if (!localtime_r(&j->now, &now)) j_fail(j, "strftime_now: expected a time, found none");
    for (size_t i = 0; i < format->n; i++) {
        char directive[4] = "%", text[100];
        if (format->s[i] != '%' || i + 1 == format->n) {
            builder_bytes(j, &b, format->s + i, 1, format->mark ? format->mark + i : NULL);
            continue;
        }
        char c = format->s[++i];
        bool modified = strchr("-_0^#", c) && c && i + 1 < format->n;
        directive[1] = c;
        if (modified) directive[2] = format->s[++i];
        if (c == 'z' || c == 'Z') continue;
        if (c == 'f') builder_text(j, &b, "000000");
        else builder_bytes(j, &b, text, strftime(text, sizeof text, directive, &now), NULL);
    }
    return v_str(builder_done(j, &b));
}

static Value g_refused(Jinja *j, Value self, const Args *args) {
    (void)self, (void)args;
    j_fail(j, "function: expected a supported one, found cycler, joiner or lipsum");
}

const Function jinja_functions[] = {
    {.name = "range", .params = "start stop step", .needed = 1, .run = g_range},
    {.name = "dict", .run_args = g_dict},
    {.name = "namespace", .run_args = g_namespace},
    {.name = "raise_exception", .params = "message", .needed = 1, .run = g_raise},
    {.name = "strftime_now", .params = "format", .needed = 1, .run = g_strftime},
    {.name = "cycler", .run_args = g_refused},
    {.name = "joiner", .run_args = g_refused},
    {.name = "lipsum", .run_args = g_refused},
    {.name = NULL},
};

/* ---- Methods of what is no str ---- */

static Value view_of(Jinja *j, Value v, const char *kind, bool keys, bool values) {
    View *view = j_alloc(j, sizeof *view);
    *view = (View){list_new(j, v.u.dict->n), kind};
    for (int i = 0; i < v.u.dict->n; i++) {
        Value item = keys ? v.u.dict->keys[i] : v.u.dict->values[i];
        if (keys && values) {
            List *pair = list_new(j, 2);
            list_add(j, pair, item);
            list_add(j, pair, v.u.dict->values[i]);
            item = v_tuple(pair);
        }
        list_add(j, view->items, item);
    }
    return (Value){T_VIEW, {.view = view}};
}

static Value d_items(Jinja *j, Value v, Value *a) {
    (void)a;
    return view_of(j, v, "dict_items", true, true);
}
static Value d_keys(Jinja *j, Value v, Value *a) {
    (void)a;
    return view_of(j, v, "dict_keys", true, false);
}
static Value d_values(Jinja *j, Value v, Value *a) {
    (void)a;
    return view_of(j, v, "dict_values", false, true);
}

static Value d_get(Jinja *j, Value v, Value *a) {
    const Value *there = dict_get(j, v.u.dict, a[0]);
    return there ? *there : given(a[1]) ? a[1] : v_none();
}

static Value d_copy(Jinja *j, Value v, Value *a) {
    (void)a;
    Args args = {list_new(j, 1), NULL};
    list_add(j, args.at, v);
    return v_dict(dict_of(j, &args, "dict"));
}

static Value s_copy(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_slice(j, v, v_none(), v_none(), v_none());
}

static Value s_count(Jinja *j, Value v, Value *a) {
    List *l = v_items(j, v);
    int64_t n = 0;
    for (int i = 0; i < l->n; i++) n += v_equal(j, l->v[i], a[0]);
    return v_int(n);
}

static Value s_index(Jinja *j, Value v, Value *a) {
    List *l = v_items(j, v);
    int64_t from = given(a[1]) ? as_int(j, a[1], "index") : 0, to = given(a[2]) ? as_int(j, a[2], "index") : l->n;
    if (from < 0) from = from + l->n < 0 ? 0 : from + l->n;
    if (to < 0) to += l->n;
    for (int64_t i = from; i < to && i < l->n; i++)
        if (v_equal(j, l->v[i], a[0])) return v_int(i);
    j_fail(j, "value is not in %s", type_name(v));
}

/* NOLINTBEGIN(bugprone-macro-parentheses): a list of initializers */
#define SEQUENCE(kind)                                                                                                 \
    {.name = "count", .type = kind, .params = "value", .needed = 1, .run = s_count}, {                                 \
        .name = "index", .type = kind, .params = "value start stop", .needed = 1, .run = s_index                       \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

const Function jinja_other_methods[] = {
    {.name = "items", .type = T_DICT, .run = d_items},
    {.name = "keys", .type = T_DICT, .run = d_keys},
    {.name = "values", .type = T_DICT, .run = d_values},
    {.name = "get", .type = T_DICT, .params = "key default", .needed = 1, .run = d_get},
    {.name = "copy", .type = T_DICT, .run = d_copy},
    {.name = "copy", .type = T_LIST, .run = s_copy},
    SEQUENCE(T_LIST),
    SEQUENCE(T_TUPLE),
    SEQUENCE(T_RANGE),
    {.name = NULL},
};

/* What operators and subscripts do, as Python and jinja2's sandbox define it. */
#include <math.h>
#include <string.h>

#include "chat/call.h"
#include "chat/value.h"

bool is_number(Value v) { return v.type == T_BOOL || v.type == T_INT || v.type == T_FLOAT; }
static bool is_int(Value v) { return v.type == T_BOOL || v.type == T_INT; }
double as_double(Value v) { return v.type == T_FLOAT ? v.u.f : v.type == T_BOOL ? v.u.b : (double)v.u.i; }
static int64_t int_of(Value v) { return v.type == T_BOOL ? v.u.b : v.u.i; }

/* Any use of an undefined value but printing, iterating and testing it. */
static void check_defined(Jinja *j, Value v) {
    if (v.type == T_UNDEFINED) j_fail(j, "%s", v_attribute_error(j, v.u.undefined));
}

int64_t as_int(Jinja *j, Value v, const char *what) {
    check_defined(j, v);
    if (!is_int(v)) j_fail(j, "%s: expected an integer, found '%s'", what, type_name(v));
    return int_of(v);
}

const Str *as_str(Jinja *j, Value v, const char *what) {
    check_defined(j, v);
    if (v.type != T_STR) j_fail(j, "%s: expected a string, found '%s'", what, type_name(v));
    return v.u.str;
}

bool v_true(Value v) {
    switch (v.type) {
    case T_MISSING:
    case T_UNDEFINED:
    case T_NONE: return false;
    case T_BOOL: return v.u.b;
    case T_INT: return v.u.i != 0;
    case T_FLOAT: return v.u.f != 0;
    case T_STR: return v.u.str->n > 0;
    case T_LIST:
    case T_TUPLE: return v.u.list->n > 0;
    case T_DICT: return v.u.dict->n > 0;
    case T_RANGE: return v.u.range->n > 0;
    case T_VIEW: return v.u.view->items->n > 0;
    default: return true;
    }
}

static bool lists_equal(Jinja *j, const List *a, const List *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!v_equal(j, a->v[i], b->v[i])) return false;
    return true;
}

static bool dicts_equal(Jinja *j, const Dict *a, const Dict *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const Value *other = dict_get(j, b, a->keys[i]);
        if (!other || !v_equal(j, a->values[i], *other)) return false;
    }
    return true;
}

/* keys() and items() are sets, whose items are not the same twice; values() is none. */
static bool views_equal(Jinja *j, const View *a, const View *b) {
    if (strcmp(a->kind, "dict_values") == 0 || strcmp(b->kind, "dict_values") == 0) return a == b;
    if (a->items->n != b->items->n) return false;
    for (int i = 0, k; i < a->items->n; i++) {
        for (k = 0; k < b->items->n && !v_equal(j, a->items->v[i], b->items->v[k]);) k++;
        if (k == b->items->n) return false;
    }
    return true;
}

bool v_equal(Jinja *j, Value a, Value b) {
    bool equal = false;
    j_step(j, 1);
    if (is_int(a) && is_int(b)) return int_of(a) == int_of(b);
    if (is_number(a) && is_number(b)) return as_double(a) == as_double(b);
    if (a.type != b.type) return false;
    j_enter(j);
    switch (a.type) {
    case T_UNDEFINED:
    case T_NONE: equal = true; break;
    case T_STR: equal = a.u.str->n == b.u.str->n && str_compare(j, a.u.str, b.u.str) == 0; break;
    case T_LIST:
    case T_TUPLE: equal = lists_equal(j, a.u.list, b.u.list); break;
    case T_DICT: equal = dicts_equal(j, a.u.dict, b.u.dict); break;
    case T_RANGE:
        equal = a.u.range->n == b.u.range->n &&
                (a.u.range->n == 0 ||
                 (a.u.range->start == b.u.range->start && (a.u.range->n == 1 || a.u.range->step == b.u.range->step)));
        break;
    case T_VIEW: equal = views_equal(j, a.u.view, b.u.view); break;
    case T_METHOD:
        equal = a.u.method->function == b.u.method->function && v_equal(j, a.u.method->self, b.u.method->self);
        break;
    default: equal = a.u.list == b.u.list; break; /* the same object */
    }
    j_leave(j);
    return equal;
}

static int compare_lists(Jinja *j, const List *a, const List *b, const char *op) {
    for (int i = 0; i < a->n && i < b->n; i++)
        if (!v_equal(j, a->v[i], b->v[i])) return v_compare(j, a->v[i], b->v[i], op);
    return (a->n > b->n) - (a->n < b->n);
}

int v_compare(Jinja *j, Value a, Value b, const char *op) {
    j_step(j, 1);
    check_defined(j, a);
    check_defined(j, b);
    if (is_int(a) && is_int(b)) return (int_of(a) > int_of(b)) - (int_of(a) < int_of(b));
    if (is_number(a) && is_number(b)) {
        double x = as_double(a), y = as_double(b);
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; /* 2: NaN, neither */
    }
    if (a.type == T_STR && b.type == T_STR) return str_compare(j, a.u.str, b.u.str);
    if (a.type != b.type || (a.type != T_LIST && a.type != T_TUPLE))
        j_fail(j, "'%s' not supported between instances of '%s' and '%s'", op, type_name(a), type_name(b));
    j_enter(j);
    int order = compare_lists(j, a.u.list, b.u.list, op);
    j_leave(j);
    return order;
}

bool v_contains(Jinja *j, Value in, Value what) {
    if (in.type == T_DICT) return dict_get(j, in.u.dict, what) != NULL;
    if (in.type == T_STR) {
        const Str *a = in.u.str;
        check_defined(j, what);
        if (what.type != T_STR) j_fail(j, "'in <string>' requires string as left operand, not %s", type_name(what));
        j_step(j, a->n / 16);
        return what.u.str->n == 0 || memmem(a->s, a->n, what.u.str->s, what.u.str->n);
    }
    if (!v_iterable(in)) j_fail(j, "argument of type '%s' is not iterable", type_name(in));
    List *l = v_items(j, in);
    for (int i = 0; i < l->n; i++)
        if (v_equal(j, l->v[i], what)) return true;
    return false;
}

bool v_has_length(Value v) {
    return v.type == T_UNDEFINED || v.type == T_STR || v.type == T_LIST || v.type == T_TUPLE || v.type == T_DICT ||
           v.type == T_RANGE || v.type == T_VIEW || v.type == T_LOOP;
}

int64_t v_length(Jinja *j, Value v) {
    switch (v.type) {
    case T_UNDEFINED: return 0;
    case T_STR: return (int64_t)v.u.str->chars;
    case T_LIST:
    case T_TUPLE: return v.u.list->n;
    case T_DICT: return v.u.dict->n;
    case T_RANGE: return v.u.range->n;
    case T_VIEW: return v.u.view->items->n;
    case T_LOOP: return loop_length(j, v.u.loop);
    default: j_fail(j, "object of type '%s' has no len()", type_name(v));
    }
}

bool v_iterable(Value v) { return v_has_length(v) || v.type == T_ITERATOR; }

Value range_at(const Range *r, int64_t i) { return v_int(r->start + i * r->step); }

static List *string_items(Jinja *j, const Str *s) {
    List *l = list_new(j, 0);
    for (size_t at = 0, next; at < s->n; at = next) {
        next = at + 1;
        while (next < s->n && ((unsigned char)s->s[next] & 0xc0) == 0x80) next++;
        list_add(j, l, v_str(str_sub(j, s, at, next)));
    }
    return l;
}

List *v_items(Jinja *j, Value v) {
    List *l;
    switch (v.type) {
    case T_LIST:
    case T_TUPLE: return v.u.list;
    case T_VIEW: return v.u.view->items;
    case T_STR: return string_items(j, v.u.str);
    case T_UNDEFINED: return list_new(j, 0);
    case T_LOOP: return loop_rest(j, v.u.loop);
    case T_DICT:
        l = list_new(j, v.u.dict->n);
        for (int i = 0; i < v.u.dict->n; i++) list_add(j, l, v.u.dict->keys[i]);
        return l;
    case T_RANGE:
        l = list_new(j, 0);
        for (int64_t i = 0; i < v.u.range->n; i++) list_add(j, l, range_at(v.u.range, i));
        return l;
    case T_ITERATOR:
        l = list_new(j, 0);
        for (Iterator *it = v.u.iterator; it->at < it->items->n; it->at++) list_add(j, l, it->items->v[it->at]);
        return l;
    default: j_fail(j, "'%s' object is not iterable", type_name(v));
    }
}

/* ---- Attributes and subscripts ---- */

static Value unsafe_attribute(Jinja *j, Value v, const char *name) {
    Builder b = {0};
    builder_text(j, &b, "access to attribute '");
    builder_text(j, &b, name);
    builder_text(j, &b, "' of '");
    builder_text(j, &b, type_name(v));
    builder_text(j, &b, "' object is unsafe.");
    builder_char(j, &b, 0);
    return v_undefined(j, b.s, NULL, NULL);
}

/* An attribute of the Python object, or T_MISSING. */
static Value attribute(Jinja *j, Value v, const char *name) {
    static const char *const changes[] = {"append", "clear",  "pop",     "reverse",    "insert", "sort",
                                          "extend", "remove", "popitem", "setdefault", "update"};
    if (v.type == T_NAMESPACE) {
        const Value *x = dict_get_text(v.u.dict, name);
        if (x) return *x;
    }
    if (v.type == T_LOOP) {
        Value x = loop_attribute(j, v.u.loop, name);
        if (x.type != T_MISSING) return x;
    }
    if (v.type == T_TUPLE && v.u.list->group && strcmp(name, "grouper") == 0) return v.u.list->v[0];
    if (v.type == T_TUPLE && v.u.list->group && strcmp(name, "list") == 0) return v.u.list->v[1];
    size_t n = strlen(name);
    if (name[0] == '_' && name[1] == '_' && n > 4 && strcmp(name + n - 2, "__") == 0)
        return unsafe_attribute(j, v, name);
    if (v.type == T_LIST || v.type == T_DICT)
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
            if (strcmp(changes[i], name) == 0 && (v.type == T_LIST ? i < 8 && i != 8 : i == 1 || i == 2 || i >= 8))
                return unsafe_attribute(j, v, name);
    const Function *f = method_find(v, name);
    if (!f) {
        if (python_attribute(v, name)) j_fail(j, "%s.%s: expected a supported attribute, found it", type_name(v), name);
        return v_missing();
    }
    Method *m = j_alloc(j, sizeof *m);
    *m = (Method){f, v};
    return (Value){T_METHOD, {.method = m}};
}

static Value no_attribute(Jinja *j, Value v, const char *name) {
    return v_undefined(j, NULL, v.type == T_NONE ? "None" : type_name(v), name);
}

/* An index of a sequence, or T_MISSING when it is outside. */
static Value item_at(Jinja *j, Value v, int64_t i) {
    int64_t n = v_length(j, v);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return v_missing();
    if (v.type == T_RANGE) return range_at(v.u.range, i);
    if (v.type != T_STR) return v.u.list->v[i];
    size_t at = str_at(j, v.u.str, (size_t)i), next = at + 1;
    while (next < v.u.str->n && ((unsigned char)v.u.str->s[next] & 0xc0) == 0x80) next++;
    return v_str(str_sub(j, v.u.str, at, next));
}

static bool is_sequence(Value v) {
    return v.type == T_LIST || v.type == T_TUPLE || v.type == T_STR || v.type == T_RANGE;
}

Value v_getattr(Jinja *j, Value v, const char *name) {
    check_defined(j, v);
    Value found = attribute(j, v, name);
    if (found.type != T_MISSING) return found;
    const Value *item = v.type == T_DICT ? dict_get_text(v.u.dict, name) : NULL;
    return item ? *item : no_attribute(j, v, name);
}

Value v_getitem(Jinja *j, Value v, Value key) {
    check_defined(j, v);
    Value found = v_missing();
    if (v.type == T_DICT) {
        bool unhashable = key.type == T_LIST || key.type == T_DICT;
        const Value *item = unhashable ? NULL : dict_get(j, v.u.dict, key);
        if (item) return *item;
    } else if (is_sequence(v) && is_int(key)) found = item_at(j, v, int_of(key));
    if (found.type != T_MISSING) return found;
    if (key.type != T_STR) {
        Builder b = {0};
        v_repr(j, &b, key);
        builder_char(j, &b, 0);
        return no_attribute(j, v, b.s);
    }
    const char *name = str_name(j, key, "subscript");
    found = attribute(j, v, name);
    return found.type != T_MISSING ? found : no_attribute(j, v, name);
}

/* Python's slice.indices: the first index and how many there are. */
static int64_t slice_indices(Jinja *j, int64_t n, Value start, Value stop, int64_t step, int64_t *first) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, bounds[2];
    for (int k = 0; k < 2; k++) {
        Value v = k ? stop : start;
        if (v.type == T_NONE) bounds[k] = (k == 0) == (step > 0) ? low : high;
        else {
            int64_t i = as_int(j, v, "slice index");
            if (i < 0) i = i + n < low ? low : i + n;
            bounds[k] = i > high ? high : i;
        }
    }
    *first = bounds[0];
    int64_t span = step > 0 ? bounds[1] - bounds[0] : bounds[0] - bounds[1], by = step > 0 ? step : -step;
    return span > 0 ? (span - 1) / by + 1 : 0;
}

Value v_slice(Jinja *j, Value v, Value start, Value stop, Value step) {
    check_defined(j, v);
    if (!is_sequence(v)) j_fail(j, "'%s' object is not subscriptable", type_name(v));
    int64_t by = step.type == T_NONE ? 1 : as_int(j, step, "slice step"), first;
    if (by == 0) j_fail(j, "slice step cannot be zero");
    if (by < -INT32_MAX || by > INT32_MAX) j_fail(j, "slice step: expected at most %d, found more", INT32_MAX);
    int64_t n = slice_indices(j, v_length(j, v), start, stop, by, &first);
    if (v.type == T_RANGE) {
        Range *r = j_alloc(j, sizeof *r);
        *r = (Range){n ? v.u.range->start + first * v.u.range->step : 0, v.u.range->step * by, n};
        return (Value){T_RANGE, {.range = r}};
    }
    if (v.type == T_STR && (by == 1 || n == 0)) {
        size_t from = n ? str_at(j, v.u.str, (size_t)first) : 0, to = n ? str_at(j, v.u.str, (size_t)(first + n)) : 0;
        return v_str(str_sub(j, v.u.str, from, to));
    }
    List *all = v_items(j, v), *l = list_new(j, (int)n);
    for (int64_t i = 0; i < n; i++) list_add(j, l, all->v[first + i * by]);
    if (v.type != T_STR) return v.type == T_LIST ? v_list(l) : v_tuple(l);
    Builder b = {.safe = v.u.str->safe};
    for (int i = 0; i < l->n; i++) builder_str(j, &b, l->v[i].u.str);
    return v_str(builder_done(j, &b));
}

/* Filters on sequences and mappings. Source: jinja2's filters.py. */
#include <string.h>

#include "chat/call.h"
#include "chat/text_methods.h"

static bool given(Value v) { return v.type != T_MISSING; }
static bool flag(Value v) { return given(v) && v_true(v); }

static List *items_of(Jinja *j, Value v) {
    if (!v_iterable(v)) j_fail(j, "'%s' object is not iterable", type_name(v));
    return v_items(j, v);
}

static Value ignore_case(Jinja *j, Value v) { return v.type == T_STR ? v_str(text_case(j, v.u.str, 'l')) : v; }

/* "a.b.0" or a number: the attribute of an attribute; otherwise: in place of one that is not there (T_MISSING: none).
 */
static Value attribute_of(Jinja *j, Value item, Value path, Value otherwise) {
    if (path.type == T_NONE || path.type == T_MISSING) return item;
    if (path.type != T_STR) {
        item = v_getitem(j, item, path);
        return item.type == T_UNDEFINED && given(otherwise) ? otherwise : item;
    }
    const Str *s = path.u.str;
    for (size_t from = 0; from <= s->n;) {
        const char *dot = memchr(s->s + from, '.', s->n - from);
        size_t to = dot ? (size_t)(dot - s->s) : s->n;
        int64_t number = 0;
        bool digits = to > from && to - from < 18;
        for (size_t i = from; i < to; i++) {
            digits &= s->s[i] >= '0' && s->s[i] <= '9';
            number = digits ? 10 * number + s->s[i] - '0' : 0;
        }
        item = v_getitem(j, item, digits ? v_int(number) : v_str(str_sub(j, s, from, to)));
        if (item.type == T_UNDEFINED && given(otherwise)) item = otherwise;
        from = to + 1;
    }
    return item;
}

static Value key_of(Jinja *j, Value item, Value path, bool case_sensitive, Value otherwise) {
    Value key = attribute_of(j, item, path, otherwise);
    return case_sensitive ? key : ignore_case(j, key);
}

/* Stable merge sort of the items by their keys. */
typedef struct {
    Value *keys, *items, *more_keys, *more_items;
    bool reverse;
} Sort;

static void sort_run(Jinja *j, const Sort *s, int from, int to) {
    int middle = from + (to - from) / 2, a = from, b = middle;
    if (to - from < 2) return;
    sort_run(j, s, from, middle);
    sort_run(j, s, middle, to);
    for (int i = from; i < to; i++) {
        bool left = b >= to;
        if (a < middle && b < to) {
            int order =
                s->reverse ? v_compare(j, s->keys[a], s->keys[b], "<") : v_compare(j, s->keys[b], s->keys[a], "<");
            left = order >= 0; /* the right one comes first only when it is less (reversed: when the left one is) */
        }
        int k = left ? a++ : b++;
        s->more_keys[i] = s->keys[k];
        s->more_items[i] = s->items[k];
    }
    for (int i = from; i < to; i++) s->keys[i] = s->more_keys[i], s->items[i] = s->more_items[i];
}

static List *sorted(Jinja *j, const List *l, const List *keys, bool reverse) {
    List *out = list_new(j, l->n);
    for (int i = 0; i < l->n; i++) list_add(j, out, l->v[i]);
    size_t bytes = (size_t)l->n * sizeof(Value);
    Sort s = {j_alloc(j, bytes), out->v, j_alloc(j, bytes), j_alloc(j, bytes), reverse};
    for (int i = 0; i < l->n; i++) s.keys[i] = keys->v[i];
    sort_run(j, &s, 0, l->n);
    return out;
}

static Value l_batch(Jinja *j, Value v, Value *a) {
    List *in = items_of(j, v), *out = list_new(j, 0), *part = NULL;
    int64_t size = as_int(j, a[0], "batch");
    for (int i = 0; i < in->n; i++) {
        if (!part || part->n == size) list_add(j, out, v_list(part = list_new(j, 0)));
        list_add(j, part, in->v[i]);
    }
    while (part && given(a[1]) && a[1].type != T_NONE && part->n < size) list_add(j, part, a[1]);
    return v_iterator(j, out);
}

static Value l_slice(Jinja *j, Value v, Value *a) {
    List *in = items_of(j, v), *out = list_new(j, 0);
    int64_t n = as_int(j, a[0], "slice"), at = 0;
    if (n == 0) j_fail(j, "integer division or modulo by zero");
    for (int64_t i = 0; i < n; i++) {
        List *part = list_new(j, 0);
        for (int64_t k = in->n / n + (i < in->n % n); k > 0; k--) list_add(j, part, in->v[at++]);
        if (given(a[1]) && a[1].type != T_NONE && i >= in->n % n) list_add(j, part, a[1]);
        list_add(j, out, v_list(part));
    }
    return v_iterator(j, out);
}

static Value l_length(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_int(v_length(j, v));
}

static Value l_dictsort(Jinja *j, Value v, Value *a) {
    const char *by = given(a[1]) ? str_name(j, a[1], "dictsort") : "key";
    bool key = strcmp(by, "key") == 0;
    if (!key && strcmp(by, "value") != 0) j_fail(j, "You can only sort by either \"key\" or \"value\"");
    if (v.type != T_DICT) j_fail(j, "dictsort: expected a mapping, found '%s'", type_name(v));
    List *items = list_new(j, 0), *keys = list_new(j, 0);
    for (int i = 0; i < v.u.dict->n; i++) {
        List *pair = list_new(j, 2);
        list_add(j, pair, v.u.dict->keys[i]);
        list_add(j, pair, v.u.dict->values[i]);
        list_add(j, items, v_tuple(pair));
        Value k = key ? v.u.dict->keys[i] : v.u.dict->values[i];
        list_add(j, keys, flag(a[0]) ? k : ignore_case(j, k));
    }
    return v_list(sorted(j, items, keys, flag(a[2])));
}

static Value l_first(Jinja *j, Value v, Value *a) {
    (void)a;
    if (v.type == T_ITERATOR) {
        Iterator *it = v.u.iterator;
        return it->at < it->items->n ? it->items->v[it->at++]
                                     : v_undefined(j, "No first item, sequence was empty.", NULL, NULL);
    }
    List *l = items_of(j, v);
    return l->n ? l->v[0] : v_undefined(j, "No first item, sequence was empty.", NULL, NULL);
}

static Value l_last(Jinja *j, Value v, Value *a) {
    (void)a;
    if (v.type == T_ITERATOR || v.type == T_UNDEFINED) j_fail(j, "'%s' object is not reversible", type_name(v));
    List *l = items_of(j, v);
    return l->n ? l->v[l->n - 1] : v_undefined(j, "No last item, sequence was empty.", NULL, NULL);
}

static Value l_groupby(Jinja *j, Value v, Value *a) {
    List *in = items_of(j, v), *keys = list_new(j, 0), *out = list_new(j, 0), *part = NULL;
    Value otherwise = given(a[1]) && a[1].type != T_NONE ? a[1] : v_missing(), last = v_missing();
    for (int i = 0; i < in->n; i++) list_add(j, keys, key_of(j, in->v[i], a[0], flag(a[2]), otherwise));
    in = sorted(j, in, keys, false);
    for (int i = 0; i < in->n; i++) {
        Value key = key_of(j, in->v[i], a[0], flag(a[2]), otherwise);
        if (!part || !v_equal(j, key, last)) {
            List *group = list_new(j, 2);
            part = list_new(j, 0);
            group->group = true;
            list_add(j, group, attribute_of(j, in->v[i], a[0], otherwise));
            list_add(j, group, v_list(part));
            list_add(j, out, v_tuple(group));
        }
        list_add(j, part, in->v[i]);
        last = key;
    }
    return v_list(out);
}

static Value l_items(Jinja *j, Value v, Value *a) {
    (void)a;
    List *out = list_new(j, 0);
    if (v.type == T_UNDEFINED) return v_iterator(j, out);
    if (v.type != T_DICT) j_fail(j, "Can only get item pairs from a mapping.");
    for (int i = 0; i < v.u.dict->n; i++) {
        List *pair = list_new(j, 2);
        list_add(j, pair, v.u.dict->keys[i]);
        list_add(j, pair, v.u.dict->values[i]);
        list_add(j, out, v_tuple(pair));
    }
    return v_iterator(j, out);
}

static Value l_join(Jinja *j, Value v, Value *a) {
    Builder b = {0};
    List *l = items_of(j, v);
    const Str *between = given(a[0]) ? v_to_str(j, a[0]) : str_text(j, "");
    for (int i = 0; i < l->n; i++) {
        if (i) builder_str(j, &b, between);
        builder_str(j, &b, v_to_str(j, attribute_of(j, l->v[i], a[1], v_missing())));
    }
    return v_str(builder_done(j, &b));
}

static Value l_list(Jinja *j, Value v, Value *a) {
    (void)a;
    List *l = items_of(j, v), *copy = list_new(j, l->n);
    for (int i = 0; i < l->n; i++) list_add(j, copy, l->v[i]);
    return v_list(copy);
}

/* The arguments from the k-th on. */
static Args rest_of(Jinja *j, const Args *args, int k) {
    Args rest = {list_new(j, 0), args->named};
    for (int i = k; i < args->at->n; i++) list_add(j, rest.at, args->at->v[i]);
    return rest;
}

static Value l_map(Jinja *j, Value v, const Args *args) {
    List *out = list_new(j, 0);
    if (!v_true(v)) return v_iterator(j, out);
    const Value *path = args->named ? dict_get_text(args->named, "attribute") : NULL;
    List *in = items_of(j, v);
    if (args->at->n == 0 && path) {
        const Value *otherwise = dict_get_text(args->named, "default");
        Value missing = otherwise && otherwise->type != T_NONE ? *otherwise : v_missing();
        if (args->named->n > 1 + (otherwise != NULL))
            j_fail(j, "map: expected attribute and default, found another keyword");
        for (int i = 0; i < in->n; i++) list_add(j, out, attribute_of(j, in->v[i], *path, missing));
        return v_iterator(j, out);
    }
    if (args->at->n == 0) j_fail(j, "map requires a filter argument");
    Args rest = rest_of(j, args, 1);
    const char *name = str_name(j, args->at->v[0], "map");
    for (int i = 0; i < in->n; i++) list_add(j, out, call_filter(j, name, in->v[i], &rest));
    return v_iterator(j, out);
}

static Value select_items(Jinja *j, Value v, const Args *args, bool want, bool by_attribute) {
    List *out = list_new(j, 0);
    if (!v_true(v)) return v_iterator(j, out);
    if (by_attribute && args->at->n == 0) j_fail(j, "Missing parameter for attribute name");
    List *in = items_of(j, v);
    Args rest = rest_of(j, args, 1 + by_attribute);
    const char *test = args->at->n > by_attribute ? str_name(j, args->at->v[by_attribute], "test") : NULL;
    for (int i = 0; i < in->n; i++) {
        Value item = by_attribute ? attribute_of(j, in->v[i], args->at->v[0], v_missing()) : in->v[i];
        bool passes = test ? call_test(j, test, item, &rest) : v_true(item);
        if (passes == want) list_add(j, out, in->v[i]);
    }
    return v_iterator(j, out);
}
static Value l_select(Jinja *j, Value v, const Args *args) { return select_items(j, v, args, true, false); }
static Value l_reject(Jinja *j, Value v, const Args *args) { return select_items(j, v, args, false, false); }
static Value l_selectattr(Jinja *j, Value v, const Args *args) { return select_items(j, v, args, true, true); }
static Value l_rejectattr(Jinja *j, Value v, const Args *args) { return select_items(j, v, args, false, true); }

static Value extreme(Jinja *j, Value v, Value *a, bool largest) {
    List *l = items_of(j, v);
    if (l->n == 0) return v_undefined(j, "No aggregated item, sequence was empty.", NULL, NULL);
    int best = 0;
    Value key = key_of(j, l->v[0], a[1], flag(a[0]), v_missing());
    for (int i = 1; i < l->n; i++) {
        Value k = key_of(j, l->v[i], a[1], flag(a[0]), v_missing());
        int order = v_compare(j, k, key, largest ? ">" : "<");
        if (largest ? order > 0 : order < 0) best = i, key = k;
    }
    return l->v[best];
}
static Value l_max(Jinja *j, Value v, Value *a) { return extreme(j, v, a, true); }
static Value l_min(Jinja *j, Value v, Value *a) { return extreme(j, v, a, false); }

static Value l_reverse(Jinja *j, Value v, Value *a) {
    (void)a;
    if (v.type == T_STR) return v_slice(j, v, v_none(), v_none(), v_int(-1));
    List *l = items_of(j, v), *out = list_new(j, l->n);
    for (int i = l->n; i-- > 0;) list_add(j, out, l->v[i]);
    return v.type == T_ITERATOR || v.type == T_UNDEFINED ? v_list(out) : v_iterator(j, out);
}

/* The keys of "a,b" of an item, as a list. */
static Value keys_of(Jinja *j, Value item, Value paths, bool case_sensitive) {
    List *keys = list_new(j, 1);
    if (paths.type != T_STR) list_add(j, keys, key_of(j, item, paths, case_sensitive, v_missing()));
    for (size_t from = 0; paths.type == T_STR && from <= paths.u.str->n;) {
        const Str *s = paths.u.str;
        const char *comma = memchr(s->s + from, ',', s->n - from);
        size_t to = comma ? (size_t)(comma - s->s) : s->n;
        list_add(j, keys, key_of(j, item, v_str(str_sub(j, s, from, to)), case_sensitive, v_missing()));
        from = to + 1;
    }
    return v_list(keys);
}

static Value l_sort(Jinja *j, Value v, Value *a) {
    List *in = items_of(j, v), *keys = list_new(j, 0);
    for (int i = 0; i < in->n; i++) list_add(j, keys, keys_of(j, in->v[i], a[2], flag(a[1])));
    return v_list(sorted(j, in, keys, flag(a[0])));
}

static Value l_sum(Jinja *j, Value v, Value *a) {
    List *l = items_of(j, v);
    Value sum = given(a[1]) ? a[1] : v_int(0);
    if (sum.type == T_STR) j_fail(j, "sum() can't sum strings [use ''.join(seq) instead]");
    for (int i = 0; i < l->n; i++) sum = v_binary(j, '+', sum, attribute_of(j, l->v[i], a[0], v_missing()));
    return sum;
}

static Value l_unique(Jinja *j, Value v, Value *a) {
    List *in = items_of(j, v), *out = list_new(j, 0);
    Dict *seen = dict_new(j);
    for (int i = 0; i < in->n; i++) {
        Value key = key_of(j, in->v[i], a[1], flag(a[0]), v_missing());
        if (dict_get(j, seen, key)) continue;
        dict_set(j, seen, key, v_none());
        list_add(j, out, in->v[i]);
    }
    return v_iterator(j, out);
}

static Value l_attr(Jinja *j, Value v, Value *a) {
    const char *name = str_name(j, a[0], "attr");
    if (v.type == T_UNDEFINED) j_fail(j, "%s", v_attribute_error(j, v.u.undefined));
    if (v.type == T_DICT && dict_get_text(v.u.dict, name) && !method_find(v, name))
        return v_undefined(j, NULL, type_name(v), name); /* attributes only, no items */
    return v_getattr(j, v, name);
}

const Function jinja_list_filters[] = {
    {.name = "attr", .params = "name", .needed = 1, .run = l_attr},
    {.name = "batch", .params = "linecount fill_with", .needed = 1, .run = l_batch},
    {.name = "count", .run = l_length},
    {.name = "dictsort", .params = "case_sensitive by reverse", .run = l_dictsort},
    {.name = "first", .run = l_first},
    {.name = "groupby", .params = "attribute default case_sensitive", .needed = 1, .run = l_groupby},
    {.name = "items", .run = l_items},
    {.name = "join", .params = "d attribute", .run = l_join},
    {.name = "last", .run = l_last},
    {.name = "length", .run = l_length},
    {.name = "list", .run = l_list},
    {.name = "map", .run_args = l_map},
    {.name = "max", .params = "case_sensitive attribute", .run = l_max},
    {.name = "min", .params = "case_sensitive attribute", .run = l_min},
    {.name = "reject", .run_args = l_reject},
    {.name = "rejectattr", .run_args = l_rejectattr},
    {.name = "reverse", .run = l_reverse},
    {.name = "select", .run_args = l_select},
    {.name = "selectattr", .run_args = l_selectattr},
    {.name = "slice", .params = "slices fill_with", .needed = 1, .run = l_slice},
    {.name = "sort", .params = "reverse case_sensitive attribute", .run = l_sort},
    {.name = "sum", .params = "attribute start", .run = l_sum},
    {.name = "unique", .params = "case_sensitive attribute", .run = l_unique},
    {.name = NULL},
};

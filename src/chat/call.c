#include "chat/call.h"

#include <stdio.h>
#include <string.h>

static const Function *find(const Function *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

const Function *filter_find(const char *name) {
    const Function *f = find(jinja_text_filters, name);
    return f ? f : find(jinja_list_filters, name);
}

const Function *test_find(const char *name) { return find(jinja_tests, name); }

const Function *method_find(Value self, const char *name) {
    if (self.type == T_STR) return find(jinja_str_methods, name);
    for (const Function *f = jinja_other_methods; f->name; f++)
        if (f->type == self.type && strcmp(f->name, name) == 0) return f;
    return NULL;
}

bool python_attribute(Value self, const char *name) {
    static const struct {
        Type type;
        const char *names;
    } more[] = {
        {T_STR, " encode expandtabs format_map isascii isidentifier isprintable maketrans translate "},
        {T_DICT, " fromkeys "},
        {T_INT,
         " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real "
         "to_bytes "},
        {T_BOOL,
         " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real "
         "to_bytes "},
        {T_FLOAT, " as_integer_ratio conjugate fromhex hex imag real "},
        {T_RANGE, " start step stop "},
        {T_VIEW, " isdisjoint mapping "},
        {T_ITERATOR, " close send throw "},
        {T_MACRO, " arguments caller catch_kwargs catch_varargs explicit_caller name "},
    };
    char word[40];
    snprintf(word, sizeof word, " %.30s ", name);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i].type == self.type && strstr(more[i].names, word)) return true;
    return false;
}

const char *str_name(Jinja *j, Value v, const char *what) {
    const Str *s = as_str(j, v, what);
    char *name = j_alloc(j, s->n + 1);
    memcpy(name, s->s, s->n);
    return name;
}

/* Which parameter of "a b c" is called name, or -1; their number in *n. */
static int param_index(const char *params, const char *name, size_t length, int *n) {
    int found = -1;
    *n = 0;
    while (*params) {
        size_t size = strcspn(params, " ");
        if (name && size == length && memcmp(params, name, size) == 0) found = *n;
        ++*n;
        params += size + strspn(params + size, " ");
    }
    return found;
}

Value function_call(Jinja *j, const Function *f, Value self, const Args *args) {
    if (f->run_args) return f->run_args(j, self, args);
    Value a[MAX_PARAMS] = {{0}};
    const char *params = f->params ? f->params : "";
    int n;
    param_index(params, NULL, 0, &n);
    if (args->at->n > n) j_fail(j, "%s() takes %d argument(s) but %d were given", f->name, n, args->at->n);
    for (int i = 0; i < args->at->n; i++) a[i] = args->at->v[i];
    for (int i = 0; args->named && i < args->named->n; i++) {
        const Str *name = args->named->keys[i].u.str;
        int k = param_index(params, name->s, name->n, &n);
        if (k < 0) j_fail(j, "%s() got an unexpected keyword argument '%.*s'", f->name, (int)name->n, name->s);
        if (a[k].type != T_MISSING)
            j_fail(j, "%s() got multiple values for argument '%.*s'", f->name, (int)name->n, name->s);
        a[k] = args->named->values[i];
    }
    for (int i = 0; i < f->needed; i++)
        if (a[i].type == T_MISSING) j_fail(j, "%s() missing %d required argument(s)", f->name, f->needed - i);
    j_step(j, 1);
    return f->run(j, self, a);
}

Value v_call(Jinja *j, Value callee, const Args *args) {
    Value v;
    j_enter(j);
    switch (callee.type) {
    case T_UNDEFINED: j_fail(j, "%s", v_attribute_error(j, callee.u.undefined));
    case T_MACRO: v = macro_call(j, callee.u.macro, args); break;
    case T_LOOP: v = loop_call(j, callee.u.loop, args); break;
    case T_METHOD: v = function_call(j, callee.u.method->function, callee.u.method->self, args); break;
    case T_FUNCTION: v = function_call(j, callee.u.function, v_none(), args); break;
    default: j_fail(j, "'%s' object is not callable", type_name(callee));
    }
    j_leave(j);
    return v;
}

Value call_filter(Jinja *j, const char *name, Value self, const Args *args) {
    const Function *f = filter_find(name);
    if (!f) j_fail(j, "No filter named '%s'", name);
    return function_call(j, f, self, args);
}

bool call_test(Jinja *j, const char *name, Value self, const Args *args) {
    const Function *f = test_find(name);
    if (!f) j_fail(j, "No test named '%s'", name);
    return v_true(function_call(j, f, self, args));
}

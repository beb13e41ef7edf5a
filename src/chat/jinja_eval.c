#include "chat/jinja_eval.h"

#include <stdio.h>
#include <string.h>

Scope *scope_new(Jinja *j, Scope *parent) {
    Scope *s = j_alloc(j, sizeof *s);
    s->parent = parent;
    return s;
}

void scope_set(Jinja *j, Scope *s, const char *name, Value v) {
    for (int i = 0; i < s->n; i++)
        if (s->names[i] == name) {
            s->values[i] = v;
            return;
        }
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 4;
        const char **names = j_alloc(j, (size_t)room * sizeof *names);
        Value *values = j_alloc(j, (size_t)room * sizeof *values);
        for (int i = 0; i < s->n; i++) names[i] = s->names[i], values[i] = s->values[i];
        s->names = names;
        s->values = values;
        s->room = room;
    }
    s->names[s->n] = name;
    s->values[s->n++] = v;
}

static Value lookup(Jinja *j, const Scope *s, const char *name) {
    for (; s; s = s->parent) {
        j_step(j, (size_t)s->n / 8 + 1);
        for (int i = 0; i < s->n; i++)
            if (s->names[i] == name && s->values[i].type != T_MISSING) return s->values[i];
    }
    return v_undefined(j, NULL, NULL, name);
}

static void star_arguments(Jinja *j, Args *args, Value v) {
    if (!v_iterable(v)) j_fail(j, "argument after * must be an iterable, not %s", type_name(v));
    List *items = v_items(j, v);
    for (int k = 0; k < items->n; k++) list_add(j, args->at, items->v[k]);
}

static void named_argument(Jinja *j, Args *args, Value name, Value v) {
    if (name.type != T_STR) j_fail(j, "keywords must be strings");
    if (!args->named) args->named = dict_new(j);
    if (dict_get(j, args->named, name))
        j_fail(j, "got multiple values for keyword argument '%s'", str_name(j, name, "keyword"));
    dict_set(j, args->named, name, v);
}

Args eval_arguments(Jinja *j, const Nodes *list, Scope *s) {
    Args args = {.at = list_new(j, list->n)};
    for (int i = 0; i < list->n; i++) {
        const Node *n = list->at[i];
        Value v =
            eval(j, n->kind == N_STAR || n->kind == N_DOUBLE_STAR || n->kind == N_KEYWORD ? n->a : list->at[i], s);
        if (n->kind == N_STAR) star_arguments(j, &args, v);
        else if (n->kind == N_KEYWORD) named_argument(j, &args, v_text(j, n->name), v);
        else if (n->kind == N_DOUBLE_STAR) {
            if (v.type != T_DICT) j_fail(j, "argument after ** must be a mapping, not %s", type_name(v));
            for (int k = 0; k < v.u.dict->n; k++) named_argument(j, &args, v.u.dict->keys[k], v.u.dict->values[k]);
        } else list_add(j, args.at, v);
    }
    return args;
}

static Value eval_list(Jinja *j, const Node *n, Scope *s) {
    List *l = list_new(j, n->list.n);
    for (int i = 0; i < n->list.n; i++) list_add(j, l, eval(j, n->list.at[i], s));
    return n->kind == N_LIST ? v_list(l) : v_tuple(l);
}

static Value eval_dict(Jinja *j, const Node *n, Scope *s) {
    Dict *d = dict_new(j);
    for (int i = 0; i < n->list.n; i += 2) {
        Value key = eval(j, n->list.at[i], s);
        dict_set(j, d, key, eval(j, n->list.at[i + 1], s));
    }
    return v_dict(d);
}

static Value eval_slice(Jinja *j, const Node *n, Scope *s) {
    Value of, part[3];
    if (!n->a) j_fail(j, "slice among several subscripts: expected a supported subscript, found it");
    of = eval(j, n->a, s);
    for (int i = 0; i < 3; i++) part[i] = n->list.at[i] ? eval(j, n->list.at[i], s) : v_none();
    return v_slice(j, of, part[0], part[1], part[2]);
}

static Value eval_concat(Jinja *j, const Node *n, Scope *s) {
    Builder b = {0};
    for (int i = 0; i < n->list.n; i++) builder_str(j, &b, v_to_str(j, eval(j, n->list.at[i], s)));
    return v_str(builder_done(j, &b));
}

static bool compare(Jinja *j, int op, Value a, Value b) {
    static const char *const names[128] = {['<'] = "<", ['>'] = ">", ['l'] = "<=", ['g'] = ">="};
    switch (op) {
    case '=': return v_equal(j, a, b);
    case '!': return !v_equal(j, a, b);
    case 'i': return v_contains(j, b, a);
    case 'n': return !v_contains(j, b, a);
    default: break;
    }
    int order = v_compare(j, a, b, names[op]);
    bool unordered = order == 2 && a.type != T_STR && a.type != T_LIST && a.type != T_TUPLE;
    if (unordered) return false;
    return op == '<' ? order < 0 : op == 'l' ? order <= 0 : op == '>' ? order > 0 : order >= 0;
}

static Value eval_compare(Jinja *j, const Node *n, Scope *s) {
    Value left = eval(j, n->a, s);
    for (int i = 0; i < n->list.n; i++) {
        Value right = eval(j, n->list.at[i]->a, s);
        if (!compare(j, n->list.at[i]->op, left, right)) return v_bool(false);
        left = right;
    }
    return v_bool(true);
}

static Value eval_condition(Jinja *j, const Node *n, Scope *s) {
    char hint[120];
    if (v_true(eval(j, n->b, s))) return eval(j, n->a, s);
    if (n->c) return eval(j, n->c, s);
    snprintf(hint, sizeof hint,
             "the inline if-expression on line %d evaluated to false and no else section was defined.", n->line);
    return v_undefined(j, str_text(j, hint)->s, NULL, NULL);
}

static Value apply(Jinja *j, const Node *n, Value self, Scope *s) {
    Args args = eval_arguments(j, &n->list, s);
    j->line = n->line;
    j->column = n->column;
    if (!n->function) j_fail(j, "No %s named '%s'", n->kind == N_FILTER ? "filter" : "test", n->name);
    Value v = function_call(j, n->function, self, &args);
    return n->kind == N_TEST ? v_bool(v_true(v)) : v;
}

Value eval_filters(Jinja *j, Node *n, Value text, Scope *s) {
    if (!n) return text;
    text = eval_filters(j, n->a, text, s);
    return apply(j, n, text, s);
}

static Value eval_call(Jinja *j, const Node *n, Scope *s) {
    Value callee = eval(j, n->a, s);
    Args args = eval_arguments(j, &n->list, s);
    j->line = n->line;
    j->column = n->column;
    return v_call(j, callee, &args);
}

static Value eval_positive(Jinja *j, Value v) {
    if (v.type == T_FLOAT) return v;
    return v_int(as_int(j, v, "operand of +"));
}

static Value eval_node(Jinja *j, Node *n, Scope *s) {
    Value a;
    switch (n->kind) {
    case N_CONST: return n->value;
    case N_NAME: return lookup(j, s, n->name);
    case N_LIST:
    case N_TUPLE: return eval_list(j, n, s);
    case N_DICT: return eval_dict(j, n, s);
    case N_SLICE: return eval_slice(j, n, s);
    case N_CALL: return eval_call(j, n, s);
    case N_FILTER:
    case N_TEST: return apply(j, n, eval(j, n->a, s), s);
    case N_CONCAT: return eval_concat(j, n, s);
    case N_COMPARE: return eval_compare(j, n, s);
    case N_COND: return eval_condition(j, n, s);
    case N_NOT: return v_bool(!v_true(eval(j, n->a, s)));
    case N_NEGATIVE: return v_negate(j, eval(j, n->a, s));
    case N_POSITIVE: return eval_positive(j, eval(j, n->a, s));
    case N_AND: a = eval(j, n->a, s); return v_true(a) ? eval(j, n->b, s) : a;
    case N_OR: a = eval(j, n->a, s); return v_true(a) ? a : eval(j, n->b, s);
    case N_GETATTR: a = eval(j, n->a, s); break;
    default: a = eval(j, n->a, s); break; /* N_BINARY, N_GETITEM */
    }
    Value b = n->b ? eval(j, n->b, s) : v_none();
    j->line = n->line;
    j->column = n->column;
    if (n->kind == N_GETATTR) return v_getattr(j, a, n->name);
    return n->kind == N_GETITEM ? v_getitem(j, a, b) : v_binary(j, n->op, a, b);
}

Value eval(Jinja *j, Node *n, Scope *s) {
    j_step(j, 1);
    j_enter(j);
    j->line = n->line;
    j->column = n->column;
    Value v = eval_node(j, n, s);
    j_leave(j);
    return v;
}

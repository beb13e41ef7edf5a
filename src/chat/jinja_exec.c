/* The statements of a template: loops, macros, blocks. */
#include <string.h>

#include "chat/jinja_eval.h"

/* Loop - jinja2's LoopContext. Items come one by one, through the filter of `for ... if`, so that `loop.last` looks one
 * ahead and no further. */
struct Loop {
    List *items;
    int at;        /* the next of items */
    const Node *n; /* the for */
    Scope *outer;  /* around the loop: of its filter and its bodies */
    int index;     /* from 0; -1: before the first */
    bool peeked;
    Value ahead, now, before; /* T_MISSING: none */
    List *passed;             /* all that passed the filter, once the length was asked for; NULL */
    int depth;                /* of a recursive loop, from 0 */
    Value changed;            /* the arguments of the last loop.changed() */
};

struct Macro {
    const Node *n;
    Scope *closure;
    bool caller; /* its body uses caller */
    bool kwargs, varargs;
};

static void assign(Jinja *j, const Node *target, Value v, Scope *s);

/* ---- Loops ---- */

static bool passes(Jinja *j, const Loop *l, Value item) {
    if (!l->n->c) return true;
    Scope *s = scope_new(j, l->outer);
    assign(j, l->n->a, item, s);
    return v_true(eval(j, l->n->c, s));
}

static Value next_item(Jinja *j, Loop *l) {
    while (l->at < l->items->n) {
        Value item = l->items->v[l->at++];
        if (l->passed || passes(j, l, item)) return item;
    }
    return v_missing();
}

static Value peek(Jinja *j, Loop *l) {
    if (!l->peeked) l->ahead = next_item(j, l);
    l->peeked = true;
    return l->ahead;
}

static bool advance(Jinja *j, Loop *l) {
    Value item = peek(j, l);
    l->peeked = false;
    if (item.type == T_MISSING) return false;
    l->before = l->now;
    l->now = item;
    l->index++;
    return true;
}

int loop_index(const Loop *l) { return l->index + 1; }

/* Without a filter the length is that of the iterable; with one, all that is left goes through it now. */
int loop_length(Jinja *j, Loop *l) {
    if (!l->n->c) return l->items->n;
    if (!l->passed) {
        List *rest = list_new(j, 0);
        for (Value item; (item = next_item(j, l)).type != T_MISSING;) list_add(j, rest, item);
        l->passed = rest;
        l->items = rest;
        l->at = 0;
    }
    bool ahead = l->peeked && l->ahead.type != T_MISSING;
    return l->index + 1 + ahead + l->items->n - l->at;
}

List *loop_rest(Jinja *j, Loop *l) {
    (void)l;
    j_fail(j, "iterating over loop: expected a supported iterable, found it");
}

static Value loop_cycle(Jinja *j, Value self, const Args *args) {
    if (args->at->n == 0) j_fail(j, "no items for cycling given");
    return args->at->v[self.u.loop->index % args->at->n];
}

static Value loop_changed(Jinja *j, Value self, const Args *args) {
    Value now = v_tuple(args->at);
    if (self.u.loop->changed.type == T_TUPLE && v_equal(j, self.u.loop->changed, now)) return v_bool(false);
    self.u.loop->changed = now;
    return v_bool(true);
}

static Value loop_method(Jinja *j, Loop *l, const Function *f) {
    Method *m = j_alloc(j, sizeof *m);
    *m = (Method){f, {T_LOOP, {.loop = l}}};
    return (Value){T_METHOD, {.method = m}};
}

Value loop_attribute(Jinja *j, Loop *l, const char *name) {
    static const Function cycle = {.name = "cycle", .run_args = loop_cycle};
    static const Function changed = {.name = "changed", .run_args = loop_changed};
    if (strcmp(name, "index") == 0) return v_int(l->index + 1);
    if (strcmp(name, "index0") == 0) return v_int(l->index);
    if (strcmp(name, "first") == 0) return v_bool(l->index == 0);
    if (strcmp(name, "last") == 0) return v_bool(peek(j, l).type == T_MISSING);
    if (strcmp(name, "length") == 0) return v_int(loop_length(j, l));
    if (strcmp(name, "revindex") == 0) return v_int(loop_length(j, l) - l->index);
    if (strcmp(name, "revindex0") == 0) return v_int(loop_length(j, l) - l->index - 1);
    if (strcmp(name, "depth") == 0) return v_int(l->depth + 1);
    if (strcmp(name, "depth0") == 0) return v_int(l->depth);
    if (strcmp(name, "cycle") == 0) return loop_method(j, l, &cycle);
    if (strcmp(name, "changed") == 0) return loop_method(j, l, &changed);
    if (strcmp(name, "previtem") == 0)
        return l->before.type == T_MISSING ? v_undefined(j, "there is no previous item", NULL, NULL) : l->before;
    if (strcmp(name, "nextitem") == 0)
        return peek(j, l).type == T_MISSING ? v_undefined(j, "there is no next item", NULL, NULL) : l->ahead;
    return v_missing();
}

static void run_loop(Jinja *j, const Node *n, Value over, Scope *outer, int depth) {
    Loop *l = j_alloc(j, sizeof *l);
    if (!v_iterable(over)) j_fail(j, "'%s' object is not iterable", type_name(over));
    *l = (Loop){.items = v_items(j, over), .n = n, .outer = outer, .index = -1, .depth = depth};
    const char *loop = j_intern(j, "loop", 4);
    bool any = false;
    while (advance(j, l)) {
        Scope *s = scope_new(j, outer);
        scope_set(j, s, loop, (Value){T_LOOP, {.loop = l}});
        assign(j, n->a, l->now, s);
        any = true;
        j_step(j, 1);
        if (exec_all(j, &n->list, s) == FLOW_BREAK) break;
    }
    if (!any) exec_all(j, &n->list2, scope_new(j, outer));
}

Value loop_call(Jinja *j, Loop *l, const Args *args) {
    if (l->n->op != 'r') j_fail(j, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->at->n != 1 || args->named) j_fail(j, "loop(): expected one argument, found %d", args->at->n);
    Builder out = {0}, *outer = j->out;
    j_enter(j);
    j->out = &out;
    run_loop(j, l->n, args->at->v[0], l->outer, l->depth + 1);
    j->out = outer;
    j_leave(j);
    return v_str(builder_done(j, &out));
}

/* ---- Targets ---- */

static void assign_tuple(Jinja *j, const Node *target, Value v, Scope *s) {
    if (!v_iterable(v)) j_fail(j, "cannot unpack non-iterable %s object", type_name(v));
    List *items = v_items(j, v);
    if (items->n < target->list.n)
        j_fail(j, "not enough values to unpack (expected %d, got %d)", target->list.n, items->n);
    if (items->n > target->list.n) j_fail(j, "too many values to unpack (expected %d)", target->list.n);
    for (int i = 0; i < items->n; i++) assign(j, target->list.at[i], items->v[i], s);
}

static Value name_value(Jinja *j, const Node *target, Scope *s) {
    Node name = {.kind = N_NAME, .name = target->name, .line = target->line, .column = target->column};
    return eval(j, &name, s);
}

static void assign(Jinja *j, const Node *target, Value v, Scope *s) {
    if (target->kind == N_TUPLE) assign_tuple(j, target, v, s);
    else if (target->kind == N_NAME) scope_set(j, s, target->name, v);
    else {
        Value ns = name_value(j, target, s);
        if (ns.type != T_NAMESPACE) j_fail(j, "cannot assign attribute on non-namespace object");
        if (target->attribute[0] == '_')
            j_fail(j, "namespace attribute '%s': expected no underscore first, found one", target->attribute);
        dict_set(j, ns.u.dict, v_text(j, target->attribute), v);
    }
}

/* Namespaces are checked before the value is computed. */
static void check_namespaces(Jinja *j, const Node *target, Scope *s) {
    for (int i = 0; target->kind == N_TUPLE && i < target->list.n; i++) check_namespaces(j, target->list.at[i], s);
    if (target->kind == N_NSREF && name_value(j, target, s).type != T_NAMESPACE)
        j_fail(j, "cannot assign attribute on non-namespace object");
}

/* ---- Macros ---- */

static Value macro_new(Jinja *j, const Node *n, Scope *closure) {
    Macro *m = j_alloc(j, sizeof *m);
    *m = (Macro){n, closure, macro_uses(j, n, "caller"), macro_uses(j, n, "kwargs"), macro_uses(j, n, "varargs")};
    return (Value){T_MACRO, {.macro = m}};
}

const char *macro_name(const Macro *m) { return m->n->name ? m->n->name : "caller"; }

static Value take_named(Jinja *j, Dict *named, const char *name) {
    Value *there = named ? dict_get_text(named, name) : NULL;
    if (!there) return v_missing();
    Value v = *there;
    int i = (int)(there - named->values);
    named->n--;
    for (; i < named->n; i++) named->keys[i] = named->keys[i + 1], named->values[i] = named->values[i + 1];
    j_step(j, 1);
    return v;
}

static Dict *copy_dict(Jinja *j, const Dict *d) {
    Dict *copy = dict_new(j);
    for (int i = 0; d && i < d->n; i++) dict_set(j, copy, d->keys[i], d->values[i]);
    return copy;
}

static void special_arguments(Jinja *j, const Macro *m, const Args *args, Dict *named, Scope *s) {
    static const char missing_caller[] = "No caller defined";
    if (m->caller) {
        Value caller = take_named(j, named, "caller");
        if (caller.type == T_MISSING) caller = v_undefined(j, missing_caller, NULL, NULL);
        scope_set(j, s, j_intern(j, "caller", 6), caller);
    }
    if (m->kwargs) scope_set(j, s, j_intern(j, "kwargs", 6), v_dict(named));
    else if (named->n)
        j_fail(j, "macro '%s' takes no keyword argument '%s'", macro_name(m), str_name(j, named->keys[0], "keyword"));
    int n = m->n->list.n;
    if (m->varargs) {
        List *rest = list_new(j, 0);
        for (int i = n; i < args->at->n; i++) list_add(j, rest, args->at->v[i]);
        scope_set(j, s, j_intern(j, "varargs", 7), v_tuple(rest));
    } else if (args->at->n > n) j_fail(j, "macro '%s' takes not more than %d argument(s)", macro_name(m), n);
}

Value macro_call(Jinja *j, Macro *m, const Args *args) {
    Scope *s = scope_new(j, m->closure);
    Dict *named = copy_dict(j, args->named);
    const Nodes *params = &m->n->list;
    for (int i = 0; i < params->n; i++) {
        const char *name = params->at[i]->name;
        scope_set(j, s, name, i < args->at->n ? args->at->v[i] : take_named(j, named, name));
    }
    special_arguments(j, m, args, named, s);
    for (int i = 0; i < params->n; i++) {
        const Node *param = params->at[i];
        if (s->values[i].type != T_MISSING) continue;
        Value v = param->a ? eval(j, param->a, s) : v_undefined(j, NULL, NULL, param->name);
        scope_set(j, s, param->name, v);
    }
    Builder out = {0}, *outer = j->out;
    j->out = &out;
    exec_all(j, &m->n->list2, s);
    j->out = outer;
    return v_str(builder_done(j, &out));
}

static Value call_block(Jinja *j, const Node *n, Scope *s) {
    Value callee = eval(j, n->a->a, s);
    Args args = eval_arguments(j, &n->a->list, s);
    args.named = copy_dict(j, args.named);
    dict_set(j, args.named, v_text(j, "caller"), macro_new(j, n, s));
    j->line = n->line;
    j->column = n->column;
    return v_call(j, callee, &args);
}

/* ---- Statements ---- */

/* The text that a body writes. */
static Value captured(Jinja *j, const Nodes *body, Scope *s, Flow *flow) {
    Builder out = {0}, *outer = j->out;
    j->out = &out;
    *flow = exec_all(j, body, s);
    j->out = outer;
    return v_str(builder_done(j, &out));
}

static Scope *top_of(Scope *s) {
    while (!s->top) s = s->parent;
    return s;
}

static Flow exec_with(Jinja *j, const Node *n, Scope *outer) {
    Scope *s = scope_new(j, outer);
    for (int i = 0; i < n->list.n; i += 2) assign(j, n->list.at[i], eval(j, n->list.at[i + 1], outer), s);
    return exec_all(j, &n->list2, s);
}

static Flow exec_node(Jinja *j, Node *n, Scope *s) {
    Flow flow = FLOW_NEXT;
    Value v;
    switch (n->kind) {
    case N_DATA: builder_str(j, j->out, n->value.u.str); break;
    case N_OUTPUT: builder_str(j, j->out, v_to_str(j, eval(j, n->a, s))); break;
    case N_IF: return exec_all(j, v_true(eval(j, n->a, s)) ? &n->list : &n->list2, s);
    case N_FOR:
        v = eval(j, n->b, s);
        j->line = n->line;
        j->column = n->column;
        run_loop(j, n, v, s, 0);
        break;
    case N_SET:
        check_namespaces(j, n->a, s);
        assign(j, n->a, eval(j, n->b, s), s);
        break;
    case N_SET_BLOCK: {
        Scope *inner = scope_new(j, s);
        v = captured(j, &n->list, inner, &flow);
        if (flow == FLOW_NEXT) assign(j, n->a, eval_filters(j, n->b, v, inner), s);
        break;
    }
    case N_MACRO: scope_set(j, s, n->name, macro_new(j, n, s)); break;
    case N_CALL_BLOCK: builder_str(j, j->out, v_to_str(j, call_block(j, n, s))); break;
    case N_FILTER_BLOCK: {
        Scope *inner = scope_new(j, s);
        v = captured(j, &n->list, inner, &flow);
        if (flow == FLOW_NEXT) builder_str(j, j->out, v_to_str(j, eval_filters(j, n->b, v, inner)));
        break;
    }
    case N_WITH: return exec_with(j, n, s);
    case N_BLOCK: exec_all(j, &n->list, scope_new(j, n->op == 's' ? s : top_of(s))); break;
    case N_GENERATION: exec_all(j, &n->list, scope_new(j, s)); break;
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    default: break;
    }
    return flow;
}

Flow exec_all(Jinja *j, const Nodes *body, Scope *s) {
    for (int i = 0; i < body->n; i++) {
        Node *n = body->at[i];
        j_step(j, 1);
        j_enter(j);
        j->line = n->line;
        j->column = n->column;
        Flow flow = exec_node(j, n, s);
        j_leave(j);
        if (flow != FLOW_NEXT) return flow;
    }
    return FLOW_NEXT;
}

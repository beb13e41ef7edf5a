#include "chat/jinja_parse.h"

#include <stdio.h>
#include <string.h>

#include "chat/call.h"

Node *node_new(Parser *p, NodeKind kind) {
    p->j->line = p->t->line;
    p->j->column = p->t->column;
    j_step(p->j, 1);
    Node *n = j_alloc(p->j, sizeof *n);
    n->kind = kind;
    n->line = p->t->line;
    n->column = p->t->column;
    return n;
}

void nodes_add(Jinja *j, Nodes *list, Node *n) {
    if (list->n == list->room) {
        int room = list->room ? 2 * list->room : 4;
        Node **larger = j_alloc(j, (size_t)room * sizeof *larger);
        if (list->n) memcpy(larger, list->at, (size_t)list->n * sizeof *larger);
        list->at = larger;
        list->room = room;
    }
    list->at[list->n++] = n;
}

/* ---- Tokens ---- */

bool at_operator(const Parser *p, const char *name) {
    return p->t->kind == TOK_OPERATOR && strcmp(p->t->name, name) == 0;
}

bool at_name(const Parser *p, const char *name) { return p->t->kind == TOK_NAME && strcmp(p->t->name, name) == 0; }

bool skip_operator(Parser *p, const char *name) {
    bool there = at_operator(p, name);
    p->t += there;
    return there;
}

bool skip_name(Parser *p, const char *name) {
    bool there = at_name(p, name);
    p->t += there;
    return there;
}

noreturn void unexpected(Parser *p, const char *expected) {
    static const char *const kinds[] = {"end of template",
                                        "text",
                                        "{{",
                                        "end of print statement",
                                        "{%",
                                        "end of statement block",
                                        "name",
                                        "string",
                                        "integer",
                                        "float",
                                        "operator"};
    const Token *t = p->t;
    p->j->line = t->line;
    p->j->column = t->column;
    if (t->name) j_fail(p->j, "expected %s, found '%s'", expected, t->name);
    j_fail(p->j, "expected %s, found %s", expected, kinds[t->kind]);
}

void expect_operator(Parser *p, const char *name) {
    char quoted[8];
    snprintf(quoted, sizeof quoted, "'%s'", name);
    if (!skip_operator(p, name)) unexpected(p, quoted);
}

const char *expect_name(Parser *p) {
    if (p->t->kind != TOK_NAME) unexpected(p, "a name");
    return p->t++->name;
}

static void expect_block_end(Parser *p) {
    if (p->t->kind != TOK_BLOCK_END) unexpected(p, "end of statement block");
    p->t++;
}

/* ---- Statements ---- */

typedef struct {
    const char *names[3]; /* of the tags that end a body */
} Ends;

static bool at_end(const Parser *p, const Ends *ends) {
    for (int i = 0; i < 3 && ends->names[i]; i++)
        if (at_name(p, ends->names[i])) return true;
    return false;
}

static Node *parse_statement(Parser *p, const Ends *ends);

/* Up to the tag that ends it, whose name is then the current token; ends without names: to the end of the template. */
static Nodes parse_until(Parser *p, const Ends *ends) {
    Nodes body = {0};
    j_enter(p->j);
    for (;;) {
        Node *n = NULL;
        switch (p->t->kind) {
        case TOK_DATA:
            n = node_new(p, N_DATA);
            n->value = p->t++->value;
            break;
        case TOK_VARIABLE_BEGIN:
            n = node_new(p, N_OUTPUT);
            p->t++;
            n->a = parse_tuple(p, (TupleHow){0});
            if (p->t->kind != TOK_VARIABLE_END) unexpected(p, "end of print statement");
            p->t++;
            break;
        case TOK_BLOCK_BEGIN:
            p->t++;
            if (at_end(p, ends)) {
                j_leave(p->j);
                return body;
            }
            n = parse_statement(p, ends);
            expect_block_end(p);
            break;
        default:
            if (ends->names[0]) unexpected(p, ends->names[0]);
            j_leave(p->j);
            return body;
        }
        nodes_add(p->j, &body, n);
    }
}

/* The body of a statement: the rest of its tag, then what is up to the end. */
static Nodes parse_body(Parser *p, Ends ends) {
    skip_operator(p, ":");
    expect_block_end(p);
    return parse_until(p, &ends);
}

static Nodes parse_body_to(Parser *p, const char *end) {
    Nodes body = parse_body(p, (Ends){{end}});
    p->t++;
    return body;
}

static void check_target(Parser *p, const Node *n) {
    bool fine = n->kind == N_NAME || n->kind == N_NSREF || n->kind == N_TUPLE;
    p->j->line = n->line;
    p->j->column = n->column;
    if (!fine) j_fail(p->j, "expected a name to assign to, found something else");
    for (int i = 0; n->kind == N_TUPLE && i < n->list.n; i++) check_target(p, n->list.at[i]);
}

static Node *parse_target(Parser *p, const char *until, bool with_namespace) {
    Node *n = parse_tuple(p, (TupleHow){.simple = true, .until = until, .with_namespace = with_namespace});
    check_target(p, n);
    return n;
}

static Node *parse_for(Parser *p, Node *n) {
    n->a = parse_target(p, "in", false);
    if (!skip_name(p, "in")) unexpected(p, "'in'");
    n->b = parse_tuple(p, (TupleHow){.no_condition = true, .until = "recursive"});
    if (skip_name(p, "if")) n->c = parse_expression(p, true);
    n->op = skip_name(p, "recursive") ? 'r' : 0;
    n->list = parse_body(p, (Ends){{"endfor", "else"}});
    if (strcmp(p->t++->name, "else") == 0) n->list2 = parse_body_to(p, "endfor");
    return n;
}

static Node *parse_if(Parser *p, Node *n) {
    j_enter(p->j);
    n->a = parse_tuple(p, (TupleHow){.no_condition = true});
    n->list = parse_body(p, (Ends){{"elif", "else", "endif"}});
    if (at_name(p, "elif")) {
        Node *elif = node_new(p, N_IF);
        p->t++;
        nodes_add(p->j, &n->list2, parse_if(p, elif));
    } else if (strcmp(p->t++->name, "else") == 0) n->list2 = parse_body_to(p, "endif");
    j_leave(p->j);
    return n;
}

static Node *parse_set(Parser *p, Node *n) {
    n->a = parse_target(p, NULL, true);
    if (skip_operator(p, "=")) {
        n->b = parse_tuple(p, (TupleHow){0});
        return n;
    }
    n->kind = N_SET_BLOCK;
    n->b = parse_filters(p, NULL, false);
    n->list = parse_body_to(p, "endset");
    return n;
}

/* (a, b=1): names with their defaults */
static void parse_signature(Parser *p, Nodes *list) {
    bool defaults = false;
    expect_operator(p, "(");
    while (!at_operator(p, ")")) {
        if (list->n) expect_operator(p, ",");
        Node *param = node_new(p, N_NAME);
        param->name = expect_name(p);
        if (skip_operator(p, "=")) {
            param->a = parse_expression(p, true);
            defaults = true;
        } else if (defaults) j_fail(p->j, "non-default argument follows default argument");
        nodes_add(p->j, list, param);
    }
    expect_operator(p, ")");
}

/* Is there an N_NAME of that name below n? */
static bool uses(const Node *n, const char *name);

static bool uses_in(const Nodes *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] && uses(list->at[i], name)) return true;
    return false;
}

static bool uses(const Node *n, const char *name) {
    if (n->kind == N_NAME && strcmp(n->name, name) == 0) return true;
    if (n->kind == N_MACRO) return false;
    return (n->a && uses(n->a, name)) || (n->b && uses(n->b, name)) || (n->c && uses(n->c, name)) ||
           uses_in(&n->list, name) || uses_in(&n->list2, name);
}

bool macro_uses(Jinja *j, const Node *n, const char *name) {
    bool used = uses_in(&n->list2, name);
    for (int i = 0; i < n->list.n; i++) {
        const Node *param = n->list.at[i];
        if (strcmp(param->name, name) != 0) continue;
        if (used && !param->a && strcmp(name, "caller") == 0)
            j_fail(j, "parameter caller: expected a default, found none");
        return false;
    }
    return used;
}

static Node *parse_macro(Parser *p, Node *n) {
    n->name = expect_name(p);
    parse_signature(p, &n->list);
    n->list2 = parse_body_to(p, "endmacro");
    return n;
}

static Node *parse_call_block(Parser *p, Node *n) {
    if (at_operator(p, "(")) parse_signature(p, &n->list);
    n->a = parse_expression(p, true);
    if (n->a->kind != N_CALL) unexpected(p, "a call");
    n->list2 = parse_body_to(p, "endcall");
    return n;
}

static Node *parse_filter_block(Parser *p, Node *n) {
    n->b = parse_filters(p, NULL, true);
    n->list = parse_body_to(p, "endfilter");
    return n;
}

static Node *parse_with(Parser *p, Node *n) {
    while (p->t->kind != TOK_BLOCK_END) {
        if (n->list.n) expect_operator(p, ",");
        nodes_add(p->j, &n->list, parse_target(p, NULL, false));
        expect_operator(p, "=");
        nodes_add(p->j, &n->list, parse_expression(p, true));
    }
    n->list2 = parse_body_to(p, "endwith");
    return n;
}

static Node *parse_block(Parser *p, Node *n) {
    n->name = expect_name(p);
    n->op = skip_name(p, "scoped") ? 's' : 0;
    if (at_name(p, "required")) j_fail(p->j, "required block: expected a supported one, found it");
    n->list = parse_body_to(p, "endblock");
    skip_name(p, n->name);
    return n;
}

static Node *parse_print(Parser *p, Node *n) {
    n->a = node_new(p, N_CONCAT);
    while (p->t->kind != TOK_BLOCK_END) {
        if (n->a->list.n) expect_operator(p, ",");
        nodes_add(p->j, &n->a->list, parse_expression(p, true));
    }
    return n;
}

static Node *parse_generation(Parser *p, Node *n) {
    n->list = parse_body_to(p, "endgeneration");
    return n;
}

static Node *parse_word(Parser *p, Node *n) {
    (void)p;
    return n;
}

static const struct {
    const char *name;
    NodeKind kind;
    Node *(*parse)(Parser *p, Node *n);
} statements[] = {
    {"for", N_FOR, parse_for},
    {"if", N_IF, parse_if},
    {"set", N_SET, parse_set},
    {"macro", N_MACRO, parse_macro},
    {"call", N_CALL_BLOCK, parse_call_block},
    {"filter", N_FILTER_BLOCK, parse_filter_block},
    {"with", N_WITH, parse_with},
    {"block", N_BLOCK, parse_block},
    {"print", N_OUTPUT, parse_print},
    {"generation", N_GENERATION, parse_generation},
    {"break", N_BREAK, parse_word},
    {"continue", N_CONTINUE, parse_word},
};

static Node *parse_statement(Parser *p, const Ends *ends) {
    static const char *const refused[] = {"include", "import", "from", "extends", "autoescape"};
    if (p->t->kind != TOK_NAME) unexpected(p, "a tag's name");
    Node *n = node_new(p, N_DATA);
    const char *name = p->t->name;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (strcmp(statements[i].name, name) != 0) continue;
        n->kind = statements[i].kind;
        p->t++;
        return statements[i].parse(p, n);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i], name) == 0) j_fail(p->j, "{%% %s %%}: expected a supported statement, found it", name);
    if (ends->names[0]) j_fail(p->j, "unknown tag '%s', looking for '%s'", name, ends->names[0]);
    j_fail(p->j, "unknown tag '%s'", name);
}

/* ---- What jinja2's compiler refuses ---- */

typedef struct {
    Jinja *j;
    int loops; /* for loops around this place */
    bool soft; /* an unknown filter or test is an error only when it is reached: inside of if */
} Check;

static void check_node(Check c, Node *n);

static void check_list(Check c, const Nodes *list) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i]) check_node(c, list->at[i]);
}

static void check_store(const Check *c, const Node *target) {
    for (int i = 0; target->kind == N_TUPLE && i < target->list.n; i++) check_store(c, target->list.at[i]);
    if (target->kind == N_NAME && c->loops && strcmp(target->name, "loop") == 0)
        j_fail(c->j, "Can't assign to special loop variable in for-loop target");
}

static void check_node(Check c, Node *n) {
    j_enter(c.j);
    c.j->line = n->line;
    c.j->column = n->column;
    if (n->kind == N_FILTER || n->kind == N_TEST) {
        n->function = n->kind == N_FILTER ? filter_find(n->name) : test_find(n->name);
        if (!n->function && !c.soft) j_fail(c.j, "No %s named '%s'", n->kind == N_FILTER ? "filter" : "test", n->name);
    }
    if ((n->kind == N_BREAK || n->kind == N_CONTINUE) && !c.loops)
        j_fail(c.j, "'%s' outside loop", n->kind == N_BREAK ? "break" : "continue");
    Check in = c, first = c;
    if (n->kind == N_IF || n->kind == N_COND) in.soft = first.soft = true;
    else if (n->kind >= N_DATA && n->kind != N_OUTPUT && n->kind != N_SET) in.soft = false;
    if (n->kind == N_FOR) in.loops++;
    if (n->kind == N_MACRO || n->kind == N_CALL_BLOCK) macro_uses(c.j, n, "caller");
    if (n->kind == N_MACRO || n->kind == N_CALL_BLOCK || n->kind == N_BLOCK) in.loops = 0;
    if (n->kind == N_FOR || n->kind == N_SET || n->kind == N_SET_BLOCK) check_store(n->kind == N_FOR ? &in : &c, n->a);
    if (n->a) check_node(first, n->a);
    if (n->b) check_node(first, n->b);
    if (n->c) check_node(first, n->c);
    check_list(n->kind == N_WITH ? first : in, &n->list);
    if (n->kind == N_FOR) in.loops = c.loops;
    check_list(in, &n->list2);
    j_leave(c.j);
}

Nodes jinja_parse(Jinja *j, const char *source, size_t n) {
    Parser p = {j, jinja_lex(j, source, n)};
    Nodes all = parse_until(&p, &(Ends){{NULL}});
    check_list((Check){j, 0, false}, &all);
    return all;
}

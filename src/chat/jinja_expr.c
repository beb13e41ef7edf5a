#include <string.h>

#include "chat/jinja_parse.h"

static Node *unary_node(Parser *p, NodeKind kind, Node *a) {
    Node *n = node_new(p, kind);
    n->a = a;
    return n;
}

static Node *binary_node(Node *n, Node *a, Node *b) {
    n->a = a;
    n->b = b;
    return n;
}

static Node *parse_list(Parser *p) {
    Node *n = node_new(p, N_LIST);
    expect_operator(p, "[");
    while (!at_operator(p, "]")) {
        if (n->list.n) expect_operator(p, ",");
        if (at_operator(p, "]")) break;
        nodes_add(p->j, &n->list, parse_expression(p, true));
    }
    expect_operator(p, "]");
    return n;
}

static Node *parse_dict(Parser *p) {
    Node *n = node_new(p, N_DICT);
    expect_operator(p, "{");
    while (!at_operator(p, "}")) {
        if (n->list.n) expect_operator(p, ",");
        if (at_operator(p, "}")) break;
        nodes_add(p->j, &n->list, parse_expression(p, true));
        expect_operator(p, ":");
        nodes_add(p->j, &n->list, parse_expression(p, true));
    }
    expect_operator(p, "}");
    return n;
}

static Node *parse_name(Parser *p, bool with_namespace) {
    static const struct {
        const char *name;
        Type type;
        bool b;
    } constants[] = {{"true", T_BOOL, true},   {"True", T_BOOL, true},  {"false", T_BOOL, false},
                     {"False", T_BOOL, false}, {"none", T_NONE, false}, {"None", T_NONE, false}};
    Node *n = node_new(p, N_NAME);
    n->name = p->t++->name;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp(n->name, constants[i].name) == 0) {
            n->kind = N_CONST;
            n->value = constants[i].type == T_NONE ? v_none() : v_bool(constants[i].b);
            return n;
        }
    if (with_namespace && skip_operator(p, ".")) {
        n->kind = N_NSREF;
        n->attribute = expect_name(p);
    }
    return n;
}

/* Strings that follow each other are one. */
static Node *parse_string(Parser *p) {
    Node *n = node_new(p, N_CONST);
    Builder b = {0};
    for (; p->t->kind == TOK_STRING; p->t++) builder_str(p->j, &b, p->t->value.u.str);
    n->value = v_str(builder_done(p->j, &b));
    return n;
}

Node *parse_primary(Parser *p, bool with_namespace) {
    Node *n;
    switch (p->t->kind) {
    case TOK_NAME: return parse_name(p, with_namespace);
    case TOK_STRING: return parse_string(p);
    case TOK_INTEGER:
    case TOK_FLOAT:
        n = node_new(p, N_CONST);
        n->value = p->t++->value;
        return n;
    default: break;
    }
    if (skip_operator(p, "(")) {
        n = parse_tuple(p, (TupleHow){.parentheses = true});
        expect_operator(p, ")");
        return n;
    }
    if (at_operator(p, "[")) return parse_list(p);
    if (at_operator(p, "{")) return parse_dict(p);
    unexpected(p, "an expression");
}

static bool tuple_ends(const Parser *p, const char *until) {
    return p->t->kind == TOK_VARIABLE_END || p->t->kind == TOK_BLOCK_END || at_operator(p, ")") ||
           (until && at_name(p, until));
}

Node *parse_tuple(Parser *p, TupleHow how) {
    Node *tuple = node_new(p, N_TUPLE);
    bool comma = false;
    for (;;) {
        if (tuple->list.n) expect_operator(p, ",");
        if (tuple_ends(p, how.until)) break;
        Node *n = how.simple ? parse_primary(p, how.with_namespace) : parse_expression(p, !how.no_condition);
        nodes_add(p->j, &tuple->list, n);
        if (!at_operator(p, ",")) break;
        comma = true;
    }
    if (comma) return tuple;
    if (tuple->list.n) return tuple->list.at[0];
    if (!how.parentheses) unexpected(p, "an expression");
    return tuple;
}

/* One part of what is in the brackets of a subscript: an expression or a slice. */
static Node *parse_subscribed(Parser *p) {
    Node *slice = node_new(p, N_SLICE), *parts[3] = {NULL, NULL, NULL};
    if (!at_operator(p, ":")) {
        parts[0] = parse_expression(p, true);
        if (!at_operator(p, ":")) return parts[0];
    }
    expect_operator(p, ":");
    for (int i = 1; i < 3; i++) {
        if (!at_operator(p, ":") && !at_operator(p, "]") && !at_operator(p, ",")) parts[i] = parse_expression(p, true);
        if (i == 2 || !skip_operator(p, ":")) break;
    }
    for (int i = 0; i < 3; i++) nodes_add(p->j, &slice->list, parts[i]);
    return slice;
}

static Node *parse_subscript(Parser *p, Node *node) {
    Node *n = node_new(p, N_GETITEM);
    n->a = node;
    if (skip_operator(p, ".")) {
        if (p->t->kind == TOK_NAME) {
            n->kind = N_GETATTR;
            n->name = p->t++->name;
            return n;
        }
        if (p->t->kind != TOK_INTEGER) unexpected(p, "a name or a number");
        n->b = parse_primary(p, false);
        return n;
    }
    expect_operator(p, "[");
    Node *tuple = node_new(p, N_TUPLE);
    while (!at_operator(p, "]")) {
        if (tuple->list.n) expect_operator(p, ",");
        nodes_add(p->j, &tuple->list, parse_subscribed(p));
    }
    expect_operator(p, "]");
    n->b = tuple->list.n == 1 ? tuple->list.at[0] : tuple;
    if (n->b->kind != N_SLICE) return n;
    n->b->a = node;
    return n->b;
}

static void parse_arguments(Parser *p, Nodes *list) {
    bool named = false, star = false, double_star = false;
    expect_operator(p, "(");
    for (bool comma = false; !at_operator(p, ")"); comma = true) {
        if (comma) expect_operator(p, ",");
        if (comma && at_operator(p, ")")) break;
        Node *n;
        bool misplaced = double_star;
        if (skip_operator(p, "*")) {
            misplaced |= star;
            n = unary_node(p, N_STAR, parse_expression(p, true));
            star = true;
        } else if (skip_operator(p, "**")) {
            n = unary_node(p, N_DOUBLE_STAR, parse_expression(p, true));
            double_star = true;
        } else if (p->t->kind == TOK_NAME && p->t[1].kind == TOK_OPERATOR && strcmp(p->t[1].name, "=") == 0) {
            n = node_new(p, N_KEYWORD);
            n->name = p->t->name;
            p->t += 2;
            n->a = parse_expression(p, true);
            named = true;
        } else {
            misplaced |= star || named;
            n = parse_expression(p, true);
        }
        if (misplaced) j_fail(p->j, "invalid syntax for function call expression");
        nodes_add(p->j, list, n);
    }
    expect_operator(p, ")");
}

static Node *parse_call(Parser *p, Node *callee) {
    Node *n = unary_node(p, N_CALL, callee);
    parse_arguments(p, &n->list);
    return n;
}

static Node *parse_postfix(Parser *p, Node *n) {
    for (;;) {
        if (at_operator(p, ".") || at_operator(p, "[")) n = parse_subscript(p, n);
        else if (at_operator(p, "(")) n = parse_call(p, n);
        else return n;
    }
}

static const char *parse_dotted_name(Parser *p) {
    const char *name = expect_name(p);
    if (!at_operator(p, ".")) return name;
    Builder b = {0};
    builder_text(p->j, &b, name);
    while (skip_operator(p, ".")) {
        builder_char(p->j, &b, '.');
        builder_text(p->j, &b, expect_name(p));
    }
    return j_intern(p->j, b.s, b.n);
}

Node *parse_filters(Parser *p, Node *node, bool at_once) {
    while (at_once || skip_operator(p, "|")) {
        Node *n = unary_node(p, N_FILTER, node);
        n->name = parse_dotted_name(p);
        if (at_operator(p, "(")) parse_arguments(p, &n->list);
        node = n;
        at_once = false;
    }
    return node;
}

static Node *parse_test(Parser *p, Node *node) {
    Node *n = unary_node(p, N_TEST, node);
    p->t++;
    bool negated = skip_name(p, "not");
    n->name = parse_dotted_name(p);
    bool value = p->t->kind == TOK_NAME || p->t->kind == TOK_STRING || p->t->kind == TOK_INTEGER ||
                 p->t->kind == TOK_FLOAT || at_operator(p, "[") || at_operator(p, "{");
    if (at_operator(p, "(")) parse_arguments(p, &n->list);
    else if (value && !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and")) {
        if (at_name(p, "is")) j_fail(p->j, "You cannot chain multiple tests with is");
        nodes_add(p->j, &n->list, parse_postfix(p, parse_primary(p, false)));
    }
    return negated ? unary_node(p, N_NOT, n) : n;
}

static Node *parse_unary(Parser *p, bool with_filters) {
    Node *n;
    j_enter(p->j);
    if (at_operator(p, "-") || at_operator(p, "+")) {
        n = node_new(p, at_operator(p, "-") ? N_NEGATIVE : N_POSITIVE);
        p->t++;
        n->a = parse_unary(p, false);
    } else n = parse_primary(p, false);
    n = parse_postfix(p, n);
    while (with_filters) {
        if (at_operator(p, "|")) n = parse_filters(p, n, false);
        else if (at_name(p, "is")) n = parse_test(p, n);
        else if (at_operator(p, "(")) n = parse_call(p, n);
        else break;
    }
    j_leave(p->j);
    return n;
}

/* The operators between two operands, by how tightly they bind; op as v_binary takes it. */
enum { SUMS, PRODUCTS, POWERS };
static const struct {
    const char *name;
    int op, level;
} binary[] = {{"+", '+', SUMS},      {"-", '-', SUMS},     {"*", '*', PRODUCTS}, {"/", '/', PRODUCTS},
              {"//", 'f', PRODUCTS}, {"%", '%', PRODUCTS}, {"**", 'p', POWERS}};

static int binary_op(const Parser *p, int level) {
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (binary[i].level == level && at_operator(p, binary[i].name)) return binary[i].op;
    return 0;
}

static Node *parse_concat(Parser *p);

static Node *parse_level(Parser *p, int level) {
    Node *left = level == POWERS ? parse_unary(p, true) : level == PRODUCTS ? parse_level(p, POWERS) : parse_concat(p);
    for (int op; (op = binary_op(p, level));) {
        Node *n = node_new(p, N_BINARY);
        n->op = op;
        p->t++;
        Node *right = level == POWERS     ? parse_unary(p, true)
                      : level == PRODUCTS ? parse_level(p, POWERS)
                                          : parse_concat(p);
        left = binary_node(n, left, right);
    }
    return left;
}

static Node *parse_concat(Parser *p) {
    Node *first = parse_level(p, PRODUCTS);
    if (!at_operator(p, "~")) return first;
    Node *n = node_new(p, N_CONCAT);
    nodes_add(p->j, &n->list, first);
    while (skip_operator(p, "~")) nodes_add(p->j, &n->list, parse_level(p, PRODUCTS));
    return n;
}

static int comparison(Parser *p) {
    static const struct {
        const char *name;
        int op;
    } operators[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {"<=", 'l'}, {">", '>'}, {">=", 'g'}};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (skip_operator(p, operators[i].name)) return operators[i].op;
    if (skip_name(p, "in")) return 'i';
    if (at_name(p, "not") && p->t[1].kind == TOK_NAME && strcmp(p->t[1].name, "in") == 0) {
        p->t += 2;
        return 'n';
    }
    return 0;
}

static Node *parse_compare(Parser *p) {
    Node *first = parse_level(p, SUMS), *n = NULL;
    for (int op; (op = comparison(p));) {
        if (!n) n = unary_node(p, N_COMPARE, first);
        Node *operand = node_new(p, N_OPERAND);
        operand->op = op;
        operand->a = parse_level(p, SUMS);
        nodes_add(p->j, &n->list, operand);
    }
    return n ? n : first;
}

static Node *parse_not(Parser *p) {
    if (!at_name(p, "not")) return parse_compare(p);
    j_enter(p->j);
    Node *n = node_new(p, N_NOT);
    p->t++;
    n->a = parse_not(p);
    j_leave(p->j);
    return n;
}

static Node *parse_and(Parser *p) {
    Node *left = parse_not(p);
    while (at_name(p, "and")) {
        Node *n = node_new(p, N_AND);
        p->t++;
        left = binary_node(n, left, parse_not(p));
    }
    return left;
}

static Node *parse_or(Parser *p) {
    Node *left = parse_and(p);
    while (at_name(p, "or")) {
        Node *n = node_new(p, N_OR);
        p->t++;
        left = binary_node(n, left, parse_and(p));
    }
    return left;
}

Node *parse_expression(Parser *p, bool with_condition) {
    j_enter(p->j);
    Node *n = parse_or(p);
    while (with_condition && at_name(p, "if")) {
        Node *condition = node_new(p, N_COND);
        p->t++;
        condition->a = n;
        condition->b = parse_or(p);
        if (skip_name(p, "else")) condition->c = parse_expression(p, true);
        n = condition;
    }
    j_leave(p->j);
    return n;
}

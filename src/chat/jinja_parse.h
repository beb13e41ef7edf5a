/* jinja_parse - tokens to a tree. Precedence and refusals are jinja2's (parser.py, compiler.py). */
#pragma once
#include "chat/jinja_lex.h"

typedef enum {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* name */
    N_NSREF,   /* name.attribute as the target of set */
    N_TUPLE,   /* list */
    N_LIST,    /* list */
    N_DICT,    /* list: key, value, key, value, ... */
    N_GETATTR, /* a.name */
    N_GETITEM, /* a[b] */
    N_SLICE,   /* a[list[0]:list[1]:list[2]], each may be NULL */
    N_CALL,    /* a(list) */
    N_FILTER,  /* a | name(list); a is NULL at the head of a block's filters */
    N_TEST,    /* a is name(list) */
    N_NOT,
    N_NEGATIVE,
    N_POSITIVE,
    N_BINARY,  /* a op b */
    N_CONCAT,  /* list */
    N_COMPARE, /* a, then list of N_OPERAND */
    N_OPERAND, /* op a */
    N_AND,
    N_OR,
    N_COND,        /* a if b else c */
    N_KEYWORD,     /* name = a */
    N_STAR,        /* *a */
    N_DOUBLE_STAR, /* **a */
    /* statements */
    N_DATA,         /* value */
    N_OUTPUT,       /* a */
    N_FOR,          /* a in b if c: list, otherwise list2; op 'r': recursive */
    N_IF,           /* a: list, otherwise list2 */
    N_SET,          /* a = b */
    N_SET_BLOCK,    /* a = list through the filters b */
    N_MACRO,        /* name(list): list2 */
    N_CALL_BLOCK,   /* call(list) a: list2 */
    N_FILTER_BLOCK, /* filters b: list */
    N_WITH,         /* list: target, value, ...; list2 */
    N_BLOCK,        /* name: list; op 's': scoped */
    N_GENERATION,   /* list */
    N_BREAK,
    N_CONTINUE
} NodeKind;

typedef struct Node Node;
typedef struct {
    Node **at; /* [n] */
    int n, room;
} Nodes;

struct Node {
    NodeKind kind;
    int op; /* N_BINARY: as v_binary; N_OPERAND: '<' '>' 'l' <= 'g' >= '=' '!' 'i' in 'n' not in */
    int line, column;
    const char *name, *attribute;
    Value value;
    Node *a, *b, *c;
    Nodes list, list2;
    const void *function; /* N_FILTER, N_TEST: the row, looked up once */
};

/* jinja_parse - the statements of a template. */
Nodes jinja_parse(Jinja *j, const char *source, size_t n);

/* macro_uses - does the body of a macro or call block use caller, kwargs or varargs, which is no parameter of it? */
bool macro_uses(Jinja *j, const Node *n, const char *name);

/* ---- Between jinja_parse.c and jinja_expr.c ---- */
typedef struct {
    Jinja *j;
    Token *t; /* the current token */
} Parser;

Node *node_new(Parser *p, NodeKind kind);
void nodes_add(Jinja *j, Nodes *list, Node *n);
bool at_operator(const Parser *p, const char *name);
bool at_name(const Parser *p, const char *name);
bool skip_operator(Parser *p, const char *name);
bool skip_name(Parser *p, const char *name);
void expect_operator(Parser *p, const char *name);
const char *expect_name(Parser *p);
noreturn void unexpected(Parser *p, const char *expected);

Node *parse_expression(Parser *p, bool with_condition);
Node *parse_primary(Parser *p, bool with_namespace);
/* parse_tuple - one expression, or several with commas between. simple: names only, as targets; until: a name that ends
 * it, or NULL. */
typedef struct {
    bool simple, no_condition, parentheses, with_namespace;
    const char *until;
} TupleHow;
Node *parse_tuple(Parser *p, TupleHow how);
Node *parse_filters(Parser *p, Node *node, bool at_once);

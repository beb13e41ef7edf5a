/* jinja_eval - runs the tree. Names live in scopes: a body of for, macro, call, with, filter and a set block has one of
 * its own, if has none. A lookup goes from the innermost scope out to the template's variables and jinja2's globals. */
#pragma once
#include "chat/call.h"
#include "chat/jinja_parse.h"

struct Scope {
    Scope *parent;
    const char **names; /* [n] interned */
    Value *values;
    int n, room;
    bool top; /* the template itself */
};

Scope *scope_new(Jinja *j, Scope *parent);
void scope_set(Jinja *j, Scope *s, const char *name, Value v);

Value eval(Jinja *j, Node *n, Scope *s);
/* eval_arguments - the arguments of a call, filter or test. */
Args eval_arguments(Jinja *j, const Nodes *list, Scope *s);
/* eval_filters - the filters of a set or filter block on its text. */
Value eval_filters(Jinja *j, Node *n, Value text, Scope *s);

/* exec - statements. FLOW_BREAK and FLOW_CONTINUE end the body of a loop. */
typedef enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } Flow;
Flow exec_all(Jinja *j, const Nodes *body, Scope *s);

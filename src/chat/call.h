/* call - filters, tests, methods and functions by name, and how arguments reach their parameters. */
#pragma once
#include "chat/value.h"

enum { MAX_PARAMS = 6 };

/* Args - the arguments of one call. */
typedef struct {
    List *at;    /* by position */
    Dict *named; /* by name; NULL: none */
} Args;

/* Function - one row of a table. self: what a filter or test is applied to, or a method's object. a [MAX_PARAMS]: the
 * arguments in the order of params, T_MISSING where none was given. */
struct Function {
    const char *name;
    Type type;          /* methods: of the object */
    const char *params; /* "width first blank", those that have no default first */
    int needed;         /* how many have none */
    Value (*run)(Jinja *j, Value self, Value *a);
    Value (*run_args)(Jinja *j, Value self, const Args *args); /* takes any arguments, in place of run */
};

struct Method {
    const Function *function;
    Value self;
};

/* The tables end with a NULL name. */
extern const Function jinja_text_filters[], jinja_list_filters[], jinja_tests[], jinja_str_methods[],
    jinja_other_methods[], jinja_functions[];

const Function *filter_find(const char *name);
const Function *test_find(const char *name);
const Function *method_find(Value self, const char *name);
/* python_attribute - an attribute that Python's type has and the interpreter does not. */
bool python_attribute(Value self, const char *name);

/* function_call - binds the arguments and runs. */
Value function_call(Jinja *j, const Function *f, Value self, const Args *args);
/* v_call - calls any value. */
Value v_call(Jinja *j, Value callee, const Args *args);
/* call_filter, call_test - by a name that is computed: map("upper"), select("odd"). */
Value call_filter(Jinja *j, const char *name, Value self, const Args *args);
bool call_test(Jinja *j, const char *name, Value self, const Args *args);
const char *str_name(Jinja *j, Value v, const char *what); /* a str as a C string */

/* jinja_eval.c */
Value macro_call(Jinja *j, Macro *m, const Args *args);
const char *macro_name(const Macro *m);
Value loop_call(Jinja *j, Loop *l, const Args *args);
Value loop_attribute(Jinja *j, Loop *l, const char *name);
int loop_index(const Loop *l);
int loop_length(Jinja *j, Loop *l);
List *loop_rest(Jinja *j, Loop *l);

/* jinja_json.c, jinja_format.c */
const Str *json_dump(Jinja *j, Value v, bool ascii, Value indent, Value separators, bool sort);
const Str *percent_format(Jinja *j, const Str *format, Value args);
const Str *brace_format(Jinja *j, const Str *format, const Args *args);
const Str *escape_html(Jinja *j, Value v);

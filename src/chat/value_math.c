/* Arithmetic of templates: Python's, in 64-bit integers. */
#include <math.h>
#include <string.h>

#include "chat/call.h"
#include "chat/value.h"

static bool is_int(Value v) { return v.type == T_BOOL || v.type == T_INT; }
static int64_t int_of(Value v) { return v.type == T_BOOL ? v.u.b : v.u.i; }

static noreturn void too_large(Jinja *j) { j_fail(j, "integer: expected at most 64 bits, found more"); }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static Value power(Jinja *j, int64_t a, int64_t n) {
    int64_t out = 1;
    if (n < 0) {
        if (a == 0) j_fail(j, "0.0 cannot be raised to a negative power");
        return v_float(pow((double)a, (double)n));
    }
    for (; n; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(out, a, &out)) too_large(j);
        if (n > 1 && __builtin_mul_overflow(a, a, &a)) too_large(j);
    }
    return v_int(out);
}

static Value int_math(Jinja *j, int op, int64_t a, int64_t b) {
    int64_t out = 0;
    if ((op == '/' || op == 'f' || op == '%') && b == 0) j_fail(j, "division by zero");
    if ((op == 'f' || op == '%') && a == INT64_MIN && b == -1) too_large(j);
    switch (op) {
    case '+':
        if (__builtin_add_overflow(a, b, &out)) too_large(j);
        break;
    case '-':
        if (__builtin_sub_overflow(a, b, &out)) too_large(j);
        break;
    case '*':
        if (__builtin_mul_overflow(a, b, &out)) too_large(j);
        break;
    case '/': return v_float((double)a / (double)b);
    case 'f': out = floor_div(a, b); break;
    case '%': out = a - floor_div(a, b) * b; break;
    default: return power(j, a, b);
    }
    return v_int(out);
}

static Value float_math(Jinja *j, int op, double a, double b) {
    if ((op == '/' || op == 'f' || op == '%') && b == 0) j_fail(j, "float division by zero");
    double rest = b != 0 ? fmod(a, b) : 0;
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    switch (op) {
    case '+': return v_float(a + b);
    case '-': return v_float(a - b);
    case '*': return v_float(a * b);
    case '/': return v_float(a / b);
    case 'f': return v_float(floor((a - rest) / b + 0.5));
    case '%': return v_float(rest != 0 ? rest : copysign(0, b));
    default:
        if (a < 0 && floor(b) != b) j_fail(j, "complex number: expected a real one, found it");
        if (a == 0 && b < 0) j_fail(j, "0.0 cannot be raised to a negative power");
        return v_float(pow(a, b));
    }
}

static Value repeat(Jinja *j, Value what, int64_t times) {
    if (what.type == T_STR) {
        Builder b = {.safe = what.u.str->safe};
        builder_fill(j, &b, what.u.str, times);
        return v_str(builder_done(j, &b));
    }
    List *l = list_new(j, 0);
    for (int64_t k = 0; k < times && what.u.list->n; k++)
        for (int i = 0; i < what.u.list->n; i++) list_add(j, l, what.u.list->v[i]);
    return what.type == T_LIST ? v_list(l) : v_tuple(l);
}

static Value add_strings(Jinja *j, Value a, Value b) {
    Builder out = {.safe = a.u.str->safe || b.u.str->safe};
    builder_str(j, &out, out.safe ? escape_html(j, a) : a.u.str);
    builder_str(j, &out, out.safe ? escape_html(j, b) : b.u.str);
    return v_str(builder_done(j, &out));
}

static Value add_lists(Jinja *j, Value a, Value b) {
    List *l = list_new(j, a.u.list->n + b.u.list->n);
    for (int i = 0; i < a.u.list->n; i++) list_add(j, l, a.u.list->v[i]);
    for (int i = 0; i < b.u.list->n; i++) list_add(j, l, b.u.list->v[i]);
    return a.type == T_LIST ? v_list(l) : v_tuple(l);
}

static bool repeats(Value v) { return v.type == T_STR || v.type == T_LIST || v.type == T_TUPLE; }

Value v_binary(Jinja *j, int op, Value a, Value b) {
    if (a.type == T_STR && op == '%') return v_str(percent_format(j, a.u.str, b));
    for (int k = 0; k < 2; k++) {
        Value v = k ? b : a;
        if (v.type == T_UNDEFINED) j_fail(j, "%s", v_attribute_error(j, v.u.undefined));
    }
    if (is_int(a) && is_int(b)) return int_math(j, op, int_of(a), int_of(b));
    if (is_number(a) && is_number(b)) return float_math(j, op, as_double(a), as_double(b));
    if (op == '*' && repeats(a) && is_int(b)) return repeat(j, a, int_of(b));
    if (op == '*' && repeats(b) && is_int(a)) return repeat(j, b, int_of(a));
    if (op == '+' && a.type == b.type && a.type == T_STR) return add_strings(j, a, b);
    if (op == '+' && a.type == b.type && (a.type == T_LIST || a.type == T_TUPLE)) return add_lists(j, a, b);
    if (op == '+' && a.type == T_STR) j_fail(j, "can only concatenate str (not \"%s\") to str", type_name(b));
    char name[3] = {(char)(op == 'f' ? '/' : op == 'p' ? '*' : op), op == 'f' ? '/' : op == 'p' ? '*' : 0, 0};
    j_fail(j, "unsupported operand type(s) for %s: '%s' and '%s'", name, type_name(a), type_name(b));
}

Value v_negate(Jinja *j, Value a) {
    if (a.type == T_FLOAT) return v_float(-a.u.f);
    int64_t i = as_int(j, a, "operand of -");
    if (i == INT64_MIN) too_large(j);
    return v_int(-i);
}

#include "pass.h"

void watch_columns(const Pass *p, const char *name, const float *x, int cols, int from, int to) {
    if (p->tap) p->tap(p->tap_arg, name, p->layer, x, p->n, cols, from, to, p->pos);
}

void watch(const Pass *p, const char *name, const float *x, int cols) { watch_columns(p, name, x, cols, 0, cols); }

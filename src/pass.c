#include "pass.h"

void watch(const Pass *p, const char *name, const float *x, int cols) {
    if (!p->tap) return;
    team_barrier(p->t);
    if (p->t->id == 0) p->tap(p->tap_arg, name, p->layer, x, p->n, cols, (size_t)cols, p->pos);
    team_barrier(p->t);
}

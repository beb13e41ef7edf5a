#include "residual.h"

void add_product(const Pass *p, float *x, const Mat *w, const float *bias, const Rows *a, const Residual *r,
                 const char *name) {
    size_t dim = (size_t)w->rows, from, to;
    bool direct = !p->tap && r->norm.kind == NORM_NONE && r->scale == 1;
    matmul(p->t, direct ? x : p->spare, dim, w, bias, a, direct);
    team_barrier(p->t);
    if (direct) return;
    watch(p, name, p->spare, (int)dim);
    team_share(p->t, (size_t)p->n, 1, &from, &to);
    for (size_t row = from; row < to; row++) {
        float *y = p->spare + row * dim;
        norm_row(p->kernels, y, y, &r->norm, (int)dim);
        for (size_t i = 0; i < dim; i++) x[row * dim + i] += y[i] * r->scale;
    }
    team_barrier(p->t);
}

#include "residual.h"

enum { SUM_ROWS = 64 }; /* rows whose products are summed over the ranks while the next ones are computed */

size_t residual_sum_floats(int dim, int n_batch) {
    size_t rows = (size_t)(n_batch < SUM_ROWS ? n_batch : SUM_ROWS), sums = (size_t)n_batch; /* norm_whole_rows */
    return rows * (size_t)dim > sums ? rows * (size_t)dim : sums;
}

/* spare = a w^T + bias, where each rank has some columns of w and a: the products of all ranks are added. */
static void sum_of_products(const Pass *p, const Mat *w, const float *bias, const Rows *a) {
    size_t dim = (size_t)w->rows;
    for (int from = 0; from < a->n; from += SUM_ROWS) {
        Rows some = rows_some(a, from, a->n - from < SUM_ROWS ? a->n - from : SUM_ROWS);
        float *y = p->spare + (size_t)from * dim;
        matmul(p->t, y, dim, w, p->comm->rank ? NULL : bias, &some, false);
        team_barrier(p->t);
        if (p->t->id) continue;
        if (from) comm_sum_end(p->comm);
        comm_sum_begin(p->comm, y, (size_t)some.n * dim);
    }
    if (p->t->id == 0) comm_sum_end(p->comm);
}

/* x += scale * norm(spare) */
static void add_rows(const Pass *p, float *x, int n, const Residual *r, const char *name) {
    size_t dim = (size_t)n, from, to;
    watch(p, name, p->spare, n);
    team_share(p->t, (size_t)p->n, 1, &from, &to);
    for (size_t row = from; row < to; row++) {
        float *y = p->spare + row * dim;
        norm_row(p->kernels, y, y, &r->norm, n);
        for (size_t i = 0; i < dim; i++) x[row * dim + i] += y[i] * r->scale;
    }
    team_barrier(p->t);
}

void add_spare(const Pass *p, float *x, int dim, const Residual *r, const char *name) {
    for (int from = 0; from < p->n && p->comm && p->t->id == 0; from += SUM_ROWS) {
        int n = p->n - from < SUM_ROWS ? p->n - from : SUM_ROWS;
        comm_sum_begin(p->comm, p->spare + (size_t)from * (size_t)dim, (size_t)n * (size_t)dim);
        comm_sum_end(p->comm);
    }
    if (p->comm) team_barrier(p->t);
    add_rows(p, x, dim, r, name);
}

void add_product(const Pass *p, float *x, const Mat *w, const float *bias, const Rows *a, const Residual *r,
                 const char *name) {
    bool direct = !p->tap && !p->comm && r->norm.kind == NORM_NONE && r->scale == 1;
    if (p->comm) sum_of_products(p, w, bias, a);
    else matmul(p->t, direct ? x : p->spare, (size_t)w->rows, w, bias, a, direct);
    team_barrier(p->t);
    if (!direct) add_rows(p, x, w->rows, r, name);
}

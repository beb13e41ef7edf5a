#include "norm.h"

#include <math.h>
#include <string.h>

/* ---- Swap 1 ------------------------------------------------------------------------------------ */

void layernorm(float *y, const float *x, const Norm *w, int dim) {
    double mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
    for (int i = 0; i < dim; i++) mean += (double)x[i];
    mean /= dim;
#pragma omp simd reduction(+ : variance)
    for (int i = 0; i < dim; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    float scale = (float)(1 / sqrt(variance / dim + (double)w->eps));
    for (int i = 0; i < dim; i++) {
        y[i] = (x[i] - (float)mean) * scale;
        if (w->weight) y[i] *= w->offset + w->weight[i];
        if (w->bias) y[i] += w->bias[i];
    }
}

static float sum_squares(const Kernels *k, const float *x, int dim) {
    if (k->sum_squares) return k->sum_squares(x, dim);
    double sum = 0;
    for (int i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    return (float)sum;
}

void rmsnorm(const Kernels *k, float *y, const float *x, const Norm *w, int dim) {
    double mean_square = (double)sum_squares(k, x, dim) / dim;
    float scale = (float)(1 / sqrt(mean_square + (double)w->eps));
    for (int i = 0; i < dim; i++) {
        y[i] = x[i] * scale;
        if (w->weight) y[i] *= w->offset + w->weight[i];
    }
}

/* ---- All rows of a pass ------------------------------------------------------------------------ */

void norm_row(const Kernels *k, float *y, const float *x, const Norm *w, int dim) {
    if (w->kind == NORM_RMSNORM) rmsnorm(k, y, x, w, dim);
    else if (w->kind == NORM_LAYERNORM) layernorm(y, x, w, dim);
    else memmove(y, x, (size_t)dim * sizeof *y);
}

static void norm_over_ranks(const Pass *p, float *x, const Norm *w, int dim, int whole, int sharers) {
    float *sums = p->spare;
    for (int r = 0; r < p->n; r++) sums[r] = sum_squares(p->kernels, x + (size_t)r * (size_t)dim, dim) / (float)sharers;
    comm_sum(p->comm, sums, (size_t)p->n);
    for (int r = 0; r < p->n; r++) {
        float *row = x + (size_t)r * (size_t)dim, scale = (float)(1 / sqrt((double)(sums[r] / (float)whole + w->eps)));
        for (int i = 0; i < dim; i++) row[i] *= scale * (w->weight ? w->offset + w->weight[i] : 1);
    }
}

void norm_whole_rows(const Pass *p, float *x, const Norm *w, int dim, int whole, int sharers) {
    int r;
    if (p->comm && p->t->id == 0) norm_over_ranks(p, x, w, dim, whole, sharers);
    while (!p->comm && team_next(p->t, p->n, &r)) {
        float *row = x + (size_t)r * (size_t)dim;
        norm_row(p->kernels, row, row, w, dim);
    }
}

Rows norm_rows(const Pass *p, const RowBuffer *out, const float *x, Norm w) {
    bool few = p->n <= OWN_MAX_ROWS;
    Rows y = few ? rows_open_own(out, p) : rows_open(out, p);
    size_t from = 0, to = (size_t)p->n;
    if (!few) team_share(p->t, to, ROWS_TILE, &from, &to);
    for (int r = (int)from; r < (int)to; r++) {
        norm_row(p->kernels, rows_at(&y, r), x + (size_t)r * (size_t)y.dim, &w, y.dim);
        rows_quantize(&y, r, 0, y.dim);
    }
    if (!few) team_barrier(p->t);
    return y;
}

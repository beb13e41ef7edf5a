#include "ffn.h"

void swiglu(float *gate, const float *up, size_t n) { kernels_best()->swiglu(gate, up, n); }

void gelu(float *x, size_t n) { kernels_best()->gelu(x, n); }

void ffn_take(FfnState *s, Arena *a, int n_batch, int hidden_dim) {
    row_buffer_take(&s->hidden, a, n_batch, hidden_dim);
    s->up = arena_take(a, (size_t)n_batch * (size_t)hidden_dim, sizeof *s->up);
}

void ffn(const Pass *p, float *x, const Rows *xn, FfnKind kind, const FfnWeights *w, const FfnState *s) {
    Rows h = rows_open(&s->hidden, p);
    size_t dim = (size_t)h.dim;
    int from, to;
    while (matmul_next(p->t, h.dim, xn, &from, &to)) { /* columns [from, to), while they are in the cache */
        if (kind == FFN_SWIGLU) {
            matmul_piece(h.x, dim, &w->w_gate, w->b_gate, xn, false, from, to);
            matmul_piece(s->up, dim, &w->w_up, w->b_up, xn, false, from, to);
        } else {
            matmul_piece(h.x, dim, &w->w_up, w->b_up, xn, false, from, to);
        }
        for (int r = 0; r < p->n; r++) {
            float *row = rows_at(&h, r) + from;
            if (kind == FFN_SWIGLU) swiglu(row, s->up + (size_t)r * dim + (size_t)from, (size_t)(to - from));
            else gelu(row, (size_t)(to - from));
            rows_quantize(&h, r, from, to);
        }
    }
    team_barrier(p->t);
    add_product(p, x, &w->w_down, w->b_down, &h, "ffn_out");
}

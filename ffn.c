#include "ffn.h"

#include <math.h>

/* ---- Swap 2 ------------------------------------------------------------------------------------ */

static float silu(float z) { return z / (1 + expf(-z)); }

void swiglu(const Kernels *k, float *gate, const float *up, size_t n) {
    if (k->swiglu) {
        k->swiglu(gate, up, n);
        return;
    }
    for (size_t i = 0; i < n; i++) gate[i] = silu(gate[i]) * up[i];
}

static float gelu_tanh(float z) {
    const float sqrt_2_over_pi = 0.7978845608028654f;
    return 0.5f * z * (1 + tanhf(sqrt_2_over_pi * (z + 0.044715f * z * z * z)));
}

void gelu(const Kernels *k, float *x, size_t n) {
    if (k->gelu) {
        k->gelu(x, n);
        return;
    }
    for (size_t i = 0; i < n; i++) x[i] = gelu_tanh(x[i]);
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
            float *row = rows_at(&h, r) + from, *up = s->up + (size_t)r * dim + (size_t)from;
            if (kind == FFN_SWIGLU) swiglu(p->kernels, row, up, (size_t)(to - from));
            else gelu(p->kernels, row, (size_t)(to - from));
            rows_quantize(&h, r, from, to);
        }
    }
    team_barrier(p->t);
    add_product(p, x, &w->w_down, w->b_down, &h, "ffn_out");
}

void ffn_take(FfnState *s, Arena *a, int n_batch, int hidden_dim) {
    row_buffer_take(&s->hidden, a, n_batch, hidden_dim);
    s->up = arena_take(a, (size_t)n_batch * (size_t)hidden_dim, sizeof *s->up);
}

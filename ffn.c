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

static float gelu_erf(float z) { return 0.5f * z * (1 + erff(z * 0.7071067811865476f)); }

static float relu2(float z) { return z > 0 ? z * z : 0; }

static float softplus(float z) { return z > 20 ? z : log1pf(expf(z)); }

static void xielu(float *x, size_t n, const FfnWeights *w) {
    float beta = w->xielu.beta, p = softplus(w->xielu.alpha_p), q = beta + softplus(w->xielu.alpha_n);
    for (size_t i = 0; i < n; i++) {
        float z = x[i];
        x[i] = beta * z + (z > 0 ? p * z * z : q * (expm1f(fminf(z, w->xielu.eps)) - z));
    }
}

static void swiglu_oss(float *gate, const float *up, size_t n, float alpha, float limit) {
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i], u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        gate[i] = (u + 1) * silu(alpha * g) / alpha;
    }
}

bool ffn_is_gated(FfnKind kind) {
    return kind == FFN_SWIGLU || kind == FFN_GEGLU || kind == FFN_GEGLU_ERF || kind == FFN_SWIGLU_OSS;
}

/* h[n] = act(h), times up where it gates. */
static void activate(const Kernels *k, float *h, const float *up, size_t n, FfnKind kind, const FfnWeights *w) {
    switch (kind) {
    case FFN_SWIGLU: swiglu(k, h, up, n); return;
    case FFN_SWIGLU_OSS: swiglu_oss(h, up, n, w->alpha, w->limit); return;
    case FFN_GELU:
    case FFN_GEGLU: gelu(k, h, n); break;
    case FFN_GELU_ERF:
    case FFN_GEGLU_ERF:
        for (size_t i = 0; i < n; i++) h[i] = gelu_erf(h[i]);
        break;
    case FFN_RELU2:
        for (size_t i = 0; i < n; i++) h[i] = relu2(h[i]);
        break;
    case FFN_XIELU: xielu(h, n, w); break;
    }
    for (size_t i = 0; i < n && ffn_is_gated(kind); i++) h[i] *= up[i];
}

void ffn_piece(const Rows *h, float *up, const Rows *x, FfnKind kind, const FfnWeights *w, int from, int to) {
    size_t dim = (size_t)h->dim;
    bool gated = ffn_is_gated(kind);
    matmul_piece(h->x, dim, gated ? &w->w_gate : &w->w_up, gated ? w->b_gate : w->b_up, x, false, from, to);
    if (gated) matmul_piece(up, dim, &w->w_up, w->b_up, x, false, from, to);
    for (int r = 0; r < h->n; r++) {
        size_t at = (size_t)r * dim + (size_t)from;
        activate(h->kernels, h->x + at, up + at, (size_t)(to - from), kind, w);
        rows_quantize(h, r, from, to);
    }
}

void ffn(const Pass *p, float *x, const Rows *xn, FfnKind kind, const FfnWeights *w, const FfnState *s,
         const Residual *residual) {
    Rows h = rows_open(&s->hidden, p);
    int from, to;
    while (matmul_next(p->t, h.dim, xn, &from, &to)) /* columns [from, to), while they are in the cache */
        ffn_piece(&h, s->up, xn, kind, w, from, to);
    team_barrier(p->t);
    add_product(p, x, &w->w_down, w->b_down, &h, residual, "ffn_out");
}

void ffn_take(FfnState *s, Arena *a, int n_batch, int hidden_dim) {
    row_buffer_take(&s->hidden, a, n_batch, hidden_dim);
    s->up = arena_take(a, (size_t)n_batch * (size_t)hidden_dim, sizeof *s->up);
}

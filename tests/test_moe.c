/* The mixture of experts: the router's choice, and the whole block against its formula in double for every type of
 * weights, number of rows and threads, shared expert or not, all experts here or some; the same bits for every split.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quantize.h"
#include "moe.h"

#include "tests/random.h"

#include <cmocka.h>

enum { DIM = 64, HIDDEN = 96, SHARED = 32, EXPERTS = 7, MOST_ROWS = 40 };

static Mat random_mat(DType type, int rows, int cols) {
    size_t bytes = dtype_row_bytes(type, (size_t)cols);
    char *data = malloc((size_t)rows * bytes);
    float row[HIDDEN];
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < cols; i++) row[i] = random_unit();
        assert_true(dtype_quantize(data + (size_t)r * bytes, row, (size_t)cols, type));
    }
    return (Mat){.dtype = type, .rows = rows, .cols = cols, .stride_bytes = bytes, .data = data};
}

static float *random_vector(int n) {
    float *v = malloc((size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) v[i] = random_unit();
    return v;
}

static void free_const(const void *p) { free((void *)(uintptr_t)p); }

static FfnWeights random_ffn(DType type, int hidden, bool biases) {
    FfnWeights w = {.w_gate = random_mat(type, hidden, DIM),
                    .w_up = random_mat(type, hidden, DIM),
                    .w_down = random_mat(type, DIM, hidden),
                    .alpha = 1.702f,
                    .limit = 1.5f};
    if (!biases) return w;
    w.b_gate = random_vector(hidden);
    w.b_up = random_vector(hidden);
    w.b_down = random_vector(DIM);
    return w;
}

static void free_ffn(const FfnWeights *w) {
    free_const(w->w_gate.data);
    free_const(w->w_up.data);
    free_const(w->w_down.data);
    free_const(w->b_gate);
    free_const(w->b_up);
    free_const(w->b_down);
}

/* ---- The formula ------------------------------------------------------------------------------- */

static void multiply(double *y, const Mat *w, const float *bias, const double *x) {
    float row[HIDDEN];
    for (int r = 0; r < w->rows; r++) {
        mat_dequantize_row(row, w, r);
        y[r] = bias ? (double)bias[r] : 0;
        for (int i = 0; i < w->cols; i++) y[r] += (double)row[i] * x[i];
    }
}

static void add_expert(double *y, const FfnWeights *w, FfnKind kind, const double *x, double weight) {
    double gate[HIDDEN], up[HIDDEN], down[DIM], limit = (double)w->limit;
    multiply(gate, &w->w_gate, w->b_gate, x);
    multiply(up, &w->w_up, w->b_up, x);
    for (int i = 0; i < w->w_up.rows; i++) {
        double g = kind == FFN_SWIGLU_OSS ? fmin(gate[i], limit) : gate[i];
        double u = kind == FFN_SWIGLU_OSS ? fmax(-limit, fmin(up[i], limit)) + 1 : up[i];
        gate[i] = u * g / (1 + exp(-g * (kind == FFN_SWIGLU_OSS ? (double)w->alpha : 1)));
    }
    multiply(down, &w->w_down, w->b_down, gate);
    for (int i = 0; i < DIM; i++) y[i] += weight * down[i];
}

static void formula(double *y, const MoeWeights *w, const MoeConfig *c, FfnKind kind, const double *x) {
    double score[EXPERTS], sum = 0, all = 0, gate = 1;
    bool used[EXPERTS] = {false};
    multiply(score, &w->router, w->router_bias, x);
    for (int e = 0; e < EXPERTS; e++) all += score[e] = exp(score[e]);
    for (int j = 0; j < c->n_used; j++) {
        int best = -1;
        for (int e = 0; e < EXPERTS; e++)
            if (!used[e] && (best < 0 || score[e] > score[best])) best = e;
        used[best] = true;
        sum += score[best];
    }
    memset(y, 0, DIM * sizeof *y);
    for (int e = 0; e < EXPERTS; e++)
        if (used[e]) add_expert(y, &w->experts[e], kind, x, score[e] / (c->renormalize ? sum : all));
    if (w->shared_gate.data) {
        multiply(&gate, &w->shared_gate, NULL, x);
        gate = 1 / (1 + exp(-gate));
    }
    if (c->shared_dim) add_expert(y, &w->shared, kind, x, gate);
}

/* ---- The block --------------------------------------------------------------------------------- */

typedef struct {
    const MoeWeights *w;
    MoeState s;
    FfnKind kind;
    int n, piece;
    bool int8, exact;
    const float *x; /* [n, DIM] */
    float *y, *spare;
    RowBuffer rows;
} Run;

static void body(const Thread *t, void *arg) {
    const Run *r = arg;
    for (int from = 0; from < r->n; from += r->piece) {
        int n = r->n - from < r->piece ? r->n - from : r->piece;
        Pass p = {.t = t, .kernels = kernels_best(), .n = n, .int8 = r->int8, .exact = r->exact, .spare = r->spare};
        Rows x = rows_open(&r->rows, &p);
        if (t->id == 0) memcpy(x.x, r->x + (size_t)from * DIM, (size_t)n * DIM * sizeof *x.x);
        team_barrier(t);
        rows_quantize_all(&p, &x);
        const Residual plain = {.norm = {.kind = NORM_NONE}, .scale = 1};
        moe(&p, r->y + (size_t)from * DIM, &x, r->kind, r->w, &r->s, &plain);
        team_barrier(t);
    }
}

static void take(Run *r, Arena *a, const MoeConfig *c, int hidden) {
    moe_take(&r->s, a, c, MOST_ROWS, DIM, hidden, c->shared_dim);
    row_buffer_take(&r->rows, a, MOST_ROWS, DIM);
    r->spare = arena_take(a, MOST_ROWS * DIM, sizeof(float));
}

/* y [n, DIM] of experts [first, first + n_here). */
static void run(float *y, const MoeWeights *w, const MoeConfig *c, FfnKind kind, const float *x, int n, int piece,
                int threads, bool exact, int first, int n_here) {
    Error e = {0};
    Arena count = {0}, arena;
    MoeWeights here = *w;
    here.experts += first;
    Run r = {.w = &here, .kind = kind, .n = n, .piece = piece, .exact = exact, .x = x, .y = y};
    r.int8 = mat_is_quantized(&w->experts->w_up);
    take(&r, &count, c, HIDDEN);
    assert_int_equal(arena_init(&arena, count.used, "test", &e), 0);
    take(&r, &arena, c, HIDDEN);
    r.s.first = first;
    r.s.n = n_here;
    memset(y, 0, (size_t)n * DIM * sizeof *y);
    Team *team = team_open(threads);
    team_run(team, body, &r);
    team_close(team);
    arena_close(&arena);
}

static void check_case(DType type, FfnKind kind, bool renormalize, int shared, bool biases) {
    MoeConfig c = {.n_experts = EXPERTS, .n_used = 3, .renormalize = renormalize, .shared_dim = shared ? SHARED : 0};
    FfnWeights experts[EXPERTS];
    for (int i = 0; i < EXPERTS; i++) experts[i] = random_ffn(type, HIDDEN, biases);
    MoeWeights w = {.router = random_mat(DTYPE_F32, EXPERTS, DIM), .experts = experts};
    if (biases) w.router_bias = random_vector(EXPERTS);
    if (shared) w.shared = random_ffn(type, SHARED, false);
    if (shared > 1) w.shared_gate = random_mat(DTYPE_F32, 1, DIM);
    float *x = random_vector(MOST_ROWS * DIM), *y = malloc(MOST_ROWS * DIM * sizeof *y),
          *z = malloc(MOST_ROWS * DIM * sizeof *z);
    double *expected = malloc(MOST_ROWS * DIM * sizeof *expected), size = 0;
    for (int r = 0; r < MOST_ROWS; r++) {
        double row[DIM];
        for (int i = 0; i < DIM; i++) row[i] = (double)x[r * DIM + i];
        formula(expected + r * DIM, &w, &c, kind, row);
        for (int i = 0; i < DIM; i++) size = fmax(size, fabs(expected[r * DIM + i]));
    }
    static const int counts[] = {1, 2, 3, 4, 9, 17, MOST_ROWS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int n = counts[i];
        run(y, &w, &c, kind, x, n, n, 1 + (int)i % 3, false, 0, EXPERTS);
        double worst = 0;
        for (int j = 0; j < n * DIM; j++) worst = fmax(worst, fabs((double)y[j] - expected[j]));
        if (!(worst <= (type == DTYPE_F32 ? 1e-5 : 2e-2) * size))
            fail_msg("type %d, kind %d, shared %d, %d rows: off by %g of %g", (int)type, (int)kind, shared, n, worst,
                     size);
    }
    run(y, &w, &c, kind, x, MOST_ROWS, MOST_ROWS, 2, true, 0, EXPERTS);
    run(z, &w, &c, kind, x, MOST_ROWS, 1, 1, true, 0, EXPERTS);
    assert_memory_equal(y, z, MOST_ROWS * DIM * sizeof *y);
    run(z, &w, &c, kind, x, MOST_ROWS, 5, 3, true, 0, EXPERTS);
    assert_memory_equal(y, z, MOST_ROWS * DIM * sizeof *y);
    if (!shared) { /* what ranks do: the sum of the parts is the whole */
        float *part = malloc(MOST_ROWS * DIM * sizeof *part);
        run(z, &w, &c, kind, x, MOST_ROWS, MOST_ROWS, 2, true, 0, 3);
        run(part, &w, &c, kind, x, MOST_ROWS, MOST_ROWS, 2, true, 3, EXPERTS - 3);
        for (int i = 0; i < MOST_ROWS * DIM; i++)
            assert_true(fabs((double)y[i] - (double)(z[i] + part[i])) <= 1e-5 * size);
        free(part);
    }
    for (int i = 0; i < EXPERTS; i++) free_ffn(&experts[i]);
    if (shared) free_ffn(&w.shared);
    free_const(w.router.data);
    free_const(w.router_bias);
    free_const(w.shared_gate.data);
    free(x);
    free(y);
    free(z);
    free(expected);
}

static void the_block_matches_its_formula(void **state) {
    (void)state;
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_case(types[i], FFN_SWIGLU, true, 0, false);
        check_case(types[i], FFN_SWIGLU, false, 2, false);
        check_case(types[i], FFN_SWIGLU, true, 1, false);
        check_case(types[i], FFN_SWIGLU_OSS, true, 0, true);
    }
}

static void the_largest_are_chosen(void **state) {
    (void)state;
    MoeConfig c = {.n_experts = 5, .n_used = 2, .renormalize = true};
    int chosen[5];
    float weight[5], scores[5] = {1, 3, -2, 3, 2};
    moe_choose(&c, scores, chosen, weight);
    assert_int_equal(chosen[0], 1); /* the first of equal ones */
    assert_int_equal(chosen[1], 3);
    assert_true(weight[0] == 0.5f && weight[1] == 0.5f && scores[1] == 0.5f && scores[0] == 0 && scores[4] == 0);
    float others[5] = {0, logf(3), -100, -100, -100};
    c.renormalize = false;
    moe_choose(&c, others, chosen, weight);
    assert_true(chosen[0] == 1 && chosen[1] == 0);
    assert_true(fabsf(weight[0] - 0.75f) < 1e-6f && fabsf(weight[1] - 0.25f) < 1e-6f);
    c.n_used = 5;
    float all[5] = {100, 101, 102, 103, 104};
    moe_choose(&c, all, chosen, weight);
    float sum = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(chosen[i], 4 - i);
        sum += weight[i];
    }
    assert_true(fabsf(sum - 1) < 1e-6f);
}

/* A router that is broken must not choose as if nothing were wrong. */
static void a_nan_is_not_lost(void **state) {
    (void)state;
    for (int at = 0; at < 4; at++) {
        MoeConfig c = {.n_experts = 4, .n_used = 2, .renormalize = at % 2};
        int chosen[2];
        float weight[2], scores[4] = {4, 3, 2, 1};
        scores[at] = NAN;
        moe_choose(&c, scores, chosen, weight);
        assert_true(isnan(weight[0]) && isnan(weight[1]));
        assert_true(chosen[0] >= 0 && chosen[0] < 4 && chosen[1] >= 0 && chosen[1] < 4 && chosen[0] != chosen[1]);
    }
    MoeConfig c = {.n_experts = 2, .n_used = 1, .renormalize = true};
    int chosen[1];
    float weight[1], scores[2] = {-HUGE_VALF, -HUGE_VALF};
    moe_choose(&c, scores, chosen, weight);
    assert_true(isnan(weight[0]) && chosen[0] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_chosen),
        cmocka_unit_test(a_nan_is_not_lost),
        cmocka_unit_test(the_block_matches_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "moe.h"

#include <math.h>
#include <string.h>

/* ---- The router -------------------------------------------------------------------------------- */

void moe_choose(const MoeConfig *c, float *scores, int *chosen, float *weight) {
    float max = -HUGE_VALF, sum = 0;
    bool nan = false;
    for (int e = 0; e < c->n_experts; e++) {
        nan |= isnan(scores[e]);
        if (scores[e] > max) max = scores[e];
    }
    for (int j = 0; j < c->n_used; j++) { /* the largest that is not chosen yet; the first of equal ones */
        int best = -1;
        for (int e = 0; e < c->n_experts; e++) {
            bool taken = false;
            for (int i = 0; i < j && !taken; i++) taken = chosen[i] == e;
            if (!taken && (best < 0 || scores[e] > scores[best])) best = e;
        }
        chosen[j] = best;
        weight[j] = expf(scores[best] - max);
        sum += weight[j];
    }
    if (!c->renormalize) {
        sum = 0;
        for (int e = 0; e < c->n_experts; e++) sum += expf(scores[e] - max);
    }
    memset(scores, 0, (size_t)c->n_experts * sizeof *scores);
    for (int j = 0; j < c->n_used; j++) scores[chosen[j]] = weight[j] = nan ? NAN : weight[j] / sum;
}

/* Which rows each expert has, and where they lie: each expert's begin at a tile. */
static void group(const MoeState *s, int n) {
    const MoeConfig *c = &s->config;
    int n_active = 0, tiles = 0, all = n * c->n_used;
    memset(s->count, 0, (size_t)c->n_experts * sizeof *s->count);
    for (int i = 0; i < all; i++) s->count[s->chosen[i]]++;
    for (int e = s->first; e < s->first + s->n; e++) {
        s->tile[e] = tiles;
        tiles += (s->count[e] + ROWS_TILE - 1) / ROWS_TILE;
        if (s->count[e]) s->active[n_active++] = e;
    }
    *s->n_active = n_active;
    memset(s->count, 0, (size_t)c->n_experts * sizeof *s->count);
    for (int i = 0; i < all; i++) {
        int e = s->chosen[i];
        bool here = e >= s->first && e < s->first + s->n;
        s->place[i] = here ? s->tile[e] * ROWS_TILE + s->count[e]++ : -1;
        if (here) s->source[s->place[i]] = i / c->n_used;
    }
}

static void route(const Pass *p, const Rows *xn, const MoeWeights *w, const MoeState *s) {
    const MoeConfig *c = &s->config;
    size_t n_experts = (size_t)c->n_experts, n_used = (size_t)c->n_used;
    matmul(p->t, s->scores, n_experts, &w->router, w->router_bias, xn, false);
    if (w->shared_gate.data) matmul(p->t, s->gate, 1, &w->shared_gate, NULL, xn, false);
    team_barrier(p->t);
    watch(p, "router", s->scores, c->n_experts);
    for (size_t r = (size_t)p->t->id; r < (size_t)p->n; r += (size_t)p->t->n)
        moe_choose(c, s->scores + r * n_experts, s->chosen + r * n_used, s->weight + r * n_used);
    team_barrier(p->t);
    watch(p, "router_weights", s->scores, c->n_experts);
    if (p->t->id == 0) group(s, p->n);
    team_barrier(p->t);
}

/* ---- The experts ------------------------------------------------------------------------------- */

static Rows rows_of(const RowBuffer *b, const Pass *p, const MoeState *s, int expert) {
    return rows_open_tiles(b, p, s->tile[expert], s->count[expert]);
}

/* Copies each expert's rows to its place. A single row needs no copy: it is every expert's. */
static void gather(const Pass *p, const Rows *xn, const MoeState *s) {
    size_t dim = (size_t)xn->dim;
    int turn = 0;
    for (int i = 0; i < *s->n_active && p->n > 1; i++) {
        Rows rows = rows_of(&s->rows, p, s, s->active[i]);
        const int *source = s->source + s->tile[s->active[i]] * ROWS_TILE;
        for (int r = 0; r < rows.n; r++) {
            if (turn++ % p->t->n != p->t->id) continue;
            memcpy(rows_at(&rows, r), xn->x + (size_t)source[r] * dim, dim * sizeof *xn->x);
            rows_quantize(&rows, r, 0, rows.dim);
        }
    }
    if (p->n > 1) team_barrier(p->t);
}

/* Piece is of columns [*from, *to) of one of the active experts, of `columns` each; false: none is left. */
static bool next_piece(const Pass *p, const MoeState *s, const Rows *xn, int columns, int *expert, int *from, int *to) {
    int size = matmul_columns(p->t, *s->n_active * columns, xn), piece;
    if (size > columns || size == 0) size = columns;
    int pieces = (columns + size - 1) / size;
    if (!team_next(p->t, *s->n_active * pieces, &piece)) return false;
    *expert = s->active[piece / pieces];
    *from = piece % pieces * size;
    *to = columns - *from < size ? columns : *from + size;
    return true;
}

/* spare = gate * spare, the shared expert's, + sum of weight * the chosen experts' results */
static void combine(const Pass *p, int n, const MoeWeights *w, const MoeState *s) {
    size_t dim = (size_t)n, n_used = (size_t)s->config.n_used, from, to;
    team_share(p->t, (size_t)p->n, 1, &from, &to);
    for (size_t row = from; row < to; row++) {
        float *y = p->spare + row * dim, gate = w->shared_gate.data ? 1 / (1 + expf(-s->gate[row])) : 1;
        if (!s->config.shared_dim) memset(y, 0, dim * sizeof *y);
        for (size_t i = 0; i < dim && gate != 1; i++) y[i] *= gate;
        for (size_t j = row * n_used; j < (row + 1) * n_used; j++) {
            const float *result = s->rows.x + (size_t)s->place[j] * dim;
            for (size_t i = 0; i < dim && s->place[j] >= 0; i++) y[i] += s->weight[j] * result[i];
        }
    }
    team_barrier(p->t);
}

void moe(const Pass *p, float *x, const Rows *xn, FfnKind kind, const MoeWeights *w, const MoeState *s,
         const Residual *residual) {
    int expert, from, to, dim = xn->dim, hidden_dim = s->hidden.dim;
    Rows shared = rows_open(&s->shared.hidden, p);
    route(p, xn, w, s);
    gather(p, xn, s);
    while (s->config.shared_dim && matmul_next(p->t, shared.dim, xn, &from, &to))
        ffn_piece(&shared, s->shared.up, xn, kind, &w->shared, from, to);
    while (next_piece(p, s, xn, hidden_dim, &expert, &from, &to)) {
        Rows in = p->n > 1 ? rows_of(&s->rows, p, s, expert) : *xn, h = rows_of(&s->hidden, p, s, expert);
        float *up = s->up + (size_t)s->tile[expert] * ROWS_TILE * (size_t)hidden_dim;
        ffn_piece(&h, up, &in, kind, &w->experts[expert - s->first], from, to);
    }
    team_barrier(p->t);
    if (s->config.shared_dim) matmul(p->t, p->spare, (size_t)dim, &w->shared.w_down, NULL, &shared, false);
    while (next_piece(p, s, xn, dim, &expert, &from, &to)) {
        const FfnWeights *f = &w->experts[expert - s->first];
        Rows h = rows_of(&s->hidden, p, s, expert);
        float *result = s->rows.x + (size_t)s->tile[expert] * ROWS_TILE * (size_t)dim;
        matmul_piece(result, (size_t)dim, &f->w_down, f->b_down, &h, false, from, to);
    }
    team_barrier(p->t);
    combine(p, dim, w, s);
    add_spare(p, x, dim, residual, "ffn_out");
}

void moe_take(MoeState *s, Arena *a, const MoeConfig *c, int n_batch, int dim, int hidden_dim, int shared_dim) {
    size_t n = (size_t)n_batch, experts = (size_t)c->n_experts, all = n * (size_t)c->n_used;
    int tiles = (int)(all / ROWS_TILE + (all < experts ? all : experts));
    s->config = *c;
    ffn_take(&s->shared, a, shared_dim ? n_batch : 0, shared_dim);
    s->scores = arena_take(a, n * experts, sizeof *s->scores);
    s->gate = arena_take(a, n, sizeof *s->gate);
    s->chosen = arena_take(a, all, sizeof *s->chosen);
    s->weight = arena_take(a, all, sizeof *s->weight);
    s->place = arena_take(a, all, sizeof *s->place);
    s->tile = arena_take(a, experts, sizeof *s->tile);
    s->count = arena_take(a, experts, sizeof *s->count);
    s->active = arena_take(a, experts, sizeof *s->active);
    s->n_active = arena_take(a, 1, sizeof *s->n_active);
    s->source = arena_take(a, (size_t)tiles * ROWS_TILE, sizeof *s->source);
    row_buffer_take_tiles(&s->rows, a, tiles, dim);
    row_buffer_take_tiles(&s->hidden, a, tiles, hidden_dim);
    s->up = arena_take(a, (size_t)tiles * ROWS_TILE, (size_t)hidden_dim * sizeof *s->up);
}

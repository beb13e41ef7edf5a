#include "attention.h"
#include <math.h>
#include <string.h>

/* ---- Swap 4: each query head reads the KV head of its group, and swap 3 in its place --------------- */

/* One head of q, k or v. They come in the order of the KV heads, each after the query heads that share it, so that the
 * first KV head can be attended to while the last is still computed. */
typedef struct {
    const char *name, *rotated_name; /* for the tap */
    unsigned kind;                   /* ROTATE_Q, ROTATE_K, ROTATE_V */
    int head, of, kv_head;
    float *x; /* [n, of, head_dim] */
    const Mat *w;
    const float *bias, *norm, *norm_bias;
} Head;

static int heads_of_group(const AttentionState *s) { return s->n_heads / s->cache.n_kv_heads + 2; }
static Head head_at(const AttentionWeights *w, const AttentionState *s, int i) {
    int n = heads_of_group(s), kv_head = i / n, j = i % n, kv_heads = s->cache.n_kv_heads;
    int head = s->config.interleaved ? j * kv_heads + kv_head : kv_head * (n - 2) + j;
    Head q = {"q", "q_rot", ROTATE_Q, head, s->n_heads, kv_head, s->q, &w->wq, w->bq, w->q_norm, w->q_norm_bias};
    Head k = {"k", "k_rot", ROTATE_K, kv_head, kv_heads, kv_head, s->k, &w->wk, w->bk, w->k_norm, w->k_norm_bias};
    Head v = {"v", NULL, ROTATE_V, kv_head, kv_heads, kv_head, s->v, &w->wv, w->bv, NULL, NULL};
    return j < n - 2 ? q : j == n - 2 ? k : v;
}

/* One text of the pass: its rows, with its cache and its angles. */
typedef struct {
    Pass pass;
    AttentionState state;
} View;

static View view_of(const Pass *p, const AttentionState *s, int i) {
    View v = {*p, *s};
    if (!p->spans) return v;
    const Span *span = &p->spans[i];
    v.pass.row = span->row;
    v.pass.n = span->n;
    v.pass.pos = v.pass.rope_pos = span->pos;
    v.state.cache = span->sequence->cache;
    memcpy(v.state.rope, span->sequence->rope, sizeof v.state.rope);
    return v;
}

static float *row_of(const Pass *p, const Head *h, int r, int d) {
    return h->x + ((size_t)(p->row + r) * (size_t)h->of + (size_t)h->head) * (size_t)d;
}

/* x = w xn + bias */
static void project(const Pass *p, const Rows *xn, const AttentionState *s, Head h) {
    int d = s->cache.head_dim, from = h.head * d, to = from + d;
    matmul_piece(h.x, (size_t)(h.of * d), h.w, h.bias, xn, false, from, to);
    watch_columns(p, h.name, h.x, h.of * d, from, to);
}

static void norm_head(const Pass *p, const AttentionState *s, Head h) {
    int d = s->cache.head_dim;
    Norm norm = s->norm;
    norm.bias = h.norm_bias;
    norm.weight = h.norm + (s->config.qk_norm == QK_NORM_EACH_HEAD ? h.head * d : 0);
    for (int r = 0; r < p->n; r++) norm_row(p->kernels, row_of(p, &h, r, d), row_of(p, &h, r, d), &norm, d);
}

/* Swap 3: q and k are rotated by their position, v never is; k and v go into the cache. */
static void rotate_and_store(const Pass *p, const AttentionWeights *w, AttentionState *s, Head h) {
    int d = s->cache.head_dim;
    bool after = s->config.qk_norm == QK_NORM_AFTER_ROPE, normed = h.norm && s->config.qk_norm != QK_NORM_WHOLE;
    bool local = w->rope == ROPE_LOCAL || (h.kind == ROTATE_K && s->rotate[p->layer] & ROTATE_K_LOCAL);
    const RopeTable *table = &s->rope[local];
    float clamp = s->config.clamp;
    if (normed && !after) norm_head(p, s, h);
    for (int r = 0; r < p->n && clamp > 0; r++) /* after the norm: OLMoE */
        for (float *x = row_of(p, &h, r, d), *end = x + d; x < end; x++)
            *x = *x > clamp ? clamp : *x < -clamp ? -clamp : *x; /* NaN stays NaN */
    if (s->rotate[p->layer] & h.kind) rope_apply(row_of(p, &h, 0, d), p->n, 1, h.of * d, table, p->rope_pos);
    if (normed && after) norm_head(p, s, h);
    if (s->rope[0].rotary_dim && h.rotated_name)
        watch_columns(p, h.rotated_name, h.x, h.of * d, h.head * d, (h.head + 1) * d);
    for (int r = 0; r < p->n; r++) {
        if (h.kind == ROTATE_K) kv_cache_write_key(&s->cache, p->layer, h.head, p->pos + r, row_of(p, &h, r, d));
        if (h.kind == ROTATE_V) kv_cache_write_value(&s->cache, p->layer, h.head, p->pos + r, row_of(p, &h, r, d));
    }
}

static void rotate_and_store_all(const Pass *p, const AttentionWeights *w, AttentionState *s, Head h, bool told) {
    for (int v = 0; v < p->n_texts; v++) {
        View view = view_of(p, s, v);
        rotate_and_store(&view.pass, w, &view.state, h);
    }
    if (told) team_done(&s->ready[h.kv_head]);
}

/* All heads of q at once, all heads of k at once: they have to be there, those of other ranks too. */
static void norm_whole(const Pass *p, const AttentionWeights *w, const AttentionState *s) {
    int q_dim = s->n_heads * s->cache.head_dim, k_dim = s->cache.n_kv_heads * s->cache.head_dim;
    Norm q = s->norm, k = s->norm;
    q.weight = w->q_norm;
    k.weight = w->k_norm;
    team_barrier(p->t);
    norm_whole_rows(p, s->q, &q, q_dim, s->all_heads * s->cache.head_dim, 1);
    norm_whole_rows(p, s->k, &k, k_dim, s->all_kv_heads * s->cache.head_dim, s->kv_sharers);
    team_barrier(p->t);
}

/* Each thread takes the next head of q, k or v; of each group the last `each`: all, or k and v alone. */
static void compute_heads(const Pass *p, const Rows *xn, const AttentionWeights *w, AttentionState *s, int each) {
    int group = heads_of_group(s), skip = group - each, n = s->cache.n_kv_heads * each, i;
    bool whole = s->config.qk_norm == QK_NORM_WHOLE;
    while (team_next(p->t, n, &i)) {
        Head h = head_at(w, s, i / each * group + skip + i % each);
        project(p, xn, s, h);
        if (!whole) rotate_and_store_all(p, w, s, h, !skip);
    }
    if (whole) norm_whole(p, w, s);
    while (whole && team_next(p->t, n, &i))
        rotate_and_store_all(p, w, s, head_at(w, s, i / each * group + skip + i % each), !skip);
}

void attention_remember(const Pass *p, const Rows *xn, const AttentionWeights *w, AttentionState *s) {
    compute_heads(p, xn, w, s, 2);
    team_barrier(p->t);
}

void attention(const Pass *p, float *x, const Rows *xn, const AttentionWeights *w, AttentionState *s,
               const Residual *residual) {
    compute_heads(p, xn, w, s, heads_of_group(s));
    Rows heads = rows_open(&s->heads, p);
    for (int v = 0; v < p->n_texts; v++) {
        View view = view_of(p, s, v);
        attend(&view.pass, &heads, w, &view.state);
    }
    team_barrier(p->t);
    if (s->cache.head_dim % QK) rows_quantize_all(p, &heads);
    add_product(p, x, &w->wo, w->bo, &heads, residual, "attn_out");
}

/* ---- softmax(q k^T / sqrt(d)) v ---------------------------------------------------------------- */

enum { SPLIT = 256 };               /* a part of a long cache has at least so many positions */
static const float LOWEST = -3e38f; /* a score of nothing: e^LOWEST is 0 */

/* A task: query rows [row, row + n) of a KV head; row = token * group + head of the group. */
typedef struct {
    int kv_head, group, row, n;
    int stride; /* between the query heads of the group: 1 */
    int end;    /* 0, or the position that every row sees up to: no mask */
} Task;

static int token_of(const Task *t, int i) { return (t->row + i) / t->group; }
static int query_head_of(const Task *t, int i) {
    int first = t->stride == 1 ? t->kv_head * t->group : t->kv_head;
    return first + (t->row + i) % t->group * t->stride;
}

static Task task_of(const Pass *p, const AttentionState *s, int kv_head, int row, int n) {
    int kv_heads = s->cache.n_kv_heads;
    return (Task){kv_head,
                  s->n_heads / kv_heads,
                  row,
                  n,
                  s->config.interleaved ? kv_heads : 1,
                  s->config.see_ahead ? p->pos + p->n : 0};
}

/* Step 1: score = q k^T of positions [start, start + WORK_CHUNK). Unpacked once where several tiles read the same. */
static void scores(Work *w, const KvCache *c, int layer, const Task *t, int start, int b, int blocks) {
    int d = c->head_dim;
    for (; b < blocks; b++) {
        TileB keys = kv_keys(w->keys, t->n > c->kernels->tile_rows, c, layer, t->kv_head, start + b * KV_BLOCK);
        matmul_f32(c->kernels, w->score + b * KV_BLOCK, WORK_CHUNK, w->q, (size_t)d, t->n, &keys, KV_BLOCK, d, false);
    }
}

/* Step 2: score = e^(score - max), where max is the row's so far; what was accumulated before is rescaled to it.
 * Causal: row i sees positions up to its token's, from the first one in its window. */
static void softmax(Work *w, const KvCache *c, int pos, const Task *t, int start, int chunk, int blocks, int window,
                    float cap) {
    for (int i = 0; i < t->n; i++) {
        int visible = (t->end ? t->end : pos + token_of(t, i) + 1) - start, hidden = window ? visible - window : 0;
        float rescale = 1, *score = w->score + i * WORK_CHUNK, *acc = w->acc + (size_t)i * w->stride;
        if (visible > chunk) visible = chunk;
        if (visible > 0 && hidden < visible) {
            if (cap > 0) softcap(c->kernels, score, visible, cap);
            for (int j = 0; j < hidden; j++) score[j] = -INFINITY;
            rescale = c->kernels->softmax_step(score, visible, blocks * KV_BLOCK, &w->max[i], &w->denom[i]);
        } else {
            memset(score, 0, WORK_CHUNK * sizeof *score);
        }
        for (size_t j = 0; j < w->stride && rescale != 1; j++) acc[j] *= rescale;
    }
}

/* Step 3: acc += score v. */
static void weighted_values(Work *w, const KvCache *c, int layer, const Task *t, int start, int b, int chunk) {
    for (; b * KV_BLOCK < chunk; b++) {
        int m = chunk - b * KV_BLOCK < KV_BLOCK ? chunk - b * KV_BLOCK : KV_BLOCK;
        TileB values = kv_values(w->values, t->n > c->kernels->tile_rows, w->stride, c, layer, t->kv_head,
                                 start + b * KV_BLOCK, m);
        matmul_f32(c->kernels, w->acc, w->stride, w->score + b * KV_BLOCK, WORK_CHUNK, t->n, &values, w->stride, m,
                   true);
    }
}

/* 1 / sqrt(d), or what the model has instead. */
static float query_scale(const AttentionConfig *c, int d, int pos) {
    float scale = c->unscaled ? 1 : c->scale > 0 ? c->scale : 1 / sqrtf((float)d);
    if (!(c->temperature > 0)) return scale;
    int contexts = pos / c->temperature_ctx; /* rounded down */
    return scale * (1 + c->temperature * logf((float)(1 + contexts)));
}

/* The task over positions [from, to): softmax(q k^T / sqrt(d)) v is acc / denom. */
static void attend_task(Work *w, const Pass *p, const AttentionWeights *weights, const AttentionState *s, const Task *t,
                        int from, int to, bool first) {
    const KvCache *c = &s->cache;
    int d = c->head_dim;
    for (int i = 0; i < t->n; i++) {
        const float *q = s->q + ((p->row + token_of(t, i)) * s->n_heads + query_head_of(t, i)) * (size_t)d;
        float scale = query_scale(&s->config, d, p->pos + token_of(t, i));
        bool sink = weights->sinks && first; /* counted once, in the first part of the cache */
        for (int j = 0; j < d; j++) w->q[i * d + j] = q[j] * scale;
        w->max[i] = sink ? weights->sinks[query_head_of(t, i)] : LOWEST;
        w->denom[i] = sink;
    }
    memset(w->acc, 0, (size_t)t->n * w->stride * sizeof *w->acc);
    for (int start = from; start < to; start += WORK_CHUNK) {
        int chunk = to - start < WORK_CHUNK ? to - start : WORK_CHUNK, blocks = (chunk + KV_BLOCK - 1) / KV_BLOCK;
        int gone = p->pos + token_of(t, 0) + 1 - weights->window - start,
            b = weights->window && gone > 0 ? gone / KV_BLOCK : 0;
        scores(w, c, p->layer, t, start, b, blocks); /* but blocks that nobody sees, and a ring may have no more */
        softmax(w, c, p->pos, t, start, chunk, blocks, weights->window, s->config.softcap);
        weighted_values(w, c, p->layer, t, start, b, chunk);
    }
}

static void await_group(const Pass *p, const AttentionState *s, int kv_head) {
    unsigned wanted = (unsigned)((p->layer + 1) * heads_of_group(s));
    if (s->ready) team_await(p->t, &s->ready[kv_head], wanted);
}

/* ---- Tasks shared out among the threads -------------------------------------------------------- */

/* One token over a long cache: tasks are also cut into parts of the cache, whose results [parts, n_heads, stride + 2]
 * (accumulator, maximum, denominator) are merged after a barrier. */
static void attend_in_parts(const Pass *p, const Rows *out, const AttentionWeights *weights, const AttentionState *s,
                            int first, int parts) {
    const KvCache *c = &s->cache;
    int d = c->head_dim, group = s->n_heads / c->n_kv_heads, i;
    int blocks = (p->pos + KV_BLOCK - first) / KV_BLOCK;
    Work w = work_at(s->scratch, p->t->id, d);
    size_t row = w.stride + 2, next = (size_t)s->n_heads * row;
    float *partial = work_partial(s->scratch, team_size(p->t->team), d);
    while (team_next(p->t, c->n_kv_heads * parts, &i)) {
        Task task = task_of(p, s, i / parts, 0, group);
        int part = i % parts, from = first + blocks * part / parts * KV_BLOCK;
        int to = first + blocks * (part + 1) / parts * KV_BLOCK;
        await_group(p, s, task.kv_head);
        attend_task(&w, p, weights, s, &task, from, to < p->pos + 1 ? to : p->pos + 1, part == 0);
        for (int j = 0; j < group; j++)
            work_put(&w, j, partial + (size_t)part * next + (size_t)query_head_of(&task, j) * row, d);
    }
    team_barrier(p->t);
    for (int h = p->t->id; h < s->n_heads; h += p->t->n) {
        work_merge(rows_at(out, 0) + h * d, partial + (size_t)h * row, parts, next, w.stride, d);
        rows_quantize(out, 0, h * d, (h + 1) * d);
    }
}

/* Where the window of the token at pos begins, at the start of a chunk: chunks are the same for every token. */
static int window_start(const AttentionWeights *w, int pos) {
    return w->window && pos >= w->window ? (pos - w->window + 1) / WORK_CHUNK * WORK_CHUNK : 0;
}

void attend(const Pass *p, const Rows *out, const AttentionWeights *weights, const AttentionState *s) {
    const KvCache *c = &s->cache;
    int d = c->head_dim, group = s->n_heads / c->n_kv_heads, rows = p->n * group,
        tiles = (rows + WORK_ROWS - 1) / WORK_ROWS, i;
    int n_threads = team_size(p->t->team); /* not t->n: the sums are the same when one thread does all */
    int first = window_start(weights, p->pos), parts = (p->pos + 1 - first) / SPLIT;
    if (p->n == 1 && !p->spans && group <= WORK_ROWS && !c->exact && c->n_kv_heads % n_threads && parts >= 2) {
        attend_in_parts(p, out, weights, s, first, parts < n_threads ? parts : n_threads);
        return;
    }
    Work w = work_at(s->scratch, p->t->id, d);
    while (team_next(p->t, c->n_kv_heads * tiles, &i)) { /* the last rows, which see most, first */
        int row = (tiles - 1 - i / c->n_kv_heads) * WORK_ROWS;
        Task task = task_of(p, s, i % c->n_kv_heads, row, rows - row < WORK_ROWS ? rows - row : WORK_ROWS);
        await_group(p, s, task.kv_head);
        attend_task(&w, p, weights, s, &task, window_start(weights, p->pos + token_of(&task, 0)),
                    task.end ? task.end : p->pos + token_of(&task, task.n - 1) + 1, true);
        for (int j = 0; j < task.n; j++) {
            int token = token_of(&task, j), h = query_head_of(&task, j);
            float *o = rows_at(out, p->row + token) + h * d;
            for (int k = 0; k < d; k++) o[k] = w.acc[(size_t)j * w.stride + (size_t)k] / w.denom[j];
            rows_quantize(out, p->row + token, h * d, (h + 1) * d);
        }
    }
}

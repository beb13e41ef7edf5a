#include "attention.h"

#include <math.h>
#include <string.h>

void attention_take(AttentionState *s, Arena *a, int n_batch, int n_threads) {
    size_t n = (size_t)n_batch, d = (size_t)s->cache.head_dim;
    kv_cache_take(&s->cache, a);
    if (s->rope.rotary_dim) {
        size_t values = (size_t)s->rope.n_ctx * (size_t)(s->rope.rotary_dim / 2);
        s->rope.cos = arena_take(a, values, sizeof(float));
        s->rope.sin = arena_take(a, values, sizeof(float));
    }
    s->rotate = arena_take(a, (size_t)s->cache.n_layers, 1);
    s->q = arena_take(a, n * (size_t)s->n_heads * d, sizeof(float));
    s->k = arena_take(a, n * (size_t)s->cache.n_kv_heads * d, sizeof(float));
    s->v = arena_take(a, n * (size_t)s->cache.n_kv_heads * d, sizeof(float));
    row_buffer_take(&s->heads, a, n_batch, s->n_heads * (int)d);
    s->ready = arena_take(a, (size_t)s->cache.n_kv_heads, sizeof *s->ready);
    s->scratch = arena_take(a, attention_scratch_bytes(s->n_heads, (int)d, n_threads), 1);
}

/* ---- q, k and v -------------------------------------------------------------------------------- */

/* One head of q, k or v. They come in the order of the KV heads, each after the query heads that share it, so that the
 * first KV head can be attended to while the last is still computed. */
typedef struct {
    unsigned kind; /* ROTATE_Q, ROTATE_K, ROTATE_V */
    int head, of, kv_head;
    float *x; /* row r of this head is at x + r * of * head_dim */
    const Mat *w;
    const float *bias;
} Head;

static int heads_of_group(const AttentionState *s) { return s->n_heads / s->cache.n_kv_heads + 2; }

static Head head_at(const AttentionWeights *w, const AttentionState *s, int i) {
    int n = heads_of_group(s), kv_head = i / n, j = i % n, kv_heads = s->cache.n_kv_heads;
    Head q = {ROTATE_Q, kv_head * (n - 2) + j, s->n_heads, kv_head, s->q, &w->wq, w->bq};
    Head k = {ROTATE_K, kv_head, kv_heads, kv_head, s->k, &w->wk, w->bk};
    Head v = {ROTATE_V, kv_head, kv_heads, kv_head, s->v, &w->wv, w->bv};
    return j < n - 2 ? q : j == n - 2 ? k : v;
}

static void project(const Rows *xn, Head h, int d) {
    matmul_piece(h.x, (size_t)(h.of * d), h.w, h.bias, xn, false, h.head * d, (h.head + 1) * d);
}

/* Swap 3: q and k are rotated by their position, v never is; k and v go into the cache. */
static void rotate_and_store(const Pass *p, AttentionState *s, Head h) {
    int d = s->cache.head_dim, stride = h.of * d;
    float *x = h.x + h.head * d;
    if (s->rotate[p->layer] & h.kind) rope_apply(x, p->n, 1, stride, &s->rope, p->rope_pos);
    for (int r = 0; r < p->n; r++, x += stride) {
        if (h.kind == ROTATE_K) kv_cache_write_key(&s->cache, p->layer, h.head, p->pos + r, x);
        if (h.kind == ROTATE_V) kv_cache_write_value(&s->cache, p->layer, h.head, p->pos + r, x);
    }
    team_done(&s->ready[h.kv_head]);
}

void attention(const Pass *p, float *x, const Rows *xn, const AttentionWeights *w, AttentionState *s) {
    int d = s->cache.head_dim, q_dim = s->n_heads * d, kv_dim = s->cache.n_kv_heads * d;
    int n = s->cache.n_kv_heads * heads_of_group(s), i;
    while (team_next(p->t, n, &i)) { /* each thread takes the next head */
        project(xn, head_at(w, s, i), d);
        if (!p->tap) rotate_and_store(p, s, head_at(w, s, i));
    }
    if (p->tap) { /* somebody wants to see them before and after */
        team_barrier(p->t);
        watch(p, "q", s->q, q_dim);
        watch(p, "k", s->k, kv_dim);
        watch(p, "v", s->v, kv_dim);
        while (team_next(p->t, n, &i)) rotate_and_store(p, s, head_at(w, s, i));
        team_barrier(p->t);
        if (s->rope.rotary_dim) watch(p, "q_rot", s->q, q_dim);
        if (s->rope.rotary_dim) watch(p, "k_rot", s->k, kv_dim);
    }
    Rows heads = rows_open(&s->heads, p);
    attend(p, &heads, s->q, s->n_heads, &s->cache, s->ready, (unsigned)((p->layer + 1) * heads_of_group(s)),
           s->scratch);
    team_barrier(p->t);
    if (d % QK) rows_quantize_all(p, &heads);
    add_product(p, x, &w->wo, w->bo, &heads, "attn_out");
}

/* ---- softmax(q k^T / sqrt(d)) v ---------------------------------------------------------------- */

enum {
    ROWS = 32,            /* query rows of a task */
    CHUNK = 4 * KV_BLOCK, /* positions between two steps of the online softmax */
    SPLIT = 256,          /* a part of the cache has at least so many positions */
    PAD = 32              /* a sum's row holds whole tiles: a multiple of every tile_cols */
};
static const float LOWEST = -3e38f; /* a score of nothing: e^LOWEST is 0 */

/* Scratch of one thread. */
typedef struct {
    float *q;      /* [ROWS, d] queries / sqrt(d) */
    float *score;  /* [ROWS, CHUNK] */
    float *keys;   /* [d, KV_BLOCK] */
    float *values; /* [KV_BLOCK, stride] */
    float *sum;    /* [ROWS, stride] */
    float max[ROWS], total[ROWS];
} Work;

static size_t sum_stride(size_t d) { return (d + PAD - 1) / PAD * PAD; }

static size_t work_floats(size_t d) {
    return ROWS * d + ROWS * CHUNK + (d + 15) / 16 * 16 * KV_BLOCK + (KV_BLOCK + ROWS) * sum_stride(d);
}

static Work work_at(void *scratch, int thread, size_t d) {
    Work w = {.q = (float *)scratch + (size_t)thread * work_floats(d)};
    w.sum = w.q + ROWS * d;
    w.values = w.sum + ROWS * sum_stride(d);
    w.keys = w.values + KV_BLOCK * sum_stride(d);
    w.score = w.keys + (d + 15) / 16 * 16 * KV_BLOCK;
    return w;
}

/* Parts of the cache in which a single token's attention is cut: as many as threads. Of each part and query head a
 * sum, its maximum and its total are kept. */
size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads) {
    size_t n = (size_t)n_threads, partial = (size_t)n_heads * (sum_stride((size_t)head_dim) + 2);
    return n * (work_floats((size_t)head_dim) + partial) * sizeof(float);
}

/* A task: query rows [row, row + n) of a KV head; row = token * group + head of the group. */
typedef struct {
    int head, group, row, n;
} Task;

static int token_of(const Task *t, int i) { return (t->row + i) / t->group; }
static int query_head_of(const Task *t, int i) { return t->head * t->group + (t->row + i) % t->group; }

/* score = q k^T of a chunk of positions from p on. */
static void chunk_scores(Work *w, const KvCache *c, const Pass *pass, const Task *t, int p, int blocks) {
    int d = c->head_dim;
    for (int b = 0; b < blocks; b++) {
        const float *keys = kv_keys(w->keys, c, pass->layer, t->head, p + b * KV_BLOCK);
        matmul_f32(c->kernels, w->score + b * KV_BLOCK, CHUNK, w->q, (size_t)d, t->n, keys, KV_BLOCK, KV_BLOCK, d,
                   false);
    }
}

/* sum += weights v of the chunk. */
static void chunk_values(Work *w, const KvCache *c, const Pass *pass, const Task *t, int p, int chunk) {
    size_t stride = sum_stride((size_t)c->head_dim);
    for (int b = 0; b * KV_BLOCK < chunk; b++) {
        int m = chunk - b * KV_BLOCK < KV_BLOCK ? chunk - b * KV_BLOCK : KV_BLOCK;
        const float *values = kv_values(w->values, stride, c, pass->layer, t->head, p + b * KV_BLOCK, m);
        matmul_f32(c->kernels, w->sum, stride, w->score + b * KV_BLOCK, CHUNK, t->n, values, stride, stride, m, true);
    }
}

/* The task over the positions [from, to). Leaves sum, max and total in w. */
static void attend_task(Work *w, const Pass *pass, const float *q, int n_heads, const KvCache *c, const Task *t,
                        int from, int to) {
    int d = c->head_dim;
    size_t stride = sum_stride((size_t)d);
    float scale = 1 / sqrtf((float)d);
    for (int i = 0; i < t->n; i++) {
        const float *in = q + ((size_t)token_of(t, i) * (size_t)n_heads + (size_t)query_head_of(t, i)) * (size_t)d;
        for (int j = 0; j < d; j++) w->q[i * d + j] = in[j] * scale;
        w->max[i] = LOWEST;
        w->total[i] = 0;
    }
    memset(w->sum, 0, (size_t)t->n * stride * sizeof *w->sum);

    for (int p = from; p < to; p += CHUNK) {
        int chunk = to - p < CHUNK ? to - p : CHUNK, blocks = (chunk + KV_BLOCK - 1) / KV_BLOCK;
        chunk_scores(w, c, pass, t, p, blocks);
        for (int i = 0; i < t->n; i++) { /* causal: row i sees positions up to its own */
            int valid = pass->pos + token_of(t, i) + 1 - p;
            valid = valid < 0 ? 0 : valid < chunk ? valid : chunk;
            float keep = 1, *sum = w->sum + (size_t)i * stride;
            if (valid)
                keep =
                    c->kernels->softmax_step(w->score + i * CHUNK, valid, blocks * KV_BLOCK, &w->max[i], &w->total[i]);
            else memset(w->score + i * CHUNK, 0, CHUNK * sizeof *w->score);
            for (size_t j = 0; j < stride && keep != 1; j++) sum[j] *= keep;
        }
        chunk_values(w, c, pass, t, p, chunk);
    }
}

static void await_group(const Pass *p, Tally *ready, unsigned wanted, int kv_head) {
    if (ready) team_await(p->t, &ready[kv_head], wanted);
}

/* One token over a long cache: tasks are also cut into `parts` of the cache, whose results are merged after a barrier.
 */
static void attend_in_parts(const Pass *p, const Rows *out, const float *q, int n_heads, const KvCache *cache,
                            Tally *ready, unsigned wanted, void *scratch, int parts) {
    int d = cache->head_dim, kv_heads = cache->n_kv_heads, group = n_heads / kv_heads, length = p->pos + 1, i;
    size_t stride = sum_stride((size_t)d), next = (size_t)n_heads * (stride + 2);
    Work w = work_at(scratch, p->t->id, (size_t)d);
    float *partial =
        (float *)scratch + (size_t)team_size(p->t->team) * work_floats((size_t)d); /* [parts, n_heads, stride + 2] */
    int each = (length / parts + CHUNK - 1) / CHUNK * CHUNK;
    while (team_next(p->t, kv_heads * parts, &i)) {
        Task task = {i / parts, group, 0, group};
        int part = i % parts, from = part * each, to = part == parts - 1 || from + each > length ? length : from + each;
        await_group(p, ready, wanted, task.head);
        attend_task(&w, p, q, n_heads, cache, &task, from, to);
        for (int j = 0; j < group; j++) {
            float *to_row = partial + (size_t)part * next + (size_t)(task.head * group + j) * (stride + 2);
            memcpy(to_row, w.sum + (size_t)j * stride, (size_t)d * sizeof *to_row);
            to_row[stride] = w.max[j];
            to_row[stride + 1] = w.total[j];
        }
    }
    team_barrier(p->t);
    for (int h = p->t->id; h < n_heads; h += p->t->n) {
        float *o = rows_at(out, 0) + h * d, max = LOWEST, total = 0;
        const float *from = partial + (size_t)h * (stride + 2);
        for (int part = 0; part < parts; part++) max = fmaxf(max, from[(size_t)part * next + stride]);
        memset(o, 0, (size_t)d * sizeof *o);
        for (int part = 0; part < parts; part++, from += next) {
            float keep = expf(from[stride] - max);
            total += keep * from[stride + 1];
            for (int j = 0; j < d; j++) o[j] += keep * from[j];
        }
        for (int j = 0; j < d; j++) o[j] /= total;
        rows_quantize(out, 0, h * d, (h + 1) * d);
    }
}

void attend(const Pass *p, const Rows *out, const float *q, int n_heads, const KvCache *cache, Tally *ready,
            unsigned wanted, void *scratch) {
    int d = cache->head_dim, kv_heads = cache->n_kv_heads, group = n_heads / kv_heads, rows = p->n * group, i;
    int n_threads = team_size(p->t->team); /* not t->n: the sums are the same when one thread does all */
    int length = p->pos + p->n, tiles = (rows + ROWS - 1) / ROWS;
    if (p->n == 1 && group <= ROWS && !cache->exact && kv_heads % n_threads && length >= 2 * SPLIT) {
        int parts = length / SPLIT < n_threads ? length / SPLIT : n_threads;
        attend_in_parts(p, out, q, n_heads, cache, ready, wanted, scratch, parts);
        return;
    }
    Work w = work_at(scratch, p->t->id, (size_t)d);
    while (team_next(p->t, kv_heads * tiles, &i)) { /* the last rows, which see most, first */
        Task task = {i % kv_heads, group, (tiles - 1 - i / kv_heads) * ROWS, 0};
        task.n = rows - task.row < ROWS ? rows - task.row : ROWS;
        await_group(p, ready, wanted, task.head);
        attend_task(&w, p, q, n_heads, cache, &task, 0, p->pos + token_of(&task, task.n - 1) + 1);
        for (int j = 0; j < task.n; j++) {
            int token = token_of(&task, j), h = query_head_of(&task, j);
            float *o = rows_at(out, token) + h * d;
            for (int k = 0; k < d; k++) o[k] = w.sum[(size_t)j * sum_stride((size_t)d) + (size_t)k] / w.total[j];
            rows_quantize(out, token, h * d, (h + 1) * d);
        }
    }
}

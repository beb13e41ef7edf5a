#include "model.h"

#include <string.h>

#include "base/memory.h"

void model_init(Model *m, const Config *config, const Weights *weights) {
    m->config = *config;
    m->weights = *weights;
}

int model_default_threads(const Model *m) {
    const Config *c = &m->config;
    double per_layer = (double)c->dim * (2.0 * c->n_heads * c->head_dim + 2.0 * c->n_kv_heads * c->head_dim +
                                         (c->ffn == FFN_SWIGLU ? 3.0 : 2.0) * c->hidden_dim);
    return per_layer < 300e3 ? 1 : team_default_size();
}

/* ---- State: one arena, laid out by the same code that counts it -------------------------------
 */

static int max_int(int a, int b) { return a > b ? a : b; }

/* What a thread keeps for itself: a few normed rows in f32, and their 8-bit form. */
static size_t own_floats(size_t dim) { return (ACT_FEW * dim + 15) / 16 * 16; }
static size_t own_bytes(size_t dim) { return (own_floats(dim) * sizeof(float) + act_bytes(ACT_FEW, dim) + 63) / 64 * 64; }

static void state_take(State *s, const Config *c, Arena *a) {
    size_t n = (size_t)s->options.n_batch;
    size_t q_dim = (size_t)c->n_heads * (size_t)c->head_dim;
    size_t kv_dim = (size_t)c->n_kv_heads * (size_t)c->head_dim;
    s->cache = (KvCache){.type = s->options.kv_type,
                         .n_layers = c->n_layers,
                         .n_ctx = s->options.n_ctx,
                         .n_kv_heads = c->n_kv_heads,
                         .head_dim = c->head_dim,
                         .exact = s->options.deterministic};
    kv_cache_take(&s->cache, a);
    if (c->pos == POS_ROPE) {
        size_t pairs = (size_t)c->rope.rotary_dim / 2;
        s->rope = (RopeTable){.n_ctx = s->options.n_ctx,
                              .head_dim = c->head_dim,
                              .rotary_dim = c->rope.rotary_dim,
                              .pairing = c->rope.pairing};
        s->rope.cos = arena_take(a, (size_t)s->options.n_ctx * pairs, sizeof(float));
        s->rope.sin = arena_take(a, (size_t)s->options.n_ctx * pairs, sizeof(float));
    }
    s->x = arena_take(a, n * (size_t)c->dim, sizeof(float));
    s->xn = arena_take(a, n * (size_t)c->dim, sizeof(float));
    s->q = arena_take(a, n * q_dim, sizeof(float));
    s->k = arena_take(a, n * kv_dim, sizeof(float));
    s->v = arena_take(a, n * kv_dim, sizeof(float));
    s->att = arena_take(a, n * q_dim, sizeof(float));
    s->gate = arena_take(a, n * (size_t)c->hidden_dim, sizeof(float));
    s->up = arena_take(a, n * (size_t)c->hidden_dim, sizeof(float));
    s->logits = arena_take(a, (size_t)c->vocab_size, sizeof(float));
    int widest = max_int(c->hidden_dim, c->n_heads * c->head_dim);
    s->act_normed = arena_take(a, act_bytes(n, (size_t)c->dim), 1);
    s->act_made = arena_take(a, act_bytes(n, (size_t)widest), 1);
    s->heads_made = arena_take(a, (size_t)c->n_kv_heads, sizeof *s->heads_made);
    s->own_bytes = own_bytes((size_t)c->dim);
    s->own = arena_take(a, (size_t)s->options.n_threads, s->own_bytes);
    size_t scratch = attention_scratch_bytes(c->n_heads, c->head_dim, s->options.n_threads);
    s->attn_scratch = arena_take(a, scratch, 1);
}

size_t state_bytes(const Model *m, const StateOptions *options) {
    State s = {.options = *options};
    Arena count = {0};
    state_take(&s, &m->config, &count);
    return count.overflow ? (size_t)-1 : count.used;
}

int state_fits(const Model *m, const StateOptions *options, const char *what, Error *e) {
    size_t bytes = state_bytes(m, options), left = memory_available("");
    if (bytes <= left) return 0;
    return fail(e, "%s: memory: expected %zu MiB for a context of %d, found %zu MiB free (lower it with -c, --batch or --kv-type)",
                what, (bytes >> 20) + 1, options->n_ctx, left >> 20);
}

int state_init(State *s, const Model *m, const StateOptions *options, Error *e) {
    *s = (State){.options = *options};
    if (arena_init(&s->arena, state_bytes(m, options), "KV cache and buffers", e)) return -1;
    state_take(s, &m->config, &s->arena);
    s->team = team_open(options->n_threads);
    if (!s->team) {
        state_close(s);
        return fail(e, "threads: memory: expected some, found none");
    }
    return 0;
}

void state_close(State *s) {
    team_close(s->team);
    arena_close(&s->arena);
    *s = (State){0};
}

/* Dynamic NTK and LongRoPE turn with the length of the whole sequence; every other rule needs the
 * table once. Keys that are cached keep the rotation they were given, as in transformers. */
static void state_reach(State *s, const Config *c, int seq_len) {
    if (c->pos != POS_ROPE) return;
    bool moves =
        c->rope.scaling == ROPE_SCALING_DYNAMIC || c->rope.scaling == ROPE_SCALING_LONGROPE;
    if (s->rope_seq_len && (!moves || seq_len == s->rope_seq_len)) return;
    rope_table_fill(&s->rope, &c->rope, seq_len);
    s->rope_seq_len = seq_len;
}

/* ---- The forward pass, run by every thread of the team ----------------------------------------
 */

typedef struct {
    const Model *m;
    State *s;
    const int *tokens; /* [n] */
    int n, pos; /* rows, and those that the cache held before */
    int at;     /* the position that row 0 is told: pos */
} Pass;

/* watch - shows an intermediate to the tap, if there is one: x [p->n, cols]. Also a barrier then.
 */
static void watch(const Thread *t, const Pass *p, const char *name, int layer, const float *x,
                  int cols) {
    if (!p->s->tap) return;
    team_barrier(t);
    if (t->id == 0) p->s->tap(p->s->tap_arg, name, layer, x, p->n, cols, (size_t)cols, p->pos);
    team_barrier(t);
}

static void embed(const Thread *t, const Pass *p) {
    const Weights *w = &p->m->weights;
    size_t dim = (size_t)p->m->config.dim;
    for (int r = t->id; r < p->n; r += t->n) {
        float *x = p->s->x + (size_t)r * dim;
        mat_dequantize_row(x, &w->tok_emb, p->tokens[r]);
        if (p->m->config.pos == POS_LEARNED) {
            float *position = p->s->xn + (size_t)r * dim;
            mat_dequantize_row(position, &w->pos_emb, p->at + r);
            for (size_t i = 0; i < dim; i++) x[i] += position[i];
        }
    }
    team_barrier(t);
}

/* normed - p->n rows x of the residual stream normed and ready to be multiplied: swap 1. Few rows are normed by every
 * thread for itself, which is cheaper than a barrier; many are shared out. */
static Act normed(const Thread *t, const Pass *p, const float *x, const float *weight, const float *bias, bool quantized) {
    const Config *c = &p->m->config;
    State *s = p->s;
    bool few = p->n <= ACT_FEW;
    float *own = (float *)(void *)(s->own + (size_t)t->id * s->own_bytes);
    size_t from = 0, to = (size_t)p->n;
    Act a;
    act_open(&a, few ? own : s->xn, p->n, c->dim, few ? own + own_floats((size_t)c->dim) : s->act_normed, quantized,
             s->options.deterministic);
    if (!few) team_share(t, to, ACT_TILE, &from, &to);
    for (int r = (int)from; r < (int)to; r++) {
        norm(act_row(&a, r), x + (size_t)r * (size_t)c->dim, c->norm, weight, bias, c->dim, c->norm_eps);
        act_fill(&a, r, 0, c->dim);
    }
    if (!few) team_barrier(t);
    return a;
}

/* project - residual stream += w a + bias, once all threads have filled a. Somebody who watches sees the product before
 * it is added. */
static void project(const Thread *t, const Pass *p, const Act *a, const Mat *w, const float *bias, const char *name,
                    int layer) {
    State *s = p->s;
    size_t dim = (size_t)p->m->config.dim;
    matmul(t, s->tap ? s->xn : s->x, dim, w, bias, a, !s->tap);
    team_barrier(t);
    if (!s->tap) return;
    watch(t, p, name, layer, s->xn, (int)dim);
    if (t->id == 0) a->kernels->add(s->x, s->xn, (size_t)p->n * dim);
    team_barrier(t);
}

typedef enum { PART_Q, PART_K, PART_V } Part;

/* turns - RoPE turns q and k, in every layer, before k goes into the cache; it never turns v. */
static bool turns(const Config *c, int layer, Part part) {
    if (c->pos != POS_ROPE) return false;
    switch (c->mistake) { /* --break: what the exercises of docs/ladder.md get wrong */
    case MISTAKE_V_ROTATED: return true;
    case MISTAKE_ROPE_LAYER0: return part != PART_V && layer == 0;
    case MISTAKE_KEYS_UNROTATED: return part == PART_Q;
    default: return part != PART_V;
    }
}

/* One head of q, k or v: a piece of the work. They come in the order of the KV heads, each after the query heads that
 * share it, so that attention can begin with the first KV head while the last is being made. */
typedef struct {
    Part part;
    int head, of, kv_head; /* head of so many; the KV head that it belongs to */
    float *x;              /* row r of this head is at x + r * of * head_dim */
} HeadPiece;

static int pieces_of_kv_head(const Config *c) { return c->n_heads / c->n_kv_heads + 2; }

static HeadPiece head_piece(const Pass *p, int i) {
    const Config *c = &p->m->config;
    int n = pieces_of_kv_head(c), kv_head = i / n, j = i % n, queries = n - 2;
    HeadPiece h = {j < queries ? PART_Q : j == queries ? PART_K : PART_V, kv_head, c->n_kv_heads, kv_head, NULL};
    if (h.part == PART_Q) h.head = kv_head * queries + j, h.of = c->n_heads;
    h.x = (h.part == PART_Q ? p->s->q : h.part == PART_K ? p->s->k : p->s->v) + h.head * c->head_dim;
    return h;
}

static void project_head(const Pass *p, const Layer *l, const Act *a, HeadPiece h) {
    int d = p->m->config.head_dim, from = h.head * d;
    const Mat *w = h.part == PART_Q ? &l->wq : h.part == PART_K ? &l->wk : &l->wv;
    const float *bias = h.part == PART_Q ? l->bq : h.part == PART_K ? l->bk : l->bv;
    matmul_piece(h.x - from, (size_t)(h.of * d), w, bias, a, false, from, from + d);
}

/* turn_and_store - swap 3: q and k are turned to their position, v never; k and v go into the cache. Then attention may
 * use the head. */
static void turn_and_store(const Pass *p, int layer, HeadPiece h) {
    const Config *c = &p->m->config;
    State *s = p->s;
    float *x = h.x;
    int stride = h.of * c->head_dim;
    if (turns(c, layer, h.part)) rope_apply(x, p->n, 1, stride, &s->rope, p->at);
    for (int r = 0; r < p->n; r++, x += stride) {
        if (h.part == PART_K) kv_cache_write_key(&s->cache, layer, h.head, p->pos + r, x);
        if (h.part == PART_V) kv_cache_write_value(&s->cache, layer, h.head, p->pos + r, x);
    }
    team_done(&s->heads_made[h.kv_head]);
}

/* The 8-bit form of rows whose heads are no whole blocks of 32. */
static void fill_rows(const Thread *t, const Act *a) {
    size_t from, to;
    team_share(t, (size_t)a->n, ACT_TILE, &from, &to);
    for (int r = (int)from; r < (int)to; r++) act_fill(a, r, 0, a->dim);
    team_barrier(t);
}

static void attention_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    int q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    int pieces = c->n_kv_heads * pieces_of_kv_head(c), i;
    bool quantized = mat_is_quantized(&l->wq) || mat_is_quantized(&l->wk) || mat_is_quantized(&l->wv);

    Act a = normed(t, p, s->x, l->attn_norm, l->attn_norm_bias, quantized); /* swap 1 */
    watch(t, p, "attn_norm", layer, a.x, c->dim);
    while (team_next(t, pieces, &i)) {
        project_head(p, l, &a, head_piece(p, i));
        if (!s->tap) turn_and_store(p, layer, head_piece(p, i)); /* swap 3 */
    }
    if (s->tap) { /* somebody wants to see them as they are before */
        team_barrier(t);
        watch(t, p, "q", layer, s->q, q_dim);
        watch(t, p, "k", layer, s->k, kv_dim);
        watch(t, p, "v", layer, s->v, kv_dim);
        while (team_next(t, pieces, &i)) turn_and_store(p, layer, head_piece(p, i));
        team_barrier(t);
        if (c->pos == POS_ROPE) watch(t, p, "q_rot", layer, s->q, q_dim);
        if (c->pos == POS_ROPE) watch(t, p, "k_rot", layer, s->k, kv_dim);
    }

    HeadsMade made = {s->heads_made, (unsigned)((layer + 1) * pieces_of_kv_head(c))};
    Act out;
    act_open(&out, s->att, p->n, q_dim, s->act_made, mat_is_quantized(&l->wo), s->options.deterministic);
    attention(t, &out, s->q, c->n_heads, &s->cache, layer, p->pos, &made, s->attn_scratch); /* swap 4 */
    team_barrier(t);
    if (c->head_dim % QK) fill_rows(t, &out);
    project(t, p, &out, &l->wo, l->bo, "attn_out", layer);
}

static void ffn_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    size_t hidden = (size_t)c->hidden_dim;
    int from, to;
    bool gated = c->ffn == FFN_SWIGLU, quantized = mat_is_quantized(&l->w_up);

    Act a = normed(t, p, s->x, l->ffn_norm, l->ffn_norm_bias, quantized || (gated && mat_is_quantized(&l->w_gate))), out;
    watch(t, p, "ffn_norm", layer, a.x, c->dim);
    act_open(&out, gated ? s->gate : s->up, p->n, c->hidden_dim, s->act_made, mat_is_quantized(&l->w_down),
             s->options.deterministic);
    while (matmul_next(t, c->hidden_dim, &a, &from, &to)) {
        if (gated) matmul_piece(s->gate, hidden, &l->w_gate, l->b_gate, &a, false, from, to);
        matmul_piece(s->up, hidden, &l->w_up, l->b_up, &a, false, from, to);
        for (int r = 0; r < p->n; r++) { /* swap 2, on the columns that have just been made */
            float *x = act_row(&out, r) + from;
            if (gated) swiglu(x, s->up + (size_t)r * hidden + (size_t)from, (size_t)(to - from));
            else gelu(x, (size_t)(to - from));
            act_fill(&out, r, from, to);
        }
    }
    team_barrier(t);
    project(t, p, &out, &l->w_down, l->b_down, "ffn_out", layer);
}

static void forward(const Thread *t, void *arg) {
    const Pass *p = arg;
    embed(t, p);
    watch(t, p, "embed", -1, p->s->x, p->m->config.dim);
    for (int layer = 0; layer < p->m->config.n_layers; layer++) {
        attention_block(t, p, layer);
        ffn_block(t, p, layer);
        watch(t, p, "out", layer, p->s->x, p->m->config.dim);
    }
}

static void run_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    bool behind = m->config.mistake == MISTAKE_DECODE_OFF_BY_ONE && n_tok == 1 && pos > 0;
    Pass p = {m, s, tokens, n_tok, pos, behind ? pos - 1 : pos};
    s->pos = pos;
    memset(s->heads_made, 0, (size_t)m->config.n_kv_heads * sizeof *s->heads_made);
    team_run(s->team, forward, &p);
}

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    if (pos + n_tok > s->rope_seq_len || pos == 0) state_reach(s, &m->config, pos + n_tok);
    run_pass(m, s, tokens, n_tok, pos);
}

typedef struct {
    const Model *m;
    State *s;
    int row;
} Head;

static void head(const Thread *t, void *arg) {
    const Head *h = arg;
    const Config *c = &h->m->config;
    const Weights *w = &h->m->weights;
    State *s = h->s;
    Pass p = {h->m, s, NULL, 1, s->pos + h->row, s->pos + h->row};
    Act a = normed(t, &p, s->x + (size_t)h->row * (size_t)c->dim, w->final_norm, w->final_norm_bias, mat_is_quantized(&w->lm_head));
    if (t->id == 0 && s->tap) s->tap(s->tap_arg, "final_norm", -1, a.x, 1, c->dim, (size_t)c->dim, p.pos);
    matmul(t, s->logits, (size_t)c->vocab_size, &w->lm_head, NULL, &a, false);
}

const float *model_logits(const Model *m, State *s, int row) {
    Head h = {m, s, row};
    team_run(s->team, head, &h);
    if (s->tap) {
        s->tap(s->tap_arg, "logits", -1, s->logits, 1, m->config.vocab_size,
               (size_t)m->config.vocab_size, s->pos + row);
    }
    return s->logits;
}

int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos,
                  bool (*progress)(void *arg, int done, int total), void *arg) {
    state_reach(s, &m->config, pos + n_tok); /* one base for the whole prompt, however it is cut */
    int done = 0;
    while (done < n_tok) {
        int n = n_tok - done < s->options.n_batch ? n_tok - done : s->options.n_batch;
        run_pass(m, s, tokens + done, n, pos + done);
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

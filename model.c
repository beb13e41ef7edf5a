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
    int widest = max_int(max_int(c->dim, c->hidden_dim), c->n_heads * c->head_dim);
    s->act_dim = (size_t)widest;
    s->act = arena_take(a, act_bytes(n, s->act_dim, (size_t)s->options.n_threads), 1);
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

/* normed - the normed rows of the residual stream, ready to be multiplied with w: swap 1. */
static Act normed(const Thread *t, const Pass *p, const float *weight, const float *bias, bool quantized) {
    const Config *c = &p->m->config;
    State *s = p->s;
    Act a;
    int from, to;
    act_open(&a, t, s->act, s->act_dim, NULL, s->xn, p->n, c->dim, s->options.deterministic);
    act_mine(t, &a, &from, &to);
    for (int r = from; r < to; r++)
        norm(act_row(&a, r), s->x + (size_t)r * (size_t)c->dim, c->norm, weight, bias, c->dim, c->norm_eps);
    act_ready(t, &a, quantized);
    return a;
}

/* project - residual stream += w y + bias, for y [n, cols] that all threads have written (a barrier came before).
 * Somebody who watches sees the product before it is added. */
static void project(const Thread *t, const Pass *p, float *y, int cols, const Mat *w, const float *bias,
                    const char *name, int layer) {
    State *s = p->s;
    size_t dim = (size_t)p->m->config.dim;
    Act a;
    act_open(&a, t, s->act, s->act_dim, y, NULL, p->n, cols, s->options.deterministic);
    act_ready(t, &a, mat_is_quantized(w));
    matmul(t, s->tap ? s->xn : s->x, dim, w, bias, &a, !s->tap);
    team_barrier(t);
    if (!s->tap) return;
    watch(t, p, name, layer, s->xn, (int)dim);
    if (t->id == 0) a.kernels->add(s->x, s->xn, (size_t)p->n * dim);
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

/* turn_and_store - swap 3: q and k are turned to their position, v never; k and v go into the cache. The heads of
 * all rows are shared out. */
static void turn_and_store(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    State *s = p->s;
    int heads = c->n_heads + c->n_kv_heads, d = c->head_dim;
    bool turn_q = turns(c, layer, PART_Q), turn_k = turns(c, layer, PART_K), turn_v = turns(c, layer, PART_V);
    size_t from, to;
    team_share(t, (size_t)p->n * (size_t)heads, 1, &from, &to);
    for (size_t i = from; i < to; i++) {
        int r = (int)(i / (size_t)heads), h = (int)(i % (size_t)heads);
        bool query = h < c->n_heads;
        size_t at = query ? (size_t)(r * c->n_heads + h) : (size_t)(r * c->n_kv_heads + h - c->n_heads);
        float *x = (query ? s->q : s->k) + at * (size_t)d;
        if (query ? turn_q : turn_k) rope_apply(x, 1, 1, d, &s->rope, p->at + r);
        if (query) continue;
        float *v = s->v + at * (size_t)d;
        if (turn_v) rope_apply(v, 1, 1, d, &s->rope, p->at + r);
        kv_cache_write(&s->cache, layer, h - c->n_heads, p->pos + r, x, v);
    }
    if (c->pos == POS_ROPE) {
        watch(t, p, "q_rot", layer, s->q, c->n_heads * d);
        watch(t, p, "k_rot", layer, s->k, c->n_kv_heads * d);
    }
    team_barrier(t);
}

static void attention_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    int q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    bool quantized = mat_is_quantized(&l->wq) || mat_is_quantized(&l->wk) || mat_is_quantized(&l->wv);

    Act a = normed(t, p, l->attn_norm, l->attn_norm_bias, quantized); /* swap 1 */
    watch(t, p, "attn_norm", layer, a.x, c->dim);
    matmul(t, s->q, (size_t)q_dim, &l->wq, l->bq, &a, false);
    matmul(t, s->k, (size_t)kv_dim, &l->wk, l->bk, &a, false);
    matmul(t, s->v, (size_t)kv_dim, &l->wv, l->bv, &a, false);
    team_barrier(t);
    watch(t, p, "q", layer, s->q, q_dim);
    watch(t, p, "k", layer, s->k, kv_dim);
    watch(t, p, "v", layer, s->v, kv_dim);

    turn_and_store(t, p, layer); /* swap 3 */
    attention(t, s->att, s->q, p->n, c->n_heads, &s->cache, layer, p->pos, s->attn_scratch); /* swap 4 */
    team_barrier(t);
    project(t, p, s->att, q_dim, &l->wo, l->bo, "attn_out", layer);
}

static void ffn_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    size_t hidden = (size_t)c->hidden_dim;
    int from, to;
    bool gated = c->ffn == FFN_SWIGLU, quantized = mat_is_quantized(&l->w_up);

    Act a = normed(t, p, l->ffn_norm, l->ffn_norm_bias, quantized || (gated && mat_is_quantized(&l->w_gate)));
    watch(t, p, "ffn_norm", layer, a.x, c->dim);
    while (matmul_next(t, c->hidden_dim, &a, &from, &to)) {
        if (gated) matmul_piece(s->gate, hidden, &l->w_gate, l->b_gate, &a, false, from, to);
        matmul_piece(s->up, hidden, &l->w_up, l->b_up, &a, false, from, to);
        for (size_t r = 0; r < (size_t)p->n; r++) { /* swap 2, on the columns that have just been made */
            float *gate = s->gate + r * hidden + from, *up = s->up + r * hidden + from;
            if (gated) swiglu(gate, up, (size_t)(to - from));
            else gelu(up, (size_t)(to - from));
        }
    }
    team_barrier(t);
    project(t, p, gated ? s->gate : s->up, c->hidden_dim, &l->w_down, l->b_down, "ffn_out", layer);
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

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    if (pos + n_tok > s->rope_seq_len || pos == 0) state_reach(s, &m->config, pos + n_tok);
    bool behind = m->config.mistake == MISTAKE_DECODE_OFF_BY_ONE && n_tok == 1 && pos > 0;
    Pass p = {m, s, tokens, n_tok, pos, behind ? pos - 1 : pos};
    s->pos = pos;
    team_run(s->team, forward, &p);
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
    Act a;
    act_open(&a, t, s->act, s->act_dim, NULL, NULL, 1, c->dim, s->options.deterministic);
    norm(act_row(&a, 0), s->x + (size_t)h->row * (size_t)c->dim, c->norm, w->final_norm, w->final_norm_bias, c->dim,
         c->norm_eps);
    act_ready(t, &a, mat_is_quantized(&w->lm_head));
    if (t->id == 0 && s->tap) s->tap(s->tap_arg, "final_norm", -1, a.x, 1, c->dim, (size_t)c->dim, s->pos + h->row);
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
        Pass p = {m, s, tokens + done, n, pos + done, pos + done};
        s->pos = pos + done;
        team_run(s->team, forward, &p);
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

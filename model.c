#include "model.h"

#include <string.h>

void model_init(Model *m, const Config *config, const Weights *weights) {
    m->config = *config;
    m->weights = *weights;
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
                         .head_dim = c->head_dim};
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
    s->act = arena_take(a, act_bytes(n, (size_t)widest), 1);
    size_t scratch =
        attention_scratch_bytes(c->n_heads, c->head_dim, s->options.n_batch, s->options.n_threads);
    s->attn_scratch = arena_take(a, scratch, 1);
}

size_t state_bytes(const Model *m, const StateOptions *options) {
    State s = {.options = *options};
    Arena count = {0};
    state_take(&s, &m->config, &count);
    return count.overflow ? (size_t)-1 : count.used;
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
    int n, pos;
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
            mat_dequantize_row(position, &w->pos_emb, p->pos + r);
            for (size_t i = 0; i < dim; i++) x[i] += position[i];
        }
    }
    team_barrier(t);
}

static void norm_rows(const Thread *t, const Pass *p, const float *weight, const float *bias) {
    const Config *c = &p->m->config;
    for (int r = t->id; r < p->n; r += t->n) {
        size_t at = (size_t)r * (size_t)c->dim;
        norm(p->s->xn + at, p->s->x + at, c->norm, weight, bias, c->dim, c->norm_eps);
    }
    team_barrier(t);
}

/* add_bias - y[n, cols] += bias, if there is one. The rows are shared out; a barrier comes before.
 */
static void add_bias(const Thread *t, float *y, const float *bias, int n, int cols) {
    if (!bias) return;
    for (int r = t->id; r < n; r += t->n)
        for (int i = 0; i < cols; i++) y[(size_t)r * (size_t)cols + (size_t)i] += bias[i];
}

/* add_to_residual - x += y + bias. */
static void add_to_residual(const Thread *t, const Pass *p, const float *y) {
    int dim = p->m->config.dim;
    for (int r = t->id; r < p->n; r += t->n)
        for (int i = 0; i < dim; i++)
            p->s->x[(size_t)r * (size_t)dim + (size_t)i] += y[(size_t)r * (size_t)dim + (size_t)i];
    team_barrier(t);
}

static void attention_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    int n = p->n, q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;

    norm_rows(t, p, l->attn_norm, l->attn_norm_bias); /* swap 1 */
    watch(t, p, "attn_norm", layer, s->xn, c->dim);

    Act a = {.x = s->xn, .n = n, .dim = c->dim, .q = s->act};
    act_prepare(t, &a, &l->wq);
    matmul(t, s->q, (size_t)q_dim, &l->wq, &a);
    matmul(t, s->k, (size_t)kv_dim, &l->wk, &a);
    matmul(t, s->v, (size_t)kv_dim, &l->wv, &a);
    team_barrier(t);
    add_bias(t, s->q, l->bq, n, q_dim);
    add_bias(t, s->k, l->bk, n, kv_dim);
    add_bias(t, s->v, l->bv, n, kv_dim);
    watch(t, p, "q", layer, s->q, q_dim);
    watch(t, p, "k", layer, s->k, kv_dim);
    watch(t, p, "v", layer, s->v, kv_dim);

    if (c->pos == POS_ROPE) { /* swap 3: q and k are turned, v never */
        for (int r = t->id; r < n; r += t->n) {
            rope_apply(s->q + (size_t)r * (size_t)q_dim, 1, c->n_heads, q_dim, &s->rope,
                       p->pos + r);
            rope_apply(s->k + (size_t)r * (size_t)kv_dim, 1, c->n_kv_heads, kv_dim, &s->rope,
                       p->pos + r);
        }
        watch(t, p, "q_rot", layer, s->q, q_dim);
        watch(t, p, "k_rot", layer, s->k, kv_dim);
    }
    team_barrier(t);
    kv_cache_write(t, &s->cache, layer, p->pos, n, s->k, s->v, (size_t)kv_dim);
    team_barrier(t);
    attention(t, s->att, s->q, n, c->n_heads, &s->cache, layer, p->pos,
              s->attn_scratch); /* swap 4 */
    team_barrier(t);

    a = (Act){.x = s->att, .n = n, .dim = q_dim, .q = s->act};
    act_prepare(t, &a, &l->wo);
    matmul(t, s->xn, (size_t)c->dim, &l->wo, &a);
    team_barrier(t);
    add_bias(t, s->xn, l->bo, n, c->dim);
    watch(t, p, "attn_out", layer, s->xn, c->dim);
    add_to_residual(t, p, s->xn);
}

static void ffn_block(const Thread *t, const Pass *p, int layer) {
    const Config *c = &p->m->config;
    const Layer *l = &p->m->weights.layers[layer];
    State *s = p->s;
    int n = p->n, hidden = c->hidden_dim;
    size_t from, to;

    norm_rows(t, p, l->ffn_norm, l->ffn_norm_bias); /* swap 1 */
    watch(t, p, "ffn_norm", layer, s->xn, c->dim);

    Act a = {.x = s->xn, .n = n, .dim = c->dim, .q = s->act};
    act_prepare(t, &a, &l->w_up);
    if (c->ffn == FFN_SWIGLU) matmul(t, s->gate, (size_t)hidden, &l->w_gate, &a);
    matmul(t, s->up, (size_t)hidden, &l->w_up, &a);
    team_barrier(t);
    if (c->ffn == FFN_SWIGLU) add_bias(t, s->gate, l->b_gate, n, hidden);
    add_bias(t, s->up, l->b_up, n, hidden);
    if (l->b_up || l->b_gate) team_barrier(t);

    float *h = c->ffn == FFN_SWIGLU ? s->gate : s->up; /* swap 2 */
    team_share(t, (size_t)n * (size_t)hidden, 16, &from, &to);
    if (c->ffn == FFN_SWIGLU) swiglu(s->gate + from, s->up + from, to - from);
    else gelu(s->up + from, to - from);
    team_barrier(t);

    a = (Act){.x = h, .n = n, .dim = hidden, .q = s->act};
    act_prepare(t, &a, &l->w_down);
    matmul(t, s->xn, (size_t)c->dim, &l->w_down, &a);
    team_barrier(t);
    add_bias(t, s->xn, l->b_down, n, c->dim);
    watch(t, p, "ffn_out", layer, s->xn, c->dim);
    add_to_residual(t, p, s->xn);
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
    Pass p = {m, s, tokens, n_tok, pos};
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
    const float *x = s->x + (size_t)h->row * (size_t)c->dim;
    if (t->id == 0) norm(s->xn, x, c->norm, w->final_norm, w->final_norm_bias, c->dim, c->norm_eps);
    team_barrier(t);
    Act a = {.x = s->xn, .n = 1, .dim = c->dim, .q = s->act};
    act_prepare(t, &a, &w->lm_head);
    matmul(t, s->logits, (size_t)c->vocab_size, &w->lm_head, &a);
}

const float *model_logits(const Model *m, State *s, int row) {
    Head h = {m, s, row};
    team_run(s->team, head, &h);
    if (s->tap) {
        s->tap(s->tap_arg, "final_norm", -1, s->xn, 1, m->config.dim, (size_t)m->config.dim, row);
        s->tap(s->tap_arg, "logits", -1, s->logits, 1, m->config.vocab_size,
               (size_t)m->config.vocab_size, row);
    }
    return s->logits;
}

int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos,
                  bool (*progress)(void *arg, int done, int total), void *arg) {
    state_reach(s, &m->config, pos + n_tok); /* one base for the whole prompt, however it is cut */
    int done = 0;
    while (done < n_tok) {
        int n = n_tok - done < s->options.n_batch ? n_tok - done : s->options.n_batch;
        Pass p = {m, s, tokens + done, n, pos + done};
        team_run(s->team, forward, &p);
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

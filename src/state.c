/* Model and State: what a conversation holds in memory, laid out in one arena. */
#include <string.h>

#include "base/memory.h"
#include "dist/order.h"
#include "model.h"

static bool ffn_is_quantized(const FfnWeights *w) {
    return mat_is_quantized(&w->w_gate) || mat_is_quantized(&w->w_up) || mat_is_quantized(&w->w_down);
}

void model_init(Model *m, const Config *config, const Weights *weights) {
    *m = (Model){.config = *config, .weights = *weights, .int8 = mat_is_quantized(&weights->lm_head)};
    m->slice = (Slice){.n_heads = config->n_heads,
                       .n_kv_heads = config->n_kv_heads,
                       .kv_sharers = 1,
                       .n_hidden = config->moe.n_experts ? config->moe.dense_dim : config->hidden_dim,
                       .n_shared = config->moe.shared_dim,
                       .n_experts = config->moe.n_experts,
                       .n_tokens = config->vocab_size};
    for (const Layer *l = weights->layers; l < weights->layers + config->n_layers; l++) {
        const Mat *all[] = {&l->attn.wq, &l->attn.wk, &l->attn.wv, &l->attn.wo};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) m->int8 |= mat_is_quantized(all[i]);
        m->int8 |= ffn_is_quantized(&l->ffn) || ffn_is_quantized(&l->moe.shared);
        for (int i = 0; i < config->moe.n_experts && l->moe.experts; i++)
            m->int8 |= ffn_is_quantized(&l->moe.experts[i]);
    }
}

/* The features of the FFN that a token goes through. */
static double ffn_width(const Config *c) {
    return c->moe.n_experts ? (double)c->hidden_dim * c->moe.n_used + c->moe.shared_dim : c->hidden_dim;
}

int model_default_threads(const Model *m) {
    const Config *c = &m->config;
    double per_layer = (double)c->dim * (2.0 * c->n_heads * c->head_dim + 2.0 * c->n_kv_heads * c->head_dim +
                                         (ffn_is_gated(c->ffn) ? 3.0 : 2.0) * ffn_width(c));
    return per_layer < 300e3 ? 1 : team_default_size();
}

static void text_take(KvCache *cache, RopeTable rope[2], Arena *a) {
    kv_cache_take(cache, a);
    for (RopeTable *t = rope; t < rope + 2; t++) {
        size_t values = (size_t)t->n_ctx * (size_t)(t->rotary_dim / 2);
        t->cos = arena_take(a, values, sizeof(float));
        t->sin = arena_take(a, values, sizeof(float));
    }
}

/* cache.type, n_layers, n_ctx, n_kv_heads, head_dim and n_heads are set. */
static void attention_take(AttentionState *s, Arena *a, int n_batch, int n_threads) {
    size_t n = (size_t)n_batch, d = (size_t)s->cache.head_dim;
    text_take(&s->cache, s->rope, a);
    s->rotate = arena_take(a, (size_t)s->cache.n_layers, 1);
    s->q = arena_take(a, n * (size_t)s->n_heads * d, sizeof(float));
    s->k = arena_take(a, n * (size_t)s->cache.n_kv_heads * d, sizeof(float));
    s->v = arena_take(a, n * (size_t)s->cache.n_kv_heads * d, sizeof(float));
    row_buffer_take(&s->heads, a, n_batch, s->n_heads * (int)d);
    s->ready = arena_take(a, (size_t)s->cache.n_kv_heads, sizeof *s->ready);
    s->scratch = arena_take(a, attention_scratch_bytes(s->n_heads, (int)d, n_threads), 1);
}

/* One arena, laid out by the same code that counts it. */
static void state_take(State *s, const Model *m, Arena *a) {
    const Config *c = &m->config;
    const Slice *part = &m->slice;
    const StateOptions *o = &s->options;
    const Layer *layers = m->weights.layers; /* NULL: only what a state takes is asked */
    s->attn = (AttentionState){.config = c->attn,
                               .norm = {c->norm, c->norm_eps, NULL, NULL, c->norm_offset},
                               .n_heads = part->n_heads,
                               .all_heads = c->n_heads,
                               .all_kv_heads = c->n_kv_heads,
                               .kv_sharers = part->kv_sharers,
                               .cache = {.type = o->kv_type,
                                         .n_layers = c->n_layers,
                                         .n_ctx = o->n_ctx,
                                         .n_batch = o->n_batch,
                                         .windows = layers ? &layers->attn.window : NULL,
                                         .window_step = sizeof *layers,
                                         .n_kv_heads = part->n_kv_heads,
                                         .head_dim = c->head_dim,
                                         .kernels = o->kernels,
                                         .exact = o->deterministic}};
    const RopeConfig *rope[] = {[ROPE_MAIN] = &c->rope, [ROPE_LOCAL] = &c->rope_local};
    for (int i = 0; i < 2 && c->pos == POS_ROPE; i++)
        s->attn.rope[i] = (RopeTable){
            .n_ctx = o->n_ctx, .head_dim = c->head_dim, .rotary_dim = rope[i]->rotary_dim, .pairing = rope[i]->pairing};
    attention_take(&s->attn, a, o->n_batch, o->n_threads);
    int n_texts = o->n_texts > 0 ? o->n_texts : 1;
    s->texts = arena_take(a, (size_t)n_texts, sizeof *s->texts);
    for (int i = 0; i < n_texts; i++) {
        Sequence text = {.cache = s->attn.cache};
        memcpy(text.rope, s->attn.rope, sizeof text.rope);
        if (i) text_take(&text.cache, text.rope, a);
        if (s->texts) s->texts[i] = text;
    }
    if (c->moe.n_experts) {
        s->moe.first = part->expert;
        s->moe.n = part->n_experts;
        moe_take(&s->moe, a, &c->moe, o->n_batch, c->dim, c->hidden_dim, part->n_shared);
    }
    if (part->n_hidden) ffn_take(&s->ffn, a, o->n_batch, part->n_hidden);
    s->x = arena_take(a, (size_t)o->n_batch * (size_t)c->dim, sizeof(float));
    row_buffer_take(&s->xn, a, o->n_batch, c->dim);
    row_buffer_take_own(&s->xn, a, o->n_threads);
    row_buffer_take(&s->fn, a, c->parallel ? o->n_batch : 0, c->dim);
    row_buffer_take_own(&s->fn, a, c->parallel ? o->n_threads : 0);
    s->spare = arena_take(a, (size_t)o->n_batch * (size_t)c->dim, sizeof(float));
    size_t n_logits = o->n_logits > 0 ? (size_t)o->n_logits : 1;
    s->logits = arena_take(a, n_logits * (size_t)c->vocab_size + 1, sizeof(float));
}

size_t state_bytes(const Model *m, const StateOptions *options) {
    State s = {.options = *options};
    Arena count = {0};
    state_take(&s, m, &count);
    return count.overflow ? (size_t)-1 : count.used;
}

int state_fits(const Model *m, const StateOptions *options, const char *what, Error *e) {
    size_t bytes = state_bytes(m, options), left = memory_available("");
    if (bytes <= left) return 0;
    return fail(e,
                "%s: memory: expected %zu MiB for a context of %d, found %zu MiB free (lower it with -c, --batch or "
                "--kv-type%s)",
                what, (bytes >> 20) + 1, options->n_ctx, left >> 20, options->n_texts > 1 ? ", and --parallel" : "");
}

static int take_memory(State *s, const Model *m, const StateOptions *options, Error *e) {
    *s = (State){.options = *options};
    if (!s->options.kernels) s->options.kernels = kernels_best();
    if (kv_type_check(options->kv_type, m->config.head_dim, "KV cache", e)) return -1;
    if (arena_init(&s->arena, state_bytes(m, options), "KV cache and buffers", e)) return -1;
    state_take(s, m, &s->arena);
    const Config *c = &m->config;
    for (int i = 0; i < c->n_layers; i++) {
        bool rope = c->pos == POS_ROPE && m->weights.layers[i].attn.rope != ROPE_NONE;
        s->attn.rotate[i] = c->rotate ? c->rotate[i] : rope ? ROTATE_Q | ROTATE_K : 0;
    }
    s->team = team_open(options->n_threads);
    if (!s->team) {
        state_close(s);
        return fail(e, "threads: memory: expected some, found none");
    }
    return 0;
}

int state_init(State *s, const Model *m, const StateOptions *options, Error *e) {
    bool scalar = options->kernels == &kernels_ref;
    order_send(m->comm,
               &(Order){.kind = ORDER_STATE,
                        .n_ctx = options->n_ctx,
                        .n_batch = options->n_batch,
                        .n_logits = options->n_logits,
                        .kv_type = (int)options->kv_type,
                        .deterministic = options->deterministic,
                        .scalar = scalar},
               NULL);
    int outcome = take_memory(s, m, options, e);
    if (!outcome && m->comm) outcome = comm_reserve(m->comm, residual_sum_floats(m->config.dim, options->n_batch), e);
    if (order_agree(m->comm, outcome, 0, "", e)) {
        state_close(s);
        return -1;
    }
    s->comm = m->comm;
    return 0;
}

void state_close(State *s) {
    order_send(s->comm, &(Order){.kind = ORDER_CLOSE}, NULL);
    team_close(s->team);
    arena_close(&s->arena);
    *s = (State){0};
}

void sequence_copy(Sequence *to, const Sequence *from, int n) {
    for (int layer = 0; layer < to->cache.n_layers; layer++)
        for (int head = 0; head < to->cache.n_kv_heads; head++)
            for (int pos = kv_cache_from(&to->cache, layer, n); pos < n; pos += KV_BLOCK) {
                KvRows t = kv_cache_block(&to->cache, layer, head, pos, n);
                KvRows f = kv_cache_block(&from->cache, layer, head, pos, n);
                memcpy(t.k, f.k, f.k_bytes);
                memcpy(t.v, f.v, f.v_bytes);
            }
    kv_cache_copied(&to->cache, n);
}

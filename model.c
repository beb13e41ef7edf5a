#include "model.h"

#include <string.h>

#include "base/memory.h"
#include "dist/order.h"
#include "watch_ranks.h"

/* ---- The forward pass, run by every thread of the team: each step does the calling thread's share ----- */

static void embed(const Pass *p, const Model *m, State *s, const int *tokens) {
    const Config *c = &m->config;
    size_t dim = (size_t)c->dim;
    for (int r = p->t->id; r < p->n; r += p->t->n) {
        float *x = s->x + (size_t)r * dim, *position = s->spare + (size_t)r * dim;
        mat_dequantize_row(x, &m->weights.tok_emb, tokens[r]);
        if (c->pos == POS_LEARNED) mat_dequantize_row(position, &m->weights.pos_emb, p->rope_pos + r);
        for (size_t i = 0; i < dim && c->pos == POS_LEARNED; i++) x[i] += position[i];
        for (size_t i = 0; i < dim && c->embedding_scale > 0; i++) x[i] *= c->embedding_scale;
    }
    team_barrier(p->t);
}

static Norm norm_of(const Config *c, NormKind kind, const float *weight, const float *bias) {
    return (Norm){kind, c->norm_eps, weight, bias, c->norm_offset};
}

static Residual residual_of(const Config *c, const float *post_norm) {
    return (Residual){norm_of(c, post_norm ? c->norm : NORM_NONE, post_norm, NULL),
                      c->residual_scale > 0 ? c->residual_scale : 1};
}

/* x += attention(norm(x)); x += ffn(norm(x)) */
static void layer_forward(const Pass *p, const Config *c, const Layer *l, State *s) {
    NormKind kind = c->no_pre_norm ? NORM_NONE : c->norm;
    Norm attn_norm = norm_of(c, kind, l->attn_norm, l->attn_norm_bias);
    Norm ffn_norm = norm_of(c, kind, l->ffn_norm, l->ffn_norm_bias);
    Residual attn_out = residual_of(c, l->attn_post_norm), ffn_out = residual_of(c, l->ffn_post_norm);

    Rows xn = norm_rows(p, &s->xn, s->x, attn_norm), fn = xn; /* swap 1 */
    if (c->parallel && l->ffn_norm) fn = norm_rows(p, &s->fn, s->x, ffn_norm);
    watch(p, "attn_norm", xn.x, c->dim);
    attention(p, s->x, &xn, &l->attn, &s->attn, &attn_out);      /* swaps 3 and 4 */
    if (!c->parallel) fn = norm_rows(p, &s->xn, s->x, ffn_norm); /* swap 1 */
    watch(p, "ffn_norm", fn.x, c->dim);
    ffn(p, s->x, &fn, c->ffn, &l->ffn, &s->ffn, &ffn_out); /* swap 2 */
    watch(p, "out", s->x, c->dim);
}

static void forward(Pass *p, const Model *m, State *s, const int *tokens) {
    embed(p, m, s, tokens);
    watch(p, "embed", s->x, m->config.dim);
    for (p->layer = 0; p->layer < m->config.n_layers; p->layer++)
        layer_forward(p, &m->config, &m->weights.layers[p->layer], s);
}

/* logits = lm_head norm(x) of one row of the last forward pass */
static void logits(const Pass *p, const Model *m, State *s, int row) {
    const Config *c = &m->config;
    const Weights *w = &m->weights;
    const float *x = s->x + (size_t)row * (size_t)c->dim;
    Rows xn = norm_rows(p, &s->xn, x, norm_of(c, c->norm, w->final_norm, w->final_norm_bias));
    watch(p, "final_norm", xn.x, c->dim);
    int from, to;
    while (matmul_next(p->t, w->lm_head.rows, &xn, &from, &to)) {
        matmul_piece(s->logits, (size_t)c->vocab_size, &w->lm_head, w->lm_head_bias, &xn, false, from, to);
        for (int i = from; i < to && c->logit_scale > 0; i++) s->logits[i] *= c->logit_scale;
        if (c->logit_softcap > 0) softcap(p->kernels, s->logits + from, to - from, c->logit_softcap);
    }
}

/* ---- Passes: who runs, where in the text ------------------------------------------------------- */

typedef struct {
    const Model *m;
    State *s;
    const int *tokens; /* [n] of a forward pass; NULL: the logits of `row` */
    int row;
    Pass pass;
} Run;

static void run_thread(const Thread *t, void *arg) {
    const Run *run = arg;
    Pass p = run->pass;
    p.t = t;
    if (run->tokens) forward(&p, run->m, run->s, run->tokens);
    else logits(&p, run->m, run->s, run->row);
}

static void run_team(State *s, Run *run) {
    const Model *m = run->m;
    int d = m->config.head_dim;
    WatchRanks ranks = {.tap = s->tap,
                        .arg = s->tap_arg,
                        .comm = m->comm,
                        .q_from = m->slice.head * d,
                        .q_cols = m->config.n_heads * d,
                        .k_from = m->slice.kv_head * d,
                        .k_cols = m->config.n_kv_heads * d};
    if (s->tap && m->comm) run->pass.tap = watch_ranks_tap, run->pass.tap_arg = &ranks;
    if (s->tap) team_run_alone(s->team, run_thread, run);
    else team_run(s->team, run_thread, run);
    if (s->tap && m->comm) watch_ranks_end(&ranks);
}

static Pass pass_of(const Model *m, const State *s, int n, int pos) {
    return (Pass){.kernels = s->options.kernels,
                  .n = n,
                  .pos = pos,
                  .rope_pos = pos,
                  .layer = -1,
                  .int8 = m->int8,
                  .exact = s->options.deterministic,
                  .spare = s->spare,
                  .comm = m->comm,
                  .tap = s->tap,
                  .tap_arg = s->tap_arg};
}

void model_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos, int seq_len) {
    const Config *c = &m->config;
    Run run = {m, s, tokens, 0, pass_of(m, s, n_tok, pos)};
    if (n_tok == 1 && pos > 0) run.pass.rope_pos += c->decode_shift;
    s->pos = pos;
    RopeTable *rope = s->attn.rope;
    if (rope[ROPE_MAIN].rotary_dim) rope_table_reach(&rope[ROPE_MAIN], &c->rope, run.pass.rope_pos, n_tok, seq_len);
    if (rope[ROPE_LOCAL].rotary_dim)
        rope_table_reach(&rope[ROPE_LOCAL], &c->rope_local, run.pass.rope_pos, n_tok, seq_len);
    memset(s->attn.ready, 0, (size_t)m->slice.n_kv_heads * sizeof *s->attn.ready);
    order_send(m->comm, &(Order){.kind = ORDER_PASS, .n = n_tok, .pos = pos, .seq_len = seq_len, .watched = s->tap},
               tokens);
    run_team(s, &run);
}

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    model_pass(m, s, tokens, n_tok, pos, pos + n_tok);
}

/* Each rank has the logits of some tokens: rank 0 puts them side by side. */
static void gather_logits(const Model *m, State *s) {
    if (!m->comm) return;
    size_t mine = (size_t)m->slice.n_tokens;
    s->logits[mine] = s->attn.cache.overflow; /* follows the logits */
    if (m->comm->rank) comm_send(m->comm, 0, s->logits, (mine + 1) * sizeof *s->logits);
    for (int i = 1, size = m->comm->size; i < size && m->comm->rank == 0; i++) {
        int from = share_of(m->config.vocab_size, i, size), to = share_of(m->config.vocab_size, i + 1, size);
        comm_receive(m->comm, i, s->logits + from, (size_t)(to - from + 1) * sizeof *s->logits, false);
        s->attn.cache.overflow |= s->logits[to] != 0;
    }
}

const float *model_logits(const Model *m, State *s, int row) {
    Run run = {m, s, NULL, row, pass_of(m, s, 1, s->pos + row)};
    order_send(m->comm, &(Order){.kind = ORDER_LOGITS, .row = row, .watched = s->tap}, NULL);
    run_team(s, &run);
    gather_logits(m, s);
    int vocab = m->config.vocab_size;
    if (s->tap) s->tap(s->tap_arg, "logits", -1, s->logits, 1, vocab, 0, vocab, run.pass.pos);
    return s->logits;
}

int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos,
                  bool (*progress)(void *arg, int done, int total), void *arg) {
    int done = 0;
    while (done < n_tok) {
        int n = n_tok - done < s->options.n_batch ? n_tok - done : s->options.n_batch;
        model_pass(m, s, tokens + done, n, pos + done, pos + n_tok); /* one base, however the prompt is cut */
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

/* ---- Model and State --------------------------------------------------------------------------- */

void model_init(Model *m, const Config *config, const Weights *weights) {
    *m = (Model){.config = *config, .weights = *weights, .int8 = mat_is_quantized(&weights->lm_head)};
    m->slice = (Slice){.n_heads = config->n_heads,
                       .n_kv_heads = config->n_kv_heads,
                       .kv_sharers = 1,
                       .n_hidden = config->hidden_dim,
                       .n_tokens = config->vocab_size};
    for (const Layer *l = weights->layers; l < weights->layers + config->n_layers; l++) {
        const Mat *all[] = {&l->attn.wq,    &l->attn.wk,  &l->attn.wv,   &l->attn.wo,
                            &l->ffn.w_gate, &l->ffn.w_up, &l->ffn.w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) m->int8 |= mat_is_quantized(all[i]);
    }
}

int model_default_threads(const Model *m) {
    const Config *c = &m->config;
    double per_layer = (double)c->dim * (2.0 * c->n_heads * c->head_dim + 2.0 * c->n_kv_heads * c->head_dim +
                                         (ffn_is_gated(c->ffn) ? 3.0 : 2.0) * c->hidden_dim);
    return per_layer < 300e3 ? 1 : team_default_size();
}

/* One arena, laid out by the same code that counts it. */
static void state_take(State *s, const Model *m, Arena *a) {
    const Config *c = &m->config;
    const Slice *part = &m->slice;
    const StateOptions *o = &s->options;
    s->attn = (AttentionState){.config = c->attn,
                               .norm = norm_of(c, c->norm, NULL, NULL),
                               .n_heads = part->n_heads,
                               .all_heads = c->n_heads,
                               .all_kv_heads = c->n_kv_heads,
                               .kv_sharers = part->kv_sharers,
                               .cache = {.type = o->kv_type,
                                         .n_layers = c->n_layers,
                                         .n_ctx = o->n_ctx,
                                         .n_kv_heads = part->n_kv_heads,
                                         .head_dim = c->head_dim,
                                         .kernels = o->kernels,
                                         .exact = o->deterministic}};
    const RopeConfig *rope[] = {[ROPE_MAIN] = &c->rope, [ROPE_LOCAL] = &c->rope_local};
    for (int i = 0; i < 2 && c->pos == POS_ROPE; i++)
        s->attn.rope[i] = (RopeTable){
            .n_ctx = o->n_ctx, .head_dim = c->head_dim, .rotary_dim = rope[i]->rotary_dim, .pairing = rope[i]->pairing};
    attention_take(&s->attn, a, o->n_batch, o->n_threads);
    ffn_take(&s->ffn, a, o->n_batch, part->n_hidden);
    s->x = arena_take(a, (size_t)o->n_batch * (size_t)c->dim, sizeof(float));
    row_buffer_take(&s->xn, a, o->n_batch, c->dim);
    row_buffer_take_own(&s->xn, a, o->n_threads);
    row_buffer_take(&s->fn, a, c->parallel ? o->n_batch : 0, c->dim);
    row_buffer_take_own(&s->fn, a, c->parallel ? o->n_threads : 0);
    s->spare = arena_take(a, (size_t)o->n_batch * (size_t)c->dim, sizeof(float));
    s->logits = arena_take(a, (size_t)c->vocab_size + 1, sizeof(float));
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
    return fail(
        e,
        "%s: memory: expected %zu MiB for a context of %d, found %zu MiB free (lower it with -c, --batch or --kv-type)",
        what, (bytes >> 20) + 1, options->n_ctx, left >> 20);
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

#include "model.h"

#include <string.h>

#include "base/memory.h"

/* ---- The forward pass, run by every thread of the team: each step does the calling thread's share ----- */

static void embed(const Pass *p, const Model *m, State *s, const int *tokens) {
    size_t dim = (size_t)m->config.dim;
    for (int r = p->t->id; r < p->n; r += p->t->n) {
        float *x = s->x + (size_t)r * dim;
        mat_dequantize_row(x, &m->weights.tok_emb, tokens[r]);
        if (m->config.pos == POS_LEARNED) {
            float *position = s->xn.x + (size_t)r * dim;
            mat_dequantize_row(position, &m->weights.pos_emb, p->rope_pos + r);
            for (size_t i = 0; i < dim; i++) x[i] += position[i];
        }
    }
    team_barrier(p->t);
}

/* x += attention(norm(x)); x += ffn(norm(x)) */
static void layer_forward(const Pass *p, const Config *c, const Layer *l, State *s) {
    Rows xn = norm_rows(p, &s->xn, s->x, (Norm){c->norm, c->norm_eps, l->attn_norm, l->attn_norm_bias}); /* swap 1 */
    watch(p, "attn_norm", xn.x, c->dim);
    attention(p, s->x, &xn, &l->attn, &s->attn);                                                  /* swaps 3, 4 */
    xn = norm_rows(p, &s->xn, s->x, (Norm){c->norm, c->norm_eps, l->ffn_norm, l->ffn_norm_bias}); /* swap 1 */
    watch(p, "ffn_norm", xn.x, c->dim);
    ffn(p, s->x, &xn, c->ffn, &l->ffn, &s->ffn); /* swap 2 */
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
    Rows xn = norm_rows(p, &s->xn, x, (Norm){c->norm, c->norm_eps, w->final_norm, w->final_norm_bias});
    watch(p, "final_norm", xn.x, c->dim);
    matmul(p->t, s->logits, (size_t)c->vocab_size, &w->lm_head, NULL, &xn, false);
    watch(p, "logits", s->logits, c->vocab_size);
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
    if (s->tap) team_run_alone(s->team, run_thread, run);
    else team_run(s->team, run_thread, run);
}

static Pass pass_of(const Model *m, const State *s, int n, int pos) {
    return (Pass){.kernels = s->options.kernels,
                  .n = n,
                  .pos = pos,
                  .rope_pos = pos,
                  .layer = -1,
                  .int8 = m->int8,
                  .exact = s->options.deterministic,
                  .spare = s->xn.x,
                  .tap = s->tap,
                  .tap_arg = s->tap_arg};
}

static void run_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    Run run = {m, s, tokens, 0, pass_of(m, s, n_tok, pos)};
    if (m->config.mistake == MISTAKE_DECODE_OFF_BY_ONE && n_tok == 1 && pos > 0) run.pass.rope_pos--;
    s->pos = pos;
    memset(s->attn.ready, 0, (size_t)m->config.n_kv_heads * sizeof *s->attn.ready);
    run_team(s, &run);
}

/* Dynamic NTK and LongRoPE turn with the length of the whole sequence; every other rule needs the
 * table once. Keys that are cached keep the rotation they were given, as in transformers. */
static void state_reach(State *s, const Config *c, int seq_len) {
    if (c->pos != POS_ROPE) return;
    bool moves = c->rope.scaling == ROPE_SCALING_DYNAMIC || c->rope.scaling == ROPE_SCALING_LONGROPE;
    if (s->rope_seq_len && (!moves || seq_len == s->rope_seq_len)) return;
    rope_table_fill(&s->attn.rope, &c->rope, seq_len);
    s->rope_seq_len = seq_len;
}

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    if (pos + n_tok > s->rope_seq_len || pos == 0) state_reach(s, &m->config, pos + n_tok);
    run_pass(m, s, tokens, n_tok, pos);
}

const float *model_logits(const Model *m, State *s, int row) {
    Run run = {m, s, NULL, row, pass_of(m, s, 1, s->pos + row)};
    run_team(s, &run);
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

/* ---- Model and State --------------------------------------------------------------------------- */

void model_init(Model *m, const Config *config, const Weights *weights) {
    *m = (Model){.config = *config, .weights = *weights, .int8 = mat_is_quantized(&weights->lm_head)};
    for (const Layer *l = weights->layers; l < weights->layers + config->n_layers; l++) {
        const Mat *all[] = {&l->attn.wq,    &l->attn.wk,  &l->attn.wv,   &l->attn.wo,
                            &l->ffn.w_gate, &l->ffn.w_up, &l->ffn.w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) m->int8 |= mat_is_quantized(all[i]);
    }
}

int model_default_threads(const Model *m) {
    const Config *c = &m->config;
    double per_layer = (double)c->dim * (2.0 * c->n_heads * c->head_dim + 2.0 * c->n_kv_heads * c->head_dim +
                                         (c->ffn == FFN_SWIGLU ? 3.0 : 2.0) * c->hidden_dim);
    return per_layer < 300e3 ? 1 : team_default_size();
}

/* One arena, laid out by the same code that counts it. */
static void state_take(State *s, const Config *c, Arena *a) {
    const StateOptions *o = &s->options;
    s->attn = (AttentionState){.n_heads = c->n_heads,
                               .cache = {.type = o->kv_type,
                                         .n_layers = c->n_layers,
                                         .n_ctx = o->n_ctx,
                                         .n_kv_heads = c->n_kv_heads,
                                         .head_dim = c->head_dim,
                                         .kernels = o->kernels,
                                         .exact = o->deterministic}};
    if (c->pos == POS_ROPE)
        s->attn.rope = (RopeTable){
            .n_ctx = o->n_ctx, .head_dim = c->head_dim, .rotary_dim = c->rope.rotary_dim, .pairing = c->rope.pairing};
    attention_take(&s->attn, a, o->n_batch, o->n_threads);
    ffn_take(&s->ffn, a, o->n_batch, c->hidden_dim);
    s->x = arena_take(a, (size_t)o->n_batch * (size_t)c->dim, sizeof(float));
    row_buffer_take(&s->xn, a, o->n_batch, c->dim);
    row_buffer_take_own(&s->xn, a, o->n_threads);
    s->logits = arena_take(a, (size_t)c->vocab_size, sizeof(float));
}

/* Which of q, k and v RoPE rotates: q and k in every layer, but for the exercises of docs/ladder.md (--break). */
static unsigned rotated(const Config *c, int layer) {
    if (c->pos != POS_ROPE) return 0;
    switch (c->mistake) {
    case MISTAKE_V_ROTATED: return ROTATE_Q | ROTATE_K | ROTATE_V;
    case MISTAKE_ROPE_LAYER0: return layer == 0 ? ROTATE_Q | ROTATE_K : 0;
    case MISTAKE_KEYS_UNROTATED: return ROTATE_Q;
    default: return ROTATE_Q | ROTATE_K;
    }
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
    return fail(
        e,
        "%s: memory: expected %zu MiB for a context of %d, found %zu MiB free (lower it with -c, --batch or --kv-type)",
        what, (bytes >> 20) + 1, options->n_ctx, left >> 20);
}

int state_init(State *s, const Model *m, const StateOptions *options, Error *e) {
    *s = (State){.options = *options};
    if (!s->options.kernels) s->options.kernels = kernels_best();
    if (arena_init(&s->arena, state_bytes(m, options), "KV cache and buffers", e)) return -1;
    state_take(s, &m->config, &s->arena);
    for (int i = 0; i < m->config.n_layers; i++) s->attn.rotate[i] = (unsigned char)rotated(&m->config, i);
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

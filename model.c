#include "model.h"

#include <string.h>

#include "dist/order.h"
#include "watch_ranks.h"

/* ---- The forward pass, run by every thread of the team: each step does the calling thread's share ----- */

static int position_of(const Pass *p, int row) {
    const Span *span = p->spans;
    while (span && row >= span->row + span->n) span++;
    return span ? span->pos + row - span->row : p->rope_pos + row;
}

static void embed(const Pass *p, const Model *m, State *s, const int *tokens) {
    const Config *c = &m->config;
    size_t dim = (size_t)c->dim;
    for (int r = p->t->id; r < p->n; r += p->t->n) {
        float *x = s->x + (size_t)r * dim, *position = s->spare + (size_t)r * dim;
        mat_dequantize_row(x, &m->weights.tok_emb, tokens[r]);
        if (c->pos == POS_LEARNED) mat_dequantize_row(position, &m->weights.pos_emb, position_of(p, r));
        for (size_t i = 0; i < dim && c->pos == POS_LEARNED; i++) x[i] += position[i];
        for (size_t i = 0; i < dim && c->embedding_scale > 0; i++) x[i] *= c->embedding_scale;
    }
    team_barrier(p->t);
}

static Norm norm_of(const Config *c, NormKind kind, const float *weight, const float *bias) {
    return (Norm){kind, c->norm_eps, weight, bias, c->norm_offset};
}

static Norm pre_norm_of(const Config *c, const float *weight, const float *bias) {
    return norm_of(c, c->no_pre_norm ? NORM_NONE : c->norm, weight, bias);
}

static Residual residual_of(const Config *c, const float *post_norm) {
    return (Residual){norm_of(c, post_norm ? c->norm : NORM_NONE, post_norm, NULL),
                      c->residual_scale > 0 ? c->residual_scale : 1};
}

/* x += attention(norm(x)); x += ffn(norm(x)) */
static void layer_forward(const Pass *p, float *x, const Config *c, const Layer *l, State *s) {
    Norm attn_norm = pre_norm_of(c, l->attn_norm, l->attn_norm_bias);
    Norm ffn_norm = pre_norm_of(c, l->ffn_norm, l->ffn_norm_bias);
    Residual attn_out = residual_of(c, l->attn_post_norm), ffn_out = residual_of(c, l->ffn_post_norm);

    Rows xn = norm_rows(p, &s->xn, x, attn_norm), fn = xn; /* swap 1 */
    if (c->parallel && l->ffn_norm) fn = norm_rows(p, &s->fn, x, ffn_norm);
    watch(p, "attn_norm", xn.x, c->dim);
    attention(p, x, &xn, &l->attn, &s->attn, &attn_out);      /* swaps 3 and 4 */
    if (!c->parallel) fn = norm_rows(p, &s->xn, x, ffn_norm); /* swap 1 */
    watch(p, "ffn_norm", fn.x, c->dim);
    if (l->moe.experts) moe(p, x, &fn, c->ffn, &l->moe, &s->moe, &ffn_out);
    else ffn(p, x, &fn, c->ffn, &l->ffn, &s->ffn, &ffn_out); /* swap 2 */
    watch(p, "out", x, c->dim);
}

/* Before the last layer: of rows whose logits nobody wants it computes keys and values alone. The rows that stay are so
 * many that their products take the same path as those of all: the same bits. Returns the first of them. */
static float *wanted_rows(Pass *p, const Config *c, const Layer *l, State *s, int wanted) {
    int stay = wanted && wanted < ROWS_TILE ? ROWS_TILE : wanted, gone = p->n - stay;
    if (p->tap || gone <= 0) return s->x;
    Rows xn = norm_rows(p, &s->xn, s->x, pre_norm_of(c, l->attn_norm, l->attn_norm_bias));
    attention_remember(p, &xn, &l->attn, &s->attn);
    p->n = stay;
    p->pos += gone;
    p->rope_pos += gone;
    return s->x + (size_t)gone * (size_t)c->dim;
}

static void forward(Pass *p, const Model *m, State *s, const int *tokens, int wanted) {
    const Config *c = &m->config;
    float *x = s->x;
    embed(p, m, s, tokens);
    watch(p, "embed", x, c->dim);
    for (p->layer = 0; p->layer < c->n_layers; p->layer++) {
        const Layer *l = &m->weights.layers[p->layer];
        if (p->layer == c->n_layers - 1) x = wanted_rows(p, c, l, s, wanted);
        if (p->n) layer_forward(p, x, c, l, s);
    }
}

/* logits[n, vocab_size] = lm_head norm(x) of rows x[n, dim] */
static void logits(const Pass *p, const Model *m, State *s, const float *x) {
    const Config *c = &m->config;
    const Weights *w = &m->weights;
    Rows xn = norm_rows(p, &s->xn, x, norm_of(c, c->norm, w->final_norm, w->final_norm_bias));
    watch(p, "final_norm", xn.x, c->dim);
    size_t vocab = (size_t)c->vocab_size;
    int from, to;
    while (matmul_next(p->t, w->lm_head.rows, &xn, &from, &to)) {
        matmul_piece(s->logits, vocab, &w->lm_head, w->lm_head_bias, &xn, false, from, to);
        for (float *row = s->logits; row < s->logits + (size_t)p->n * vocab; row += vocab) {
            for (int i = from; i < to && c->logit_scale > 0; i++) row[i] *= c->logit_scale;
            if (c->logit_softcap > 0) softcap(p->kernels, row + from, to - from, c->logit_softcap);
        }
    }
}

/* ---- Passes: who runs, where in the text ------------------------------------------------------- */

typedef struct {
    const Model *m;
    State *s;
    const int *tokens; /* [n] of a forward pass; NULL: the logits of rows x [n, dim] */
    int wanted;
    const float *x;
    Pass pass;
} Run;

static void run_thread(const Thread *t, void *arg) {
    const Run *run = arg;
    Pass p = run->pass;
    p.t = t;
    if (run->tokens) forward(&p, run->m, run->s, run->tokens, run->wanted);
    else logits(&p, run->m, run->s, run->x);
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
                  .n_texts = 1,
                  .int8 = m->int8,
                  .exact = s->options.deterministic,
                  .spare = s->spare,
                  .comm = m->comm,
                  .tap = s->tap,
                  .tap_arg = s->tap_arg};
}

/* The angles of positions [pos, pos + n). */
static void reach(RopeTable rope[2], const Config *c, int pos, int n, int seq_len) {
    if (rope[ROPE_MAIN].rotary_dim) rope_table_reach(&rope[ROPE_MAIN], &c->rope, pos, n, seq_len);
    if (rope[ROPE_LOCAL].rotary_dim) rope_table_reach(&rope[ROPE_LOCAL], &c->rope_local, pos, n, seq_len);
}

void model_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos, int seq_len, int wanted) {
    const Config *c = &m->config;
    Run run = {m, s, tokens, wanted, NULL, pass_of(m, s, n_tok, pos)};
    if (n_tok == 1 && pos > 0) run.pass.rope_pos += c->decode_shift;
    s->pos = pos;
    reach(s->attn.rope, c, run.pass.rope_pos, n_tok, seq_len);
    memset(s->attn.ready, 0, (size_t)m->slice.n_kv_heads * sizeof *s->attn.ready);
    order_send(
        m->comm,
        &(Order){.kind = ORDER_PASS, .n = n_tok, .pos = pos, .seq_len = seq_len, .row = wanted, .watched = s->tap},
        tokens);
    run_team(s, &run);
}

void model_pass_spans(const Model *m, State *s, const int *tokens, const Span *spans, int n_spans) {
    const Span *last = &spans[n_spans - 1];
    int n = last->row + last->n;
    Run run = {m, s, tokens, n, NULL, pass_of(m, s, n, 0)};
    run.pass.spans = spans;
    run.pass.n_texts = n_spans;
    for (const Span *i = spans; i <= last; i++) reach(i->sequence->rope, &m->config, i->pos, i->n, i->seq_len);
    memset(s->attn.ready, 0, (size_t)m->slice.n_kv_heads * sizeof *s->attn.ready);
    run_team(s, &run);
}

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    model_pass(m, s, tokens, n_tok, pos, pos + n_tok, n_tok);
}

/* Each rank has the logits of some tokens: rank 0 puts them side by side. */
static void gather_logits(const Model *m, State *s) {
    if (!m->comm) return;
    size_t mine = (size_t)m->slice.n_tokens;
    s->logits[mine] = *s->attn.cache.overflow; /* follows the logits */
    if (m->comm->rank) comm_send(m->comm, 0, s->logits, (mine + 1) * sizeof *s->logits);
    for (int i = 1, size = m->comm->size; i < size && m->comm->rank == 0; i++) {
        int from = share_of(m->config.vocab_size, i, size), to = share_of(m->config.vocab_size, i + 1, size);
        comm_receive(m->comm, i, s->logits + from, (size_t)(to - from + 1) * sizeof *s->logits, false);
        *s->attn.cache.overflow |= s->logits[to] != 0;
    }
}

const float *model_logits(const Model *m, State *s, int row) {
    Run run = {m, s, NULL, 1, s->x + (size_t)row * (size_t)m->config.dim, pass_of(m, s, 1, s->pos + row)};
    order_send(m->comm, &(Order){.kind = ORDER_LOGITS, .row = row, .watched = s->tap}, NULL);
    run_team(s, &run);
    gather_logits(m, s);
    int vocab = m->config.vocab_size;
    if (s->tap) s->tap(s->tap_arg, "logits", -1, s->logits, 1, vocab, 0, vocab, run.pass.pos);
    return s->logits;
}

const float *model_logits_rows(const Model *m, State *s, const int *rows, int n) {
    size_t dim = (size_t)m->config.dim;
    for (int i = 0; i < n; i++)
        memcpy(s->spare + (size_t)i * dim, s->x + (size_t)rows[i] * dim, dim * sizeof *s->spare);
    Run run = {m, s, NULL, n, s->spare, pass_of(m, s, n, 0)};
    run_team(s, &run);
    return s->logits;
}

int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos, Wanted wanted,
                  bool (*progress)(void *arg, int done, int total), void *arg) {
    int done = 0;
    while (done < n_tok) {
        int n = n_tok - done < s->options.n_batch ? n_tok - done : s->options.n_batch;
        int rows = wanted == WANTED_ALL ? n : done + n == n_tok;
        model_pass(m, s, tokens + done, n, pos + done, pos + n_tok, rows); /* one base, however the prompt is cut */
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

/* Passes: who runs the forward pass of model.c, and where in the text. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "dist/order.h"
#include "model.h"
#include "watch_ranks.h"

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
    if (run->tokens) pass_forward(&p, run->m, run->s, run->tokens, run->wanted);
    else pass_logits(&p, run->m, run->s, run->x);
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
    atomic_store_explicit(&s->until, m->config.n_layers, memory_order_relaxed);
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
                  .tap_arg = s->tap_arg,
                  .layer_done = s->layer_done,
                  .layer_arg = s->layer_arg};
}

/* The angles of positions [pos, pos + n). */
static void reach(RopeTable rope[2], const Config *c, int pos, int n, int seq_len) {
    if (rope[ROPE_MAIN].rotary_dim) rope_table_reach(&rope[ROPE_MAIN], &c->rope, pos, n, seq_len);
    if (rope[ROPE_LOCAL].rotary_dim) rope_table_reach(&rope[ROPE_LOCAL], &c->rope_local, pos, n, seq_len);
}

/* Of the rows of the embedding that a pass has read, a rank lets go those that its slice of a tied head has not: the
 * kernel maps 64 KiB around each. */
static void release_rows(const Model *m) {
    const Mat *w = &m->weights.tok_emb;
    size_t row = w->stride_bytes;
    int head = m->config.tied ? m->slice.token : w->rows, end = m->config.tied ? head + m->slice.n_tokens : w->rows;
    for (int i = 0; i < m->n_files; i++) {
        file_release(&m->files[i], w->data, (size_t)head * row);
        file_release(&m->files[i], (const char *)w->data + (size_t)end * row, (size_t)(w->rows - end) * row);
    }
}

void model_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos, int seq_len, int wanted) {
    const Config *c = &m->config;
    Run run = {m, s, tokens, wanted, NULL, pass_of(m, s, n_tok, pos)};
    if (n_tok == 1 && pos > 0) run.pass.rope_pos += c->decode_shift;
    s->pos = pos;
    reach(s->attn.rope, c, run.pass.rope_pos, n_tok, seq_len);
    kv_cache_reach(&s->attn.cache, pos, n_tok);
    memset(s->attn.ready, 0, (size_t)m->slice.n_kv_heads * sizeof *s->attn.ready);
    order_send(
        m->comm,
        &(Order){.kind = ORDER_PASS, .n = n_tok, .pos = pos, .seq_len = seq_len, .row = wanted, .watched = s->tap},
        tokens);
    run_team(s, &run);
    release_rows(m);
}

void model_pass_spans(const Model *m, State *s, const int *tokens, const Span *spans, int n_spans) {
    const Span *last = &spans[n_spans - 1];
    int n = last->row + last->n;
    Run run = {m, s, tokens, n, NULL, pass_of(m, s, n, 0)};
    run.pass.spans = spans;
    run.pass.n_texts = n_spans;
    for (const Span *i = spans; i <= last; i++) {
        reach(i->sequence->rope, &m->config, i->pos, i->n, i->seq_len);
        kv_cache_reach(&i->sequence->cache, i->pos, i->n);
    }
    memset(s->attn.ready, 0, (size_t)m->slice.n_kv_heads * sizeof *s->attn.ready);
    run_team(s, &run);
}

void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos) {
    model_pass(m, s, tokens, n_tok, pos, pos + n_tok, n_tok);
}

/* Each rank has the logits of some tokens: rank 0 puts them side by side. */
static void gather_row(const Model *m, State *s, float *logits) {
    size_t mine = (size_t)m->slice.n_tokens;
    float next = logits[m->config.vocab_size]; /* of the next row: each rank's overflow comes behind its logits */
    if (m->comm->rank) {
        logits[mine] = *s->attn.cache.overflow;
        comm_send(m->comm, 0, logits, (mine + 1) * sizeof *logits);
        return;
    }
    for (int i = 1, size = m->comm->size; i < size; i++) {
        int from = share_of(m->config.vocab_size, i, size), to = share_of(m->config.vocab_size, i + 1, size);
        comm_receive(m->comm, i, logits + from, (size_t)(to - from + 1) * sizeof *logits, false);
        *s->attn.cache.overflow |= logits[to] != 0;
    }
    logits[m->config.vocab_size] = next;
}

/* What a rank sends when nobody wants but the largest of its logits. */
typedef struct {
    int overflow, n;
    struct {
        float logit;
        int id;
    } token[LARGEST_MOST];
} Largest;

/* The k largest of logits [n], the lower id first of equal ones; a NaN is larger than all. */
static void find_largest(Largest *l, int k, const float *logits, int n) {
    l->n = 0;
    for (int i = 0; i < n; i++) {
        int at = l->n;
        while (at > 0 && !(logits[i] <= l->token[at - 1].logit) && !isnan(l->token[at - 1].logit)) at--;
        if (at == k) continue;
        if (l->n < k) l->n++;
        memmove(l->token + at + 1, l->token + at, (size_t)(l->n - at - 1) * sizeof *l->token);
        l->token[at].logit = logits[i];
        l->token[at].id = i;
    }
}

/* Of the other ranks rank 0 gets the k largest logits each; -FLT_MAX stands for the rest. */
static void gather_largest(const Model *m, State *s, float *logits, int k) {
    Largest l;
    int vocab = m->config.vocab_size, size = m->comm->size;
    if (m->comm->rank) {
        find_largest(&l, k, logits, m->slice.n_tokens);
        l.overflow = *s->attn.cache.overflow;
        comm_send(m->comm, 0, &l, offsetof(Largest, token) + (size_t)l.n * sizeof *l.token);
        return;
    }
    for (int i = m->slice.n_tokens; i < vocab; i++) logits[i] = -FLT_MAX;
    for (int i = 1; i < size; i++) {
        comm_receive(m->comm, i, &l, sizeof l, false);
        *s->attn.cache.overflow |= l.overflow != 0;
        for (int j = 0; j < l.n; j++) logits[share_of(vocab, i, size) + l.token[j].id] = l.token[j].logit;
    }
}

const float *model_logits_span(const Model *m, State *s, int row, int n) {
    Run run = {m, s, NULL, n, s->x + (size_t)row * (size_t)m->config.dim, pass_of(m, s, n, s->pos + row)};
    int vocab = m->config.vocab_size, k = s->tap || s->largest > LARGEST_MOST ? 0 : s->largest;
    order_send(m->comm, &(Order){.kind = ORDER_LOGITS, .row = row, .n = n, .n_logits = k, .watched = s->tap}, NULL);
    run_team(s, &run);
    for (int i = 0; i < n && m->comm; i++) {
        float *logits = s->logits + (size_t)i * (size_t)vocab;
        if (k) gather_largest(m, s, logits, k);
        else gather_row(m, s, logits);
    }
    if (s->tap) s->tap(s->tap_arg, "logits", -1, s->logits, n, vocab, 0, vocab, run.pass.pos);
    return s->logits;
}

const float *model_logits(const Model *m, State *s, int row) { return model_logits_span(m, s, row, 1); }

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
        if (atomic_load(&s->until) < m->config.n_layers) break;
        done += n;
        if (progress && !progress(arg, done, n_tok)) break;
    }
    return done;
}

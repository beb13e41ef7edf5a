#include "model.h"

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

/* The first thread asks whether the pass goes on. It ends one layer later: each layer has a barrier, behind which every
 * thread knows. The ranks of a model do not stop: each counts on what the others send. */
static void ask_to_go_on(const Pass *p, State *s, int n_layers) {
    int all = n_layers;
    if (!p->layer_done || p->t->id || p->layer_done(p->layer_arg, p->layer) || p->comm) return;
    if (p->layer + 2 < n_layers) atomic_compare_exchange_strong(&s->until, &all, p->layer + 2);
}

void pass_forward(Pass *p, const Model *m, State *s, const int *tokens, int wanted) {
    const Config *c = &m->config;
    float *x = s->x;
    embed(p, m, s, tokens);
    watch(p, "embed", x, c->dim);
    for (p->layer = 0; p->layer < atomic_load_explicit(&s->until, memory_order_relaxed); p->layer++) {
        const Layer *l = &m->weights.layers[p->layer];
        if (p->layer == c->n_layers - 1) x = wanted_rows(p, c, l, s, wanted);
        if (p->n) layer_forward(p, x, c, l, s);
        ask_to_go_on(p, s, c->n_layers);
    }
}

/* logits[n, vocab_size] = lm_head norm(x) of rows x[n, dim] */
void pass_logits(const Pass *p, const Model *m, State *s, const float *x) {
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

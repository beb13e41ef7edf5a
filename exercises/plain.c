#include "plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything a forward pass needs, as plain arrays of float. */
typedef struct {
    const Config *c;
    const Parts *p;
    float *embedding;                                   /* [vocab_size, dim] */
    float **wq, **wk, **wv, **wo, **gate, **up, **down; /* [n_layers] of matrices [out, in] */
    float **keys, **values;                             /* [n_layers] of caches [n, n_kv_heads, head_dim] */
    double *freq;                                       /* [head_dim / 2] */
    float *x, *h, *q, *k, *v, *mix, *out, *g, *u, *score, *logits;
    int cached;
} Plain;

/* Memory of the whole pass is taken from one list and given back at the end. */
typedef struct Chunk {
    struct Chunk *next;
} Chunk;

static void *take(Chunk **all, size_t bytes) {
    Chunk *c = calloc(1, sizeof *c + bytes);
    if (!c) return NULL;
    c->next = *all;
    *all = c;
    return c + 1;
}

static float *matrix(Chunk **all, const Mat *m) {
    float *w = take(all, (size_t)m->rows * (size_t)m->cols * sizeof *w);
    for (int r = 0; w && r < m->rows; r++) mat_dequantize_row(w + (size_t)r * (size_t)m->cols, m, r);
    return w;
}

/* y[rows] = w x */
static void multiply(float *y, const float *w, const float *x, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < cols; i++) sum += w[r * cols + i] * x[i];
        y[r] = sum;
    }
}

/* mix[head_dim] = softmax(q k^T / sqrt(head_dim)) v of one query head over the cache */
static void attend_head(Plain *m, float *mix, const float *q, const float *keys, const float *values, int kv_head) {
    int d = m->c->head_dim, row = m->c->n_kv_heads * d;
    float max = -INFINITY, sum = 0;
    for (int t = 0; t < m->cached; t++) {
        m->score[t] = 0;
        for (int i = 0; i < d; i++) m->score[t] += q[i] * keys[t * row + kv_head * d + i];
        m->score[t] /= sqrtf((float)d);
        max = fmaxf(max, m->score[t]);
    }
    for (int t = 0; t < m->cached; t++) sum += m->score[t] = expf(m->score[t] - max);
    for (int i = 0; i < d; i++) mix[i] = 0;
    for (int t = 0; t < m->cached; t++)
        for (int i = 0; i < d; i++) mix[i] += m->score[t] / sum * values[t * row + kv_head * d + i];
}

/* One token through one layer; m->x is the residual stream. Returns the rows in the cache. */
static int layer(Plain *m, const Layer *l, int i) {
    const Config *c = m->c;
    int d = c->head_dim, q_dim = c->n_heads * d, kv_dim = c->n_kv_heads * d;
    m->p->rmsnorm(m->h, m->x, l->attn_norm, c->dim, c->norm_eps);
    multiply(m->q, m->wq[i], m->h, q_dim, c->dim);
    multiply(m->k, m->wk[i], m->h, kv_dim, c->dim);
    multiply(m->v, m->wv[i], m->h, kv_dim, c->dim);
    int before = m->cached;
    int cached =
        m->p->append(m->keys[i], m->values[i], before, m->q, c->n_heads, m->k, m->v, c->n_kv_heads, d, m->freq);
    if (cached != before + 1) return -1;
    m->cached = cached;
    for (int head = 0; head < c->n_heads; head++) {
        int kv_head = m->p->kv_head_of(head, c->n_heads, c->n_kv_heads);
        if (kv_head < 0 || kv_head >= c->n_kv_heads) return -1;
        attend_head(m, m->mix + head * d, m->q + head * d, m->keys[i], m->values[i], kv_head);
    }
    m->cached = before;
    multiply(m->out, m->wo[i], m->mix, c->dim, q_dim);
    for (int j = 0; j < c->dim; j++) m->x[j] += m->out[j];
    m->p->rmsnorm(m->h, m->x, l->ffn_norm, c->dim, c->norm_eps);
    multiply(m->g, m->gate[i], m->h, c->hidden_dim, c->dim);
    multiply(m->u, m->up[i], m->h, c->hidden_dim, c->dim);
    m->p->swiglu(m->g, m->g, m->u, c->hidden_dim);
    multiply(m->out, m->down[i], m->g, c->dim, c->hidden_dim);
    for (int j = 0; j < c->dim; j++) m->x[j] += m->out[j];
    return cached;
}

/* One token through the model; m->logits says what may follow. -1: a part returned nonsense. */
static int forward(Plain *m, const Weights *w, int token) {
    const Config *c = m->c;
    int cached = 0;
    memcpy(m->x, m->embedding + token * c->dim, (size_t)c->dim * sizeof *m->x);
    for (int i = 0; i < c->n_layers; i++)
        if ((cached = layer(m, &w->layers[i], i)) < 0) return -1;
    m->cached = cached;
    m->p->rmsnorm(m->h, m->x, w->final_norm, c->dim, c->norm_eps);
    multiply(m->logits, m->embedding, m->h, c->vocab_size, c->dim);
    return 0;
}

static double surprise(const float *logits, int n, int token) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return (max + log(sum) - (double)logits[token]) / log(2);
}

static int take_all(Plain *m, Chunk **all, const Weights *w, int n) {
    const Config *c = m->c;
    size_t d = (size_t)c->head_dim, dim = (size_t)c->dim, hidden = (size_t)c->hidden_dim, q = (size_t)c->n_heads * d;
    size_t kv = (size_t)c->n_kv_heads * d, layers = (size_t)c->n_layers;
    float ***const lists[] = {&m->wq, &m->wk, &m->wv, &m->wo, &m->gate, &m->up, &m->down, &m->keys, &m->values};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = take(all, layers * sizeof(float *)))) return -1;
    const struct {
        float **to;
        size_t n;
    } rows[] = {{&m->x, dim},
                {&m->h, dim},
                {&m->q, q},
                {&m->k, kv},
                {&m->v, kv},
                {&m->mix, q},
                {&m->out, dim},
                {&m->g, hidden},
                {&m->u, hidden},
                {&m->score, (size_t)n},
                {&m->logits, (size_t)c->vocab_size}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(*rows[i].to = take(all, rows[i].n * sizeof(float)))) return -1;
    m->freq = take(all, d / 2 * sizeof *m->freq);
    m->embedding = matrix(all, &w->tok_emb);
    if (!m->freq || !m->embedding) return -1;
    for (size_t i = 0; i < layers; i++) {
        const Layer *l = &w->layers[i];
        float *half_q = matrix(all, &l->attn.wq), *half_k = matrix(all, &l->attn.wk);
        m->wq[i] = take(all, q * dim * sizeof(float));
        m->wk[i] = take(all, kv * dim * sizeof(float));
        m->wv[i] = matrix(all, &l->attn.wv);
        m->wo[i] = matrix(all, &l->attn.wo);
        m->gate[i] = matrix(all, &l->ffn.w_gate);
        m->up[i] = matrix(all, &l->ffn.w_up);
        m->down[i] = matrix(all, &l->ffn.w_down);
        m->keys[i] = take(all, (size_t)n * kv * sizeof(float));
        m->values[i] = take(all, (size_t)n * kv * sizeof(float));
        if (!half_q || !half_k || !m->wq[i] || !m->wk[i] || !m->wv[i] || !m->wo[i] || !m->gate[i] || !m->up[i] ||
            !m->down[i] || !m->keys[i] || !m->values[i])
            return -1;
        m->p->half_to_pairs(m->wq[i], half_q, c->n_heads, c->head_dim, c->dim);
        m->p->half_to_pairs(m->wk[i], half_k, c->n_kv_heads, c->head_dim, c->dim);
    }
    return 0;
}

double plain_surprise(const Config *c, const Weights *w, const Parts *p, const int *ids, int n, int from,
                      double factor) {
    Chunk *all = NULL;
    Plain m = {.c = c, .p = p};
    double bits = NAN;
    if (take_all(&m, &all, w, n) == 0) {
        if (factor > 1) p->ntk_freq(m.freq, c->head_dim, c->rope.theta, factor);
        else p->inv_freq(m.freq, c->head_dim, c->rope.theta);
        bits = 0;
        for (int i = 0; i + 1 < n && !isnan(bits); i++) {
            if (forward(&m, w, ids[i])) bits = NAN;
            else if (i + 1 >= from) bits += surprise(m.logits, c->vocab_size, ids[i + 1]);
        }
    }
    while (all) {
        Chunk *next = all->next;
        free(all);
        all = next;
    }
    return bits;
}

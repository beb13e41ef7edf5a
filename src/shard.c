#include "shard.h"

#include <stdlib.h>
#include <string.h>

/* ---- Who has what ------------------------------------------------------------------------------ */

static void slice_heads(Slice *s, const Config *c, int rank, int size) {
    int kv = c->n_kv_heads, group = c->n_heads / kv;
    if (size <= kv) {
        s->kv_head = share_of(kv, rank, size);
        s->n_kv_heads = share_of(kv, rank + 1, size) - s->kv_head;
        s->head = s->kv_head * group;
        s->n_heads = s->n_kv_heads * group;
        s->kv_sharers = 1;
        return;
    }
    for (int h = 0; h < kv; h++) { /* ranks [first, end) have KV head h */
        int first = share_of(size, h, kv), end = share_of(size, h + 1, kv), at = rank - first;
        if (rank < first || rank >= end) continue;
        s->kv_head = h;
        s->n_kv_heads = 1;
        s->kv_sharers = end - first;
        s->head = h * group + share_of(group, at, end - first);
        s->n_heads = h * group + share_of(group, at + 1, end - first) - s->head;
    }
}

/* The FFN that is cut by features: the layer's, or the expert that every token goes through. */
static FfnWeights *cut_ffn(Layer *l) { return l->moe.experts ? &l->moe.shared : &l->ffn; }

static int dense_dim(const Config *c) { return c->moe.n_experts ? c->moe.dense_dim : c->hidden_dim; }

static int64_t weights_in(const Mat *w) { return (int64_t)w->rows * w->cols; }

/* Where rank's blocks of the FFN begin. Where the KV heads do not come out even, a rank with fewer of them has so much
 * more of the FFN that all have as many weights of a layer. */
static int first_block(const Config *c, const Layer *l, int blocks, int rank, int size) {
    int64_t kv = c->n_kv_heads, most = (kv + size - 1) / size;
    int64_t attn =
        weights_in(&l->attn.wq) + weights_in(&l->attn.wk) + weights_in(&l->attn.wv) + weights_in(&l->attn.wo);
    int64_t ffn = weights_in(&l->ffn.w_gate) + weights_in(&l->ffn.w_up) + weights_in(&l->ffn.w_down);
    int64_t least = (attn + ffn) * kv - attn * most * size; /* of the FFN, times kv size: the rank with most heads */
    if (kv < size || c->moe.n_experts || least * blocks < 2 * ffn * kv * size) return share_of(blocks, rank, size);
    return (int)(blocks * ((attn + ffn) * kv * rank - attn * share_of((int)kv, rank, size) * size) / (ffn * kv * size));
}

/* Features are dealt out in whole blocks of down's type, and by 32 where there are enough: int8 activations want that.
 */
static void slice_features(int *first, int *n, int all, bool shared, const Config *c, const Weights *w, int rank,
                           int size) {
    int block = 1;
    for (int i = 0; i < c->n_layers && all; i++) {
        Layer *l = &w->layers[i];
        int other = dtype_info[cut_ffn(l)->w_down.dtype].block_values;
        if (other > block && shared == (l->moe.experts != NULL)) block = other;
    }
    if (block < QK && all >= QK * size) block = QK;
    if (all < block * size) block = 1; /* through the blocks, in f32 */
    int blocks = (all + block - 1) / block, from = first_block(c, w->layers, blocks, rank, size) * block,
        to = first_block(c, w->layers, blocks, rank + 1, size) * block;
    *first = from < all ? from : all;
    *n = (to < all ? to : all) - *first;
}

int shard_slice(Slice *s, const Config *c, const Weights *w, int rank, int size, Error *e) {
    *s = (Slice){.token = share_of(c->vocab_size, rank, size), .expert = share_of(c->moe.n_experts, rank, size)};
    s->n_tokens = share_of(c->vocab_size, rank + 1, size) - s->token;
    s->n_experts = share_of(c->moe.n_experts, rank + 1, size) - s->expert;
    slice_heads(s, c, rank, size);
    slice_features(&s->hidden, &s->n_hidden, dense_dim(c), false, c, w, rank, size);
    slice_features(&s->shared, &s->n_shared, c->moe.shared_dim, true, c, w, rank, size);
    bool experts = c->moe.n_experts,
         hidden = (s->n_hidden > 0 || !dense_dim(c)) && (s->n_shared > 0 || !c->moe.shared_dim);
    if (s->n_heads > 0 && hidden && s->n_tokens > 0 && (!experts || s->n_experts > 0)) return 0;
    if (experts && s->n_experts == 0)
        return fail(e, "ranks: expected an expert for each, found %d ranks for %d experts", size, c->moe.n_experts);
    return fail(e, "ranks: expected a query head, a block of the FFN and a token for each, found %d ranks for %d heads",
                size, c->n_heads);
}

/* ---- The weights of a slice -------------------------------------------------------------------- */

/* Rows [from, to) of w are not needed: of the files, whichever they are in. */
static void drop(const Shard *s, const Mat *w, int from, int to) {
    for (int i = 0; i < s->n_files && to > from; i++)
        file_drop(&s->files[i], (const char *)w->data + (size_t)from * w->stride_bytes,
                  (size_t)(to - from) * w->stride_bytes);
}

static void *keep(Shard *s, size_t bytes, Error *e) {
    void **copies = realloc(s->copies, (size_t)(s->n_copies + 1) * sizeof *copies);
    void *copy = malloc(bytes + 1);
    if (copies) s->copies = copies;
    if (!copies || !copy) {
        free(copy);
        fail(e, "ranks: memory: expected %zu bytes for a slice, found less", bytes);
        return NULL;
    }
    s->copies[s->n_copies++] = copy;
    return copy;
}

/* Columns [from, from + n) of w: whole blocks as they are; a cut through a block in f32. */
static int copy_columns(Shard *s, Mat *w, int from, int n, Error *e) {
    const DTypeInfo *type = &dtype_info[w->dtype];
    bool whole = w->dtype != DTYPE_Q8_GROUP && from % type->block_values == 0 && n % type->block_values == 0;
    size_t row = whole ? dtype_row_bytes(w->dtype, (size_t)n) : (size_t)n * sizeof(float);
    char *to = keep(s, (size_t)w->rows * row, e);
    float *all = whole ? NULL : malloc((size_t)w->cols * sizeof *all);
    if (!to || (!whole && !all)) {
        free(all);
        return to ? fail(e, "ranks: memory: expected a row of %d values, found less", w->cols) : -1;
    }
    for (int r = 0; r < w->rows; r++) {
        if (whole) {
            const char *data = (const char *)w->data + (size_t)r * w->stride_bytes;
            memcpy(to + (size_t)r * row, data + dtype_row_bytes(w->dtype, (size_t)from), row);
        } else {
            mat_dequantize_row(all, w, r);
            memcpy(to + (size_t)r * row, all + from, row);
        }
    }
    free(all);
    drop(s, w, 0, w->rows);
    *w = (Mat){.dtype = whole ? w->dtype : DTYPE_F32, .rows = w->rows, .cols = n, .stride_bytes = row, .data = to};
    return 0;
}

static void rows_of(const Shard *s, Mat *w, const float **bias, int from, int n) {
    drop(s, w, 0, from);
    drop(s, w, from + n, w->rows);
    *w = mat_rows(w, from, n);
    if (*bias) *bias += from;
}

/* The experts of other ranks are not needed. */
static void drop_experts(const Shard *s, MoeWeights *w, const Config *c, const Slice *part) {
    for (int i = 0; i < c->moe.n_experts; i++) {
        const FfnWeights *f = &w->experts[i];
        if (i >= part->expert && i < part->expert + part->n_experts) continue;
        drop(s, &f->w_gate, 0, f->w_gate.rows);
        drop(s, &f->w_up, 0, f->w_up.rows);
        drop(s, &f->w_down, 0, f->w_down.rows);
    }
    w->experts += part->expert;
}

static int shard_layer(Shard *s, Layer *l, const Config *c, const Slice *part, Error *e) {
    AttentionWeights *a = &l->attn;
    FfnWeights *f = cut_ffn(l);
    int d = c->head_dim, q = part->head * d, kv = part->kv_head * d;
    rows_of(s, &a->wq, &a->bq, q, part->n_heads * d);
    rows_of(s, &a->wk, &a->bk, kv, part->n_kv_heads * d);
    rows_of(s, &a->wv, &a->bv, kv, part->n_kv_heads * d);
    if (c->attn.qk_norm == QK_NORM_EACH_HEAD || c->attn.qk_norm == QK_NORM_WHOLE) {
        if (a->q_norm) a->q_norm += q;
        if (a->k_norm) a->k_norm += kv;
    }
    if (a->sinks) a->sinks += part->head;
    if (l->moe.experts) drop_experts(s, &l->moe, c, part);
    if (copy_columns(s, &a->wo, q, part->n_heads * d, e)) return -1;
    if (l->moe.experts && !c->moe.shared_dim) return 0;
    int first = l->moe.experts ? part->shared : part->hidden, n = l->moe.experts ? part->n_shared : part->n_hidden;
    if (f->w_gate.data) rows_of(s, &f->w_gate, &f->b_gate, first, n);
    rows_of(s, &f->w_up, &f->b_up, first, n);
    return copy_columns(s, &f->w_down, first, n, e);
}

int shard_model(Shard *s, Model *m, Comm *comm, const File *files, int n_files, Error *e) {
    const Config *c = &m->config;
    Weights *w = &m->weights;
    *s = (Shard){.files = files, .n_files = n_files};
    if (shard_slice(&m->slice, c, w, comm->rank, comm->size, e)) return -1;
    s->layers = malloc((size_t)c->n_layers * sizeof *s->layers);
    if (!s->layers) return fail(e, "ranks: memory: expected some, found none");
    memcpy(s->layers, w->layers, (size_t)c->n_layers * sizeof *s->layers);
    for (int i = 0; i < c->n_layers; i++)
        if (shard_layer(s, &s->layers[i], c, &m->slice, e)) return -1;
    w->layers = s->layers;
    if (c->tied) s->n_files = 0; /* the embedding needs all rows */
    rows_of(s, &w->lm_head, &w->lm_head_bias, m->slice.token, m->slice.n_tokens);
    for (int i = 0; i < n_files; i++) file_release(&files[i], files[i].data, files[i].size); /* what opening it read */
    m->comm = comm;
    m->files = files;
    m->n_files = n_files;
    return 0;
}

void shard_close(Shard *s) {
    for (int i = 0; i < s->n_copies; i++) free(s->copies[i]);
    free(s->copies);
    free(s->layers);
    *s = (Shard){0};
}

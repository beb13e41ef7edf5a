#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/formats.h"

int config_check(const Config *c, const char *path, Error *e) {
    const struct {
        const char *name;
        int value, max;
    } count[] = {
        {"dim", c->dim, 1 << 20},
        {"hidden_dim", c->hidden_dim, 1 << 22},
        {"n_layers", c->n_layers, 4096},
        {"n_heads", c->n_heads, 1 << 16},
        {"n_kv_heads", c->n_kv_heads, 1 << 16},
        {"head_dim", c->head_dim, 1 << 14},
        {"vocab_size", c->vocab_size, 1 << 24},
        {"n_ctx", c->n_ctx, 1 << 26},
        {"width of the shared expert", c->moe.shared_dim ? c->moe.shared_dim : 1, 1 << 22},
        {"width of the dense layers", c->moe.dense_dim ? c->moe.dense_dim : 1, 1 << 22},
    };
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        if (count[i].value < 1 || count[i].value > count[i].max)
            return fail(e, "%s: %s: expected 1 to %d, found %d", path, count[i].name, count[i].max, count[i].value);
    if (c->n_heads % c->n_kv_heads)
        return fail(e, "%s: n_kv_heads: expected a divisor of the %d heads, found %d", path, c->n_heads, c->n_kv_heads);
    if ((long long)c->n_heads * c->head_dim > 1 << 22)
        return fail(e, "%s: heads: expected n_heads * head_dim up to %d, found %lld", path, 1 << 22,
                    (long long)c->n_heads * c->head_dim);
    if (!(isfinite(c->norm_eps) && c->norm_eps >= 0))
        return fail(e, "%s: norm eps: expected a number from 0, found %g", path, (double)c->norm_eps);
    const struct {
        const char *name;
        float value;
    } scale[] = {{"embedding scale", c->embedding_scale}, {"residual scale", c->residual_scale},
                 {"logit scale", c->logit_scale},         {"soft cap of the logits", c->logit_softcap},
                 {"scale of the scores", c->attn.scale},  {"soft cap of the scores", c->attn.softcap},
                 {"clamp of q, k and v", c->attn.clamp},  {"temperature of q", c->attn.temperature}};
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++)
        if (!(isfinite(scale[i].value) && scale[i].value >= 0))
            return fail(e, "%s: %s: expected a number from 0, found %g", path, scale[i].name, (double)scale[i].value);
    if (c->pos != POS_ROPE) return 0;
    if (c->rope_local.rotary_dim && rope_check(&c->rope_local, c->head_dim, path, e)) return -1;
    return rope_check(&c->rope, c->head_dim, path, e);
}

const float *checkpoint_vector(Checkpoint *ck, const Mat *m, Error *e) {
    if (m->dtype == DTYPE_F32 && (uintptr_t)m->data % sizeof(float) == 0) return m->data;
    float *copy = checkpoint_alloc(ck, (size_t)m->cols, sizeof *copy, e);
    if (copy) mat_dequantize_row(copy, m, 0);
    return copy;
}

static size_t mat_bytes(const Mat *m) {
    size_t scales = m->group ? (size_t)m->rows * (size_t)m->cols / (size_t)m->group * sizeof(float) : 0;
    return (size_t)m->rows * dtype_row_bytes(m->dtype, (size_t)m->cols) + scales;
}

/* Have two matrices the same values? */
static bool same_values(const Mat *a, const Mat *b, float *x, float *y) {
    if (a->rows != b->rows || a->cols != b->cols) return false;
    size_t bytes = dtype_row_bytes(a->dtype, (size_t)a->cols);
    for (int r = 0; r < a->rows; r++) {
        const char *p = (const char *)a->data + (size_t)r * a->stride_bytes;
        const char *q = (const char *)b->data + (size_t)r * b->stride_bytes;
        if (a->dtype == b->dtype && !a->group && memcmp(p, q, bytes) == 0) continue;
        mat_dequantize_row(x, a, r);
        mat_dequantize_row(y, b, r);
        for (int i = 0; i < a->cols; i++)
            if (x[i] != y[i]) return false;
    }
    return true;
}

/* A file that says its head is the embedding and has another head means the other one: transformers 5 leaves the two
 * apart when their values differ. */
static int untie(Checkpoint *ck, Error *e) {
    const Mat *emb = NULL, *head = NULL;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        if (ck->tensors[i].field == FIELD_TOK_EMB) emb = &ck->tensors[i].mat;
        if (ck->tensors[i].field == FIELD_LM_HEAD) head = &ck->tensors[i].mat;
    }
    if (!ck->config.tied || !emb || !head) return 0;
    float *rows = calloc((size_t)emb->cols, 2 * sizeof *rows);
    if (!rows) return fail(e, "%s: memory: expected some, found none", ck->path);
    ck->config.tied = same_values(emb, head, rows, rows + emb->cols);
    free(rows);
    return 0;
}

/* Seen - which fields of which layers there are: a row of the model's, then one for each layer with its experts'. */
typedef struct {
    size_t row;
    unsigned char *there;
} Seen;

static unsigned char *seen_at(const Seen *s, int layer, int field, int expert) {
    size_t of_experts = field_of_expert(field) ? (size_t)expert * (FIELD_COUNT - FIELD_EXPERT_GATE) : 0;
    return &s->there[(size_t)(layer + 1) * s->row + (size_t)field + of_experts];
}

static int bind_tensor(Checkpoint *ck, const Tensor *t, const Seen *seen, Weights *w, Error *e) {
    const Config here = layer_config(ck, t->layer), *c = &here;
    int rows, cols;
    field_shape(&rows, &cols, t->field, c);
    if (t->layer >= c->n_layers)
        return fail(e, "%s: %s: expected layers 0 to %d, found layer %d", t->file, t->name, c->n_layers - 1, t->layer);
    /* A tensor that the switches leave no place for would be ignored: that changes the result. */
    if (!field_allowed(t->field, ck->family, c))
        return fail(e, "%s: %s: expected no such tensor with this config, found one", t->file, t->name);
    if (field_of_expert(t->field) && t->expert >= c->moe.n_experts)
        return fail(e, "%s: %s: expected experts 0 to %d, found expert %d", t->file, t->name, c->moe.n_experts - 1,
                    t->expert);
    Mat m = t->mat;
    bool by_head = t->field == FIELD_Q_NORM || t->field == FIELD_K_NORM; /* [heads, head_dim] is as long as one row */
    if (by_head && (long long)m.rows * m.cols == cols) m.cols = cols, m.rows = 1;
    if (m.rows != rows || m.cols != cols)
        return field_is_vector(t->field) ? fail(e, "%s: %s: shape: expected [%d], found %d x %d values", t->file,
                                                t->name, cols, t->mat.rows, t->mat.cols)
                                         : fail(e, "%s: %s: shape: expected [%d, %d], found [%d, %d]", t->file, t->name,
                                                rows, cols, t->mat.rows, t->mat.cols);
    unsigned char *mark = seen_at(seen, t->layer, t->field, t->expert);
    if (*mark) return fail(e, "%s: %s: expected once, found twice", t->file, t->name);
    *mark = 1;
    if (t->field == FIELD_LM_HEAD && c->tied) return 0; /* a copy of tok_emb that is not needed */
    const float *vector = field_is_vector(t->field) ? checkpoint_vector(ck, &m, e) : NULL;
    if (field_is_vector(t->field) && !vector) return -1;
    field_set(w, ck->layers, t, &m, vector);
    ck->params += (size_t)rows * (size_t)cols;
    if (field_of_expert(t->field)) ck->expert_params += (size_t)rows * (size_t)cols;
    ck->weights_bytes += mat_bytes(&t->mat);
    return 0;
}

/* The first layer that has experts, or has none, as this one. */
static int first_alike(const Checkpoint *ck, int layer) {
    for (int i = 0; i < layer; i++)
        if (layer_is_dense(ck, i) == layer_is_dense(ck, layer)) return i;
    return layer;
}

/* Nothing is missing, and every layer has what the first one of its kind has. */
static int check_complete(const Checkpoint *ck, const Seen *seen, Error *e) {
    for (int layer = -1; layer < ck->config.n_layers; layer++) {
        const Config here = layer_config(ck, layer), *c = &here;
        int alike = first_alike(ck, layer);
        int first = layer < 0 ? 0 : FIELD_ATTN_NORM, last = layer < 0 ? FIELD_ATTN_NORM : FIELD_COUNT;
        for (int f = first; f < last; f++) {
            int expert = 0;
            while (field_of_expert(f) && expert + 1 < c->moe.n_experts && *seen_at(seen, layer, f, expert)) expert++;
            bool there = *seen_at(seen, layer, f, expert);
            if (!there && field_needed((Field)f, ck->family, c)) {
                if (field_of_expert(f))
                    return fail(e, "%s: %s of layer %d: expected the tensor of %d experts, found none of expert %d",
                                ck->path, field_name(f), layer, c->moe.n_experts, expert);
                if (layer < 0) return fail(e, "%s: %s: expected the tensor, found none", ck->path, field_name(f));
                return fail(e, "%s: %s of layer %d: expected the tensor, found none", ck->path, field_name(f), layer);
            }
            if (layer > 0 && there != *seen_at(seen, alike, f, 0))
                return fail(e, "%s: %s of layer %d: expected as in layer %d, found %s", ck->path, field_name(f), layer,
                            alike, there ? "one" : "none");
        }
    }
    return 0;
}

int checkpoint_bind(Checkpoint *ck, Config *config, Weights *weights, Error *e) {
    if (config_check(&ck->config, ck->path, e) || untie(ck, e)) return -1;
    const Config *c = &ck->config;
    free(ck->layers);
    free(ck->experts);
    size_t n_layers = (size_t)c->n_layers, n_experts = (size_t)c->moe.n_experts;
    ck->layers = calloc(n_layers, sizeof *ck->layers);
    ck->experts = n_experts ? calloc(n_layers * n_experts, sizeof *ck->experts) : NULL;
    Seen seen = {.row = FIELD_COUNT + n_experts * (FIELD_COUNT - FIELD_EXPERT_GATE)};
    seen.there = calloc(n_layers + 1, seen.row);
    int status = 0;
    *weights = (Weights){.layers = ck->layers};
    ck->params = ck->weights_bytes = ck->expert_params = 0;
    if (!ck->layers || !seen.there || (n_experts && !ck->experts))
        status = fail(e, "%s: memory: expected some, found none", ck->path);
    for (size_t i = 0; i < n_layers * n_experts && !status; i++) {
        size_t layer = i / n_experts;
        ck->layers[layer].moe.experts = layer_is_dense(ck, (int)layer) ? NULL : &ck->experts[layer * n_experts];
        ck->experts[i].alpha = c->moe.alpha;
        ck->experts[i].limit = c->moe.limit;
    }
    for (size_t i = 0; i < ck->n_tensors && !status; i++) status = bind_tensor(ck, &ck->tensors[i], &seen, weights, e);
    if (!status) status = check_complete(ck, &seen, e);
    free(seen.there);
    if (status) return -1;
    for (int i = 0; i < c->n_layers && ck->layer_kinds; i++) {
        ck->layers[i].attn.window = ck->layer_kinds[i].window;
        ck->layers[i].attn.rope = ck->layer_kinds[i].rope;
    }
    if (c->tied) weights->lm_head = weights->tok_emb;
    *config = *c;
    return 0;
}

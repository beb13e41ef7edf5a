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
    return c->pos == POS_ROPE ? rope_check(&c->rope, c->head_dim, path, e) : 0;
}

/* Where a field goes, and its shape. VECTOR fields are f32 arrays, the others Mats. */
enum { ONE, DIM, HIDDEN, Q_DIM, KV_DIM, VOCAB, CTX };
#define MODEL_MAT(m, r, c)                                                                                             \
    { offsetof(Weights, m), false, r, c }
#define MODEL_VEC(m, c)                                                                                                \
    { offsetof(Weights, m), true, ONE, c }
#define LAYER_MAT(m, r, c)                                                                                             \
    { offsetof(Layer, m), false, r, c }
#define LAYER_VEC(m, c)                                                                                                \
    { offsetof(Layer, m), true, ONE, c }
static const struct {
    size_t offset;
    bool vector;
    int rows, cols;
} place[FIELD_COUNT] = {
    [FIELD_TOK_EMB] = MODEL_MAT(tok_emb, VOCAB, DIM),
    [FIELD_POS_EMB] = MODEL_MAT(pos_emb, CTX, DIM),
    [FIELD_FINAL_NORM] = MODEL_VEC(final_norm, DIM),
    [FIELD_FINAL_NORM_BIAS] = MODEL_VEC(final_norm_bias, DIM),
    [FIELD_LM_HEAD] = MODEL_MAT(lm_head, VOCAB, DIM),
    [FIELD_ATTN_NORM] = LAYER_VEC(attn_norm, DIM),
    [FIELD_ATTN_NORM_BIAS] = LAYER_VEC(attn_norm_bias, DIM),
    [FIELD_WQ] = LAYER_MAT(attn.wq, Q_DIM, DIM),
    [FIELD_WK] = LAYER_MAT(attn.wk, KV_DIM, DIM),
    [FIELD_WV] = LAYER_MAT(attn.wv, KV_DIM, DIM),
    [FIELD_WO] = LAYER_MAT(attn.wo, DIM, Q_DIM),
    [FIELD_BQ] = LAYER_VEC(attn.bq, Q_DIM),
    [FIELD_BK] = LAYER_VEC(attn.bk, KV_DIM),
    [FIELD_BV] = LAYER_VEC(attn.bv, KV_DIM),
    [FIELD_BO] = LAYER_VEC(attn.bo, DIM),
    [FIELD_FFN_NORM] = LAYER_VEC(ffn_norm, DIM),
    [FIELD_FFN_NORM_BIAS] = LAYER_VEC(ffn_norm_bias, DIM),
    [FIELD_W_GATE] = LAYER_MAT(ffn.w_gate, HIDDEN, DIM),
    [FIELD_W_UP] = LAYER_MAT(ffn.w_up, HIDDEN, DIM),
    [FIELD_W_DOWN] = LAYER_MAT(ffn.w_down, DIM, HIDDEN),
    [FIELD_B_GATE] = LAYER_VEC(ffn.b_gate, HIDDEN),
    [FIELD_B_UP] = LAYER_VEC(ffn.b_up, HIDDEN),
    [FIELD_B_DOWN] = LAYER_VEC(ffn.b_down, DIM),
};

static int size_of(int what, const Config *c) {
    switch (what) {
    case DIM: return c->dim;
    case HIDDEN: return c->hidden_dim;
    case Q_DIM: return c->n_heads * c->head_dim;
    case KV_DIM: return c->n_kv_heads * c->head_dim;
    case VOCAB: return c->vocab_size;
    case CTX: return c->n_ctx;
    default: return 1;
    }
}

void field_shape(int *rows, int *cols, Field field, const Config *c) {
    *rows = size_of(place[field].rows, c);
    *cols = size_of(place[field].cols, c);
}

const float *checkpoint_vector(Checkpoint *ck, const Mat *m, Error *e) {
    if (m->dtype == DTYPE_F32 && (uintptr_t)m->data % sizeof(float) == 0) return m->data;
    float *copy = checkpoint_alloc(ck, (size_t)m->cols, sizeof *copy, e);
    if (copy) mat_dequantize_row(copy, m, 0);
    return copy;
}

/* Must a model of this config have the field? Biases of the projections are there or not as a whole
 * file says; a config that promises them is checked by its reader. */
static bool required(Field field, const Config *c) {
    switch (field) {
    case FIELD_POS_EMB: return c->pos == POS_LEARNED;
    case FIELD_LM_HEAD: return !c->tied;
    case FIELD_FINAL_NORM_BIAS:
    case FIELD_ATTN_NORM_BIAS:
    case FIELD_FFN_NORM_BIAS:
    case FIELD_BQ:
    case FIELD_BK:
    case FIELD_BV:
    case FIELD_BO:
    case FIELD_B_GATE:
    case FIELD_B_UP:
    case FIELD_B_DOWN: return false;
    case FIELD_W_GATE: return c->ffn == FFN_SWIGLU;
    default: return true;
    }
}

/* A tensor that the switches leave no place for would be ignored: that changes the maths. */
static bool allowed(Field field, const Config *c) {
    switch (field) {
    case FIELD_POS_EMB: return c->pos == POS_LEARNED;
    case FIELD_W_GATE:
    case FIELD_B_GATE: return c->ffn == FFN_SWIGLU;
    case FIELD_FINAL_NORM_BIAS:
    case FIELD_ATTN_NORM_BIAS:
    case FIELD_FFN_NORM_BIAS: return c->norm == NORM_LAYERNORM;
    default: return true;
    }
}

static size_t mat_bytes(const Mat *m) {
    size_t scales = m->group ? (size_t)m->rows * (size_t)m->cols / (size_t)m->group * sizeof(float) : 0;
    return (size_t)m->rows * dtype_row_bytes(m->dtype, (size_t)m->cols) + scales;
}

int checkpoint_bind(Checkpoint *ck, Config *config, Weights *weights, Error *e) {
    const Config *c = &ck->config;
    Weights *w = weights;
    if (config_check(c, ck->path, e)) return -1;
    free(ck->layers);
    ck->layers = calloc((size_t)c->n_layers, sizeof *ck->layers);
    unsigned char *seen = calloc((size_t)c->n_layers + 1, FIELD_COUNT);
    int status = -1;
    *w = (Weights){.layers = ck->layers};
    ck->params = ck->weights_bytes = 0;
    if (!ck->layers || !seen) {
        fail(e, "%s: memory: expected some, found none", ck->path);
        goto done;
    }
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const Tensor *t = &ck->tensors[i];
        int rows, cols;
        field_shape(&rows, &cols, t->field, c);
        if (t->layer >= c->n_layers) {
            fail(e, "%s: %s: expected layers 0 to %d, found layer %d", ck->path, t->name, c->n_layers - 1, t->layer);
            goto done;
        }
        if (!allowed(t->field, c)) {
            fail(e, "%s: %s: expected no such tensor with this config, found one", ck->path, t->name);
            goto done;
        }
        if (t->mat.rows != rows || t->mat.cols != cols) {
            if (place[t->field].vector)
                fail(e, "%s: %s: shape: expected [%d], found %d x %d values", ck->path, t->name, cols, t->mat.rows,
                     t->mat.cols);
            else
                fail(e, "%s: %s: shape: expected [%d, %d], found [%d, %d]", ck->path, t->name, rows, cols, t->mat.rows,
                     t->mat.cols);
            goto done;
        }
        unsigned char *mark = &seen[(size_t)(t->layer + 1) * FIELD_COUNT + (size_t)t->field];
        if (*mark) {
            fail(e, "%s: %s: expected once, found twice", ck->path, t->name);
            goto done;
        }
        *mark = 1;
        if (t->field == FIELD_LM_HEAD && c->tied) continue; /* a copy of tok_emb that is not needed */
        char *base = t->layer < 0 ? (char *)w : (char *)&ck->layers[t->layer];
        if (place[t->field].vector) {
            const float *v = checkpoint_vector(ck, &t->mat, e);
            if (!v) goto done;
            memcpy(base + place[t->field].offset, &v, sizeof v);
        } else {
            memcpy(base + place[t->field].offset, &t->mat, sizeof t->mat);
        }
        ck->params += (size_t)rows * (size_t)cols;
        ck->weights_bytes += mat_bytes(&t->mat);
    }
    for (int layer = -1; layer < c->n_layers; layer++) {
        int first = layer < 0 ? 0 : FIELD_ATTN_NORM, last = layer < 0 ? FIELD_ATTN_NORM : FIELD_COUNT;
        for (int f = first; f < last; f++) {
            bool there = seen[(size_t)(layer + 1) * FIELD_COUNT + (size_t)f];
            if (!there && required((Field)f, c)) {
                if (layer < 0) fail(e, "%s: %s: expected the tensor, found none", ck->path, field_name((Field)f));
                else
                    fail(e, "%s: %s of layer %d: expected the tensor, found none", ck->path, field_name((Field)f),
                         layer);
                goto done;
            }
            if (layer > 0 && there != seen[FIELD_COUNT + (size_t)f]) {
                fail(e, "%s: %s of layer %d: expected as in layer 0, found %s", ck->path, field_name((Field)f), layer,
                     there ? "one" : "none");
                goto done;
            }
        }
    }
    if (c->tied) w->lm_head = w->tok_emb;
    *config = *c;
    status = 0;
done:
    free(seen);
    return status;
}

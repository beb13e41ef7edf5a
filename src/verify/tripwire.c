#include "verify/tripwire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int first_bad(const float *x, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i])) return i;
    return -1;
}

/* Operand - a weight that the file holds: a matrix, or a vector [n]; NULL where the model does not have it. */
typedef struct {
    const char *step, *name;
    const Mat *w;
    const float *x;
    int n;
} Operand;

/* Is a value of it not finite? text says which. */
static bool is_bad(char text[80], const Operand *o) {
    int rows = o->w && o->w->data ? o->w->rows : 0, i = o->x ? first_bad(o->x, o->n) : -1;
    if (i >= 0) snprintf(text, 80, "operand %s, value %d, is %g in the file", o->name, i, (double)o->x[i]);
    float *row = rows ? malloc((size_t)o->w->cols * sizeof *row) : NULL;
    for (int r = 0; row && r < rows && i < 0; r++) {
        mat_dequantize_row(row, o->w, r);
        i = first_bad(row, o->w->cols);
        if (i >= 0)
            snprintf(text, 80, "operand %s, row %d, column %d, is %g in the file", o->name, r, i, (double)row[i]);
    }
    free(row);
    return i >= 0;
}

static bool bad_ffn(char text[80], const FfnWeights *w, int dim) {
    const Operand all[] = {{"", "w_gate", &w->w_gate, NULL, 0},
                           {"", "w_up", &w->w_up, NULL, 0},
                           {"", "w_down", &w->w_down, NULL, 0},
                           {"", "b_gate", NULL, w->b_gate, w->w_up.rows},
                           {"", "b_up", NULL, w->b_up, w->w_up.rows},
                           {"", "b_down", NULL, w->b_down, dim},
                           {"", "xielu", NULL, &w->xielu.alpha_p, sizeof w->xielu / sizeof(float)}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is_bad(text, &all[i])) return true;
    return false;
}

/* The steps are seen in the order they are computed, so what went into the first bad one was finite, but for what the
 * file holds: its weights. text says which of them is bad; false: none. */
static bool bad_operand(char text[80], const Model *m, const char *step, int layer) {
    const Config *c = &m->config;
    const Weights *w = &m->weights;
    const Layer *l = &w->layers[layer < 0 ? 0 : layer];
    const AttentionWeights *a = &l->attn;
    int q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    bool whole = c->attn.qk_norm == QK_NORM_WHOLE || c->attn.qk_norm == QK_NORM_EACH_HEAD;
    const Operand all[] = {
        {"embed", "tok_emb", &w->tok_emb, NULL, 0},
        {"embed", "pos_emb", &w->pos_emb, NULL, 0},
        {"attn_norm", "attn_norm", NULL, l->attn_norm, c->dim},
        {"attn_norm", "attn_norm_bias", NULL, l->attn_norm_bias, c->dim},
        {"q", "wq", &a->wq, NULL, 0},
        {"q", "bq", NULL, a->bq, q_dim},
        {"k", "wk", &a->wk, NULL, 0},
        {"k", "bk", NULL, a->bk, kv_dim},
        {"v", "wv", &a->wv, NULL, 0},
        {"v", "bv", NULL, a->bv, kv_dim},
        {"q_rot", "q_norm", NULL, a->q_norm, whole ? q_dim : c->head_dim},
        {"q_rot", "q_norm_bias", NULL, a->q_norm_bias, c->head_dim},
        {"k_rot", "k_norm", NULL, a->k_norm, whole ? kv_dim : c->head_dim},
        {"k_rot", "k_norm_bias", NULL, a->k_norm_bias, c->head_dim},
        {"attn_out", "sinks", NULL, a->sinks, c->n_heads},
        {"attn_out", "wo", &a->wo, NULL, 0},
        {"attn_out", "bo", NULL, a->bo, c->dim},
        {"ffn_norm", "attn_post_norm", NULL, l->attn_post_norm, c->dim},
        {"ffn_norm", "ffn_norm", NULL, l->ffn_norm, c->dim},
        {"ffn_norm", "ffn_norm_bias", NULL, l->ffn_norm_bias, c->dim},
        {"router", "router", &l->moe.router, NULL, 0},
        {"router", "router_bias", NULL, l->moe.router_bias, c->moe.n_experts},
        {"ffn_out", "shared_gate", &l->moe.shared_gate, NULL, 0},
        {"out", "ffn_post_norm", NULL, l->ffn_post_norm, c->dim},
        {"final_norm", "final_norm", NULL, w->final_norm, c->dim},
        {"final_norm", "final_norm_bias", NULL, w->final_norm_bias, c->dim},
        {"logits", "lm_head", &w->lm_head, NULL, 0},
        {"logits", "lm_head_bias", NULL, w->lm_head_bias, c->vocab_size},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].step, step) == 0 && is_bad(text, &all[i])) return true;
    if (strcmp(step, "ffn_out") != 0) return false;
    if (!l->moe.experts) return bad_ffn(text, &l->ffn, c->dim);
    bool bad = bad_ffn(text, &l->moe.shared, c->dim);
    for (int i = 0; i < m->slice.n_experts && !bad; i++) bad = bad_ffn(text, &l->moe.experts[i], c->dim);
    return bad;
}

static void trip(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                 int pos) {
    Tripwire *t = arg;
    if (t->found.text[0]) return;
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * (size_t)cols;
        int i = first_bad(row + from, to - from);
        if (i < 0) continue;
        char where[32] = "", operand[80];
        if (layer >= 0) snprintf(where, sizeof where, "layer %d, ", layer);
        if (!bad_operand(operand, t->model, name, layer))
            snprintf(operand, sizeof operand, "every operand was finite: the result overflowed");
        fail(&t->found, "%s: %s%s, row %d (position %d), value %d: expected a finite number, found %g; %.100s", t->path,
             where, name, r, pos + r, from + i, (double)row[from + i], operand);
        return;
    }
}

void tripwire_set(Tripwire *t, State *s, const Model *m, const char *path) {
    *t = (Tripwire){.model = m, .path = path};
    s->tap = trip;
    s->tap_arg = t;
}

int tripwire_check(const Tripwire *t, Error *e) { return t->found.text[0] ? fail_again(e, &t->found) : 0; }

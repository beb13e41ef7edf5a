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

/* The steps are seen in the order they are computed, so what went into the first bad one was finite, but for what the
 * file holds: its weights. text says which of them is bad; false: none. */
static bool bad_matrix(char text[80], const char *name, const Mat *w) {
    float *row = w->data ? malloc((size_t)w->cols * sizeof *row) : NULL;
    bool bad = false;
    for (int r = 0; row && r < w->rows && !bad; r++) {
        mat_dequantize_row(row, w, r);
        int i = first_bad(row, w->cols);
        bad = i >= 0;
        if (bad) snprintf(text, 80, "operand %s, row %d, column %d, is %g in the file", name, r, i, (double)row[i]);
    }
    free(row);
    return bad;
}

static bool bad_vector(char text[80], const char *name, const float *x, int n) {
    int i = x ? first_bad(x, n) : -1;
    if (i >= 0) snprintf(text, 80, "operand %s, value %d, is %g in the file", name, i, (double)x[i]);
    return i >= 0;
}

static bool bad_ffn(char text[80], const FfnWeights *w, int dim) {
    int hidden_dim = w->w_up.rows;
    return bad_matrix(text, "w_gate", &w->w_gate) || bad_matrix(text, "w_up", &w->w_up) ||
           bad_matrix(text, "w_down", &w->w_down) || bad_vector(text, "b_gate", w->b_gate, hidden_dim) ||
           bad_vector(text, "b_up", w->b_up, hidden_dim) || bad_vector(text, "b_down", w->b_down, dim);
}

static bool bad_operand(char text[80], const Model *m, const char *step, int layer) {
    const Config *c = &m->config;
    const Weights *w = &m->weights;
    const Layer *l = layer < 0 ? NULL : &w->layers[layer];
    int q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    if (strcmp(step, "embed") == 0)
        return bad_matrix(text, "tok_emb", &w->tok_emb) || bad_matrix(text, "pos_emb", &w->pos_emb);
    if (strcmp(step, "final_norm") == 0)
        return bad_vector(text, "final_norm", w->final_norm, c->dim) ||
               bad_vector(text, "final_norm_bias", w->final_norm_bias, c->dim);
    if (strcmp(step, "logits") == 0) return bad_matrix(text, "lm_head", &w->lm_head);
    if (!l) return false;
    if (strcmp(step, "attn_norm") == 0)
        return bad_vector(text, "attn_norm", l->attn_norm, c->dim) ||
               bad_vector(text, "attn_norm_bias", l->attn_norm_bias, c->dim);
    if (strcmp(step, "ffn_norm") == 0)
        return bad_vector(text, "ffn_norm", l->ffn_norm, c->dim) ||
               bad_vector(text, "ffn_norm_bias", l->ffn_norm_bias, c->dim);
    if (strcmp(step, "q") == 0) return bad_matrix(text, "wq", &l->attn.wq) || bad_vector(text, "bq", l->attn.bq, q_dim);
    if (strcmp(step, "k") == 0)
        return bad_matrix(text, "wk", &l->attn.wk) || bad_vector(text, "bk", l->attn.bk, kv_dim);
    if (strcmp(step, "v") == 0)
        return bad_matrix(text, "wv", &l->attn.wv) || bad_vector(text, "bv", l->attn.bv, kv_dim);
    if (strcmp(step, "attn_out") == 0)
        return bad_matrix(text, "wo", &l->attn.wo) || bad_vector(text, "bo", l->attn.bo, c->dim);
    if (strcmp(step, "router") == 0)
        return bad_matrix(text, "router", &l->moe.router) ||
               bad_vector(text, "router_bias", l->moe.router_bias, c->moe.n_experts);
    if (strcmp(step, "ffn_out") == 0 && l->moe.experts) {
        bool bad = bad_ffn(text, &l->moe.shared, c->dim) || bad_matrix(text, "shared_gate", &l->moe.shared_gate);
        for (int i = 0; i < m->slice.n_experts && !bad; i++) bad = bad_ffn(text, &l->moe.experts[i], c->dim);
        return bad;
    }
    if (strcmp(step, "ffn_out") == 0) return bad_ffn(text, &l->ffn, c->dim);
    return false;
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

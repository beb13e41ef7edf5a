/* write_llama2c - llama2.c's .bin: v0 in f32, v2 in int8 groups. Source: export.py there. */
#include <math.h>
#include <string.h>

#include "convert/writer.h"
#include "kernels/quantize.h"

static int write_bin_list(Writer *w, const Field *list, int n, int group) {
    for (int i = 0; i < n; i++) {
        int layers = list[i] < FIELD_ATTN_NORM ? 1 : w->config.n_layers;
        for (int l = 0; l < layers; l++) {
            int layer = list[i] < FIELD_ATTN_NORM ? -1 : l, rows, cols;
            if (!group || field_is_vector(list[i])) {
                const Target t = {.layer = layer, .n = 1, .field = {list[i]}, .type = DTYPE_F32};
                if (write_target(w, &t)) return -1;
                continue;
            }
            /* int8 values of all rows, then the scales of all groups: two passes over the rows */
            Mat m = field_mat(w->weights, w->source, list[i], layer, 0);
            field_shape(&rows, &cols, list[i], &w->config);
            for (int pass = 0; pass < 2; pass++) {
                for (int r = 0; r < rows; r++) {
                    if (writer_stopped(w)) return -1;
                    target_row(w, list[i], &m, r);
                    if (!floats_finite(w->sum, (size_t)cols)) return refuse_row(w, list[i], r, DTYPE_Q8_0);
                    for (int c = 0; c < cols; c += group) {
                        float max = 0;
                        for (int k = 0; k < group; k++) max = fmaxf(max, fabsf(w->sum[c + k]));
                        float scale = max / 127;
                        int8_t *q = (int8_t *)w->packed;
                        for (int k = 0; k < group; k++) q[k] = scale > 0 ? (int8_t)roundf(w->sum[c + k] / scale) : 0;
                        if (pass == 0) write_bytes(w, q, (size_t)group);
                        else write_bytes(w, &scale, sizeof scale);
                    }
                }
            }
        }
    }
    return 0;
}

/* Nothing but what llama2.c computes. */
static bool plain_llama(const Config *c, const Weights *w) {
    const AttentionConfig *a = &c->attn;
    bool attention = a->scale == 0 && a->softcap == 0 && a->clamp == 0 && a->qk_norm == QK_NORM_NONE &&
                     a->temperature == 0 && a->temperature_ctx == 0 && !a->see_ahead && !a->unscaled && !a->interleaved;
    bool scales = c->embedding_scale != 0 || c->residual_scale != 0 || c->logit_scale != 0 || c->logit_softcap != 0;
    bool norms = c->no_pre_norm || c->parallel || c->norm_offset != 0 || w->layers[0].attn_post_norm;
    for (int i = 0; i < c->n_layers; i++) {
        const AttentionWeights *l = &w->layers[i].attn;
        if (l->rope != ROPE_MAIN || (l->window && l->window < c->n_ctx)) return false;
    }
    return c->norm == NORM_RMSNORM && c->ffn == FFN_SWIGLU && c->pos == POS_ROPE && !c->moe.n_experts && !scales &&
           !norms && attention;
}

int write_llama2c(Writer *w) {
    static const Field v0[] = {FIELD_TOK_EMB,  FIELD_ATTN_NORM, FIELD_WQ,     FIELD_WK,   FIELD_WV,        FIELD_WO,
                               FIELD_FFN_NORM, FIELD_W_GATE,    FIELD_W_DOWN, FIELD_W_UP, FIELD_FINAL_NORM};
    static const Field norms[] = {FIELD_ATTN_NORM, FIELD_FFN_NORM, FIELD_FINAL_NORM};
    static const Field mats[] = {FIELD_TOK_EMB, FIELD_WQ,     FIELD_WK,     FIELD_WV,
                                 FIELD_WO,      FIELD_W_GATE, FIELD_W_DOWN, FIELD_W_UP};
    static const Field head[] = {FIELD_LM_HEAD};
    const Config *c = &w->config;
    const RopeConfig *r = &c->rope;
    const char *path = w->ck->path;
    if (!plain_llama(c, w->weights))
        return fail(w->e, "%s: architecture: expected a LLaMA for .bin, found %s", path, w->ck->arch);
    if (r->theta != 10000 || r->scaling != ROPE_SCALING_NONE || r->freq_factors)
        return fail(w->e, "%s: rope: expected theta 10000 without scaling for .bin, found theta %g%s", path, r->theta,
                    r->scaling != ROPE_SCALING_NONE || r->freq_factors ? " and scaling" : "");
    if (c->norm_eps != 1e-5f)
        return fail(w->e, "%s: norm eps: expected 1e-05 for .bin, found %g", path, (double)c->norm_eps);
    if (c->head_dim * c->n_heads != c->dim || r->rotary_dim != c->head_dim)
        return fail(w->e, "%s: head_dim: expected dim / n_heads = %d for .bin, found %d", path, c->dim / c->n_heads,
                    c->head_dim);
    if (w->weights->layers[0].attn.bq || w->weights->layers[0].ffn.b_up)
        return fail(w->e, "%s: biases: expected none for .bin, found some", path);
    const Mix *mix = w->options->mix;
    DType type = mix ? mix_base(mix) : DTYPE_F32;
    if (type != DTYPE_F32 && type != DTYPE_Q8_0)
        return fail(w->e, "--type: expected f32 or q8_0 for .bin, found %s", mix_name(mix));
    int group = type == DTYPE_Q8_0 ? 64 : 0;
    while (group && (c->dim % group || c->hidden_dim % group)) group /= 2;
    if (type == DTYPE_Q8_0 && group < 2)
        return fail(w->e, "%s: dim: expected an even one for groups of int8, found %d", path, c->dim);
    int32_t header[7] = {c->dim, c->hidden_dim, c->n_layers, c->n_heads, c->n_kv_heads, c->vocab_size, c->n_ctx};
    if (!group) {
        if (!c->tied) header[5] = -header[5];
        write_bytes(w, header, sizeof header);
        if (write_bin_list(w, v0, 11, 0)) return -1;
        float zero = 0; /* the tables of cos and sin, which llama2.c skips */
        for (size_t i = 0; i < (size_t)c->n_ctx * (size_t)c->head_dim; i++) write_bytes(w, &zero, sizeof zero);
    } else {
        unsigned char start[256] = {0};
        const uint32_t magic = 0x616b3432, version = 2;
        const int32_t size = group;
        memcpy(start, &magic, 4);
        memcpy(start + 4, &version, 4);
        memcpy(start + 8, header, sizeof header);
        start[36] = c->tied;
        memcpy(start + 37, &size, 4);
        write_bytes(w, start, sizeof start);
        if (write_bin_list(w, norms, 3, 0) || write_bin_list(w, mats, 8, group)) return -1;
    }
    return c->tied ? 0 : write_bin_list(w, head, 1, group);
}

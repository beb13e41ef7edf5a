#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/arch.h"

#define L "model.layers.#."

/* Names: '#' is the layer, '@' the expert, or the head; NULL: the style has no such tensor. The last ones hold several
 * fields. */
static const struct {
    const char *canonical, *file[STYLES];
} names[FIELD_END] = {
    [FIELD_TOK_EMB] = {"tok_emb", {"model.embed_tokens.weight", "wte.weight", "token_embd.weight"}},
    [FIELD_POS_EMB] = {"pos_emb", {"model.embed_positions.weight", "wpe.weight", "position_embd.weight"}},
    [FIELD_FINAL_NORM] = {"final_norm", {"model.norm.weight", "ln_f.weight", "output_norm.weight"}},
    [FIELD_FINAL_NORM_BIAS] = {"final_norm_bias", {"model.norm.bias", "ln_f.bias", "output_norm.bias"}},
    [FIELD_LM_HEAD] = {"lm_head", {"lm_head.weight", "lm_head.weight", "output.weight"}},
    [FIELD_LM_HEAD_BIAS] = {"lm_head_bias", {"lm_head.bias", NULL, "output.bias"}},
    [FIELD_ATTN_NORM] = {"attn_norm", {L "input_layernorm.weight", "h.#.ln_1.weight", "blk.#.attn_norm.weight"}},
    [FIELD_ATTN_NORM_BIAS] = {"attn_norm_bias", {L "input_layernorm.bias", "h.#.ln_1.bias", "blk.#.attn_norm.bias"}},
    [FIELD_WQ] = {"wq", {L "self_attn.q_proj.weight", NULL, "blk.#.attn_q.weight"}},
    [FIELD_WK] = {"wk", {L "self_attn.k_proj.weight", NULL, "blk.#.attn_k.weight"}},
    [FIELD_WV] = {"wv", {L "self_attn.v_proj.weight", NULL, "blk.#.attn_v.weight"}},
    [FIELD_WO] = {"wo", {L "self_attn.o_proj.weight", "h.#.attn.c_proj.weight", "blk.#.attn_output.weight"}},
    [FIELD_BQ] = {"bq", {L "self_attn.q_proj.bias", NULL, "blk.#.attn_q.bias"}},
    [FIELD_BK] = {"bk", {L "self_attn.k_proj.bias", NULL, "blk.#.attn_k.bias"}},
    [FIELD_BV] = {"bv", {L "self_attn.v_proj.bias", NULL, "blk.#.attn_v.bias"}},
    [FIELD_BO] = {"bo", {L "self_attn.o_proj.bias", "h.#.attn.c_proj.bias", "blk.#.attn_output.bias"}},
    [FIELD_FFN_NORM] = {"ffn_norm", {L "post_attention_layernorm.weight", "h.#.ln_2.weight", "blk.#.ffn_norm.weight"}},
    [FIELD_FFN_NORM_BIAS] = {"ffn_norm_bias",
                             {L "post_attention_layernorm.bias", "h.#.ln_2.bias", "blk.#.ffn_norm.bias"}},
    [FIELD_W_GATE] = {"w_gate", {L "mlp.gate_proj.weight", NULL, "blk.#.ffn_gate.weight"}},
    [FIELD_W_UP] = {"w_up", {L "mlp.up_proj.weight", "h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight"}},
    [FIELD_W_DOWN] = {"w_down", {L "mlp.down_proj.weight", "h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight"}},
    [FIELD_B_GATE] = {"b_gate", {L "mlp.gate_proj.bias", NULL, "blk.#.ffn_gate.bias"}},
    [FIELD_B_UP] = {"b_up", {L "mlp.up_proj.bias", "h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias"}},
    [FIELD_B_DOWN] = {"b_down", {L "mlp.down_proj.bias", "h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias"}},
    [FIELD_Q_NORM] = {"q_norm", {L "self_attn.q_norm.weight", NULL, "blk.#.attn_q_norm.weight"}},
    [FIELD_K_NORM] = {"k_norm", {L "self_attn.k_norm.weight", NULL, "blk.#.attn_k_norm.weight"}},
    [FIELD_Q_NORM_BIAS] = {"q_norm_bias", {NULL, NULL, NULL}},
    [FIELD_K_NORM_BIAS] = {"k_norm_bias", {NULL, NULL, NULL}},
    [FIELD_ATTN_POST_NORM] = {"attn_post_norm", {NULL, NULL, "blk.#.post_attention_norm.weight"}},
    [FIELD_FFN_POST_NORM] = {"ffn_post_norm", {NULL, NULL, "blk.#.post_ffw_norm.weight"}},
    [FIELD_SINKS] = {"sinks", {L "self_attn.sinks", NULL, "blk.#.attn_sinks.weight"}},
    [FIELD_XIELU_ALPHA_P] = {"alpha_p", {L "mlp.act_fn.alpha_p", NULL, NULL}},
    [FIELD_XIELU_ALPHA_N] = {"alpha_n", {L "mlp.act_fn.alpha_n", NULL, NULL}},
    [FIELD_XIELU_BETA] = {"beta", {L "mlp.act_fn.beta", NULL, NULL}},
    [FIELD_XIELU_EPS] = {"eps", {L "mlp.act_fn.eps", NULL, NULL}},
    [FIELD_ROUTER] = {"router", {L "mlp.gate.weight", NULL, "blk.#.ffn_gate_inp.weight"}},
    [FIELD_ROUTER_BIAS] = {"router_bias", {NULL, NULL, "blk.#.ffn_gate_inp.bias"}},
    [FIELD_SHARED_SCALE] = {"shared_gate",
                            {L "mlp.shared_expert_gate.weight", NULL, "blk.#.ffn_gate_inp_shexp.weight"}},
    [FIELD_SHARED_GATE] = {"shared.w_gate",
                           {L "mlp.shared_expert.gate_proj.weight", NULL, "blk.#.ffn_gate_shexp.weight"}},
    [FIELD_SHARED_UP] = {"shared.w_up", {L "mlp.shared_expert.up_proj.weight", NULL, "blk.#.ffn_up_shexp.weight"}},
    [FIELD_SHARED_DOWN] = {"shared.w_down",
                           {L "mlp.shared_expert.down_proj.weight", NULL, "blk.#.ffn_down_shexp.weight"}},
    [FIELD_EXPERT_GATE] = {"experts.w_gate", {L "mlp.experts.@.gate_proj.weight", NULL, "blk.#.ffn_gate.@.weight"}},
    [FIELD_EXPERT_UP] = {"experts.w_up", {L "mlp.experts.@.up_proj.weight", NULL, "blk.#.ffn_up.@.weight"}},
    [FIELD_EXPERT_DOWN] = {"experts.w_down", {L "mlp.experts.@.down_proj.weight", NULL, "blk.#.ffn_down.@.weight"}},
    [FIELD_EXPERT_GATE_BIAS] = {"experts.b_gate", {NULL, NULL, NULL}},
    [FIELD_EXPERT_UP_BIAS] = {"experts.b_up", {NULL, NULL, NULL}},
    [FIELD_EXPERT_DOWN_BIAS] = {"experts.b_down", {NULL, NULL, NULL}},
    [FIELD_QKV] = {"wqkv", {NULL, "h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight"}},
    [FIELD_QKV_BIAS] = {"bqkv", {NULL, "h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias"}},
    [FIELD_GATE_UP] = {"w_gate_up", {NULL, NULL, NULL}},
    [FIELD_SHARED_GATE_UP] = {"shared.w_gate_up", {NULL, NULL, NULL}},
    [FIELD_Q_NORMS] = {"q_norm", {NULL, NULL, NULL}},
    [FIELD_K_NORMS] = {"k_norm", {NULL, NULL, NULL}},
    [FIELD_EXPERTS_GATE] = {"experts.w_gate", {NULL, NULL, "blk.#.ffn_gate_exps.weight"}},
    [FIELD_EXPERTS_UP] = {"experts.w_up", {NULL, NULL, "blk.#.ffn_up_exps.weight"}},
    [FIELD_EXPERTS_DOWN] = {"experts.w_down", {L "mlp.experts.down_proj", NULL, "blk.#.ffn_down_exps.weight"}},
    [FIELD_EXPERTS_GATE_UP] = {"experts.w_gate_up",
                               {L "mlp.experts.gate_up_proj", NULL, "blk.#.ffn_gate_up_exps.weight"}},
    [FIELD_EXPERTS_GATE_BIAS] = {"experts.b_gate", {NULL, NULL, "blk.#.ffn_gate_exps.bias"}},
    [FIELD_EXPERTS_UP_BIAS] = {"experts.b_up", {NULL, NULL, "blk.#.ffn_up_exps.bias"}},
    [FIELD_EXPERTS_DOWN_BIAS] = {"experts.b_down", {NULL, NULL, "blk.#.ffn_down_exps.bias"}},
    [FIELD_EXPERTS_GATE_UP_BIAS] = {"experts.b_gate_up", {NULL, NULL, NULL}},
};

#define FUSED(f, ...) [FIELD_##f - FIELD_COUNT] = {FIELD_##f, __VA_ARGS__}
const FusedField fused_fields[FIELD_END - FIELD_COUNT] = {
    FUSED(QKV, 3, {FIELD_WQ, FIELD_WK, FIELD_WV}),
    FUSED(QKV_BIAS, 3, {FIELD_BQ, FIELD_BK, FIELD_BV}),
    FUSED(GATE_UP, 2, {FIELD_W_GATE, FIELD_W_UP}),
    FUSED(SHARED_GATE_UP, 2, {FIELD_SHARED_GATE, FIELD_SHARED_UP}),
    FUSED(Q_NORMS, 1, {FIELD_Q_NORM}),
    FUSED(K_NORMS, 1, {FIELD_K_NORM}),
    FUSED(EXPERTS_GATE, 1, {FIELD_EXPERT_GATE}),
    FUSED(EXPERTS_UP, 1, {FIELD_EXPERT_UP}),
    FUSED(EXPERTS_DOWN, 1, {FIELD_EXPERT_DOWN}),
    FUSED(EXPERTS_GATE_UP, 2, {FIELD_EXPERT_GATE, FIELD_EXPERT_UP}),
    FUSED(EXPERTS_GATE_BIAS, 1, {FIELD_EXPERT_GATE_BIAS}),
    FUSED(EXPERTS_UP_BIAS, 1, {FIELD_EXPERT_UP_BIAS}),
    FUSED(EXPERTS_DOWN_BIAS, 1, {FIELD_EXPERT_DOWN_BIAS}),
    FUSED(EXPERTS_GATE_UP_BIAS, 2, {FIELD_EXPERT_GATE_BIAS, FIELD_EXPERT_UP_BIAS}),
};

/* What a size of a field is, and when a model must have it, or may have it. */
typedef enum { ONE, DIM, HIDDEN, EXPERTS, SHARED, HEADS, Q_DIM, KV_DIM, Q_NORM, K_NORM, VOCAB, CTX } Size;
typedef enum {
    NEVER,
    ALWAYS,
    LEARNED,
    DENSE, /* no experts in the layer */
    GATED, /* ... and the FFN gates */
    MIXED, /* experts */
    BIASED_EXPERTS,
    WITH_SHARED,  /* an expert for all tokens */
    SHARED_GATED, /* ... with a gate of its own */
    SINKS,
    LAYERNORM,
    UNTIED,
    WEIGHED,       /* norms have weights */
    BEFORE,        /* ... and there is one before attention */
    WITH_FFN,      /* ... and one before the FFN, not the same */
    POST,          /* norms of what the blocks add */
    QK_NORMS,      /* norms of q and k */
    QK_BIASES,     /* ... with biases (Phi) */
    WITH_HEADBIAS, /* the head has a bias */
    XIELU          /* the activation has numbers */
} When;
typedef enum { IS_MAT, IS_VECTOR, IS_NUMBER } Kind; /* a Mat, a pointer to f32 values, a float */
enum { BY_PAIRS = 1, OF_KV = 2, IS_NORM = 4 };

/* clang-format off */
#define MODEL_MAT(m, r, c) offsetof(Weights, m), IS_MAT, r, c
#define MODEL_VEC(m, c)    offsetof(Weights, m), IS_VECTOR, ONE, c
#define LAYER_MAT(m, r, c) offsetof(Layer, m), IS_MAT, r, c
#define LAYER_VEC(m, c)    offsetof(Layer, m), IS_VECTOR, ONE, c
#define LAYER_NUMBER(m)    offsetof(Layer, m), IS_NUMBER, ONE, ONE
#define EXPERT_MAT(m, r, c) offsetof(FfnWeights, m), IS_MAT, r, c
#define EXPERT_VEC(m, c)    offsetof(FfnWeights, m), IS_VECTOR, ONE, c
/* clang-format on */

/* Places and shapes. */
static const struct {
    size_t offset;
    Kind kind;
    Size rows, cols;
    When needed, allowed;
    unsigned rows_are;
} places[FIELD_COUNT] = {
    [FIELD_TOK_EMB] = {MODEL_MAT(tok_emb, VOCAB, DIM), ALWAYS, ALWAYS},
    [FIELD_POS_EMB] = {MODEL_MAT(pos_emb, CTX, DIM), LEARNED, LEARNED},
    [FIELD_FINAL_NORM] = {MODEL_VEC(final_norm, DIM), WEIGHED, WEIGHED, IS_NORM},
    [FIELD_FINAL_NORM_BIAS] = {MODEL_VEC(final_norm_bias, DIM), NEVER, LAYERNORM},
    [FIELD_LM_HEAD] = {MODEL_MAT(lm_head, VOCAB, DIM), UNTIED, ALWAYS},
    [FIELD_LM_HEAD_BIAS] = {MODEL_VEC(lm_head_bias, VOCAB), WITH_HEADBIAS, WITH_HEADBIAS},
    [FIELD_ATTN_NORM] = {LAYER_VEC(attn_norm, DIM), BEFORE, BEFORE, IS_NORM},
    [FIELD_ATTN_NORM_BIAS] = {LAYER_VEC(attn_norm_bias, DIM), NEVER, LAYERNORM},
    [FIELD_WQ] = {LAYER_MAT(attn.wq, Q_DIM, DIM), ALWAYS, ALWAYS, BY_PAIRS},
    [FIELD_WK] = {LAYER_MAT(attn.wk, KV_DIM, DIM), ALWAYS, ALWAYS, BY_PAIRS | OF_KV},
    [FIELD_WV] = {LAYER_MAT(attn.wv, KV_DIM, DIM), ALWAYS, ALWAYS, OF_KV},
    [FIELD_WO] = {LAYER_MAT(attn.wo, DIM, Q_DIM), ALWAYS, ALWAYS},
    [FIELD_BQ] = {LAYER_VEC(attn.bq, Q_DIM), NEVER, ALWAYS, BY_PAIRS},
    [FIELD_BK] = {LAYER_VEC(attn.bk, KV_DIM), NEVER, ALWAYS, BY_PAIRS | OF_KV},
    [FIELD_BV] = {LAYER_VEC(attn.bv, KV_DIM), NEVER, ALWAYS, OF_KV},
    [FIELD_BO] = {LAYER_VEC(attn.bo, DIM), NEVER, ALWAYS},
    [FIELD_FFN_NORM] = {LAYER_VEC(ffn_norm, DIM), WITH_FFN, BEFORE, IS_NORM},
    [FIELD_FFN_NORM_BIAS] = {LAYER_VEC(ffn_norm_bias, DIM), NEVER, LAYERNORM},
    [FIELD_W_GATE] = {LAYER_MAT(ffn.w_gate, HIDDEN, DIM), GATED, GATED},
    [FIELD_W_UP] = {LAYER_MAT(ffn.w_up, HIDDEN, DIM), DENSE, DENSE},
    [FIELD_W_DOWN] = {LAYER_MAT(ffn.w_down, DIM, HIDDEN), DENSE, DENSE},
    [FIELD_B_GATE] = {LAYER_VEC(ffn.b_gate, HIDDEN), NEVER, GATED},
    [FIELD_B_UP] = {LAYER_VEC(ffn.b_up, HIDDEN), NEVER, DENSE},
    [FIELD_B_DOWN] = {LAYER_VEC(ffn.b_down, DIM), NEVER, DENSE},
    [FIELD_Q_NORM] = {LAYER_VEC(attn.q_norm, Q_NORM), QK_NORMS, QK_NORMS, BY_PAIRS | IS_NORM},
    [FIELD_K_NORM] = {LAYER_VEC(attn.k_norm, K_NORM), QK_NORMS, QK_NORMS, BY_PAIRS | IS_NORM},
    [FIELD_Q_NORM_BIAS] = {LAYER_VEC(attn.q_norm_bias, Q_NORM), QK_BIASES, QK_BIASES, BY_PAIRS},
    [FIELD_K_NORM_BIAS] = {LAYER_VEC(attn.k_norm_bias, K_NORM), QK_BIASES, QK_BIASES, BY_PAIRS},
    [FIELD_ATTN_POST_NORM] = {LAYER_VEC(attn_post_norm, DIM), POST, POST, IS_NORM},
    [FIELD_FFN_POST_NORM] = {LAYER_VEC(ffn_post_norm, DIM), POST, POST, IS_NORM},
    [FIELD_SINKS] = {LAYER_VEC(attn.sinks, HEADS), SINKS, SINKS},
    [FIELD_XIELU_ALPHA_P] = {LAYER_NUMBER(ffn.xielu.alpha_p), XIELU, XIELU},
    [FIELD_XIELU_ALPHA_N] = {LAYER_NUMBER(ffn.xielu.alpha_n), XIELU, XIELU},
    [FIELD_XIELU_BETA] = {LAYER_NUMBER(ffn.xielu.beta), XIELU, XIELU},
    [FIELD_XIELU_EPS] = {LAYER_NUMBER(ffn.xielu.eps), XIELU, XIELU},
    [FIELD_ROUTER] = {LAYER_MAT(moe.router, EXPERTS, DIM), MIXED, MIXED},
    [FIELD_ROUTER_BIAS] = {LAYER_VEC(moe.router_bias, EXPERTS), BIASED_EXPERTS, BIASED_EXPERTS},
    [FIELD_SHARED_SCALE] = {LAYER_MAT(moe.shared_gate, ONE, DIM), SHARED_GATED, SHARED_GATED},
    [FIELD_SHARED_GATE] = {LAYER_MAT(moe.shared.w_gate, SHARED, DIM), WITH_SHARED, WITH_SHARED},
    [FIELD_SHARED_UP] = {LAYER_MAT(moe.shared.w_up, SHARED, DIM), WITH_SHARED, WITH_SHARED},
    [FIELD_SHARED_DOWN] = {LAYER_MAT(moe.shared.w_down, DIM, SHARED), WITH_SHARED, WITH_SHARED},
    [FIELD_EXPERT_GATE] = {EXPERT_MAT(w_gate, HIDDEN, DIM), MIXED, MIXED},
    [FIELD_EXPERT_UP] = {EXPERT_MAT(w_up, HIDDEN, DIM), MIXED, MIXED},
    [FIELD_EXPERT_DOWN] = {EXPERT_MAT(w_down, DIM, HIDDEN), MIXED, MIXED},
    [FIELD_EXPERT_GATE_BIAS] = {EXPERT_VEC(b_gate, HIDDEN), BIASED_EXPERTS, BIASED_EXPERTS},
    [FIELD_EXPERT_UP_BIAS] = {EXPERT_VEC(b_up, HIDDEN), BIASED_EXPERTS, BIASED_EXPERTS},
    [FIELD_EXPERT_DOWN_BIAS] = {EXPERT_VEC(b_down, DIM), BIASED_EXPERTS, BIASED_EXPERTS},
};

const char *field_name(int field) { return names[field].canonical; }
bool field_is_vector(Field field) { return places[field].kind != IS_MAT; }
bool field_by_pairs(Field field) { return places[field].rows_are & BY_PAIRS; }
bool field_is_norm(Field field) { return places[field].rows_are & IS_NORM; }
bool field_of_kv(Field field) { return places[field].rows_are & OF_KV; }
bool field_of_head(int field) { return field == FIELD_Q_NORMS || field == FIELD_K_NORMS; }
bool field_of_expert(int field) { return field >= FIELD_EXPERT_GATE && field < FIELD_COUNT; }

static const TensorName *renamed(const Arch *a, Style style) {
    return style == STYLE_GGUF ? a->gguf_names : a->tensors;
}

static const char *pattern_of(const Arch *a, Style style, int field) {
    for (const TensorName *t = renamed(a, style); t && t->field != FIELD_END; t++)
        if (t->field == field) return t->name;
    return names[field].file[style];
}

/* Does name equal the pattern, with '#' a layer number without leading zeros, '@' that of an expert? */
static bool matches(const char *name, size_t n, const char *pattern, FieldPlace *at) {
    size_t i = 0;
    at->layer = -1;
    at->expert = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '#' && *pattern != '@') {
            if (i == n || name[i++] != *pattern) return false;
            continue;
        }
        size_t digits = 0;
        int value = 0;
        for (; i < n && name[i] >= '0' && name[i] <= '9' && digits < 6; i++, digits++)
            value = 10 * value + (name[i] - '0');
        if (digits == 0 || (digits > 1 && name[i - digits] == '0')) return false;
        *(*pattern == '#' ? &at->layer : &at->expert) = value;
    }
    return i == n;
}

bool field_find(FieldPlace *at, const Arch *a, Style style, const char *name, size_t n) {
    for (const TensorName *t = renamed(a, style); t && t->field != FIELD_END; t++) { /* also a second name of a field */
        at->field = t->field;
        if (t->name && matches(name, n, t->name, at)) return true;
    }
    for (at->field = 0; at->field < FIELD_END; at->field++) {
        const char *pattern = pattern_of(a, style, at->field);
        if (pattern && matches(name, n, pattern, at)) return true;
    }
    return false;
}

const char *field_path(char out[80], const Arch *a, Style style, int field, int layer, int expert) {
    const char *pattern = pattern_of(a, style, field);
    size_t n = 0;
    if (!pattern) return NULL;
    for (; *pattern && n < 79; pattern++) {
        if (*pattern == '#' || *pattern == '@')
            n += (size_t)snprintf(out + n, 80 - n, "%d", *pattern == '#' ? layer : expert);
        else out[n++] = *pattern;
    }
    out[n < 79 ? n : 79] = 0;
    return out;
}

static int size_of(Size what, const Config *c) {
    bool per_head = c->attn.qk_norm == QK_NORM_HEAD || c->attn.qk_norm == QK_NORM_AFTER_ROPE;
    switch (what) {
    case HEADS: return c->n_heads;
    case Q_NORM: return per_head ? c->head_dim : c->n_heads * c->head_dim;
    case K_NORM: return per_head ? c->head_dim : c->n_kv_heads * c->head_dim;
    case DIM: return c->dim;
    case HIDDEN: return c->hidden_dim;
    case EXPERTS: return c->moe.n_experts;
    case SHARED: return c->moe.shared_dim;
    case Q_DIM: return c->n_heads * c->head_dim;
    case KV_DIM: return c->n_kv_heads * c->head_dim;
    case VOCAB: return c->vocab_size;
    case CTX: return c->n_ctx;
    case ONE: break;
    }
    return 1;
}

void field_shape(int *n_rows, int *n_cols, Field field, const Config *c) {
    *n_rows = size_of(places[field].rows, c);
    *n_cols = size_of(places[field].cols, c);
}

static const char *place_of(const Weights *w, const Layer *layers, Field field, int layer, int expert) {
    const void *base = layer < 0 ? (const void *)w : &layers[layer];
    if (field_of_expert(field)) base = &layers[layer].moe.experts[expert];
    return (const char *)base + places[field].offset;
}

Mat field_mat(const Weights *w, const Config *c, Field field, int layer, int expert) {
    if (field_of_expert(field) && !c->moe.n_experts) return (Mat){0};
    const void *place = place_of(w, w->layers, field, layer, expert);
    if (places[field].kind == IS_MAT) return *(const Mat *)place;
    bool there = places[field].kind == IS_VECTOR || c->ffn == FFN_XIELU;
    const float *v = places[field].kind == IS_VECTOR ? *(const float *const *)place : there ? place : NULL;
    int cols = size_of(places[field].cols, c);
    return (Mat){.dtype = DTYPE_F32, .rows = 1, .cols = cols, .stride_bytes = (size_t)cols * sizeof *v, .data = v};
}

void field_set(Weights *w, Layer *layers, const Tensor *t, const Mat *m, const float *vector) {
    char *place = (char *)(uintptr_t)place_of(w, layers, t->field, t->layer, t->expert);
    switch (places[t->field].kind) {
    case IS_MAT: memcpy(place, m, sizeof *m); break;
    case IS_VECTOR: memcpy(place, &vector, sizeof vector); break;
    case IS_NUMBER: memcpy(place, vector, sizeof *vector); break;
    }
}

static bool holds(When when, const Arch *a, const Config *c) {
    bool weighed = !(a->traits & ARCH_BARE_NORMS), before = weighed && !c->no_pre_norm;
    switch (when) {
    case NEVER: return false;
    case ALWAYS: return true;
    case LEARNED: return c->pos == POS_LEARNED;
    case DENSE: return !c->moe.n_experts;
    case GATED: return !c->moe.n_experts && ffn_is_gated(c->ffn);
    case MIXED: return c->moe.n_experts;
    case BIASED_EXPERTS: return c->moe.n_experts && a->mlp_bias == BIAS_ALWAYS;
    case WITH_SHARED: return c->moe.shared_dim;
    case SHARED_GATED: return c->moe.shared_dim && pattern_of(a, a->style, FIELD_SHARED_SCALE);
    case SINKS: return a->traits & ARCH_SINKS;
    case LAYERNORM: return c->norm == NORM_LAYERNORM;
    case UNTIED: return !c->tied;
    case WEIGHED: return weighed;
    case BEFORE: return before;
    case WITH_FFN: return before && !(c->parallel && (a->traits & ARCH_ONE_NORM));
    case POST: return a->traits & ARCH_POST_NORMS;
    case QK_NORMS: return c->attn.qk_norm != QK_NORM_NONE;
    case QK_BIASES: return c->attn.qk_norm == QK_NORM_HEAD && c->norm == NORM_LAYERNORM;
    case XIELU: return c->ffn == FFN_XIELU;
    case WITH_HEADBIAS: return a->traits & ARCH_HEAD_BIAS;
    }
    return false;
}

bool field_needed(Field field, const Arch *a, const Config *c) { return holds(places[field].needed, a, c); }
bool field_allowed(Field field, const Arch *a, const Config *c) { return holds(places[field].allowed, a, c); }

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/arch.h"

/* clang-format off */
#define INT(most) .kind = KEY_INT, .min = 1, .max = (most)
#define COUNT     .kind = KEY_INT, .min = 0, .max = INT_MAX
#define NUMBER    .kind = KEY_NUMBER, .min = -HUGE_VAL, .max = HUGE_VAL
#define FLAG      .kind = KEY_FLAG, .max = 1
#define COMMON    .common = true
#define IMPLIED   .implied = true
/* clang-format on */

const KeyInfo key_info[KEY_COUNT] = {
    [KEY_DIM] = {{"hidden_size", "n_embd", "embedding_length"}, .needed = {1, 1, 1}, COMMON, INT(1 << 20)},
    [KEY_HIDDEN_DIM] = {{"intermediate_size", "n_inner", "feed_forward_length"},
                        .needed = {1, 0, 1},
                        COMMON,
                        INT(1 << 22)},
    [KEY_N_LAYERS] = {{"num_hidden_layers", "n_layer", "block_count"}, .needed = {1, 1, 1}, COMMON, INT(4096)},
    [KEY_N_HEADS] = {{"num_attention_heads", "n_head", "attention.head_count"},
                     .needed = {1, 1, 1},
                     COMMON,
                     INT(1 << 16)},
    [KEY_N_KV_HEADS] = {{"num_key_value_heads", NULL, "attention.head_count_kv"}, COMMON, INT(1 << 16)},
    [KEY_HEAD_DIM] = {{"head_dim", NULL, "attention.key_length"}, COMMON, INT(1 << 14)},
    [KEY_VALUE_DIM] = {{NULL, NULL, "attention.value_length"}, COMMON, INT(1 << 14)},
    [KEY_VOCAB_SIZE] = {{"vocab_size", "vocab_size", "vocab_size"}, .needed = {1, 1, 0}, COMMON, INT(1 << 24)},
    [KEY_N_CTX] = {{"max_position_embeddings", "n_positions", "context_length"},
                   .needed = {0, 0, 1},
                   COMMON,
                   INT(1 << 26)},
    [KEY_NORM_EPS] = {{"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}, COMMON, NUMBER},
    [KEY_TIED] = {{"tie_word_embeddings", "tie_word_embeddings", NULL}, COMMON, FLAG},
    [KEY_QKV_BIAS] = {{"attention_bias", NULL, NULL}, COMMON, FLAG},
    [KEY_OUT_BIAS] = {{"attention_out_bias", NULL, NULL}, FLAG},
    [KEY_MLP_BIAS] = {{"mlp_bias", NULL, NULL}, COMMON, FLAG},
    [KEY_WINDOW] = {{"sliding_window", NULL, "attention.sliding_window"}, COMMON, COUNT},
    [KEY_USE_WINDOW] = {{"use_sliding_window", NULL, NULL}, COMMON, FLAG},
    [KEY_ROPE_THETA] = {{"rope_theta", NULL, "rope.freq_base"}, COMMON, NUMBER},
    [KEY_PARTIAL_ROTARY] = {{"partial_rotary_factor", NULL, NULL}, COMMON, NUMBER},
    [KEY_ROTARY_DIM] = {{NULL, NULL, "rope.dimension_count"}, COMMON, INT(1 << 14)},
    [KEY_MAX_WINDOW_LAYERS] = {{"max_window_layers", NULL, NULL}, COMMON, COUNT},
    [KEY_WINDOW_PATTERN] = {{"sliding_window_pattern", NULL, NULL}, COUNT, IMPLIED},
    [KEY_NO_ROPE_INTERVAL] = {{"no_rope_layer_interval", NULL, NULL}, COUNT, IMPLIED},
    [KEY_LOCAL_THETA] = {{"rope_local_base_freq", NULL, "rope.freq_base_swa"}, NUMBER, IMPLIED},
    [KEY_QUERY_SCALAR] = {{"query_pre_attn_scalar", NULL, NULL}, NUMBER},
    [KEY_ATTN_SCALE] = {{"attention_multiplier", NULL, "attention.scale"}, NUMBER},
    [KEY_ATTN_SOFTCAP] = {{"attn_logit_softcapping", NULL, "attn_logit_softcapping"}, NUMBER, IMPLIED},
    [KEY_LOGIT_SOFTCAP] = {{"final_logit_softcapping", NULL, "final_logit_softcapping"}, NUMBER, IMPLIED},
    [KEY_CLAMP] = {{"clip_qkv", NULL, "attention.clamp_kqv"}, NUMBER},
    [KEY_QK_NORM] = {{"use_qk_norm", NULL, NULL}, FLAG},
    [KEY_PARALLEL] = {{"use_parallel_residual", NULL, "use_parallel_residual"}, FLAG, IMPLIED},
    [KEY_NEW_DECODER] = {{"new_decoder_architecture", NULL, NULL}, FLAG},
    [KEY_TEMPERATURE] = {{NULL, NULL, "attention.temperature_scale"}, NUMBER},
    [KEY_LOGIT_DIVISOR] = {{"logits_scaling", NULL, NULL}, NUMBER, .neutral = 1},
    [KEY_DEPTH_SCALE] = {{"scale_depth", NULL, NULL}, NUMBER},
    [KEY_DIM_BASE] = {{"dim_model_base", NULL, NULL}, COUNT},
    [KEY_EMB_SCALE] = {{"embedding_multiplier", NULL, "embedding_scale"}, NUMBER, .neutral = 1},
    [KEY_RESIDUAL_SCALE] = {{"residual_multiplier", NULL, "residual_scale"}, NUMBER, .neutral = 1},
    [KEY_LOGIT_SCALE] = {{"logit_scale", NULL, "logit_scale"}, NUMBER, .neutral = 1},
    [KEY_EXPERTS] = {{"num_local_experts", NULL, "expert_count"}, COUNT},
    [KEY_EXPERTS_USED] = {{"num_experts_per_tok", NULL, "expert_used_count"}, COUNT},
    [KEY_EXPERT_DIM] = {{"moe_intermediate_size", NULL, "expert_feed_forward_length"}, COUNT},
    [KEY_SHARED_DIM] = {{"shared_expert_intermediate_size", NULL, "expert_shared_feed_forward_length"}, COUNT},
    [KEY_RENORMALIZE] = {{"norm_topk_prob", NULL, NULL}, FLAG},
    [KEY_SPARSE_STEP] = {{"decoder_sparse_step", NULL, NULL}, INT(INT_MAX)},
    [KEY_SWIGLU_ALPHA] = {{"swiglu_alpha", NULL, NULL}, NUMBER, IMPLIED},
    [KEY_SWIGLU_LIMIT] = {{"swiglu_limit", NULL, NULL}, NUMBER, IMPLIED},
    [KEY_MULTI_QUERY] = {{"multi_query", "multi_query", NULL}, FLAG},
};

static const KeyName *row_of(const Arch *a, Key key) {
    for (const KeyName *k = a->keys; k && k->key != KEY_COUNT; k++)
        if (k->key == key) return k;
    return NULL;
}

const char *key_name(const Arch *a, Style style, Key key) {
    const KeyName *row = style == STYLE_GGUF ? NULL : row_of(a, key);
    if (style == STYLE_GGUF && key == KEY_NORM_EPS && a->norm == NORM_LAYERNORM) return "attention.layer_norm_epsilon";
    return row && row->name ? row->name : key_info[key].name[style];
}

int key_find(const Arch *a, Style style, const char *name, size_t n) {
    for (const KeyName *k = style == STYLE_GGUF ? NULL : a->keys; k && k->key != KEY_COUNT; k++)
        if (k->name && strlen(k->name) == n && memcmp(k->name, name, n) == 0) return (int)k->key;
    for (int k = 0; k < KEY_COUNT; k++) {
        const char *known = key_name(a, style, (Key)k);
        if (known && strlen(known) == n && memcmp(known, name, n) == 0) return k;
    }
    return -1;
}

double key_default(const Arch *a, Key key) {
    const KeyName *row = row_of(a, key);
    return row ? row->value : NAN;
}

bool key_default_given(const Arch *a, Key key) { return row_of(a, key); }

bool key_has(const Arch *a, Key key) { return key_info[key].common || row_of(a, key); }

int key_neutral(Key key, const char *name, double found, const Config *c, const char *path, Error *e) {
    double neutral = key_info[key].neutral;
    if (key == KEY_ATTN_SCALE) neutral = 1 / sqrt((double)c->head_dim);
    if ((float)found == (float)neutral) return 0; /* files keep floats */
    return fail(e, "%s: %s: expected %g, found %g, which is not supported", path, name, neutral, found);
}

/* The name of a key for a message. */
static const char *label(char out[96], const Arch *a, Style style, Key key) {
    snprintf(out, 96, "%s%s%s", style == STYLE_GGUF ? a->gguf : "", style == STYLE_GGUF ? "." : "",
             key_name(a, style, key));
    return out;
}

static double fact(const Facts *f, Key key, double otherwise) { return f->given[key] ? f->value[key] : otherwise; }

/* What sets a family apart in the forward pass: the fields of Config that are 0 in a LLaMA. */
static void family_config(Config *c, const Arch *a, Style style, const Facts *f) {
    bool gguf = style == STYLE_GGUF;
    double layers = c->n_layers, dim = c->dim;
    c->norm_offset = !gguf && (a->traits & ARCH_PLUS_1) ? 1 : 0; /* a GGUF's norms have it folded in */
    c->no_pre_norm = a->traits & ARCH_NO_PRE_NORM;
    c->parallel = (a->traits & ARCH_PARALLEL) || fact(f, KEY_PARALLEL, 0) != 0;
    c->embedding_scale = (float)(a->traits & ARCH_SQRT_EMBEDDING ? sqrt(dim) : fact(f, KEY_EMB_SCALE, 0));
    double residual = fact(f, KEY_RESIDUAL_SCALE, 0), logits = fact(f, KEY_LOGIT_SCALE, 0);
    if (f->given[KEY_DEPTH_SCALE]) residual = f->value[KEY_DEPTH_SCALE] / sqrt(layers);
    if (f->given[KEY_DIM_BASE] && f->value[KEY_DIM_BASE] > 0) logits = f->value[KEY_DIM_BASE] / dim;
    if (f->given[KEY_LOGIT_DIVISOR]) logits = 1 / f->value[KEY_LOGIT_DIVISOR];
    if (gguf && key_default_given(a, KEY_DEPTH_SCALE)) { /* llama.cpp's defaults for old files of MiniCPM */
        c->embedding_scale = (float)fact(f, KEY_EMB_SCALE, 12);
        residual = fact(f, KEY_RESIDUAL_SCALE, 1.4 / sqrt(layers));
        logits = fact(f, KEY_LOGIT_SCALE, dim / 256);
    }
    if (gguf && (a->traits & ARCH_DIVIDED_LOGITS) && logits != 0) logits = 1 / logits;
    c->residual_scale = (float)residual;
    c->logit_scale = (float)logits;
    c->logit_softcap = (float)fact(f, KEY_LOGIT_SOFTCAP, 0);
    c->attn = (AttentionConfig){.scale = (float)fact(f, KEY_ATTN_SCALE, 0),
                                .softcap = (float)fact(f, KEY_ATTN_SOFTCAP, 0),
                                .clamp = (float)fact(f, KEY_CLAMP, 0),
                                .qk_norm = a->qk_norm};
    if (f->given[KEY_QUERY_SCALAR]) c->attn.scale = (float)(1 / sqrt(f->value[KEY_QUERY_SCALAR]));
    if (key_has(a, KEY_QK_NORM) && !gguf && fact(f, KEY_QK_NORM, 0) == 0) c->attn.qk_norm = QK_NORM_NONE;
    c->attn.temperature = (float)fact(f, KEY_TEMPERATURE, 0);
}

/* The mixture of experts; a GGUF without the width of its experts has that of the FFN. */
static int experts_config(Config *c, const Arch *a, Style style, const Facts *f, const char *path, Error *e) {
    int n = (int)fact(f, KEY_EXPERTS, 0), used = (int)fact(f, KEY_EXPERTS_USED, 0);
    char name[96];
    c->moe = (MoeConfig){0};
    if (!key_default_given(a, KEY_EXPERTS) || (n == 0 && style != STYLE_GGUF && key_default_given(a, KEY_SPARSE_STEP)))
        return 0;
    if (n < 1 || n > MOE_MOST_EXPERTS)
        return fail(e, "%s: %s: expected 1 to %d experts, found %d", path, label(name, a, style, KEY_EXPERTS),
                    MOE_MOST_EXPERTS, n);
    if (used < 1 || used > n)
        return fail(e, "%s: %s: expected 1 to the %d experts there are, found %d", path,
                    label(name, a, style, KEY_EXPERTS_USED), n, used);
    c->moe = (MoeConfig){.n_experts = n,
                         .n_used = used,
                         .dense_dim = key_default_given(a, KEY_SPARSE_STEP) ? c->hidden_dim : 0,
                         .shared_dim = (int)fact(f, KEY_SHARED_DIM, 0),
                         .renormalize = a->traits & ARCH_RENORMALIZED,
                         .alpha = (float)fact(f, KEY_SWIGLU_ALPHA, 0),
                         .limit = (float)fact(f, KEY_SWIGLU_LIMIT, 0)};
    c->hidden_dim = (int)fact(f, KEY_EXPERT_DIM, c->hidden_dim);
    if (style != STYLE_GGUF && key_default_given(a, KEY_RENORMALIZE))
        c->moe.renormalize = fact(f, KEY_RENORMALIZE, 0) != 0;
    return 0;
}

/* A scale that a file gives as 1, or as what is computed anyway, is none: nothing is multiplied. */
static void neutral_scales(Config *c) {
    float *one[] = {&c->embedding_scale, &c->residual_scale, &c->logit_scale};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (*one[i] == 1) *one[i] = 0;
    if (c->attn.scale == (float)(1 / sqrt((double)c->head_dim))) c->attn.scale = 0;
}

int facts_config(Config *c, const Arch *a, Style style, const Facts *f, const char *path, Error *e) {
    char name[96], other[96];
    c->norm = a->norm;
    c->ffn = a->ffn;
    c->pos = a->pos;
    c->dim = (int)f->value[KEY_DIM];
    c->n_layers = (int)f->value[KEY_N_LAYERS];
    c->n_heads = (int)f->value[KEY_N_HEADS];
    c->vocab_size = (int)fact(f, KEY_VOCAB_SIZE, 0);
    c->hidden_dim = (int)fact(f, KEY_HIDDEN_DIM, 4.0 * c->dim);
    c->n_ctx = (int)fact(f, KEY_N_CTX, 2048);
    c->n_kv_heads = (int)fact(f, KEY_N_KV_HEADS, c->n_heads);
    if (key_has(a, KEY_MULTI_QUERY) && style != STYLE_GGUF && fact(f, KEY_NEW_DECODER, 0) == 0)
        c->n_kv_heads = fact(f, KEY_MULTI_QUERY, 0) != 0 ? 1 : c->n_heads;
    if (!f->given[KEY_HEAD_DIM] && c->dim % c->n_heads)
        return fail(e, "%s: %s: expected a divisor of %s %d, found %d", path, label(name, a, style, KEY_N_HEADS),
                    label(other, a, style, KEY_DIM), c->dim, c->n_heads);
    int share = c->dim / c->n_heads;
    c->head_dim = (int)fact(f, KEY_HEAD_DIM, share);
    if (fact(f, KEY_VALUE_DIM, c->head_dim) != c->head_dim)
        return fail(e, "%s: %s: expected the key length %d, found %g", path, label(name, a, style, KEY_VALUE_DIM),
                    c->head_dim, f->value[KEY_VALUE_DIM]);
    c->norm_eps = (float)fact(f, KEY_NORM_EPS, 1e-5);
    c->tied = fact(f, KEY_TIED, 0) != 0;
    for (int k = 0; k < KEY_COUNT; k++)
        if (f->given[k] && !key_has(a, (Key)k) &&
            !(style == STYLE_GGUF && f->value[k] == 0) && /* llama.cpp: 0 is none */
            !(k == KEY_EXPERTS && f->value[k] <= 1) &&
            !(k == KEY_SHARED_DIM &&
              style == STYLE_GGUF) && /* of no experts: Granite 4, which llama.cpp calls granite */
            key_neutral((Key)k, label(name, a, style, (Key)k), f->value[k], c, path, e))
            return -1;
    family_config(c, a, style, f);
    neutral_scales(c);
    return experts_config(c, a, style, f, path, e);
}

/* The window and the RoPE of each layer, as the family has them where the file has no list. */
int layer_kinds(Checkpoint *ck, const Facts *f, const char *path, const char *prefix, Error *e) {
    const Config *c = &ck->config;
    const Arch *a = ck->family;
    bool follows_switch = a->traits & ARCH_USE_WINDOW, off = f->given[KEY_USE_WINDOW] && f->value[KEY_USE_WINDOW] == 0;
    int window = (int)fact(f, KEY_WINDOW, 0), pattern = (int)fact(f, KEY_WINDOW_PATTERN, 0);
    int no_rope = (int)fact(f, KEY_NO_ROPE_INTERVAL, 0), sparse = (int)fact(f, KEY_SPARSE_STEP, 1);
    if (!key_default_given(a, KEY_WINDOW) && window && window < c->n_ctx && !off)
        return fail(e, "%s: %s%s: expected none for a %s, found %d", path, prefix,
                    *prefix ? ".attention.sliding_window" : "sliding_window", ck->arch, window);
    if (!key_default_given(a, KEY_WINDOW) || (follows_switch && fact(f, KEY_USE_WINDOW, 0) == 0)) window = 0;
    free(ck->layer_kinds);
    LayerKind *kinds = ck->layer_kinds = calloc((size_t)c->n_layers, sizeof *kinds);
    if (!kinds) return fail(e, "%s: memory: expected some, found none", path);
    for (int i = 0; i < c->n_layers; i++) {
        bool full = pattern && (a->traits & ARCH_FIRST_FULL ? i % pattern == 0 : (i + 1) % pattern == 0);
        if (a->traits & ARCH_FIRST_WINDOWS) full |= i >= fact(f, KEY_MAX_WINDOW_LAYERS, 0);
        else if (follows_switch && key_default_given(a, KEY_MAX_WINDOW_LAYERS))
            full = i < fact(f, KEY_MAX_WINDOW_LAYERS, 0);
        bool bare = no_rope && (i + 1) % no_rope == 0;
        if (no_rope) full = !bare; /* SmolLM3: a window, where there is one, is for the layers without RoPE */
        bool dense = c->moe.n_experts && (i + 1) % sparse != 0;
        kinds[i] = (LayerKind){.windowed = window && !full, .window = window, .no_rope = bare, .dense = dense};
    }
    return 0;
}

Config dense_config(Config c) {
    c.hidden_dim = c.moe.dense_dim;
    c.moe = (MoeConfig){0};
    return c;
}

bool layer_is_dense(const Checkpoint *ck, int layer) {
    return layer >= 0 && layer < ck->config.n_layers && ck->layer_kinds && ck->layer_kinds[layer].dense;
}

Config layer_config(const Checkpoint *ck, int layer) {
    return layer_is_dense(ck, layer) ? dense_config(ck->config) : ck->config;
}

void dense_layers(Checkpoint *ck) {
    Config *c = &ck->config;
    int n = 0;
    for (int i = 0; i < c->n_layers; i++) n += ck->layer_kinds[i].dense;
    if (n == 0) c->moe.dense_dim = 0;
    if (n == c->n_layers) {
        *c = dense_config(*c);
        for (int i = 0; i < n; i++) ck->layer_kinds[i].dense = false;
    }
}

/* ... and what follows from which layers have the window. */
void layer_rope(Checkpoint *ck) {
    const Arch *a = ck->family;
    for (int i = 0; i < ck->config.n_layers; i++) {
        LayerKind *k = &ck->layer_kinds[i];
        k->rope = k->no_rope ? ROPE_NONE : ROPE_MAIN;
        if (k->windowed && (a->traits & ARCH_LOCAL_ROPE)) k->rope = ROPE_LOCAL;
        if (!k->windowed && k->window && (a->traits & ARCH_FULL_WITHOUT_ROPE)) k->rope = ROPE_NONE;
        if (!k->windowed) k->window = 0;
    }
}

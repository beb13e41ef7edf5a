#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/arch.h"

/* clang-format off */
#define INT(most) .kind = KEY_INT, .min = 1, .max = (most)
#define COUNT     .kind = KEY_INT, .min = 0, .max = INT_MAX
#define NUMBER    .kind = KEY_NUMBER, .min = -HUGE_VAL, .max = HUGE_VAL
#define FLAG      .kind = KEY_FLAG, .max = 1
#define COMMON    .common = true
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
    [KEY_ATTN_SCALE] = {{"attention_multiplier", NULL, "attention.scale"}, NUMBER},
    [KEY_EMB_SCALE] = {{"embedding_multiplier", NULL, "embedding_scale"}, NUMBER, .neutral = 1},
    [KEY_RESIDUAL_SCALE] = {{"residual_multiplier", NULL, "residual_scale"}, NUMBER, .neutral = 1},
    [KEY_LOGIT_SCALE] = {{"logit_scale", NULL, "logit_scale"}, NUMBER, .neutral = 1},
    [KEY_EXPERTS] = {{"num_local_experts", NULL, "expert_count"}, COUNT},
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
    c->n_kv_heads = fact(f, KEY_MULTI_QUERY, 0) != 0 ? 1 : (int)fact(f, KEY_N_KV_HEADS, c->n_heads);
    if (!f->given[KEY_HEAD_DIM] && c->dim % c->n_heads)
        return fail(e, "%s: %s: expected a divisor of %s %d, found %d", path, label(name, a, style, KEY_N_HEADS),
                    label(other, a, style, KEY_DIM), c->dim, c->n_heads);
    c->head_dim = (int)fact(f, KEY_HEAD_DIM, c->dim / c->n_heads);
    if (fact(f, KEY_VALUE_DIM, c->head_dim) != c->head_dim)
        return fail(e, "%s: %s: expected the key length %d, found %g", path, label(name, a, style, KEY_VALUE_DIM),
                    c->head_dim, f->value[KEY_VALUE_DIM]);
    c->norm_eps = (float)fact(f, KEY_NORM_EPS, 1e-5);
    c->tied = fact(f, KEY_TIED, 0) != 0;
    for (int k = 0; k < KEY_COUNT; k++)
        if (f->given[k] && !key_has(a, (Key)k) &&
            !(style == STYLE_GGUF && f->value[k] == 0) && /* llama.cpp: 0 is none */
            key_neutral((Key)k, label(name, a, style, (Key)k), f->value[k], c, path, e))
            return -1;
    return 0;
}

void config_facts(Facts *f, const Config *c, const Weights *w) {
    const Layer *l = &w->layers[0];
    const double value[KEY_COUNT] = {
        [KEY_DIM] = c->dim,
        [KEY_HIDDEN_DIM] = c->hidden_dim,
        [KEY_N_LAYERS] = c->n_layers,
        [KEY_N_HEADS] = c->n_heads,
        [KEY_N_KV_HEADS] = c->n_kv_heads,
        [KEY_HEAD_DIM] = c->head_dim,
        [KEY_VALUE_DIM] = c->head_dim,
        [KEY_VOCAB_SIZE] = c->vocab_size,
        [KEY_N_CTX] = c->pos == POS_ROPE && c->rope.scaling == ROPE_SCALING_DYNAMIC ? c->rope.original_ctx : c->n_ctx,
        [KEY_NORM_EPS] = (double)c->norm_eps,
        [KEY_TIED] = c->tied,
        [KEY_QKV_BIAS] = l->attn.bq != NULL,
        [KEY_MLP_BIAS] = l->ffn.b_up != NULL,
        [KEY_ROPE_THETA] = c->pos == POS_ROPE ? c->rope.theta : 10000,
        [KEY_PARTIAL_ROTARY] = c->pos == POS_ROPE ? (double)c->rope.rotary_dim / c->head_dim : 1,
        [KEY_ROTARY_DIM] = c->rope.rotary_dim,
    };
    static const bool not_written[KEY_COUNT] = {
        [KEY_WINDOW] = true,    [KEY_USE_WINDOW] = true,  [KEY_ATTN_SCALE] = true,
        [KEY_EMB_SCALE] = true, [KEY_LOGIT_SCALE] = true, [KEY_RESIDUAL_SCALE] = true,
        [KEY_EXPERTS] = true,   [KEY_MULTI_QUERY] = true, [KEY_OUT_BIAS] = true};
    for (int k = 0; k < KEY_COUNT; k++)
        *f = (k ? *f : (Facts){0}), f->value[k] = value[k], f->given[k] = !not_written[k];
}

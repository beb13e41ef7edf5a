#include <cjson/cJSON.h>
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

/* ---- Keys of config.json that change nothing ---------------------------------------------------- */

/* What values of a key change nothing. */
enum { ANY = 0, IS_NULL = 1, IS_FALSE = 2, IS_TRUE = 4, IS_0 = 8, IS_1 = 16, IS_EMPTY = 32 };

/* Keys that transformers' configurations write and that no forward pass of the families of arch.c reads, or that are
 * read and change nothing at these values. Source: configuration_utils.py (4.30 to 5.24), generation's parameters,
 * which old versions wrote here, and configuration_*.py of the families. */
static const struct {
    const char *name;
    unsigned values;
} harmless[] = {
    /* of the file */
    {"architectures", ANY},
    {"model_type", ANY},
    {"torch_dtype", ANY},
    {"dtype", ANY},
    {"transformers_version", ANY},
    {"transformers.js_config", ANY},
    {"_name_or_path", ANY},
    {"name_or_path", ANY},
    {"_commit_hash", ANY},
    {"auto_map", ANY},
    {"unsloth_fixed", ANY},
    {"unsloth_version", ANY},
    {"is_llama_config", ANY},
    /* of training, tokenizers and other tasks */
    {"use_cache", ANY},
    {"initializer_range", ANY},
    {"pretraining_tp", ANY},
    {"attention_dropout", ANY},
    {"hidden_dropout", ANY},
    {"residual_dropout", ANY},
    {"embedding_dropout", ANY},
    {"classifier_dropout", ANY},
    {"resid_pdrop", ANY},
    {"embd_pdrop", ANY},
    {"attn_pdrop", ANY},
    {"gradient_checkpointing", ANY},
    {"output_past", ANY},
    {"router_aux_loss_coef", ANY},
    {"output_router_logits", ANY},
    {"z_loss_coefficient", ANY},
    {"bos_token_id", ANY},
    {"eos_token_id", ANY},
    {"pad_token_id", ANY},
    {"sep_token_id", ANY},
    {"eod_token_id", ANY},
    {"unk_token_id", ANY},
    {"decoder_start_token_id", ANY},
    {"tokenizer_class", ANY},
    {"finetuning_task", ANY},
    {"task_specific_params", ANY},
    {"prefix", ANY},
    {"problem_type", ANY},
    {"id2label", ANY},
    {"label2id", ANY},
    {"num_labels", ANY},
    {"_num_labels", ANY},
    {"n_special", ANY},
    {"predict_special_tokens", ANY},
    {"summary_type", ANY},
    {"summary_use_proj", ANY},
    {"summary_activation", ANY},
    {"summary_first_dropout", ANY},
    {"summary_proj_to_logits", ANY},
    {"summary_proj_to_labels", ANY},
    /* how Python runs it */
    {"_attn_implementation", ANY},
    {"_attn_implementation_autoset", ANY},
    {"_attn_implementation_internal", ANY},
    {"_experts_implementation", ANY},
    {"_flash_attn_2_enabled", ANY},
    {"_output_attentions", ANY},
    {"attn_implementation", ANY},
    {"experts_implementation", ANY},
    {"use_flash_attn", ANY},
    {"cache_implementation", ANY},
    {"output_attentions", ANY},
    {"output_hidden_states", ANY},
    {"output_scores", ANY},
    {"return_dict", ANY},
    {"return_dict_in_generate", ANY},
    {"torchscript", ANY},
    {"tf_legacy_loss", ANY},
    {"use_bfloat16", ANY},
    {"chunk_size_feed_forward", ANY},
    {"reorder_and_upcast_attn", ANY},
    {"attention_softmax_in_fp32", ANY},
    {"scale_attention_softmax_in_fp32", ANY},
    {"is_decoder", ANY},
    {"keys_to_ignore_at_inference", ANY},
    /* of generation */
    {"max_length", ANY},
    {"min_length", ANY},
    {"max_new_tokens", ANY},
    {"do_sample", ANY},
    {"temperature", ANY},
    {"top_k", ANY},
    {"top_p", ANY},
    {"min_p", ANY},
    {"typical_p", ANY},
    {"repetition_penalty", ANY},
    {"length_penalty", ANY},
    {"no_repeat_ngram_size", ANY},
    {"num_beams", ANY},
    {"num_beam_groups", ANY},
    {"num_return_sequences", ANY},
    {"early_stopping", ANY},
    {"diversity_penalty", ANY},
    {"encoder_no_repeat_ngram_size", ANY},
    {"exponential_decay_length_penalty", ANY},
    {"forced_bos_token_id", ANY},
    {"forced_eos_token_id", ANY},
    {"begin_suppress_tokens", ANY},
    {"suppress_tokens", ANY},
    {"remove_invalid_values", ANY},
    {"bad_words_ids", ANY},
    /* what other readers of this file look at, or what another key says again */
    {"n_ctx", ANY},
    {"max_sequence_length", ANY},
    {"rope_interleaved", ANY}, /* of nanotron; transformers does not read it. llama_swap does, see hf_config.c */
    {"rope_scaling", ANY},
    {"rope_parameters", ANY},
    {"original_max_position_embeddings", ANY},
    {"max_window_layers", ANY},
    {"layer_types", ANY},
    {"norm", ANY},
    {"ffn", ANY},
    {"positions", ANY},
    {"hidden_act", ANY},
    {"activation_function", ANY},
    /* switches that are off */
    {"add_cross_attention", IS_FALSE | IS_NULL},
    {"alibi", IS_FALSE | IS_NULL},
    {"attn_logit_softcapping", IS_NULL},
    {"clip_qkv", IS_NULL},
    {"cross_attention_hidden_size", IS_NULL},
    {"final_logit_softcapping", IS_NULL},
    {"is_causal", IS_TRUE},
    {"is_encoder_decoder", IS_FALSE},
    {"mlp_only_layers", IS_NULL | IS_EMPTY},
    {"moe", IS_FALSE | IS_NULL},
    {"per_layer_config", IS_NULL},
    {"pruned_heads", IS_NULL | IS_EMPTY},
    {"qk_layernorm", IS_FALSE | IS_NULL},
    {"quantization_config", IS_NULL},
    {"scale_attn_by_inverse_layer_idx", IS_FALSE},
    {"scale_attn_weights", IS_TRUE},
    {"tie_encoder_decoder", IS_FALSE},
    {"use_bidirectional_attention", IS_FALSE | IS_NULL},
    {"use_mrope", IS_FALSE | IS_NULL},
    {"use_qk_norm", IS_FALSE | IS_NULL},
};

static unsigned value_of(const cJSON *x) {
    if (cJSON_IsNull(x)) return IS_NULL;
    if (cJSON_IsBool(x)) return cJSON_IsTrue(x) ? IS_TRUE : IS_FALSE;
    if (cJSON_IsNumber(x)) return (float)x->valuedouble == 0 ? IS_0 : (float)x->valuedouble == 1 ? IS_1 : 0;
    return (cJSON_IsArray(x) || cJSON_IsObject(x)) && !x->child ? IS_EMPTY : 0;
}

static const char *const value_text[] = {"null", "false", "true", "0", "1", "an empty one"};

int key_harmless(const cJSON *item, const char *path, Error *e) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        unsigned values = harmless[i].values, found = value_of(item);
        if (strcmp(item->string, harmless[i].name) != 0) continue;
        if (values == ANY || (values & found)) return 0;
        int expected = __builtin_ctz(values);
        if (values & (IS_FALSE | IS_TRUE)) expected = values & IS_TRUE ? 2 : 1;
        return fail(e, "%s: %s: expected %s, found %s, which is not supported", path, item->string,
                    value_text[expected], found ? value_text[__builtin_ctz(found)] : "another value");
    }
    return fail(e, "%s: %.60s: expected a key this program knows, found one that may change the maths", path,
                item->string);
}

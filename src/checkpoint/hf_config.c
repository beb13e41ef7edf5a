/* hf_config - config.json of a Hugging Face model -> Config. A key that may change the maths and
 * that is not in the tables below is refused by name. Source: transformers' LlamaConfig,
 * MistralConfig, GPT2Config and modeling_rope_utils.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/hf.h"
#include "io/json.h"

/* Keys with no bearing on the numbers of a forward pass. */
static const char *const harmless[] = {
    "architectures",
    "model_type",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "pad_token_id",
    "attention_dropout",
    "hidden_dropout",
    "_name_or_path",
    "auto_map",
    "unsloth_fixed",
    "unsloth_version",
    "pretraining_tp",
    "is_llama_config",
    "transformers.js_config",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "task_specific_params",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict",
    "return_dict_in_generate",
    "_attn_implementation",
    "attn_implementation",
    "bos_token_id",
    "eos_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "tokenizer_class",
    "finetuning_task",
    "prefix",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_logits",
    "summary_proj_to_labels",
    "gradient_checkpointing",
    "name_or_path",
    "max_length",
    "min_length",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_beams",
    "num_beam_groups",
    "num_return_sequences",
    "early_stopping",
    "diversity_penalty",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "begin_suppress_tokens",
    "suppress_tokens",
    "remove_invalid_values",
    "bad_words_ids",
    "chunk_size_feed_forward",
    "torchscript",
    "tf_legacy_loss",
    "use_bfloat16",
    "is_encoder_decoder",
    "is_decoder",
    "pruned_heads",
    "n_ctx",
    "reorder_and_upcast_attn",
    "mlp_only_layers",
    "_commit_hash",
    "max_window_layers",
    "layer_types",
    "rope_interleaved",
    /* read below */
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "tie_word_embeddings",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
    "sliding_window",
    "partial_rotary_factor",
    "norm",
    "ffn",
    "positions",
    "n_embd",
    "n_layer",
    "n_head",
    "n_positions",
    "n_inner",
    "layer_norm_epsilon",
    "activation_function",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "add_cross_attention",
    "original_max_position_embeddings",
    "use_sliding_window",
    "tie_encoder_decoder",
    "cross_attention_hidden_size",
};

static int check_known(const cJSON *root, const char *path, Error *e) {
    const cJSON *item;
    cJSON_ArrayForEach(item, root) {
        bool known = cJSON_IsNull(item) || cJSON_IsFalse(item);
        for (size_t i = 0; i < sizeof harmless / sizeof *harmless && !known; i++)
            known = strcmp(item->string, harmless[i]) == 0;
        if (!known)
            return fail(e, "%s: %.60s: expected a key this program knows, found one that may change the maths", path,
                        item->string);
    }
    return 0;
}

static const char *text_of(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool given(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return item && !cJSON_IsNull(item);
}

static bool absent(const cJSON *object, const char *key) { return !cJSON_GetObjectItemCaseSensitive(object, key); }

static int need_int(int *out, const cJSON *root, const char *key, const char *path, Error *e) {
    if (!given(root, key)) return fail(e, "%s: %s: expected the key, found none", path, key);
    return json_int(out, root, key, 1, INT32_MAX, path, e);
}

/* expect_false - a switch for something that is not built must be off. */
static int expect_bool(const cJSON *root, const char *key, bool expected, const char *path, Error *e) {
    bool x = expected;
    if (json_bool(&x, root, key, path, e)) return -1;
    if (x == expected) return 0;
    return fail(e, "%s: %s: expected %s, found %s, which is not supported", path, key, expected ? "true" : "false",
                x ? "true" : "false");
}

static int read_factors(Checkpoint *ck, const float **out, const cJSON *rope, const char *key, int n, const char *path,
                        Error *e) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(rope, key), *item;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return fail(e, "%s: %s: expected a list of %d numbers, found something else", path, key, n);
    float *x = checkpoint_alloc(ck, (size_t)n, sizeof *x, e);
    if (!x) return -1;
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !isfinite(item->valuedouble))
            return fail(e, "%s: %s[%d]: expected a positive number, found something else", path, key, i);
        x[i++] = (float)item->valuedouble;
    }
    *out = x;
    return 0;
}

static int need_number(double *out, const cJSON *object, const char *key, const char *path, Error *e) {
    if (!given(object, key)) return fail(e, "%s: rope scaling: expected %s, found none", path, key);
    return json_number(out, object, key, path, e);
}

/* rope_theta, rope_scaling (key "type" or "rope_type") and transformers 5's rope_parameters, which
 * wins. */
static int read_rope(Checkpoint *ck, const cJSON *root, const char *path, Error *e) {
    static const char *const keys[] = {
        "type",
        "rope_type",
        "rope_theta",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "low_freq_factor",
        "high_freq_factor",
        "short_factor",
        "long_factor",
        "partial_rotary_factor",
        "finetuned",
    };
    Config *c = &ck->config;
    RopeConfig *r = &c->rope;
    *r = (RopeConfig){.theta = 10000,
                      .rotary_dim = c->head_dim,
                      .pairing = ROPE_HALF,
                      .factor = 1,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .truncate = true,
                      .original_ctx = c->n_ctx};
    const char *scaling_key = given(root, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const cJSON *rope = given(root, scaling_key) ? cJSON_GetObjectItemCaseSensitive(root, scaling_key) : NULL;
    const cJSON *item;
    if (rope && !cJSON_IsObject(rope))
        return fail(e, "%s: %s: expected an object, found something else", path, scaling_key);
    cJSON_ArrayForEach(item, rope) {
        bool known = cJSON_IsNull(item);
        for (size_t i = 0; i < sizeof keys / sizeof *keys && !known; i++) known = strcmp(item->string, keys[i]) == 0;
        if (!known)
            return fail(e, "%s: %s.%.40s: expected a key this program knows, found another", path, scaling_key,
                        item->string);
    }
    double partial = 1;
    bool interleaved = false;
    if (json_number(&r->theta, root, "rope_theta", path, e) ||
        json_number(&partial, root, "partial_rotary_factor", path, e) ||
        json_bool(&interleaved, root, "rope_interleaved", path, e) ||
        json_int(&r->original_ctx, root, "original_max_position_embeddings", 1, INT32_MAX, path, e))
        return -1;
    if (interleaved) r->pairing = ROPE_PAIRS;
    const char *type = "default";
    if (rope) {
        if (given(rope, "type") && !text_of(rope, "type"))
            return fail(e, "%s: %s.type: expected a string, found something else", path, scaling_key);
        if (given(rope, "rope_type") && !text_of(rope, "rope_type"))
            return fail(e, "%s: %s.rope_type: expected a string, found something else", path, scaling_key);
        if (text_of(rope, "type")) type = text_of(rope, "type");
        if (text_of(rope, "rope_type")) type = text_of(rope, "rope_type");
        else if (!text_of(rope, "type") && given(rope, "factor"))
            return fail(e, "%s: %s: expected rope_type, found none", path, scaling_key);
        if (json_number(&r->theta, rope, "rope_theta", path, e) ||
            json_number(&partial, rope, "partial_rotary_factor", path, e) ||
            json_int(&r->original_ctx, rope, "original_max_position_embeddings", 1, INT32_MAX, path, e))
            return -1;
    }
    if (!(partial > 0 && partial <= 1))
        return fail(e, "%s: partial_rotary_factor: expected above 0 and at most 1, found %g", path, partial);
    r->rotary_dim = (int)(c->head_dim * partial);
    bool original_given =
        given(root, "original_max_position_embeddings") || (rope && given(rope, "original_max_position_embeddings"));

    if (strcmp(type, "default") == 0) return 0;
    if (strcmp(type, "linear") == 0) {
        r->scaling = ROPE_SCALING_LINEAR;
        r->original_ctx = c->n_ctx;
        return need_number(&r->factor, rope, "factor", path, e);
    }
    if (strcmp(type, "dynamic") == 0) {
        r->scaling = ROPE_SCALING_DYNAMIC;
        r->original_ctx = c->n_ctx; /* transformers uses max_position_embeddings */
        if (need_number(&r->factor, rope, "factor", path, e)) return -1;
        if (r->factor >= 1 && r->factor * c->n_ctx < 1 << 26) c->n_ctx = (int)(r->factor * c->n_ctx);
        return 0;
    }
    if (strcmp(type, "llama3") == 0) {
        r->scaling = ROPE_SCALING_LLAMA3;
        if (!original_given)
            return fail(e, "%s: rope scaling: expected original_max_position_embeddings, found none", path);
        return need_number(&r->factor, rope, "factor", path, e) ||
                       need_number(&r->low_freq_factor, rope, "low_freq_factor", path, e) ||
                       need_number(&r->high_freq_factor, rope, "high_freq_factor", path, e)
                   ? -1
                   : 0;
    }
    if (strcmp(type, "yarn") == 0) {
        r->scaling = ROPE_SCALING_YARN;
        if (given(rope, "factor")) {
            if (json_number(&r->factor, rope, "factor", path, e)) return -1;
        } else if (original_given) {
            r->factor = (double)c->n_ctx / r->original_ctx;
        } else {
            return fail(e, "%s: rope scaling: expected factor, found none", path);
        }
        return json_number(&r->attention_factor, rope, "attention_factor", path, e) ||
                       json_number(&r->beta_fast, rope, "beta_fast", path, e) ||
                       json_number(&r->beta_slow, rope, "beta_slow", path, e) ||
                       json_number(&r->mscale, rope, "mscale", path, e) ||
                       json_number(&r->mscale_all_dim, rope, "mscale_all_dim", path, e) ||
                       json_bool(&r->truncate, rope, "truncate", path, e)
                   ? -1
                   : 0;
    }
    if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        r->scaling = ROPE_SCALING_LONGROPE;
        r->factor = (double)c->n_ctx / r->original_ctx;
        if (r->rotary_dim < 2 || r->rotary_dim > 2 * ROPE_MAX_PAIRS) return 0; /* rope_check says so */
        return json_number(&r->factor, rope, "factor", path, e) ||
                       json_number(&r->attention_factor, rope, "attention_factor", path, e) ||
                       read_factors(ck, &r->short_factor, rope, "short_factor", r->rotary_dim / 2, path, e) ||
                       read_factors(ck, &r->long_factor, rope, "long_factor", r->rotary_dim / 2, path, e)
                   ? -1
                   : 0;
    }
    return fail(e, "%s: rope_type: expected default, linear, dynamic, yarn, llama3 or longrope, found %.40s", path,
                type);
}

static int choose(int *out, const cJSON *root, const char *key, const char *zero, const char *one, const char *path,
                  Error *e) {
    const char *x = text_of(root, key);
    if (!x || (strcmp(x, zero) != 0 && strcmp(x, one) != 0))
        return fail(e, "%s: %s: expected %s or %s, found %.40s", path, key, zero, one, x ? x : "none");
    *out = strcmp(x, one) == 0;
    return 0;
}

static int read_llama(Checkpoint *ck, const cJSON *root, const char *path, HfConfig *hf, Error *e) {
    Config *c = &ck->config;
    double eps = 1e-6; /* LlamaConfig's default */
    if (need_int(&c->dim, root, "hidden_size", path, e) ||
        need_int(&c->hidden_dim, root, "intermediate_size", path, e) ||
        need_int(&c->n_layers, root, "num_hidden_layers", path, e) ||
        need_int(&c->n_heads, root, "num_attention_heads", path, e) ||
        need_int(&c->vocab_size, root, "vocab_size", path, e))
        return -1;
    bool mistral = strcmp(ck->arch, "mistral") == 0;
    c->n_ctx = mistral ? 131072 : 2048; /* MistralConfig's and LlamaConfig's defaults */
    c->n_kv_heads = mistral && absent(root, "num_key_value_heads") ? 8 : c->n_heads;
    if (!given(root, "head_dim") && c->dim % c->n_heads)
        return fail(e, "%s: num_attention_heads: expected a divisor of hidden_size %d, found %d", path, c->dim,
                    c->n_heads);
    c->head_dim = c->dim / c->n_heads;
    c->norm = NORM_RMSNORM;
    c->ffn = FFN_SWIGLU;
    c->pos = POS_ROPE;
    if (json_int(&c->n_kv_heads, root, "num_key_value_heads", 1, INT32_MAX, path, e) ||
        json_int(&c->head_dim, root, "head_dim", 1, INT32_MAX, path, e) ||
        json_int(&c->n_ctx, root, "max_position_embeddings", 1, 1 << 26, path, e) ||
        json_number(&eps, root, "rms_norm_eps", path, e) || json_bool(&c->tied, root, "tie_word_embeddings", path, e) ||
        json_bool(&hf->attention_bias, root, "attention_bias", path, e) ||
        json_bool(&hf->mlp_bias, root, "mlp_bias", path, e))
        return -1;
    c->norm_eps = (float)eps;
    if (strcmp(ck->arch, "llama_swap") == 0) {
        int norm, ffn, pos;
        if (choose(&norm, root, "norm", "layernorm", "rmsnorm", path, e) ||
            choose(&ffn, root, "ffn", "gelu", "swiglu", path, e) ||
            choose(&pos, root, "positions", "learned", "rope", path, e))
            return -1;
        c->norm = norm ? NORM_RMSNORM : NORM_LAYERNORM;
        c->ffn = ffn ? FFN_SWIGLU : FFN_GELU;
        c->pos = pos ? POS_ROPE : POS_LEARNED;
    } else {
        const char *act = given(root, "hidden_act") ? text_of(root, "hidden_act") : "silu";
        if (!act || (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0))
            return fail(e, "%s: hidden_act: expected silu, found %.40s, which is not supported", path,
                        act ? act : "no string");
    }
    bool implied = mistral && absent(root, "sliding_window"); /* null is none */
    int window = implied ? 4096 : 0;
    bool use_window = true;
    if (json_bool(&use_window, root, "use_sliding_window", path, e) ||
        json_int(&window, root, "sliding_window", 0, INT32_MAX, path, e))
        return -1;
    if (use_window && window && window < c->n_ctx)
        return fail(e, "%s: sliding_window: expected none, found %d%s, which is not supported", path, window,
                    implied ? " (what Mistral has without the key; null says none)" : "");
    return c->pos == POS_ROPE ? read_rope(ck, root, path, e) : 0;
}

static int read_gpt2(Checkpoint *ck, const cJSON *root, const char *path, Error *e) {
    Config *c = &ck->config;
    double eps = 1e-5;
    if (need_int(&c->dim, root, "n_embd", path, e) || need_int(&c->n_layers, root, "n_layer", path, e) ||
        need_int(&c->n_heads, root, "n_head", path, e) || need_int(&c->vocab_size, root, "vocab_size", path, e))
        return -1;
    c->n_ctx = 1024;
    c->tied = true;
    if (json_int(&c->n_ctx, root, "n_positions", 1, 1 << 26, path, e) ||
        json_number(&eps, root, "layer_norm_epsilon", path, e) ||
        json_bool(&c->tied, root, "tie_word_embeddings", path, e))
        return -1;
    if (c->dim % c->n_heads)
        return fail(e, "%s: n_head: expected a divisor of n_embd %d, found %d", path, c->dim, c->n_heads);
    if (c->dim > 1 << 20) return fail(e, "%s: n_embd: expected at most %d, found %d", path, 1 << 20, c->dim);
    c->hidden_dim = 4 * c->dim;
    if (json_int(&c->hidden_dim, root, "n_inner", 1, INT32_MAX, path, e)) return -1;
    c->n_kv_heads = c->n_heads;
    c->head_dim = c->dim / c->n_heads;
    c->norm = NORM_LAYERNORM;
    c->ffn = FFN_GELU;
    c->pos = POS_LEARNED;
    c->norm_eps = (float)eps;
    const char *act = given(root, "activation_function") ? text_of(root, "activation_function") : "gelu_new";
    if (!act || (strcmp(act, "gelu_new") != 0 && strcmp(act, "gelu_pytorch_tanh") != 0))
        return fail(e, "%s: activation_function: expected gelu_new, found %.40s, which is not supported", path,
                    act ? act : "no string");
    if (expect_bool(root, "scale_attn_weights", true, path, e) ||
        expect_bool(root, "scale_attn_by_inverse_layer_idx", false, path, e) ||
        expect_bool(root, "add_cross_attention", false, path, e))
        return -1;
    return 0;
}

/* One end token or a list of them. */
static int read_eos(Checkpoint *ck, const cJSON *root, const char *path, Error *e) {
    const cJSON *eos = cJSON_GetObjectItemCaseSensitive(root, "eos_token_id"), *item;
    cJSON holder = {0};
    if (!eos || cJSON_IsNull(eos)) return 0;
    if (!cJSON_IsArray(eos)) {
        holder = *eos;
        holder.next = NULL;
        item = &holder;
    } else {
        item = eos->child;
    }
    for (; item; item = item->next) {
        if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble))
            return fail(e, "%s: eos_token_id: expected an integer or a list of them, found something else", path);
        if (item->valuedouble < 0 || item->valuedouble >= ck->config.vocab_size) continue; /* e.g. -1: none */
        int id = (int)item->valuedouble;
        bool known = false;
        for (int i = 0; i < ck->n_eos; i++) known |= ck->eos[i] == id;
        if (!known && ck->n_eos < 16) ck->eos[ck->n_eos++] = id;
    }
    return 0;
}

int hf_config_read(Checkpoint *ck, const char *path, HfConfig *hf, Error *e) {
    static const char *const archs[] = {"llama", "mistral", "gpt2", "llama_swap"};
    *hf = (HfConfig){0};
    cJSON *root = json_read(path, e);
    if (!root) return -1;
    int status = -1;
    if (!cJSON_IsObject(root)) {
        fail(e, "%s: JSON: expected an object, found something else", path);
        goto done;
    }
    const char *type = text_of(root, "model_type");
    for (size_t i = 0; type && i < sizeof archs / sizeof *archs; i++)
        if (strcmp(type, archs[i]) == 0) strcpy(ck->arch, archs[i]);
    if (!ck->arch[0]) {
        fail(e, "%s: model_type: expected llama, mistral, gpt2 or llama_swap, found %.40s", path, type ? type : "none");
        goto done;
    }
    hf->gpt2 = strcmp(ck->arch, "gpt2") == 0;
    if (check_known(root, path, e) || (hf->gpt2 ? read_gpt2(ck, root, path, e) : read_llama(ck, root, path, hf, e)) ||
        config_check(&ck->config, path, e) || read_eos(ck, root, path, e))
        goto done;
    if (json_int(&ck->bos, root, "bos_token_id", -1, ck->config.vocab_size - 1, path, e)) goto done;
    status = 0;
done:
    cJSON_Delete(root);
    return status;
}

int hf_generation_read(Checkpoint *ck, const char *path, Error *e) {
    cJSON *root = json_read(path, e);
    if (!root) return -1;
    int status = cJSON_IsObject(root) ? read_eos(ck, root, path, e)
                                      : fail(e, "%s: JSON: expected an object, found something else", path);
    cJSON_Delete(root);
    return status;
}

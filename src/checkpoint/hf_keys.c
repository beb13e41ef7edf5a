/* Keys of config.json that change nothing. */
#include <cjson/cJSON.h>
#include <string.h>

#include "checkpoint/arch.h"

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
    {"router_jitter_noise", ANY},
    {"experts_per_token", ANY}, /* gpt-oss: num_experts_per_tok says it again */
    {"initial_context_length", ANY},
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
    {"layer_types", ANY},
    {"layers_block_type", ANY},
    {"norm", ANY},
    {"ffn", ANY},
    {"positions", ANY},
    {"hidden_act", ANY},
    {"activation_function", ANY},
    /* of published models; their classes in transformers read none of these */
    {"_sliding_window_pattern", ANY},
    {"attention_head_dim", ANY},
    {"init_method", ANY},
    {"intermediate_size", ANY}, /* of families that call it otherwise: Granite 4, Falcon */
    {"normalization_function", ANY},
    {"num_experts_per_tok", ANY}, /* of Granite 4 without experts */
    {"mamba_chunk_size", ANY},    /* of layers that are refused by their type */
    {"mamba_conv_bias", ANY},
    {"mamba_d_conv", ANY},
    {"mamba_d_head", ANY},
    {"mamba_d_state", ANY},
    {"mamba_expand", ANY},
    {"mamba_n_groups", ANY},
    {"mamba_n_heads", ANY},
    {"mamba_proj_bias", ANY},
    {"time_step_limit", ANY},
    {"time_step_max", ANY},
    {"time_step_min", ANY},
    {"time_step_rank", ANY},
    {"add_classification_head", ANY},
    {"class_num", ANY},
    {"compression_ratio", ANY},
    {"full_attn_mod", IS_1},
    {"interpolate_factor", IS_1},
    {"im_end_id", ANY},
    {"im_newline_id", ANY},
    {"im_start_id", ANY},
    {"image_token_id", ANY},
    {"layer_switch", ANY},
    {"logit_soft_cap", IS_NULL},
    {"model_max_length", ANY},
    {"mup_denominator", ANY},
    {"order_of_interleaved_layers", ANY},
    {"org_vocab_size", ANY},
    {"parametric_init", ANY},
    {"pad_id", ANY},
    {"position_embedding_type", ANY},
    {"qk_norm", ANY}, /* Apertus: always */
    {"rope_pct", ANY},
    {"rotary_scaling_factor", IS_1},
    {"text_end_id", ANY},
    {"text_start_id", ANY},
    {"use_embedding_sharing", ANY},
    {"use_flash_attention", ANY},
    {"use_gated_activation", ANY},
    {"use_parallel_block", ANY},
    {"use_parallel_embedding", ANY},
    {"vit_path", ANY},
    /* switches that are off */
    {"apply_residual_connection_post_layernorm", IS_FALSE},
    {"dual_chunk_attention_config", IS_NULL},
    {"lm_head_bias", IS_FALSE},
    {"mask_init_id", ANY},
    {"num_experts", IS_NULL | IS_0 | IS_1},
    {"post_norm", IS_FALSE},
    {"sparse_config", IS_NULL},
    {"use_cla", IS_FALSE},
    {"cla_share_factor", ANY},
    {"use_rotary_pos_emb", IS_TRUE},
    {"add_cross_attention", IS_FALSE | IS_NULL},
    {"alibi", IS_FALSE | IS_NULL},
    {"no_rope_layers", ANY},
    {"activation", ANY},
    {"hidden_activation", ANY},
    {"cross_attention_hidden_size", IS_NULL},
    {"is_causal", IS_TRUE},
    {"is_encoder_decoder", IS_FALSE},
    {"mlp_only_layers", IS_NULL | IS_EMPTY}, /* of families without KEY_SPARSE_STEP */
    {"moe", IS_FALSE | IS_NULL},
    {"num_ln_in_parallel_attn", ANY}, /* what the norms in the file say */
    {"per_layer_config", IS_NULL},
    {"pruned_heads", IS_NULL | IS_EMPTY},
    {"qk_layernorm", IS_FALSE | IS_NULL},
    {"attn_logit_softcapping", ANY}, /* of Gemma 3, whose attention does not read it; Gemma 2's does */
    {"scale_attn_by_inverse_layer_idx", IS_FALSE},
    {"scale_attn_weights", IS_TRUE},
    {"tie_encoder_decoder", IS_FALSE},
    {"use_bidirectional_attention", IS_FALSE | IS_NULL},
    {"use_mrope", IS_FALSE | IS_NULL},
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

#include "checkpoint/arch.h"

#include <stdio.h>
#include <string.h>

/* Defaults: the family's configuration_*.py in transformers, for the keys that files leave out. */
#define KEYS(...)                                                                                                      \
    (const KeyName[]) {                                                                                                \
        __VA_ARGS__, { .key = KEY_COUNT }                                                                              \
    }
#define NAMES(...)                                                                                                     \
    (const TensorName[]) {                                                                                             \
        __VA_ARGS__, { .field = FIELD_END }                                                                            \
    }
#define L              "model.layers.#."
#define NEOX           "gpt_neox.layers.#."
#define FALCON         "transformer.h.#."
#define BLOCK(n, f, p) .norm = NORM_##n, .ffn = FFN_##f, .pos = POS_##p
#define LLAMA          BLOCK(RMSNORM, SWIGLU, ROPE)
#define GPT            BLOCK(LAYERNORM, GELU, ROPE)
#define BIASES         .qkv_bias = BIAS_BY_KEY, .out_bias = BIAS_AS_QKV /* attention_bias */
#define PERMUTED       .gguf_pairing = ROPE_PAIRS
#define PAIRS          .hf_pairing = ROPE_PAIRS, .gguf_pairing = ROPE_PAIRS

#define CTX(n)                                                                                                         \
    { KEY_N_CTX, NULL, n }
#define EPS(x)                                                                                                         \
    { KEY_NORM_EPS, NULL, x }
#define LN_EPS(x)                                                                                                      \
    { KEY_NORM_EPS, "layer_norm_eps", x }
#define THETA(x)                                                                                                       \
    { KEY_ROPE_THETA, NULL, x }
#define KV(n)                                                                                                          \
    { KEY_N_KV_HEADS, NULL, n }
#define HEAD(n)                                                                                                        \
    { KEY_HEAD_DIM, NULL, n }
#define TIED                                                                                                           \
    { KEY_TIED, NULL, 1 }
#define WINDOW(n)                                                                                                      \
    { KEY_WINDOW, NULL, n }
#define NO_WINDOW                                                                                                      \
    { KEY_WINDOW, NULL, NAN }         /* the family has the key, and none where it is left out */
#define EXPERTS(name, other, n, used) /* configurations have either name */                                            \
    {KEY_EXPERTS, name, n}, {KEY_EXPERTS, other, n}, { KEY_EXPERTS_USED, NULL, used }
#define LOCAL_EXPERTS(n, used) EXPERTS("num_local_experts", "num_experts", n, used)
#define NUM_EXPERTS(n, used)   EXPERTS("num_experts", "num_local_experts", n, used)
#define EXPERT_WIDTH(n)                                                                                                \
    { KEY_EXPERT_DIM, NULL, n }
#define RENORMALIZE(x)                                                                                                 \
    { KEY_RENORMALIZE, NULL, x }
#define SPARSE_STEP                                                                                                    \
    { KEY_SPARSE_STEP, NULL, 1 } /* and mlp_only_layers */
#define GRANITE_SCALES                                                                                                 \
    {KEY_EMB_SCALE, NULL, 1}, {KEY_RESIDUAL_SCALE, NULL, 1}, {KEY_ATTN_SCALE, NULL, 1}, {KEY_LOGIT_DIVISOR, NULL, 1},  \
    {                                                                                                                  \
        KEY_LOGIT_SCALE, "-", NAN                                                                                      \
    }
#define GRANITE_EXPERTS                                                                                                \
    {FIELD_ROUTER, L "block_sparse_moe.router.layer.weight"}, {FIELD_ROUTER, L "block_sparse_moe.router.weight"},      \
        {FIELD_EXPERTS_GATE_UP, L "block_sparse_moe.input_linear.weight"},                                             \
        {FIELD_EXPERTS_GATE_UP, L "block_sparse_moe.experts.gate_up_proj"},                                            \
        {FIELD_EXPERTS_DOWN, L "block_sparse_moe.output_linear.weight"},                                               \
        {FIELD_EXPERTS_DOWN, L "block_sparse_moe.experts.down_proj"}, {FIELD_EXPERT_GATE, NULL},                       \
        {FIELD_EXPERT_UP, NULL}, {                                                                                     \
        FIELD_EXPERT_DOWN, NULL                                                                                        \
    }
#define GRANITE_SHARED                                                                                                 \
    {FIELD_SHARED_GATE_UP, L "shared_mlp.input_linear.weight"},                                                        \
        {FIELD_SHARED_DOWN, L "shared_mlp.output_linear.weight"}, {FIELD_SHARED_GATE, NULL}, {FIELD_SHARED_UP, NULL},  \
    {                                                                                                                  \
        FIELD_SHARED_SCALE, NULL                                                                                       \
    }
#define PATTERN(n)                                                                                                     \
    { KEY_WINDOW_PATTERN, NULL, n }

static const TensorName fused_qkv_gate_up[] = {
    {FIELD_QKV, L "self_attn.qkv_proj.weight"},   {FIELD_WQ, NULL},     {FIELD_WK, NULL},   {FIELD_WV, NULL},
    {FIELD_GATE_UP, L "mlp.gate_up_proj.weight"}, {FIELD_W_GATE, NULL}, {FIELD_W_UP, NULL}, {FIELD_END, NULL}};
static const TensorName fused_gate_up[] = {
    {FIELD_GATE_UP, L "mlp.gate_up_proj.weight"}, {FIELD_W_GATE, NULL}, {FIELD_W_UP, NULL}, {FIELD_END, NULL}};
static const TensorName gguf_gate_up[] = {
    {FIELD_GATE_UP, "blk.#.ffn_up.weight"}, {FIELD_W_GATE, NULL}, {FIELD_W_UP, NULL}, {FIELD_END, NULL}};
static const TensorName four_norms[] = {{FIELD_ATTN_POST_NORM, L "post_attention_layernorm.weight"},
                                        {FIELD_FFN_NORM, L "pre_feedforward_layernorm.weight"},
                                        {FIELD_FFN_POST_NORM, L "post_feedforward_layernorm.weight"},
                                        {FIELD_END, NULL}};

static const RopeConfig yarn_16 = {.scaling = ROPE_SCALING_YARN,
                                   .factor = 16,
                                   .original_ctx = 16384,
                                   .beta_fast = 32,
                                   .beta_slow = 1,
                                   .mscale = 1,
                                   .mscale_all_dim = 1,
                                   .truncate = true};
static const RopeConfig yarn_32 = {
    .scaling = ROPE_SCALING_YARN, .factor = 32, .original_ctx = 4096, .beta_fast = 32, .beta_slow = 1};
static const RopeConfig llama3_8 = {
    .scaling = ROPE_SCALING_LLAMA3, .factor = 8, .original_ctx = 8192, .low_freq_factor = 1, .high_freq_factor = 4};
static const RopeConfig llama3_16 = {
    .scaling = ROPE_SCALING_LLAMA3, .factor = 16, .original_ctx = 8192, .low_freq_factor = 1, .high_freq_factor = 4};

const Arch archs[] = {
    {"llama", "LlamaForCausalLM", "llama", LLAMA, BIASES, PERMUTED, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY, .keys = KEYS(CTX(2048), EPS(1e-6))},
    {"mistral", "MistralForCausalLM", "llama", LLAMA, PERMUTED, .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(131072), EPS(1e-6), KV(8), WINDOW(4096))},
    {"ministral", "MinistralForCausalLM", NULL, LLAMA, .traits = ARCH_WHOLE_ROTARY | ARCH_LAYER_TYPES,
     .keys = KEYS(CTX(131072), EPS(1e-6), KV(8), WINDOW(4096))},
    {"ministral3", "Ministral3ForCausalLM", "mistral3", LLAMA, PERMUTED, .rope = &yarn_16, .temperature = 0.1f,
     .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(262144), EPS(1e-5), KV(8), HEAD(128), THETA(1e6), NO_WINDOW, {KEY_TEMPERATURE, NULL, NAN})},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", LLAMA, .qkv_bias = BIAS_ALWAYS,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_LAYER_TYPES,
     .keys = KEYS(CTX(32768), EPS(1e-6), KV(32), WINDOW(4096), {KEY_MAX_WINDOW_LAYERS, NULL, 28})},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", LLAMA, BIASES, .qk_norm = QK_NORM_HEAD,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_LAYER_TYPES,
     .keys = KEYS(CTX(32768), EPS(1e-6), KV(32), HEAD(128), WINDOW(4096), {KEY_MAX_WINDOW_LAYERS, NULL, 28})},
    {"mixtral", "MixtralForCausalLM", "llama", LLAMA, PERMUTED, .traits = ARCH_WHOLE_ROTARY | ARCH_RENORMALIZED,
     .tensors = NAMES({FIELD_ROUTER, L "block_sparse_moe.gate.weight"}, {FIELD_ROUTER, L "mlp.gate.weight"},
                      {FIELD_EXPERT_GATE, L "block_sparse_moe.experts.@.w1.weight"},
                      {FIELD_EXPERT_UP, L "block_sparse_moe.experts.@.w3.weight"},
                      {FIELD_EXPERT_DOWN, L "block_sparse_moe.experts.@.w2.weight"}),
     .keys = KEYS(CTX(131072), EPS(1e-5), KV(8), THETA(1e6), NO_WINDOW, LOCAL_EXPERTS(8, 2))},
    {"qwen2_moe", "Qwen2MoeForCausalLM", "qwen2moe", LLAMA, .qkv_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_LAYER_TYPES | ARCH_FIRST_WINDOWS,
     .keys = KEYS(CTX(32768), EPS(1e-6), KV(16), WINDOW(4096), PATTERN(2), {KEY_MAX_WINDOW_LAYERS, NULL, 28},
                  {KEY_QKV_BIAS, "qkv_bias", 1}, NUM_EXPERTS(60, 4), EXPERT_WIDTH(1408), {KEY_SHARED_DIM, NULL, 5632},
                  RENORMALIZE(0), SPARSE_STEP)},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", LLAMA, BIASES, .qk_norm = QK_NORM_HEAD,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_RENORMALIZED,
     .keys = KEYS(CTX(32768), EPS(1e-6), KV(4), WINDOW(4096), NUM_EXPERTS(128, 8), EXPERT_WIDTH(768), RENORMALIZE(0),
                  SPARSE_STEP)},
    {"olmoe", "OlmoeForCausalLM", "olmoe", LLAMA, BIASES, .qk_norm = QK_NORM_WHOLE, .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(4096), EPS(1e-5), {KEY_CLAMP, NULL, NAN}, NUM_EXPERTS(64, 8), RENORMALIZE(0))},
    {"flex_olmo", "FlexOlmoForCausalLM", NULL, LLAMA, BIASES, .qk_norm = QK_NORM_WHOLE,
     .traits = ARCH_WHOLE_ROTARY | ARCH_POST_NORMS | ARCH_NO_PRE_NORM, .tensors = four_norms,
     .keys = KEYS(CTX(4096), EPS(1e-6), THETA(5e5), NUM_EXPERTS(7, 5), RENORMALIZE(0))},
    {"granitemoe", "GraniteMoeForCausalLM", "granitemoe", LLAMA, BIASES, PERMUTED,
     .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS | ARCH_RENORMALIZED | ARCH_ROPE_SWITCH,
     .tensors = NAMES(GRANITE_EXPERTS), .keys = KEYS(CTX(2048), EPS(1e-6), GRANITE_SCALES, LOCAL_EXPERTS(8, 2))},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", "granitemoe", LLAMA, BIASES, PERMUTED,
     .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS | ARCH_RENORMALIZED | ARCH_ROPE_SWITCH,
     .tensors = NAMES(GRANITE_EXPERTS, GRANITE_SHARED),
     .keys = KEYS(CTX(2048), EPS(1e-6), GRANITE_SCALES, LOCAL_EXPERTS(8, 2),
                  {KEY_SHARED_DIM, "shared_intermediate_size", 0})},
    /* Granite 4, where all layers are attention: with experts, or num_local_experts 0 */
    {"granitemoehybrid", "GraniteMoeHybridForCausalLM", "granitemoe", LLAMA, BIASES, PERMUTED,
     .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS | ARCH_RENORMALIZED | ARCH_ROPE_SWITCH | ARCH_HYBRID,
     .tensors = NAMES(GRANITE_EXPERTS, GRANITE_SHARED),
     .keys = KEYS(CTX(2048), EPS(1e-6), GRANITE_SCALES, LOCAL_EXPERTS(8, 2),
                  {KEY_SHARED_DIM, "shared_intermediate_size", 1024})},
    {"gpt_oss", "GptOssForCausalLM", "gpt-oss", BLOCK(RMSNORM, SWIGLU_OSS, ROPE), BIASES, .mlp_bias = BIAS_ALWAYS,
     .split = SPLIT_COLUMNS, .rope = &yarn_32,
     .traits = ARCH_WHOLE_ROTARY | ARCH_LAYER_TYPES | ARCH_SINKS | ARCH_RENORMALIZED,
     .tensors = NAMES({FIELD_ROUTER, L "mlp.router.weight"}, {FIELD_ROUTER_BIAS, L "mlp.router.bias"},
                      {FIELD_EXPERTS_GATE_UP_BIAS, L "mlp.experts.gate_up_proj_bias"},
                      {FIELD_EXPERTS_DOWN_BIAS, L "mlp.experts.down_proj_bias"}, {FIELD_EXPERT_GATE, NULL},
                      {FIELD_EXPERT_UP, NULL}, {FIELD_EXPERT_DOWN, NULL}),
     .gguf_names = NAMES({FIELD_FFN_NORM, "blk.#.post_attention_norm.weight"}, {FIELD_ATTN_POST_NORM, NULL}),
     .keys = KEYS(CTX(131072), EPS(1e-5), KV(8), HEAD(64), THETA(150000), WINDOW(128), PATTERN(2),
                  LOCAL_EXPERTS(128, 4), {KEY_EXPERT_DIM, "-", NAN}, {KEY_SWIGLU_ALPHA, NULL, 1.702},
                  {KEY_SWIGLU_LIMIT, NULL, 7}, {KEY_QKV_BIAS, NULL, 1})},
    {"phi3", "Phi3ForCausalLM", "phi3", LLAMA, .tensors = fused_qkv_gate_up, .gguf_names = gguf_gate_up,
     .keys = KEYS(CTX(4096), EPS(1e-5), NO_WINDOW)},
    {"gemma", "GemmaForCausalLM", "gemma", BLOCK(RMSNORM, GEGLU, ROPE), BIASES,
     .traits = ARCH_WHOLE_ROTARY | ARCH_PLUS_1 | ARCH_SQRT_EMBEDDING | ARCH_TANH_GELU,
     .keys = KEYS(CTX(8192), EPS(1e-6), KV(16), HEAD(256), TIED)},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", BLOCK(RMSNORM, GEGLU, ROPE), BIASES, .activation = "hidden_activation",
     .traits = ARCH_WHOLE_ROTARY | ARCH_PLUS_1 | ARCH_SQRT_EMBEDDING | ARCH_POST_NORMS | ARCH_LAYER_TYPES,
     .tensors = four_norms,
     .keys = KEYS(CTX(8192), EPS(1e-6), KV(4), HEAD(256), TIED, WINDOW(4096), PATTERN(2), {KEY_QUERY_SCALAR, NULL, 256},
                  {KEY_ATTN_SOFTCAP, NULL, 50}, {KEY_LOGIT_SOFTCAP, NULL, 30})},
    {"vaultgemma", "VaultGemmaForCausalLM", NULL, BLOCK(RMSNORM, GEGLU, ROPE), BIASES,
     .activation = "hidden_activation",
     .traits = ARCH_WHOLE_ROTARY | ARCH_PLUS_1 | ARCH_SQRT_EMBEDDING | ARCH_LAYER_TYPES,
     .tensors = NAMES({FIELD_FFN_NORM, L "pre_feedforward_layernorm.weight"}),
     .keys = KEYS(CTX(8192), EPS(1e-6), KV(4), HEAD(256), TIED, WINDOW(4096), PATTERN(2), {KEY_QUERY_SCALAR, NULL, 256},
                  {KEY_ATTN_SOFTCAP, NULL, 50}, {KEY_LOGIT_SOFTCAP, NULL, 30})},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", BLOCK(RMSNORM, GEGLU, ROPE), BIASES,
     .activation = "hidden_activation", .qk_norm = QK_NORM_HEAD,
     .traits =
         ARCH_WHOLE_ROTARY | ARCH_PLUS_1 | ARCH_SQRT_EMBEDDING | ARCH_POST_NORMS | ARCH_LAYER_TYPES | ARCH_LOCAL_ROPE,
     .tensors = four_norms,
     .keys = KEYS(CTX(131072), EPS(1e-6), KV(4), HEAD(256), TIED, WINDOW(4096), PATTERN(6), THETA(1e6),
                  {KEY_LOCAL_THETA, NULL, 1e4}, {KEY_QUERY_SCALAR, NULL, 256}, {KEY_ATTN_SOFTCAP, "-", NAN},
                  {KEY_LOGIT_SOFTCAP, NULL, NAN})},
    {"olmo", "OlmoForCausalLM", "olmo", BLOCK(LAYERNORM, SWIGLU, ROPE), BIASES, PERMUTED,
     .traits = ARCH_WHOLE_ROTARY | ARCH_BARE_NORMS, .keys = KEYS(CTX(2048), {KEY_CLAMP, NULL, NAN})},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", LLAMA, BIASES, .qk_norm = QK_NORM_WHOLE,
     .traits = ARCH_WHOLE_ROTARY | ARCH_POST_NORMS | ARCH_NO_PRE_NORM, .tensors = four_norms,
     .keys = KEYS(CTX(2048), EPS(1e-5))},
    {"olmo3", "Olmo3ForCausalLM", "olmo2", LLAMA, BIASES, .qk_norm = QK_NORM_WHOLE,
     .traits = ARCH_WHOLE_ROTARY | ARCH_POST_NORMS | ARCH_NO_PRE_NORM | ARCH_LAYER_TYPES | ARCH_LOCAL_ROPE,
     .tensors = four_norms,
     .keys = KEYS(CTX(2048), EPS(1e-5), WINDOW(4096), PATTERN(4), THETA(5e5), {KEY_LOCAL_THETA, NULL, NAN})},
    {"exaone4", "Exaone4ForCausalLM", "exaone4", LLAMA, .qk_norm = QK_NORM_HEAD,
     .traits = ARCH_WHOLE_ROTARY | ARCH_POST_NORMS | ARCH_NO_PRE_NORM | ARCH_LAYER_TYPES | ARCH_FULL_WITHOUT_ROPE,
     .tensors = four_norms, .keys = KEYS(CTX(2048), EPS(1e-5), KV(32), WINDOW(4096), PATTERN(4))},
    {"granite", "GraniteForCausalLM", "granite", LLAMA, BIASES, PERMUTED, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS | ARCH_ROPE_SWITCH,
     .keys = KEYS(CTX(2048), EPS(1e-6), GRANITE_SCALES)},
    {"granitemoehybrid", "GraniteMoeHybridForCausalLM", "granite", LLAMA, BIASES, PERMUTED,
     .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS | ARCH_ROPE_SWITCH | ARCH_HYBRID,
     .tensors = NAMES({FIELD_GATE_UP, L "shared_mlp.input_linear.weight"}, {FIELD_W_GATE, NULL}, {FIELD_W_UP, NULL},
                      {FIELD_W_DOWN, L "shared_mlp.output_linear.weight"}),
     .keys = KEYS(CTX(2048), EPS(1e-6), GRANITE_SCALES, {KEY_HIDDEN_DIM, "shared_intermediate_size", 1024},
                  {KEY_EXPERTS_USED, "-", NAN})},
    {"minicpm", "MiniCPMForCausalLM", "minicpm", LLAMA, PERMUTED, .traits = ARCH_WHOLE_ROTARY | ARCH_DIVIDED_LOGITS,
     .keys = KEYS(CTX(2048), EPS(1e-6), TIED, {KEY_EMB_SCALE, "scale_emb", 1}, {KEY_DEPTH_SCALE, NULL, NAN},
                  {KEY_DIM_BASE, NULL, NAN}, {KEY_LOGIT_SCALE, "-", NAN}, {KEY_RESIDUAL_SCALE, "-", NAN})},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", LLAMA, BIASES, PERMUTED, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_LAYER_TYPES,
     .keys = KEYS(CTX(32768), EPS(1e-6), KV(4), TIED, THETA(2e6), NO_WINDOW, {KEY_NO_ROPE_INTERVAL, NULL, 4})},
    {"stablelm", "StableLmForCausalLM", "stablelm", BLOCK(LAYERNORM, SWIGLU, ROPE), .qkv_bias = BIAS_BY_KEY,
     .qk_norm = QK_NORM_EACH_HEAD, .traits = ARCH_ONE_NORM | ARCH_NORM_SAYS_PARALLEL,
     .tensors =
         NAMES({FIELD_Q_NORM, NULL}, {FIELD_K_NORM, NULL}, {FIELD_Q_NORMS, L "self_attn.q_layernorm.norms.@.weight"},
               {FIELD_K_NORMS, L "self_attn.k_layernorm.norms.@.weight"}),
     .keys = KEYS(CTX(4096), LN_EPS(1e-5), KV(32), {KEY_PARTIAL_ROTARY, NULL, 0.25}, {KEY_QKV_BIAS, "use_qkv_bias", 0},
                  {KEY_PARALLEL, NULL, 0}, {KEY_QK_NORM, "qk_layernorm", 0})},
    {"starcoder2", "Starcoder2ForCausalLM", "starcoder2", GPT, .qkv_bias = BIAS_BY_KEY, .out_bias = BIAS_AS_QKV,
     .mlp_bias = BIAS_AS_QKV, .traits = ARCH_WHOLE_ROTARY,
     .tensors = NAMES({FIELD_W_UP, L "mlp.c_fc.weight"}, {FIELD_B_UP, L "mlp.c_fc.bias"},
                      {FIELD_W_DOWN, L "mlp.c_proj.weight"}, {FIELD_B_DOWN, L "mlp.c_proj.bias"}),
     .keys =
         KEYS(CTX(4096), {KEY_NORM_EPS, "norm_epsilon", 1e-5}, KV(2), TIED, NO_WINDOW, {KEY_QKV_BIAS, "use_bias", 1})},
    {"phi", "PhiForCausalLM", "phi2", GPT, .qkv_bias = BIAS_ALWAYS, .out_bias = BIAS_ALWAYS, .mlp_bias = BIAS_ALWAYS,
     .qk_norm = QK_NORM_HEAD, .traits = ARCH_PARALLEL | ARCH_ONE_NORM | ARCH_HEAD_BIAS,
     .tensors = NAMES(
         {FIELD_Q_NORM, L "self_attn.q_layernorm.weight"}, {FIELD_Q_NORM_BIAS, L "self_attn.q_layernorm.bias"},
         {FIELD_K_NORM, L "self_attn.k_layernorm.weight"}, {FIELD_K_NORM_BIAS, L "self_attn.k_layernorm.bias"},
         {FIELD_WO, L "self_attn.dense.weight"}, {FIELD_BO, L "self_attn.dense.bias"}, {FIELD_W_UP, L "mlp.fc1.weight"},
         {FIELD_B_UP, L "mlp.fc1.bias"}, {FIELD_W_DOWN, L "mlp.fc2.weight"}, {FIELD_B_DOWN, L "mlp.fc2.bias"},
         {FIELD_FINAL_NORM, "model.final_layernorm.weight"}, {FIELD_FINAL_NORM_BIAS, "model.final_layernorm.bias"}),
     .keys = KEYS(CTX(2048), LN_EPS(1e-5), {KEY_PARTIAL_ROTARY, NULL, 0.5}, {KEY_QK_NORM, "qk_layernorm", 0})},
    {"gpt_neox", "GPTNeoXForCausalLM", "gptneox", BLOCK(LAYERNORM, GELU_ERF, ROPE), BIASES, .mlp_bias = BIAS_ALWAYS,
     .split = SPLIT_GROUPS,
     .tensors = NAMES(
         {FIELD_TOK_EMB, "gpt_neox.embed_in.weight"}, {FIELD_LM_HEAD, "embed_out.weight"},
         {FIELD_FINAL_NORM, "gpt_neox.final_layer_norm.weight"},
         {FIELD_FINAL_NORM_BIAS, "gpt_neox.final_layer_norm.bias"}, {FIELD_ATTN_NORM, NEOX "input_layernorm.weight"},
         {FIELD_ATTN_NORM_BIAS, NEOX "input_layernorm.bias"}, {FIELD_FFN_NORM, NEOX "post_attention_layernorm.weight"},
         {FIELD_FFN_NORM_BIAS, NEOX "post_attention_layernorm.bias"},
         {FIELD_QKV, NEOX "attention.query_key_value.weight"}, {FIELD_QKV_BIAS, NEOX "attention.query_key_value.bias"},
         {FIELD_WQ, NULL}, {FIELD_WK, NULL}, {FIELD_WV, NULL}, {FIELD_BQ, NULL}, {FIELD_BK, NULL}, {FIELD_BV, NULL},
         {FIELD_WO, NEOX "attention.dense.weight"}, {FIELD_BO, NEOX "attention.dense.bias"},
         {FIELD_W_UP, NEOX "mlp.dense_h_to_4h.weight"}, {FIELD_B_UP, NEOX "mlp.dense_h_to_4h.bias"},
         {FIELD_W_DOWN, NEOX "mlp.dense_4h_to_h.weight"}, {FIELD_B_DOWN, NEOX "mlp.dense_4h_to_h.bias"}),
     .keys = KEYS(CTX(2048), LN_EPS(1e-5), {KEY_ROPE_THETA, "rotary_emb_base", 10000},
                  {KEY_PARTIAL_ROTARY, "rotary_pct", 0.25}, {KEY_QKV_BIAS, NULL, 1}, {KEY_PARALLEL, NULL, 1})},
    {"cohere", "CohereForCausalLM", "command-r", BLOCK(LAYERNORM, SWIGLU, ROPE), BIASES, PAIRS,
     .qk_norm = QK_NORM_EACH_HEAD, .traits = ARCH_WHOLE_ROTARY | ARCH_PARALLEL | ARCH_ONE_NORM,
     .keys = KEYS(CTX(8192), LN_EPS(1e-5), TIED, THETA(5e5), {KEY_LOGIT_SCALE, NULL, 0.0625}, {KEY_QK_NORM, NULL, 0})},
    {"cohere2", "Cohere2ForCausalLM", "cohere2", BLOCK(LAYERNORM, SWIGLU, ROPE), BIASES, PAIRS,
     .traits = ARCH_WHOLE_ROTARY | ARCH_PARALLEL | ARCH_ONE_NORM | ARCH_LAYER_TYPES | ARCH_FULL_WITHOUT_ROPE,
     .keys = KEYS(CTX(8192), LN_EPS(1e-5), TIED, WINDOW(4096), PATTERN(4), {KEY_LOGIT_SCALE, NULL, 0.0625})},
    {"falcon", "FalconForCausalLM", "falcon", BLOCK(LAYERNORM, GELU_ERF, ROPE), .qkv_bias = BIAS_BY_KEY,
     .out_bias = BIAS_AS_QKV, .mlp_bias = BIAS_AS_QKV, .split = SPLIT_GROUPS, .activation = "activation",
     .traits = ARCH_WHOLE_ROTARY | ARCH_ONE_NORM | ARCH_SWAPPED_NORMS,
     .tensors =
         NAMES({FIELD_TOK_EMB, "transformer.word_embeddings.weight"}, {FIELD_FINAL_NORM, "transformer.ln_f.weight"},
               {FIELD_FINAL_NORM_BIAS, "transformer.ln_f.bias"}, {FIELD_ATTN_NORM, FALCON "input_layernorm.weight"},
               {FIELD_ATTN_NORM, FALCON "ln_attn.weight"}, {FIELD_ATTN_NORM_BIAS, FALCON "input_layernorm.bias"},
               {FIELD_ATTN_NORM_BIAS, FALCON "ln_attn.bias"}, {FIELD_FFN_NORM, FALCON "ln_mlp.weight"},
               {FIELD_FFN_NORM, FALCON "post_attention_layernorm.weight"}, {FIELD_FFN_NORM_BIAS, FALCON "ln_mlp.bias"},
               {FIELD_FFN_NORM_BIAS, FALCON "post_attention_layernorm.bias"},
               {FIELD_QKV, FALCON "self_attention.query_key_value.weight"},
               {FIELD_QKV_BIAS, FALCON "self_attention.query_key_value.bias"}, {FIELD_WQ, NULL}, {FIELD_WK, NULL},
               {FIELD_WV, NULL}, {FIELD_BQ, NULL}, {FIELD_BK, NULL}, {FIELD_BV, NULL},
               {FIELD_WO, FALCON "self_attention.dense.weight"}, {FIELD_BO, FALCON "self_attention.dense.bias"},
               {FIELD_W_UP, FALCON "mlp.dense_h_to_4h.weight"}, {FIELD_B_UP, FALCON "mlp.dense_h_to_4h.bias"},
               {FIELD_W_DOWN, FALCON "mlp.dense_4h_to_h.weight"}, {FIELD_B_DOWN, FALCON "mlp.dense_4h_to_h.bias"}),
     .gguf_names = NAMES({FIELD_FFN_NORM, "blk.#.attn_norm_2.weight"}, {FIELD_FFN_NORM_BIAS, "blk.#.attn_norm_2.bias"}),
     .keys = KEYS(CTX(2048), {KEY_NORM_EPS, "layer_norm_epsilon", 1e-5}, {KEY_N_KV_HEADS, "num_kv_heads", NAN},
                  {KEY_HIDDEN_DIM, "ffn_hidden_size", NAN}, TIED, {KEY_QKV_BIAS, "bias", 0}, {KEY_MULTI_QUERY, NULL, 1},
                  {KEY_NEW_DECODER, NULL, 0}, {KEY_PARALLEL, "parallel_attn", 1})},
    {"glm", "GlmForCausalLM", "chatglm", LLAMA, PAIRS, .qkv_bias = BIAS_BY_KEY, .tensors = fused_gate_up,
     .gguf_names = gguf_gate_up,
     .keys =
         KEYS(CTX(131072), EPS(1.5625e-7), KV(2), HEAD(128), {KEY_PARTIAL_ROTARY, NULL, 0.5}, {KEY_QKV_BIAS, NULL, 1})},
    {"glm4", "Glm4ForCausalLM", "glm4", LLAMA, PAIRS, .qkv_bias = BIAS_BY_KEY, .traits = ARCH_POST_NORMS,
     .tensors = NAMES({FIELD_GATE_UP, L "mlp.gate_up_proj.weight"}, {FIELD_W_GATE, NULL}, {FIELD_W_UP, NULL},
                      {FIELD_ATTN_POST_NORM, L "post_self_attn_layernorm.weight"},
                      {FIELD_FFN_POST_NORM, L "post_mlp_layernorm.weight"}),
     .gguf_names = gguf_gate_up,
     .keys =
         KEYS(CTX(131072), EPS(1.5625e-7), KV(2), HEAD(128), {KEY_PARTIAL_ROTARY, NULL, 0.5}, {KEY_QKV_BIAS, NULL, 1})},
    {"internlm3", "InternLM3ForCausalLM", "llama", LLAMA, PERMUTED, BIASES, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(32768), EPS(1e-5), KV(2), HEAD(128), {KEY_QKV_BIAS, "qkv_bias", 0}, {KEY_MLP_BIAS, "bias", 0},
                  {KEY_QKV_BIAS, "attention_bias", 0}, {KEY_MLP_BIAS, "mlp_bias", 0})},
    {"helium", "HeliumForCausalLM", NULL, LLAMA, .hf_pairing = ROPE_PAIRS, .qkv_bias = BIAS_BY_KEY,
     .mlp_bias = BIAS_BY_KEY, .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(4096), EPS(1e-8), KV(20), HEAD(128), THETA(1e5))},
    {"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", LLAMA, PAIRS, .qkv_bias = BIAS_BY_KEY, .out_bias = BIAS_AS_QKV,
     .mlp_bias = BIAS_AS_QKV, .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS(CTX(131072), EPS(1e-5), KV(2), HEAD(128), TIED, THETA(5e5), {KEY_QKV_BIAS, "use_bias", 0})},
    {"seed_oss", "SeedOssForCausalLM", "seed_oss", LLAMA, .qkv_bias = BIAS_BY_KEY, .out_bias = BIAS_BY_KEY,
     .mlp_bias = BIAS_BY_KEY, .traits = ARCH_WHOLE_ROTARY,
     .gguf_names = NAMES({FIELD_FFN_NORM, "blk.#.post_attention_norm.weight"}, {FIELD_ATTN_POST_NORM, NULL}),
     .keys = KEYS(CTX(524288), EPS(1e-6), KV(8), HEAD(128), {KEY_QKV_BIAS, NULL, 1}, {KEY_OUT_BIAS, NULL, 0})},
    {"cwm", "CwmForCausalLM", NULL, LLAMA, .mlp_bias = BIAS_BY_KEY, .rope = &llama3_16,
     .traits = ARCH_WHOLE_ROTARY | ARCH_LAYER_TYPES | ARCH_FIRST_FULL,
     .keys = KEYS(CTX(131072), EPS(1e-5), KV(8), HEAD(128), THETA(1e6), WINDOW(8192), PATTERN(4))},
    {"nemotron", "NemotronForCausalLM", "nemotron", BLOCK(LAYERNORM, RELU2, ROPE), BIASES, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_PLUS_1, .keys = KEYS(CTX(4096), {KEY_NORM_EPS, "norm_eps", 1e-5}, {KEY_PARTIAL_ROTARY, NULL, 0.5})},
    {"arcee", "ArceeForCausalLM", "arcee", BLOCK(RMSNORM, RELU2, ROPE), BIASES, PERMUTED, .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY, .keys = KEYS(CTX(4096), EPS(1e-5))},
    {"apertus", "ApertusForCausalLM", "apertus", BLOCK(RMSNORM, XIELU, ROPE), BIASES, .qk_norm = QK_NORM_HEAD,
     .rope = &llama3_8, .traits = ARCH_WHOLE_ROTARY,
     .tensors =
         NAMES({FIELD_ATTN_NORM, L "attention_layernorm.weight"}, {FIELD_FFN_NORM, L "feedforward_layernorm.weight"}),
     .keys = KEYS(CTX(65536), EPS(1e-5), THETA(1.2e7))},
    {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", "hunyuan-dense", LLAMA, BIASES, .qk_norm = QK_NORM_AFTER_ROPE,
     .traits = ARCH_WHOLE_ROTARY | ARCH_NTK_ALPHA,
     .tensors = NAMES({FIELD_Q_NORM, L "self_attn.query_layernorm.weight"},
                      {FIELD_K_NORM, L "self_attn.key_layernorm.weight"}),
     .keys = KEYS(CTX(2048), EPS(1e-5), {KEY_QK_NORM, NULL, 1})},
    {"gpt2", "GPT2LMHeadModel", "gpt2", STYLE_GPT2, BLOCK(LAYERNORM, GELU, LEARNED), .qkv_bias = BIAS_ALWAYS,
     .out_bias = BIAS_ALWAYS, .mlp_bias = BIAS_ALWAYS, .traits = ARCH_CONV1D, .activation = "activation_function",
     .keys = KEYS(CTX(1024), EPS(1e-5), TIED)},
    {"gpt_bigcode", "GPTBigCodeForCausalLM", "starcoder", STYLE_GPT2, BLOCK(LAYERNORM, GELU, LEARNED),
     .qkv_bias = BIAS_ALWAYS, .out_bias = BIAS_ALWAYS, .mlp_bias = BIAS_ALWAYS, .split = SPLIT_GROUPS,
     .activation = "activation_function",
     .keys =
         KEYS(CTX(1024), EPS(1e-5), TIED, {KEY_MULTI_QUERY, NULL, 1}, {KEY_N_KV_HEADS, "num_key_value_heads", NAN})},
    /* this project's: each swap of GPT-2 to LLaMA on its own (docs/ladder.md) */
    {"llama_swap", "LlamaSwapForCausalLM", NULL, LLAMA, BIASES, .mlp_bias = BIAS_BY_KEY, .traits = ARCH_SWITCHES,
     .keys = KEYS(CTX(2048), EPS(1e-6))},
};
const int n_archs = sizeof archs / sizeof *archs;

const Arch *arch_variant(const Arch *a, bool experts) {
    for (const Arch *b = archs; b < archs + n_archs; b++)
        if (strcmp(a->name, b->name) == 0 && key_default_given(b, KEY_EXPERTS) == experts) return b;
    return a;
}

static const char *name_in(const Arch *a, Style style) { return style == STYLE_GGUF ? a->gguf : a->name; }

const Arch *arch_find(Style style, const char *name, size_t n, const char *path, Error *e) {
    char list[512] = "";
    size_t used = 0;
    for (const Arch *a = archs; a < archs + n_archs; a++) {
        const char *known = name_in(a, style);
        if (known && strlen(known) == n && memcmp(known, name, n) == 0) return a;
        bool said = !known;
        for (const Arch *b = archs; b < a && !said; b++) said = name_in(b, style) && !strcmp(name_in(b, style), known);
        if (!said && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", known);
    }
    fail(e, "%s: %s: expected one of %.600s, found %.*s", path,
         style == STYLE_GGUF ? "general.architecture" : "model_type", list, n < 40 ? (int)n : 40, n ? name : "none");
    return NULL;
}

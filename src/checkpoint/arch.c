#include "checkpoint/arch.h"

#include <stdio.h>
#include <string.h>

/* Defaults: the family's configuration_*.py in transformers. */
#define KEYS(...)                                                                                                      \
    (const KeyName[]) {                                                                                                \
        __VA_ARGS__, { .key = KEY_COUNT }                                                                              \
    }

const Arch archs[] = {
    {.name = "llama",
     .class_name = "LlamaForCausalLM",
     .gguf = "llama",
     .norm = NORM_RMSNORM,
     .ffn = FFN_SWIGLU,
     .pos = POS_ROPE,
     .gguf_pairing = ROPE_PAIRS,
     .qkv_bias = BIAS_BY_KEY,
     .out_bias = BIAS_AS_QKV,
     .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS({KEY_N_CTX, NULL, 2048}, {KEY_NORM_EPS, NULL, 1e-6})},
    {.name = "mistral",
     .class_name = "MistralForCausalLM",
     .gguf = "llama",
     .norm = NORM_RMSNORM,
     .ffn = FFN_SWIGLU,
     .pos = POS_ROPE,
     .gguf_pairing = ROPE_PAIRS,
     .traits = ARCH_WHOLE_ROTARY,
     .keys = KEYS({KEY_N_CTX, NULL, 131072}, {KEY_NORM_EPS, NULL, 1e-6}, {KEY_N_KV_HEADS, NULL, 8},
                  {KEY_WINDOW, NULL, 4096})},
    {.name = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .gguf = "qwen2",
     .norm = NORM_RMSNORM,
     .ffn = FFN_SWIGLU,
     .pos = POS_ROPE,
     .qkv_bias = BIAS_ALWAYS,
     .traits = ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW,
     .keys = KEYS({KEY_N_CTX, NULL, 32768}, {KEY_NORM_EPS, NULL, 1e-6}, {KEY_N_KV_HEADS, NULL, 32},
                  {KEY_WINDOW, NULL, 4096})},
    {.name = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .gguf = "gpt2",
     .style = STYLE_GPT2,
     .norm = NORM_LAYERNORM,
     .ffn = FFN_GELU,
     .pos = POS_LEARNED,
     .qkv_bias = BIAS_ALWAYS,
     .out_bias = BIAS_ALWAYS,
     .mlp_bias = BIAS_ALWAYS,
     .traits = ARCH_CONV1D,
     .activation = "activation_function",
     .keys = KEYS({KEY_N_CTX, NULL, 1024}, {KEY_NORM_EPS, NULL, 1e-5}, {KEY_TIED, NULL, 1})},
    /* this project's: each swap of GPT-2 to LLaMA on its own (docs/ladder.md) */
    {.name = "llama_swap",
     .class_name = "LlamaSwapForCausalLM",
     .norm = NORM_RMSNORM,
     .ffn = FFN_SWIGLU,
     .pos = POS_ROPE,
     .qkv_bias = BIAS_BY_KEY,
     .out_bias = BIAS_AS_QKV,
     .mlp_bias = BIAS_BY_KEY,
     .traits = ARCH_SWITCHES,
     .keys = KEYS({KEY_N_CTX, NULL, 2048}, {KEY_NORM_EPS, NULL, 1e-6})},
};
const int n_archs = sizeof archs / sizeof *archs;

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

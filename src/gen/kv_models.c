#include "gen/kv_models.h"

#include <stddef.h>
#include <string.h>

const KvModel kv_models[] = {
    {"gpt2", 12, 12, 12, 64, 0, 1024, 0, 0, 0, "config.json of openai-community/gpt2"},
    {"gpt-neox-20b", 44, 64, 64, 96, 0, 2048, 0, 0, 0, "arXiv:2204.06745, section 2"},
    {"falcon-7b", 32, 71, 1, 64, 0, 2048, 0, 0, 0, "config.json of tiiuae/falcon-7b"},
    {"smollm2-135m", 30, 9, 3, 64, 0, 8192, 0, 0, 0, "config.json of HuggingFaceTB/SmolLM2-135M"},
    {"llama2-7b", 32, 32, 32, 128, 0, 4096, 0, 0, 0, "config.json of meta-llama/Llama-2-7b-hf"},
    {"llama2-70b", 80, 64, 8, 128, 0, 4096, 0, 0, 0, "config.json of meta-llama/Llama-2-70b-hf"},
    {"llama3-8b", 32, 32, 8, 128, 0, 8192, 0, 0, 0, "arXiv:2407.21783, table 3"},
    {"llama3-70b", 80, 64, 8, 128, 0, 8192, 0, 0, 0, "arXiv:2407.21783, table 3"},
    {"llama3.1-8b", 32, 32, 8, 128, 0, 131072, 0, 0, 0, "config.json of meta-llama/Llama-3.1-8B"},
    {"llama3.1-405b", 126, 128, 8, 128, 0, 131072, 0, 0, 0, "arXiv:2407.21783, table 3"},
    {"mistral-7b", 32, 32, 8, 128, 0, 32768, 4096, 32, 0, "config.json of mistralai/Mistral-7B-v0.1"},
    {"qwen2.5-7b", 28, 28, 4, 128, 0, 131072, 0, 0, 0, "arXiv:2412.15115, table 1"},
    {"qwen3-0.6b", 28, 16, 8, 128, 0, 40960, 0, 0, 0, "config.json of Qwen/Qwen3-0.6B"},
    {"qwen3-8b", 36, 32, 8, 128, 0, 40960, 0, 0, 0, "config.json of Qwen/Qwen3-8B"},
    {"qwen3-32b", 64, 64, 8, 128, 0, 40960, 0, 0, 0, "config.json of Qwen/Qwen3-32B"},
    {"gemma2-9b", 42, 16, 8, 256, 0, 8192, 4096, 21, 0, "config.json of google/gemma-2-9b"},
    {"gemma3-270m", 18, 4, 1, 256, 0, 32768, 512, 15, 0, "config.json of google/gemma-3-270m"},
    {"gemma3-1b", 26, 4, 1, 256, 0, 32768, 512, 22, 0, "config.json of google/gemma-3-1b-it"},
    {"gemma3-4b", 34, 8, 4, 256, 0, 131072, 1024, 29, 0, "config.json of google/gemma-3-4b-it"},
    {"gemma3-27b", 62, 32, 16, 128, 0, 131072, 1024, 52, 0, "config.json of google/gemma-3-27b-it"},
    {"deepseek-v3", 61, 128, 128, 192, 128, 131072, 0, 0, 512 + 64, "arXiv:2412.19437, sections 2.1.1 and 4.2"},
    {.name = NULL},
};

const KvModel *kv_model_named(const char *name) {
    for (const KvModel *m = kv_models; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

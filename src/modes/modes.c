#include "modes/modes.h"

const Mode modes[] = {
    {'g', "generate", "continue a prompt (the default)", mode_generate},
    {'c', "chat", "talk to the model; -y sets the system prompt", mode_chat},
    {'t', "tokenize", "text to token ids, or --tokens to text", mode_tokenize},
    {'l', "logits", "logits after --tokens, of the last position or --all", mode_logits},
    {'i', "info", "what the checkpoint holds", mode_info},
    {'r', "rope", "frequencies of a RoPE configuration, a vector rotated to a position", mode_rope},
    {'k', "kv", "bytes of the KV cache, of a checkpoint or of well-known models, at a context of -c", mode_kv},
    {'v', "verify", "every intermediate against the reference -r, and why the first differs", mode_verify},
    {'a', "trace", "one prompt through the model step by step, one head's attention in numbers", mode_trace},
    {'p', "probe", "which RoPE pairing and scaling the weights fit, by the loss of a short text", mode_probe},
    {'x', "perplexity", "how well the model predicts the text of -f", mode_perplexity},
    {'o', "convert", "write the checkpoint as .gguf, llama2.c .bin or a Hugging Face directory", mode_convert},
    {'n', "batch", "answer each line of -f into -o, several at once", mode_batch},
    {'b', "bench", "tokens a second in prefill and decode, and what the machine allows", mode_bench},
    {'m', "models", "what there is by name, in RUN_MODELS and in Hugging Face's cache", mode_models},
    {0, NULL, NULL, NULL},
};

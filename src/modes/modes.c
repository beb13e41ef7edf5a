#include "modes/modes.h"

const Mode modes[] = {
    {"generate", "continue a prompt (the default)", mode_generate},
    {"chat", "talk to the model; -y sets the system prompt", mode_chat},
    {"tokenize", "text to token ids, or --tokens to text", mode_tokenize},
    {"logits", "logits after --tokens, of the last position or --all", mode_logits},
    {"info", "what the checkpoint holds", mode_info},
    {"rope", "frequencies of a RoPE configuration, a vector turned to a position", mode_rope},
    {"verify", "every intermediate against the reference -r, and why the first differs", mode_verify},
    {"trace", "one prompt through the model step by step, one head's attention in numbers", mode_trace},
    {"probe", "which RoPE pairing and scaling the weights fit, by the loss of a short text", mode_probe},
    {"perplexity", "how well the model predicts the text of -f", mode_perplexity},
    {"convert", "write the checkpoint as .gguf, llama2.c .bin or a Hugging Face directory", mode_convert},
    {"bench", "tokens a second in prefill and decode, and what the machine allows", mode_bench},
    {NULL, NULL, NULL},
};

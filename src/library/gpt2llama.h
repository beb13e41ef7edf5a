/* gpt2llama - LLaMA and GPT-2 checkpoints from C and C++: open one, generate text, ask for logits.
 *
 * A G2L is one conversation with one model; two of them may be used by two threads at once, one by one thread at a
 * time. Functions that fail return NULL or -1 and leave one line, "FILE: thing: expected X, found Y", in error
 * [n_error], a buffer of the caller's; 256 bytes are enough. Nothing is printed, and nothing exits. Link with
 * `pkg-config --libs gpt2llama` (a static library: add --static). Test: tests/test_library.sh */
#ifndef GPT2LLAMA_H
#define GPT2LLAMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define G2L_VERSION 10100 /* 1.1.0 */

typedef struct G2L G2L;

/* g2l_version - G2L_VERSION of the library that is linked; another first number: another interface. */
int g2l_version(void);

/* g2l_open - path: a llama2.c .bin, a .gguf, a .safetensors file or a Hugging Face directory. tokenizer: a file, or
 * NULL for the model's own. n_ctx: tokens of context, 0: the model's (4096 at most). n_threads: 0: the physical cores.
 */
G2L *g2l_open(const char *path, const char *tokenizer, int n_ctx, int n_threads, char *error, size_t n_error);
void g2l_close(G2L *g);

int g2l_vocab_size(const G2L *g);
int g2l_context(const G2L *g);

/* How the next token is chosen. */
typedef struct {
    float temperature; /* 0: greedy */
    int top_k;         /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
} G2LSampling;

/* g2l_generate - the text that follows the prompt (UTF-8), at most n_tokens (0: until the context is full) or until the
 * model ends it. text(arg, bytes, n) gets whole characters as they come; it returns 0 to go on. Returns the number of
 * tokens, or -1. */
int g2l_generate(G2L *g, const char *prompt, int n_tokens, const G2LSampling *sampling,
                 int (*text)(void *arg, const char *bytes, size_t n), void *arg, char *error, size_t n_error);

/* g2l_tokenize - ids [room] of the text, BOS first where the model has it; returns how many there are (more than room:
 * the rest is left out), or -1. */
int g2l_tokenize(G2L *g, const char *text, int *ids, int room, char *error, size_t n_error);

/* g2l_logits - logits [g2l_vocab_size] after the tokens ids [n]. What the last call had in common with them is not
 * computed again, so that the last bits of a logit may differ by it. */
int g2l_logits(G2L *g, const int *ids, int n, float *logits, char *error, size_t n_error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

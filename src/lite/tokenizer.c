/* The vocabularies that need JSON or sentencepiece: each file is refused by name. */
#include "tokenizer/impl.h"
#include "tokenizer/tiktoken.h"

#define EXPECTED "expected a llama2.c or GGUF file (run-lite reads no other, see make)"

int read_tokenizer_json(struct Tokenizer *t, const char *path, Error *e) {
    (void)t;
    return fail(e, "%s: tokenizer: " EXPECTED ", found JSON", path);
}

int read_tokenizer_root(struct Tokenizer *t, const struct cJSON *root, const char *file, Error *e) {
    (void)t, (void)root;
    return fail(e, "%s: tokenizer: " EXPECTED ", found JSON", file);
}

int read_hf_directory(struct Tokenizer *t, const char *dir, Error *e) {
    (void)t;
    return fail(e, "%s: tokenizer: " EXPECTED ", found a directory", dir);
}

int read_sentencepiece(struct Tokenizer *t, const File *file, Error *e) {
    (void)t;
    return fail(e, "%s: tokenizer: " EXPECTED ", found a sentencepiece model", file->path);
}

bool is_tiktoken(const File *file) {
    (void)file;
    return false;
}

int read_tiktoken(struct Tokenizer *t, const File *file, const struct cJSON *added, Error *e) {
    (void)t, (void)added;
    return fail(e, "%s: tokenizer: " EXPECTED ", found ranks", file->path);
}

int read_gguf_unigram(struct Tokenizer *t, const Gguf *g, Error *e) {
    (void)t;
    return fail(e, "%s: tokenizer.ggml.model: expected llama (run-lite reads no other, see make), found t5",
                g->file->path);
}

int read_gguf_wordpiece(struct Tokenizer *t, const Gguf *g, Error *e) {
    (void)t;
    return fail(e, "%s: tokenizer.ggml.model: expected llama (run-lite reads no other, see make), found bert",
                g->file->path);
}

/* A Tokenizer never has such a model here. */
void sp_close(SpModel *m) { (void)m; }
bool sp_encode(const SpModel *m, const char *text, size_t n, bool (*push)(void *arg, int id), void *arg,
               char why[SP_WHY]) {
    (void)m, (void)text, (void)n, (void)push, (void)arg, (void)why;
    return false;
}

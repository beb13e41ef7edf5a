#include "library/gpt2llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/generate.h"

struct G2L {
    Options options;
    Session session;
    int *cached; /* [n_cached] the tokens whose keys and values are in the state, of [n_ctx] */
    int n_cached;
};

int g2l_version(void) { return G2L_VERSION; }

static void tell(char *error, size_t n_error, const Error *e) {
    if (n_error) snprintf(error, n_error, "%s", e->text);
}

G2L *g2l_open(const char *path, const char *tokenizer, int n_ctx, int n_threads, char *error, size_t n_error) {
    Error e = {0};
    const char *argv[] = {"run", "--quiet", "--", path};
    G2L *g = calloc(1, sizeof *g);
    if (!g) fail(&e, "%s: memory: expected some, found none", path);
    else if (n_ctx < 0 || n_threads < 0 || n_threads > 1024)
        fail(&e, "%s: expected a context from 0 and 0 to 1024 threads, found %d and %d", path, n_ctx, n_threads);
    else if (options_parse(&g->options, 4, (char **)(uintptr_t)argv, &e) == 0) {
        g->options.tokenizer = tokenizer;
        if (n_ctx) g->options.ctx = n_ctx;
        g->options.threads = n_threads;
        if (session_open(&g->session, &g->options, SESSION_TOKENIZER | SESSION_STATE, &e) == 0 &&
            (g->cached = calloc((size_t)g->session.state.options.n_ctx, sizeof *g->cached)))
            return g;
        fail(&e, "%s: memory: expected some, found none", path);
    }
    tell(error, n_error, &e);
    g2l_close(g);
    return NULL;
}

void g2l_close(G2L *g) {
    if (!g) return;
    session_close(&g->session);
    options_close(&g->options);
    free(g->cached);
    free(g);
}

int g2l_vocab_size(const G2L *g) { return g->session.model.config.vocab_size; }
int g2l_context(const G2L *g) { return g->session.state.options.n_ctx; }

typedef struct {
    int (*text)(void *arg, const char *bytes, size_t n);
    void *arg;
    char *bytes; /* [n] all that was written */
    size_t n, n_read;
    bool enough;
} Reader;

/* The bytes that the reader has not had. */
static void pass_on(Reader *r) {
    if (r->text && r->n > r->n_read) r->enough = r->text(r->arg, r->bytes + r->n_read, r->n - r->n_read);
    r->n_read = r->n;
}

static int after_token(void *arg, const Generator *g, int id, const float *logits, Error *e) {
    (void)g, (void)id, (void)logits;
    Reader *r = arg;
    pass_on(r);
    return r->enough ? fail(e, "text: the reader has had enough") : 0;
}

int g2l_generate(G2L *g, const char *prompt, int n_tokens, const G2LSampling *sampling,
                 int (*text)(void *arg, const char *bytes, size_t n), void *arg, char *error, size_t n_error) {
    Error e = {0};
    Generator generator = {0};
    Stream stream = {0};
    Reader reader = {.text = text, .arg = arg};
    int *ids = NULL, n = 0, made = -1;
    FILE *out = open_memstream(&reader.bytes, &reader.n);
    g->options.steps = n_tokens;
    g->options.sampler.temperature = sampling->temperature;
    g->options.sampler.top_k = sampling->top_k;
    g->options.sampler.top_p = sampling->top_p;
    g->options.sampler.min_p = sampling->min_p;
    g->options.sampler.seed = sampling->seed;
    g->options.seed_given = true;
    g->options.raw = true;
    g->n_cached = 0;
    if (!out) fail(&e, "text: memory: expected some, found none");
    else if (n_tokens < 0) fail(&e, "n_tokens: expected a number from 0, found %d", n_tokens);
    else if (tokenizer_encode(g->session.tokenizer, prompt, strlen(prompt), TOKENIZE_BOS | TOKENIZE_SPECIAL, &ids, &n,
                              &e) == 0) {
        if (n == 0) fail(&e, "prompt: expected some text, found none");
        else if (generator_init(&generator, &g->options, &g->session, &e) == 0 &&
                 generator_tell(&generator, after_token, &reader, false, &e) == 0 &&
                 generator_prompt(&generator, ids, n, &e) == 0) {
            stream_init(&stream, out, NULL, 0);
            stream.raw = true;
            int status = generator_text(&generator, &stream, &e);
            if (status == 0 && !reader.enough) pass_on(&reader); /* what was held back */
            if (status == 0 || reader.enough) made = generator.n_decode;
            stream_close(&stream);
        }
        generator_close(&generator);
    }
    if (out) fclose(out);
    free(reader.bytes);
    free(ids);
    if (made < 0) tell(error, n_error, &e);
    return made;
}

int g2l_tokenize(G2L *g, const char *text, int *ids, int room, char *error, size_t n_error) {
    Error e = {0};
    int *all, n;
    if (tokenizer_encode(g->session.tokenizer, text, strlen(text), TOKENIZE_BOS | TOKENIZE_SPECIAL, &all, &n, &e)) {
        tell(error, n_error, &e);
        return -1;
    }
    for (int i = 0; i < n && i < room; i++) ids[i] = all[i];
    free(all);
    return n;
}

int g2l_logits(G2L *g, const int *ids, int n, float *logits, char *error, size_t n_error) {
    Error e = {0};
    Session *s = &g->session;
    int vocab = g2l_vocab_size(g), kept = 0, status = 0;
    if (n < 1 || n > g2l_context(g)) status = fail(&e, "tokens: expected 1 to %d, found %d", g2l_context(g), n);
    for (int i = 0; i < n && !status; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            status = fail(&e, "tokens: expected ids from 0 to %d, found %d", vocab - 1, ids[i]);
    if (!status) {
        while (kept < g->n_cached && kept < n - 1 && g->cached[kept] == ids[kept]) kept++;
        kept = kv_cache_kept(&s->state.attn.cache, kept);
        memcpy(g->cached, ids, (size_t)n * sizeof *ids);
        int done = model_prefill(&s->model, &s->state, ids + kept, n - kept, kept, WANTED_LAST, NULL, NULL);
        g->n_cached = n;
        model_logits(&s->model, &s->state, (done - 1) % s->state.options.n_batch);
        status = session_check(s, &e);
        memcpy(logits, s->state.logits, (size_t)vocab * sizeof *logits);
    }
    if (status) tell(error, n_error, &e);
    return status;
}

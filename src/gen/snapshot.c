#include "gen/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/signals.h"
#include "io/file.h"

enum { VERSION = 1, VERSION_WINDOWS = 2 /* windows are all that there is of their layers */, MOST_MESSAGES = 1 << 20 };
enum { MOST_TEXT = 64 << 20 }; /* of all messages */
static const char magic[8] = "RUNCHAT";

/* The head of the file; then tokens [n_tokens], messages, and of each layer and head keys and values (kv_cache_block).
 */
typedef struct {
    char magic[8];
    uint32_t version, kv_type;
    uint64_t model;
    uint32_t n_layers, n_kv_heads, head_dim, n_tokens, n_messages;
    uint32_t padding;
} Head;

typedef struct {
    uint32_t role, padding;
    uint64_t n;
} MessageHead;

/* ---- Hashes: FNV-1a by words of 8 bytes ---- */

enum { HASH_BLOCK = 8 };
static const uint64_t hash_begin = 0xcbf29ce484222325u;

static uint64_t hash(uint64_t h, const void *data, size_t n) {
    const unsigned char *at = data;
    for (; n; at += n < HASH_BLOCK ? n : HASH_BLOCK, n -= n < HASH_BLOCK ? n : HASH_BLOCK) {
        uint64_t word = 0;
        memcpy(&word, at, n < HASH_BLOCK ? n : HASH_BLOCK);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t hash_mat(uint64_t h, const Mat *m) {
    enum { SAMPLES = 8, SAMPLE = 64 };
    int shape[] = {(int)m->dtype, m->rows, m->cols, m->data != NULL};
    h = hash(h, shape, sizeof shape);
    size_t bytes = m->data ? (size_t)m->rows * m->stride_bytes : 0;
    for (int i = 0; i < SAMPLES && bytes >= SAMPLE; i++)
        h = hash(h, (const char *)m->data + (bytes - SAMPLE) / (SAMPLES - 1) * (size_t)i, SAMPLE);
    return h;
}

static uint64_t hash_rope(uint64_t h, const RopeConfig *r) {
    double numbers[] = {r->theta,     r->rotary_dim,   r->pairing,         r->scaling,
                        r->factor,    r->original_ctx, r->low_freq_factor, r->high_freq_factor,
                        r->beta_fast, r->beta_slow,    r->attention_factor};
    return hash(h, numbers, sizeof numbers);
}

uint64_t snapshot_model_hash(const Model *m) {
    const Config *c = &m->config;
    int numbers[] = {c->dim,         c->hidden_dim, c->n_layers,     c->n_heads,       c->n_kv_heads,
                     c->head_dim,    c->vocab_size, c->norm,         c->ffn,           c->pos,
                     c->no_pre_norm, c->parallel,   c->decode_shift, c->rotate != NULL};
    uint64_t h = hash(hash_begin, numbers, sizeof numbers);
    h = hash_rope(hash_rope(h, &c->rope), &c->rope_local);
    h = hash_mat(hash_mat(h, &m->weights.tok_emb), &m->weights.lm_head);
    for (int i = 0; i < c->n_layers; i++) {
        const AttentionWeights *a = &m->weights.layers[i].attn;
        h = hash_mat(hash_mat(hash_mat(hash_mat(h, &a->wq), &a->wk), &a->wv), &a->wo);
        if (m->weights.layers[i].moe.experts) h = hash_mat(h, &m->weights.layers[i].moe.router);
    }
    int experts[] = {c->moe.n_experts, c->moe.n_used, c->moe.shared_dim, c->moe.renormalize};
    if (c->moe.n_experts) h = hash(h, experts, sizeof experts);
    return h;
}

/* ---- Bytes to the file, and from it; both keep a hash of them ---- */

typedef struct {
    FILE *file;
    uint64_t hash;
    const char *path;
    Error *e;
} Io;

static int put(Io *io, const void *data, size_t n) {
    io->hash = hash(io->hash, data, n);
    if (n == 0 || fwrite(data, 1, n, io->file) == n) return 0;
    return fail(io->e, "%s: writing: expected success, found %s", io->path, strerror(errno));
}

static int get(Io *io, void *data, size_t n) {
    if (n && fread(data, 1, n, io->file) != n)
        return fail(io->e, "%s: size: expected %zu bytes more, found the end of the file", io->path, n);
    io->hash = hash(io->hash, data, n);
    return 0;
}

/* Keys, then values of the first n tokens, by put or get; of a layer with a window only what the next token sees. */
static int head_rows(Io *io, const KvCache *c, int layer, int head, int n, bool write) {
    for (int values = 0; values < 2; values++)
        for (int pos = kv_cache_from(c, layer, n); pos < n; pos += KV_BLOCK) {
            KvRows r = kv_cache_block(c, layer, head, pos, n);
            unsigned char *data = values ? r.v : r.k;
            size_t bytes = values ? r.v_bytes : r.k_bytes;
            if (write ? put(io, data, bytes) : get(io, data, bytes)) return -1;
        }
    return 0;
}

static int all_rows(Io *io, const KvCache *c, int n, bool write) {
    for (int layer = 0; layer < c->n_layers; layer++)
        for (int head = 0; head < c->n_kv_heads; head++)
            if (head_rows(io, c, layer, head, n, write)) return -1;
    return 0;
}

static Head head_of(const Generator *g, int n_messages) {
    const KvCache *c = &g->session->state.attn.cache;
    bool windows = false;
    for (int i = 0; i < c->n_layers; i++) windows |= c->layers[i].window > 0;
    Head h = {.version = windows ? VERSION_WINDOWS : VERSION,
              .kv_type = (uint32_t)c->type,
              .model = snapshot_model_hash(&g->session->model),
              .n_layers = (uint32_t)c->n_layers,
              .n_kv_heads = (uint32_t)c->n_kv_heads,
              .head_dim = (uint32_t)c->head_dim,
              .n_tokens = (uint32_t)g->n_cached,
              .n_messages = (uint32_t)n_messages};
    memcpy(h.magic, magic, sizeof magic);
    return h;
}

/* ---- Writing ---- */

static int write_all(Io *io, const Generator *g, const Turns *turns) {
    Head h = head_of(g, turns ? turns->n : 0);
    if (put(io, &h, sizeof h) || put(io, g->cached, (size_t)g->n_cached * sizeof *g->cached)) return -1;
    for (int i = 0; turns && i < turns->n; i++) {
        const Message *m = &turns->list[i];
        MessageHead head = {.role = (uint32_t)m->role, .n = m->n};
        if (put(io, &head, sizeof head) || put(io, m->text, m->n)) return -1;
    }
    if (all_rows(io, &g->session->state.attn.cache, g->n_cached, true)) return -1;
    uint64_t sum = io->hash;
    return put(io, &sum, sizeof sum);
}

/* Each rank caches its heads alone, and a file has all of them. */
static int one_cache(const char *path, const Generator *g, Error *e) {
    const Comm *comm = g->session->model.comm;
    if (!comm) return 0;
    return fail(e, "%s: session: expected one process, which has the whole cache, found %d ranks", path, comm->size);
}

int snapshot_write(const char *path, const Generator *g, const Turns *turns, Error *e) {
    char temporary[CONVERT_NAME];
    if (one_cache(path, g, e)) return -1;
    if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temporary)
        return fail(e, "%s: path: expected a shorter one, found %zu bytes", path, strlen(path));
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) return fail(e, "%s: expected to write it, found %s", path, strerror(errno));
    strcpy(unfinished, temporary);
    Io io = {file, hash_begin, path, e};
    int status = write_all(&io, g, turns);
    if (!status && (fflush(file) || fsync(fd)))
        status = fail(e, "%s: writing: expected success, found %s", path, strerror(errno));
    if (fclose(file) && !status) status = fail(e, "%s: writing: expected success, found %s", path, strerror(errno));
    if (!status && rename(temporary, path))
        status = fail(e, "%s: expected to rename %s to it, found %s", path, temporary, strerror(errno));
    if (status) unlink(temporary);
    unfinished[0] = 0;
    return status;
}

/* ---- Reading ---- */

static int check_head(const Head *h, const Generator *g, const char *path, Error *e) {
    Head ours = head_of(g, 0);
    int n_ctx = g->session->state.options.n_ctx;
    if (memcmp(h->magic, magic, sizeof magic) != 0) return fail(e, "%s: expected a session file, found another", path);
    if (h->version != ours.version)
        return fail(e, "%s: version: expected %u, found %u", path, ours.version, h->version);
    if (h->model != ours.model || h->n_layers != ours.n_layers || h->n_kv_heads != ours.n_kv_heads ||
        h->head_dim != ours.head_dim)
        return fail(e, "%s: model: expected this one's session, found another model's", path);
    if (h->kv_type != ours.kv_type) return fail(e, "%s: KV type: expected that of --kv-type, found another", path);
    if (h->n_tokens > (uint32_t)n_ctx)
        return fail(e, "%s: tokens: expected at most the context's %d, found %u (raise it with -c)", path, n_ctx,
                    h->n_tokens);
    if (h->n_messages > MOST_MESSAGES) return fail(e, "%s: messages: expected fewer, found %u", path, h->n_messages);
    return 0;
}

static int read_messages(Io *io, int n, Turns *turns) {
    size_t left = MOST_TEXT;
    for (int i = 0; i < n; i++) {
        MessageHead head;
        if (get(io, &head, sizeof head)) return -1;
        if (head.role >= ROLE_COUNT)
            return fail(io->e, "%s: message %d: expected a role, found %u", io->path, i, head.role);
        if (head.n > left)
            return fail(io->e, "%s: messages: expected at most %d bytes in all, found more", io->path, MOST_TEXT);
        left -= head.n;
        char *text = malloc(head.n + 1);
        if (!text) return fail(io->e, "%s: memory: expected %zu bytes, found less", io->path, (size_t)head.n);
        text[head.n] = 0;
        if (get(io, text, head.n)) {
            free(text);
            return -1;
        }
        if (turns_add(turns, (Role)head.role, text, head.n, io->e)) return -1;
    }
    return 0;
}

static int read_all(Io *io, Generator *g, int *tokens, Turns *turns, int *n_tokens) {
    Head h;
    uint64_t sum;
    if (get(io, &h, sizeof h) || check_head(&h, g, io->path, io->e)) return -1;
    int n = *n_tokens = (int)h.n_tokens, vocab = g->session->model.config.vocab_size;
    if (get(io, tokens, (size_t)n * sizeof *tokens)) return -1;
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return fail(io->e, "%s: token %d: expected an id from 0 to %d, found %d", io->path, i, vocab - 1,
                        tokens[i]);
    if (read_messages(io, (int)h.n_messages, turns)) return -1;
    g->n_cached = 0; /* from here on the cache is overwritten */
    const KvCache *cache = &g->session->state.attn.cache;
    if (all_rows(io, cache, n, false)) return -1;
    kv_cache_copied(cache, n);
    uint64_t expected = io->hash;
    if (get(io, &sum, sizeof sum)) return -1;
    if (sum != expected || fgetc(io->file) != EOF)
        return fail(io->e, "%s: sum: expected that of its bytes, found another (the file is damaged)", io->path);
    return 0;
}

int snapshot_read(const char *path, Generator *g, Turns *turns, Error *e) {
    Turns messages = {0};
    if (one_cache(path, g, e)) return -1;
    struct stat st;
    int fd = file_open(path, &st, e);
    if (fd < 0) return -1;
    FILE *file = fdopen(fd, "rb");
    if (!file) {
        close(fd);
        return fail(e, "%s: memory: expected some, found none", path);
    }
    Io io = {file, hash_begin, path, e};
    int n = 0, *tokens = calloc((size_t)g->session->state.options.n_ctx, sizeof *tokens);
    int status =
        tokens ? read_all(&io, g, tokens, &messages, &n) : fail(e, "%s: memory: expected some, found none", path);
    fclose(file);
    if (!status) {
        memcpy(g->cached, tokens, (size_t)n * sizeof *tokens);
        g->n_cached = n;
        if (turns) {
            Turns old = *turns;
            *turns = messages;
            messages = old;
        }
    }
    free(tokens);
    turns_close(&messages);
    return status;
}

int snapshot_open(const char *path, Generator *g, Turns *turns, Error *e) {
    if (one_cache(path, g, e) || file_can_write(path, e)) return -1;
    return access(path, F_OK) == 0 ? snapshot_read(path, g, turns, e) : 0;
}

#include "gen/follow.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "dist/order.h"

enum { SAMPLE_BYTES = 4096, SAMPLE_STEP = 1 << 20, HEAD_BYTES = 1 << 20 };

/* h and then n bytes; the same on every rank. */
static uint64_t hash_on(uint64_t h, const void *bytes, size_t n) { return hash_bytes((HashKey){{h, 0}}, bytes, n); }

/* Stands for a file: its size, its first MiB, and 4 KiB of each MiB after it. Read, not mapped: no page of it stays. */
static uint64_t hash_file(uint64_t h, const File *f) {
    char buffer[SAMPLE_BYTES];
    uint64_t size = f->size;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    h = hash_on(h, &size, sizeof size);
    for (off_t at = 0; fd >= 0 && (uint64_t)at < size; at += at < HEAD_BYTES ? SAMPLE_BYTES : SAMPLE_STEP) {
        ssize_t n = pread(fd, buffer, sizeof buffer, at);
        if (n <= 0) break;
        h = hash_on(h, buffer, (size_t)n);
    }
    if (fd >= 0) close(fd);
    return h;
}

static uint64_t hash_checkpoint(const Checkpoint *ck) {
    uint64_t h = 0;
    for (int i = 0; i < ck->n_files; i++) h = hash_file(h, &ck->files[i]);
    return h;
}

/* What has to be the same on all ranks besides the file. */
static uint64_t hash_flags(const Options *o) {
    uint64_t h = hash_on(0, PROGRAM_VERSION, sizeof PROGRAM_VERSION);
    for (int i = 1; i < o->argc; i++) h = hash_on(h, o->argv[i], strlen(o->argv[i]) + 1);
    return h;
}

int session_ranks(Session *s, const Options *o, Error *e) {
    Comm *comm = o->comm;
    if (!comm || comm->size == 1 || s->model.comm) return 0;
    order_send(comm, &(Order){.kind = ORDER_MODEL, .flags = hash_flags(o)}, NULL);
    int outcome = shard_model(&s->shard, &s->model, comm, s->checkpoint.files, s->checkpoint.n_files, e);
    return order_agree(comm, outcome, hash_checkpoint(&s->checkpoint), o->checkpoint, e);
}

static int open_model(Session *s, const Options *o, const Order *order, Error *e) {
    uint64_t hash = 0;
    int outcome = session_open(s, o, 0, e);
    if (!outcome && order->flags != hash_flags(o))
        outcome = fail(e, "command line: expected rank 0's flags and version, found others");
    if (!outcome) outcome = shard_model(&s->shard, &s->model, o->comm, s->checkpoint.files, s->checkpoint.n_files, e);
    if (!outcome) hash = hash_checkpoint(&s->checkpoint);
    order_agree(o->comm, outcome, hash, "", e);
    return outcome;
}

static void nothing(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                    int pos) {
    (void)arg, (void)name, (void)layer, (void)x, (void)rows, (void)cols, (void)from, (void)to, (void)pos;
}

static int open_state(Session *s, const Options *o, const Order *order, Error *e) {
    StateOptions so = {.n_ctx = order->n_ctx,
                       .n_batch = order->n_batch,
                       .n_logits = order->n_logits,
                       .n_threads = o->threads ? o->threads : model_default_threads(&s->model),
                       .kv_type = (KvType)order->kv_type,
                       .deterministic = order->deterministic,
                       .kernels = order->scalar ? &kernels_ref : NULL};
    state_close(&s->state);
    return state_init(&s->state, &s->model, &so, e);
}

int follow(const Options *o, Error *e) {
    Session s = {0};
    Order order = {.kind = ORDER_CLOSE};
    int room = 0, *tokens = NULL;
    while (order.kind != ORDER_STOP) {
        order_receive(o->comm, &order, tokens, room);
        State *state = &s.state;
        state->tap = order.watched ? nothing : NULL;
        switch (order.kind) {
        case ORDER_MODEL: open_model(&s, o, &order, e); break;
        case ORDER_STATE:
            free(tokens);
            tokens = malloc((size_t)order.n_batch * sizeof *tokens);
            room = tokens ? order.n_batch : 0;
            open_state(&s, o, &order, e);
            break;
        case ORDER_PASS: model_pass(&s.model, state, tokens, order.n, order.pos, order.seq_len, order.row); break;
        case ORDER_LOGITS:
            state->largest = order.n_logits;
            model_logits_span(&s.model, state, order.row, order.n);
            break;
        case ORDER_CLOSE: state_close(state); break;
        case ORDER_STOP: break;
        }
    }
    session_close(&s);
    free(tokens);
    *e = (Error){0}; /* rank 0 has said it */
    return 0;
}

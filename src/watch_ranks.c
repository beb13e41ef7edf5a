#include "watch_ranks.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char name[8];
    int layer, rows, cols, from, to, pos; /* [rows, to - from] values follow */
} Record;

static bool is_heads(const char *name) { return strchr("qkv", name[0]) && (name[1] == 0 || name[1] == '_'); }

static size_t record_bytes(const Record *r) {
    return sizeof *r + (size_t)r->rows * (size_t)(r->to - r->from) * sizeof(float);
}

void watch_ranks_tap(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                     int pos) {
    WatchRanks *w = arg;
    if (!is_heads(name)) {
        if (w->comm->rank == 0) w->tap(w->arg, name, layer, x, rows, cols, from, to, pos);
        return;
    }
    int shift = name[0] == 'q' ? w->q_from : w->k_from;
    Record r = {.layer = layer,
                .rows = rows,
                .cols = name[0] == 'q' ? w->q_cols : w->k_cols,
                .from = from + shift,
                .to = to + shift,
                .pos = pos};
    strncpy(r.name, name, sizeof r.name - 1);
    size_t bytes = record_bytes(&r);
    if (w->used + bytes > w->room) {
        size_t room = 2 * (w->used + bytes);
        unsigned char *larger = realloc(w->records, room);
        if (!larger) return; /* the tap does not see it, and says so */
        w->records = larger;
        w->room = room;
    }
    memcpy(w->records + w->used, &r, sizeof r);
    float *values = (float *)(void *)(w->records + w->used + sizeof r);
    for (int row = 0; row < rows; row++)
        memcpy(values + (size_t)row * (size_t)(to - from), x + (size_t)row * (size_t)cols + from,
               (size_t)(to - from) * sizeof *values);
    w->used += bytes;
}

static void show(const WatchRanks *w, const unsigned char *records, size_t used) {
    for (size_t at = 0; at < used;) {
        Record r;
        memcpy(&r, records + at, sizeof r);
        const float *values = (const float *)(const void *)(records + at + sizeof r);
        float *x = calloc((size_t)r.rows * (size_t)r.cols, sizeof *x);
        size_t n = (size_t)(r.to - r.from);
        for (int row = 0; x && row < r.rows; row++)
            memcpy(x + (size_t)row * (size_t)r.cols + r.from, values + (size_t)row * n, n * sizeof *x);
        if (x) w->tap(w->arg, r.name, r.layer, x, r.rows, r.cols, r.from, r.to, r.pos);
        free(x);
        at += record_bytes(&r);
    }
}

void watch_ranks_end(WatchRanks *w) {
    if (w->comm->rank) {
        uint64_t size = w->used;
        comm_send(w->comm, 0, &size, sizeof size);
        if (size) comm_send(w->comm, 0, w->records, w->used);
    } else {
        show(w, w->records, w->used);
        for (int i = 1; i < w->comm->size; i++) {
            uint64_t size = 0;
            comm_receive(w->comm, i, &size, sizeof size, false);
            unsigned char *records = size ? malloc(size) : NULL;
            if (records) {
                comm_receive(w->comm, i, records, size, false);
                show(w, records, size);
            }
            free(records);
        }
    }
    free(w->records);
    w->records = NULL;
    w->used = w->room = 0;
}

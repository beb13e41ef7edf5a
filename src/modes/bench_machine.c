#include "modes/bench_machine.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/team.h"
#include "kernels/blas.h"
#include "kernels/kernels.h"
#include "modes/int8_peak.h"

enum { READ_BYTES = 256 << 20, GEMM_N = 1024, INT8_LOOPS = 1 << 24, PASSES = 3 };

typedef struct {
    const uint64_t *data;
    size_t n;
    uint64_t sum[64];
} Reading;

static void read_share(const Thread *t, void *arg) {
    Reading *r = arg;
    size_t from, to;
    team_share(t, r->n, 64, &from, &to);
    /* Four streams, each asking for its lines 1 KiB ahead: what one core needs to use the memory's whole rate. */
    enum { STREAMS = 4, LINE = 64 / sizeof *r->data, AHEAD = 1024 / sizeof *r->data };
    size_t each = (to - from) / STREAMS / LINE * LINE;
    uint64_t a[LINE] = {0};
    for (size_t i = 0; i < each; i += LINE)
        for (size_t stream = 0; stream < STREAMS; stream++) {
            const uint64_t *p = r->data + from + stream * each + i;
            __builtin_prefetch(p + AHEAD);
            for (int j = 0; j < LINE; j++) a[j] ^= p[j];
        }
    for (int j = 1; j < LINE; j++) a[0] ^= a[j];
    if (t->id < 64) r->sum[t->id] = a[0]; /* the sum is used, so that the reading is done */
}

typedef struct {
    float *a, *b, *c; /* [GEMM_N, GEMM_N] */
    Blas blas;
    bool own;
} Gemm;

static void gemm_share(const Thread *t, void *arg) {
    Gemm *g = arg;
    size_t from, to;
    team_share(t, GEMM_N, 64, &from, &to);
    if (from == to) return;
    if (g->own) {
        Rows a = {.kernels = kernels_best(), .x = g->a, .n = GEMM_N, .dim = GEMM_N, .tile = ROWS_TILE};
        Mat b = {
            .dtype = DTYPE_F32, .rows = GEMM_N, .cols = GEMM_N, .stride_bytes = GEMM_N * sizeof(float), .data = g->b};
        a.kernels->gemm(g->c, GEMM_N, &b, (int)from, (int)to, &a, false);
    } else {
        g->blas.sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, (int)(to - from), GEMM_N, GEMM_N, 1, g->a + from * GEMM_N,
                      GEMM_N, g->b, GEMM_N, 0, g->c + from * GEMM_N, GEMM_N);
    }
}

struct Machine {
    Team *team;
    Reading reading;
    Gemm gemm;
};

void machine_close(Machine *m) {
    if (!m) return;
    free((uint64_t *)(uintptr_t)m->reading.data);
    free(m->gemm.a);
    free(m->gemm.b);
    free(m->gemm.c);
    free(m);
}

Machine *machine_open(Team *team, Error *e) {
    size_t n = (size_t)GEMM_N * GEMM_N;
    Machine *m = calloc(1, sizeof *m);
    uint64_t *data = malloc(READ_BYTES); /* larger than most caches */
    if (m)
        *m = (Machine){
            team,
            {.data = data, .n = READ_BYTES / sizeof *data},
            {calloc(n, sizeof(float)), calloc(n, sizeof(float)), calloc(n, sizeof(float)), blas_load(), false}};
    if (!m || !data || !m->gemm.a || !m->gemm.b || !m->gemm.c) {
        if (!m) free(data);
        machine_close(m);
        fail(e, "bench: memory: expected %d MiB, found less", (READ_BYTES >> 20) + 12);
        return NULL;
    }
    for (size_t i = 0; i < m->reading.n; i++) data[i] = i;
    for (size_t i = 0; i < n; i++) m->gemm.a[i] = m->gemm.b[i] = (float)(i % 7);
    return m;
}

/* The best of a few passes, each of so much work: work a second. One where that takes long. */
static double best_rate(Team *team, void (*pass)(const Thread *t, void *arg), void *arg, double work) {
    double best = 0, begin = now();
    for (int i = 0; i == 0 || (i < PASSES && now() - begin < 0.2); i++) {
        double start = now(), rate;
        team_run(team, pass, arg);
        rate = work / (now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

/* All threads together do the loops, however many they are. */
static void int8_share(const Thread *t, void *arg) {
    const char *const *level = arg;
    int8_peak(*level, INT8_LOOPS / t->n);
}

double machine_read(Machine *m) { return best_rate(m->team, read_share, &m->reading, READ_BYTES); }

double machine_f32(Machine *m, bool own) {
    if (!own && !m->gemm.blas.sgemm) return 0;
    m->gemm.own = own;
    return best_rate(m->team, gemm_share, &m->gemm, 2.0 * GEMM_N * GEMM_N * GEMM_N);
}

double machine_int8(Machine *m) {
    const char *level = kernels_best()->name;
    double work = 2 * int8_peak(level, 1) * INT8_LOOPS;
    return work > 0 ? best_rate(m->team, int8_share, &level, work) : 0;
}

Rates machine_rates(Machine *m) {
    return (Rates){machine_read(m), machine_f32(m, false), machine_f32(m, true), machine_int8(m), m->gemm.blas.core};
}

/* bench - tokens a second in prefill and decode, beside what the machine could do: the rate at which memory can be
 * read (every weight is read once a token) and the rate of a matrix product in f32 (two operations a weight),
 * OpenBLAS's or that of our own kernels, whichever is the greater: OpenBLAS may not know a newer CPU and fall back. A
 * shared machine changes its speed from second to second, so the limit is measured anew before each run, for that run.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "modes/modes.h"
#include "gen/progress.h"
#include "gen/session.h"
#include "kernels/quantize.h"

enum {
    READ_BYTES = 256 << 20,
    GEMM_N = 1024,
    PASSES = 3,
    MAX_RUNS = 1000 /* as of -r */,
    MAX_CTX = 1 << 26 /* as of -c */
};

typedef struct {
    char name[32];
    double median, min, max; /* tokens a second */
    double limit;            /* median of what was measured before the runs: bytes or operations a second */
    double fraction;         /* of what the limit allows, median */
    double messages, bytes;  /* that rank 0 sends for a token */
    double waiting;          /* share of the time in which it waits for the other ranks */
} BenchResult;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x[n]. */
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- What the machine can do ------------------------------------------------------------------- */

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

/* OpenBLAS is loaded for this yardstick alone: its constructor takes memory and threads, and does not end where there
 * is too little address space. Its enumerations are C's ints. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void Sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc);

typedef struct {
    Sgemm *sgemm;     /* NULL: there is no OpenBLAS on this machine */
    const char *core; /* the CPU it takes this one for */
} Blas;

/* The library stays loaded: its threads cannot be taken out of a running process. */
static Blas blas_load(void) {
    Blas blas = {NULL, "none"};
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
        return blas; /* its constructor may loop */
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return blas;
    *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
    char *(*core)(void);
    void (*set_threads)(int);
    *(void **)&core = dlsym(library, "openblas_get_corename");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(1); /* each of our threads has its share */
    if (core) blas.core = core();
    return blas;
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

typedef struct {
    Team *team;
    Reading reading;
    Gemm gemm;
} Machine;

static void machine_close(Machine *m) {
    free((uint64_t *)(uintptr_t)m->reading.data);
    free(m->gemm.a);
    free(m->gemm.b);
    free(m->gemm.c);
}

static int machine_open(Machine *m, Team *team, Error *e) {
    size_t n = (size_t)GEMM_N * GEMM_N;
    uint64_t *data = malloc(READ_BYTES); /* larger than most caches */
    *m = (Machine){team,
                   {.data = data, .n = READ_BYTES / sizeof *data},
                   {calloc(n, sizeof(float)), calloc(n, sizeof(float)), calloc(n, sizeof(float)), blas_load(), false}};
    if (!data || !m->gemm.a || !m->gemm.b || !m->gemm.c) {
        machine_close(m);
        m->team = NULL;
        return fail(e, "bench: memory: expected %d MiB, found less", (READ_BYTES >> 20) + 12);
    }
    for (size_t i = 0; i < m->reading.n; i++) data[i] = i;
    for (size_t i = 0; i < n; i++) m->gemm.a[i] = m->gemm.b[i] = (float)(i % 7);
    return 0;
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

static double read_rate(Machine *m) { return best_rate(m->team, read_share, &m->reading, READ_BYTES); }

static double gemm_rate(Machine *m, bool own) {
    if (!own && !m->gemm.blas.sgemm) return 0;
    m->gemm.own = own;
    return best_rate(m->team, gemm_share, &m->gemm, 2.0 * GEMM_N * GEMM_N * GEMM_N);
}

/* ---- What a token costs -------------------------------------------------------------------------- */

typedef struct {
    double decode_bytes;  /* weights that one token reads */
    double prefill_flops; /* operations of one token without what only the last row passes: head and last layer */
} Cost;

static void count(Cost *c, const Mat *w, bool prefill) {
    if (!w->data) return;
    c->decode_bytes += (double)w->rows * (double)dtype_row_bytes(w->dtype, (size_t)w->cols);
    if (prefill) c->prefill_flops += 2.0 * w->rows * w->cols;
}

static Cost cost_of(const Model *m) {
    Cost c = {0};
    for (int i = 0; i < m->config.n_layers; i++) {
        const Layer *l = &m->weights.layers[i];
        /* a token goes through so many of a layer's experts, which are all alike, and through the shared one */
        const FfnWeights *ffn = l->moe.experts ? l->moe.experts : &l->ffn, *shared = &l->moe.shared;
        const Mat *all[] = {&l->attn.wq,   &l->attn.wk,     &l->attn.wv,  &l->attn.wo, &l->moe.router, &shared->w_gate,
                            &shared->w_up, &shared->w_down, &ffn->w_gate, &ffn->w_up,  &ffn->w_down};
        enum { FIRST_EXPERT = 8 };
        bool last = i == m->config.n_layers - 1; /* of it prefill needs keys and values alone */
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            for (int n = l->moe.experts && j >= FIRST_EXPERT ? m->config.moe.n_used : 1; n; n--)
                count(&c, all[j], !last || j == 1 || j == 2);
    }
    count(&c, &m->weights.lm_head, false);
    return c;
}

/* ---- The two tests ------------------------------------------------------------------------------- */

static void fill_tokens(int *tokens, int n, int vocab_size) {
    for (int i = 0; i < n; i++) tokens[i] = (int)((unsigned)i * 2654435761u % (unsigned)vocab_size);
}

/* How far all runs are; NULL: nobody is told. */
typedef struct {
    Progress progress;
    long long before, total; /* tokens */
} Done;

static bool show(void *arg, int done, int total) {
    Done *d = arg;
    (void)total;
    progress_show(&d->progress, (int)(1000 * (d->before + done) / d->total), 1000);
    return !interrupted;
}

/* Seconds of one run: prefill of n tokens in batches at depth, or n single tokens with their logits. */
static double time_run(Session *s, const int *tokens, int n, int depth, bool prefill, Done *done) {
    double start = now();
    if (prefill) {
        model_prefill(&s->model, &s->state, tokens, n, depth, WANTED_LAST, done ? show : NULL, done);
        model_logits(&s->model, &s->state, (n - 1) % s->state.options.n_batch);
    } else {
        for (int i = 0; i < n; i++) {
            model_forward(&s->model, &s->state, tokens + i, 1, depth + i);
            model_logits(&s->model, &s->state, 0);
            if (done) show(done, i + 1, n);
        }
    }
    return now() - start;
}

/* What is measured must be a model: NaN takes another time than numbers. */
static int check_logits(const Session *s, Error *e) {
    if (!floats_finite(s->state.logits, (size_t)s->model.config.vocab_size))
        return fail(e, "%s: logits: expected finite numbers to measure, found NaN or infinity (see --check)",
                    s->checkpoint.path);
    return session_check(s, e);
}

/* work: bytes or operations of a token. Returns 0, 130 after Ctrl-C, 1 with e set. */
static int bench(BenchResult *r, Session *s, const Options *o, const int *tokens, int n, bool prefill, Machine *m,
                 bool own, double work, Done *done, Error *e) {
    double rate[MAX_RUNS], limit[MAX_RUNS], fraction[MAX_RUNS];
    int runs = o->bench_runs;
    for (int i = 0; i < runs; i++) {
        limit[i] = prefill ? gemm_rate(m, own) : read_rate(m);
        time_run(s, tokens, n < 8 ? n : 8, o->bench_depth, prefill, NULL); /* caches and threads are warm */
        if (check_logits(s, e)) return 1;
        CommCount before = o->comm ? o->comm->count : (CommCount){0};
        double seconds = time_run(s, tokens, n, o->bench_depth, prefill, done);
        done->before += n;
        rate[i] = n / seconds;
        if (o->comm) {
            r->messages = (double)(o->comm->count.messages - before.messages) / n;
            r->bytes = (double)(o->comm->count.bytes - before.bytes) / n;
            r->waiting = (o->comm->count.wait_seconds - before.wait_seconds) / seconds;
        }
        fraction[i] = rate[i] * work / limit[i];
        if (interrupted) return 130;
    }
    r->median = median(rate, runs);
    r->min = rate[0];
    r->max = rate[runs - 1];
    r->limit = median(limit, runs);
    r->fraction = median(fraction, runs);
    snprintf(r->name, sizeof r->name, o->bench_depth ? "%s%d@d%d" : "%s%d", prefill ? "pp" : "tg", n, o->bench_depth);
    return 0;
}

typedef struct {
    double read, blas, own; /* GB/s, GFLOP/s */
    const char *core;       /* that OpenBLAS computes for */
} Rates;

static void print_ranks(FILE *out, const Options *o, const BenchResult *r) {
    if (o->json)
        fprintf(out, ", \"messages\": %.2f, \"bytes\": %.0f, \"waiting\": %.3f", r->messages, r->bytes, r->waiting);
    else
        fprintf(out, "  a token: %.2f messages and %.0f bytes from rank 0 of %d, which waits %.0f%% of the time\n",
                r->messages, r->bytes, o->comm->size, 100 * r->waiting);
}

static void print(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates) {
    const char *cpu = kernels_best()->name;
    double gemm = rates->blas > rates->own ? rates->blas : rates->own;
    if (o->json) {
        fprintf(out,
                "{\"threads\": %d, \"cpu\": \"%s\", \"read_gb_s\": %.2f, \"sgemm_gflops\": %.1f, "
                "\"openblas_gflops\": %.1f, \"openblas_cpu\": \"%s\", \"results\": [",
                threads, cpu, rates->read, gemm, rates->blas, rates->core);
        for (int i = 0; i < n; i++) {
            fprintf(out,
                    "%s{\"test\": \"%s\", \"tok_s\": %.3f, \"min\": %.3f, \"max\": %.3f, "
                    "\"fraction_of_limit\": %.4f",
                    i ? ", " : "", r[i].name, r[i].median, r[i].min, r[i].max, r[i].fraction);
            if (o->comm) print_ranks(out, o, &r[i]);
            fputc('}', out);
        }
        fputs("]}\n", out);
    } else if (o->csv) {
        fputs("test,threads,cpu,tok_s,min,max,fraction_of_limit,read_gb_s,sgemm_gflops,openblas_gflops\n", out);
        for (int i = 0; i < n; i++)
            fprintf(out, "%s,%d,%s,%.3f,%.3f,%.3f,%.4f,%.2f,%.1f,%.1f\n", r[i].name, threads, cpu, r[i].median,
                    r[i].min, r[i].max, r[i].fraction, rates->read, gemm, rates->blas);
    } else {
        fprintf(out, "%d threads, %s kernels; memory reads %.1f GB/s; f32 products %.0f GFLOP/s, OpenBLAS (%s) %.0f\n",
                threads, cpu, rates->read, rates->own, rates->core, rates->blas);
        fputs("test              tok/s       min       max  of the limit\n", out);
        for (int i = 0; i < n; i++) {
            fprintf(out, "%-13s %9.1f %9.1f %9.1f %12.0f%%\n", r[i].name, r[i].median, r[i].min, r[i].max,
                    100 * r[i].fraction);
            if (o->comm) print_ranks(out, o, &r[i]);
        }
    }
}

int mode_bench(const Options *o, FILE *out, Error *e) {
    Session s;
    int status = 1, n_results = 0, prefill = o->bench_prefill, decode = o->steps < 0 ? 64 : o->steps;
    int longest = prefill > decode ? prefill : decode;
    int *tokens = NULL;
    Machine machine = {0};
    BenchResult results[2] = {{.min = 0}};
    if (longest < 1) {
        fail(e, "-P, -n: tokens: expected one of them above 0, found 0 and 0");
        return 2;
    }
    if (longest > MAX_CTX - o->bench_depth) {
        fail(e, "-d and the larger of -P and -n: expected at most %d tokens together, found %lld", MAX_CTX,
             (long long)o->bench_depth + longest);
        return 2;
    }
    if (session_open(&s, o, 0, e)) return 1;
    if (session_state(&s, o, o->bench_depth + longest, e)) goto done;
    int room = o->bench_depth > longest ? o->bench_depth : longest;
    tokens = malloc((size_t)room * sizeof *tokens);
    if (!tokens) {
        fail(e, "bench: memory: expected some, found none");
        goto done;
    }
    fill_tokens(tokens, room, s.model.config.vocab_size);
    if (machine_open(&machine, s.state.team, e)) goto done;
    Rates rates = {read_rate(&machine) / 1e9, gemm_rate(&machine, false) / 1e9, gemm_rate(&machine, true) / 1e9,
                   machine.gemm.blas.core};
    bool own = rates.own > rates.blas;

    Cost cost = cost_of(&s.model);
    const Config *c = &s.model.config;
    double kv = (double)kv_bytes_per_token(o->kv_type, c->n_layers, c->n_kv_heads, c->head_dim);
    double bytes = cost.decode_bytes + kv * (o->bench_depth + decode / 2.0);
    Done done = {.total = o->bench_depth + (long long)o->bench_runs * (prefill + decode)};
    progress_begin(&done.progress, o->log, "bench", o->quiet);
    if (o->bench_depth) model_prefill(&s.model, &s.state, tokens, o->bench_depth, 0, WANTED_LAST, show, &done);
    done.before = o->bench_depth;
    if (prefill) {
        BenchResult *r = &results[n_results++];
        if ((status = bench(r, &s, o, tokens, prefill, true, &machine, own, cost.prefill_flops, &done, e))) goto done;
        *(own ? &rates.own : &rates.blas) = r->limit / 1e9;
    }
    if (decode) {
        BenchResult *r = &results[n_results++];
        if ((status = bench(r, &s, o, tokens, decode, false, &machine, own, bytes, &done, e))) goto done;
        rates.read = r->limit / 1e9;
    }
    progress_end(&done.progress);
    print(out, o, results, n_results, team_size(s.state.team), &rates);
    status = 0;
done:
    if (machine.team) machine_close(&machine);
    free(tokens);
    session_close(&s);
    return status;
}

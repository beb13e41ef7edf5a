/* bench - tokens a second in prefill and decode, beside what the machine could do: the rate at which memory can be
 * read (every weight is read once a token), and the rate of a product (two operations a weight): for f32 OpenBLAS's or
 * that of our own kernels, whichever is the greater, as OpenBLAS may not know a newer CPU and fall back; for weights
 * that are multiplied in int8 what their instructions do on registers alone. A shared machine changes its speed from
 * second to second, so the limit is measured anew before each run, for that run. */
#include <stdlib.h>

#include "base/clock.h"
#include "gen/progress.h"
#include "gen/session.h"
#include "kernels/quantize.h"
#include "modes/bench_print.h"
#include "modes/modes.h"

enum { MAX_RUNS = 1000 /* as of -r */, MAX_CTX = 1 << 26 /* as of -c */ };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x[n]. */
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- What a token costs -------------------------------------------------------------------------- */

typedef struct {
    double bytes; /* weights that one token reads in decode */
    double f32,
        int8;       /* operations of one token in prefill, without what only the last row passes: head and last layer */
    bool quantized; /* activations are brought into int8 */
} Cost;

static void count(Cost *c, const Mat *w, bool prefill) {
    if (!w->data) return;
    c->bytes += (double)w->rows * (double)dtype_row_bytes(w->dtype, (size_t)w->cols);
    if (prefill) *(c->quantized && mat_is_quantized(w) ? &c->int8 : &c->f32) += 2.0 * w->rows * w->cols;
}

static Cost cost_of(const Model *m) {
    Cost c = {.quantized = m->int8 && kernels_best()->int8};
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

/* The seconds that a token takes at the limit, as the machine is just now. */
static double prefill_limit(Machine *m, const Cost *c, bool own) {
    double seconds = c->f32 > 0 ? c->f32 / machine_f32(m, own) : 0;
    return c->int8 > 0 ? seconds + c->int8 / machine_int8(m) : seconds;
}

/* Returns 0, 130 after Ctrl-C, 1 with e set. */
static int bench(BenchResult *r, Session *s, const Options *o, const int *tokens, int n, bool prefill, Machine *m,
                 bool own, const Cost *cost, Done *done, Error *e) {
    double rate[MAX_RUNS], fraction[MAX_RUNS];
    int runs = o->bench_runs;
    for (int i = 0; i < runs; i++) {
        double limit = prefill ? prefill_limit(m, cost, own) : cost->bytes / machine_read(m);
        time_run(s, tokens, n < 8 ? n : 8, o->bench_depth, prefill, NULL); /* caches and threads are warm */
        if (check_logits(s, e)) return 1;
        CommCount before = o->comm ? o->comm->count : (CommCount){0};
        double seconds = time_run(s, tokens, n, o->bench_depth, prefill, done);
        done->before += n;
        rate[i] = n / seconds;
        if (o->comm) {
            r->messages = (double)(o->comm->count.messages - before.messages) / n;
            r->bytes = (double)(o->comm->count.bytes - before.bytes) / n;
            r->received = (double)(o->comm->count.received - before.received) / n;
            r->waiting = (o->comm->count.wait_seconds - before.wait_seconds) / seconds;
        }
        fraction[i] = rate[i] * limit;
        if (interrupted) return 130;
    }
    r->median = median(rate, runs);
    r->min = rate[0];
    r->max = rate[runs - 1];
    r->fraction = median(fraction, runs);
    r->limit = !prefill                 ? "the memory's rate"
               : cost->int8 > cost->f32 ? "the int8 product's rate"
                                        : "the f32 product's rate";
    snprintf(r->name, sizeof r->name, o->bench_depth ? "%s%d@d%d" : "%s%d", prefill ? "pp" : "tg", n, o->bench_depth);
    return 0;
}

int mode_bench(const Options *o, FILE *out, Error *e) {
    Session s;
    int status = 1, n_results = 0, prefill = o->bench_prefill, decode = o->steps < 0 ? 64 : o->steps;
    int longest = prefill > decode ? prefill : decode;
    int *tokens = NULL;
    Machine *machine = NULL;
    cJSON *earlier = NULL;
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
    if (o->compare && !(earlier = bench_read(o->compare, e))) return 1;
    if (session_open(&s, o, 0, e)) {
        cJSON_Delete(earlier);
        return 1;
    }
    if (session_state(&s, o, o->bench_depth + longest, e)) goto done;
    s.state.largest = 1; /* what greedy decoding wants of other ranks */
    int room = o->bench_depth > longest ? o->bench_depth : longest;
    tokens = malloc((size_t)room * sizeof *tokens);
    if (!tokens) {
        fail(e, "bench: memory: expected some, found none");
        goto done;
    }
    fill_tokens(tokens, room, s.model.config.vocab_size);
    if (!(machine = machine_open(s.state.team, e))) goto done;
    Rates rates = machine_rates(machine);
    bool own = rates.own > rates.blas;

    Cost cost = cost_of(&s.model);
    const Config *c = &s.model.config;
    double kv = (double)kv_bytes_per_token(o->kv_type, c->n_layers, c->n_kv_heads, c->head_dim);
    cost.bytes += kv * (o->bench_depth + decode / 2.0);
    Done done = {.total = o->bench_depth + (long long)o->bench_runs * (prefill + decode)};
    progress_begin(&done.progress, o->log, "bench", o->quiet);
    if (o->bench_depth) model_prefill(&s.model, &s.state, tokens, o->bench_depth, 0, WANTED_LAST, show, &done);
    done.before = o->bench_depth;
    for (int is_prefill = 1; is_prefill >= 0; is_prefill--) {
        int n = is_prefill ? prefill : decode;
        BenchResult *r = &results[n_results];
        if (n == 0) continue;
        if ((status = bench(r, &s, o, tokens, n, is_prefill, machine, own, &cost, &done, e))) goto done;
        r->before = earlier ? bench_find(earlier, r->name) : 0;
        n_results++;
    }
    progress_end(&done.progress);
    bench_print(out, o, results, n_results, team_size(s.state.team), &rates, earlier);
    status = 0;
done:
    machine_close(machine);
    cJSON_Delete(earlier);
    free(tokens);
    session_close(&s);
    return status;
}

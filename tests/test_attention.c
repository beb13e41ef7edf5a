/* Attention against its formula in double, for every cache type, group size and length around the edges of blocks
 * and chunks; the same bits for any number of threads and any split of the prefill when that is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

#include "tests/random.h"

#include <cmocka.h>

typedef struct {
    KvCache cache;
    Arena arena;
    int n_heads, n; /* query heads; tokens */
    float *q, *k, *v, *out;
    AttentionConfig config;
    AttentionWeights weights; /* window, sinks */
} Case;

static void case_open(Case *c, KvType type, int kv_heads, int group, int d, int n) {
    Error e = {0};
    *c = (Case){
        .cache =
            {.type = type, .n_layers = 2, .n_ctx = n, .n_kv_heads = kv_heads, .head_dim = d, .kernels = kernels_best()},
        .n_heads = kv_heads * group,
        .n = n};
    Arena count = {0};
    kv_cache_take(&c->cache, &count);
    assert_int_equal(arena_init(&c->arena, count.used, "test", &e), 0);
    kv_cache_take(&c->cache, &c->arena);
    size_t kv = (size_t)(n * kv_heads * d), q = kv * (size_t)group;
    c->q = malloc(q * sizeof(float));
    c->out = malloc(q * sizeof(float));
    c->k = malloc(kv * sizeof(float));
    c->v = malloc(kv * sizeof(float));
    for (size_t i = 0; i < q; i++) c->q[i] = 3 * random_unit();
    for (size_t i = 0; i < kv; i++) {
        c->k[i] = random_unit();
        c->v[i] = random_unit();
    }
    for (int pos = 0; pos < n; pos++)
        for (int h = 0; h < kv_heads; h++) {
            size_t at = ((size_t)pos * (size_t)kv_heads + (size_t)h) * (size_t)d;
            kv_cache_write_key(&c->cache, 1, h, pos, c->k + at);
            kv_cache_write_value(&c->cache, 1, h, pos, c->v + at);
        }
}

static void case_close(Case *c) {
    arena_close(&c->arena);
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->out);
}

typedef struct {
    Case *c;
    int piece;
    void *scratch;
    int only; /* the first position; 0: all */
} Run;

static void body(const Thread *t, void *arg) {
    Run *r = arg;
    Case *c = r->c;
    size_t row = (size_t)(c->n_heads * c->cache.head_dim);
    for (int pos = r->only; pos < c->n; pos += r->piece) {
        int n = c->n - pos < r->piece ? c->n - pos : r->piece;
        Pass p = {.t = t, .kernels = kernels_best(), .n = n, .pos = pos, .layer = 1};
        Rows out = rows_open(&(RowBuffer){.dim = (int)row, .x = c->out + (size_t)pos * row}, &p);
        AttentionState s = {.config = c->config,
                            .n_heads = c->n_heads,
                            .cache = c->cache,
                            .q = c->q + (size_t)pos * row,
                            .scratch = r->scratch};
        attend(&p, &out, &c->weights, &s);
        team_barrier(t);
    }
}

/* Every token's attention, in pieces of `piece` tokens on `threads` threads. */
static void run(Case *c, int piece, int threads) {
    Team *team = team_open(threads);
    size_t bytes = attention_scratch_bytes(c->n_heads, c->cache.head_dim, threads);
    Run r = {c, piece, aligned_alloc(64, (bytes + 63) / 64 * 64), 0};
    memset(r.scratch, 0, bytes);
    team_run(team, body, &r);
    free(r.scratch);
    team_close(team);
}

static double worst_error(const Case *c) {
    int d = c->cache.head_dim, group = c->n_heads / c->cache.n_kv_heads;
    double worst = 0, *weight = malloc((size_t)c->n * sizeof *weight);
    float *row = malloc((size_t)d * sizeof *row);
    for (int r = 0; r<c->n; r += c->n> 100 ? 29 : 1) {
        for (int h = 0; h < c->n_heads; h++) {
            size_t at = ((size_t)r * (size_t)c->n_heads + (size_t)h) * (size_t)d;
            const AttentionConfig *k = &c->config;
            double max = -1e300, total = 0, *sum = calloc((size_t)d, sizeof *sum);
            double scale = k->scale > 0 ? (double)k->scale : 1 / sqrt(d);
            int from = c->weights.window && r >= c->weights.window ? r - c->weights.window + 1 : 0;
            if (k->temperature > 0)
                scale *= 1 + (double)k->temperature * log(1 + floor((double)r / k->temperature_ctx));
            for (int p = from; p <= r; p++) {
                kv_cache_key(row, &c->cache, 1, h / group, p);
                weight[p] = 0;
                for (int i = 0; i < d; i++) weight[p] += (double)c->q[at + (size_t)i] * (double)row[i];
                weight[p] *= scale;
                if (k->softcap > 0) weight[p] = (double)k->softcap * tanh(weight[p] / (double)k->softcap);
                max = fmax(max, weight[p]);
            }
            if (c->weights.sinks) total = exp((double)c->weights.sinks[h] - max);
            for (int p = from; p <= r; p++) {
                kv_cache_value(row, &c->cache, 1, h / group, p);
                total += weight[p] = exp(weight[p] - max);
                for (int i = 0; i < d; i++) sum[i] += weight[p] * (double)row[i];
            }
            for (int i = 0; i < d; i++) worst = fmax(worst, fabs(sum[i] / total - (double)c->out[at + (size_t)i]));
            free(sum);
        }
    }
    free(weight);
    free(row);
    return worst;
}

static void equals_the_formula(void **state) {
    (void)state;
    static const int shapes[][4] = {/* KV heads, group, head_dim, tokens */
                                    {1, 1, 8, 1},   {2, 1, 10, 33},  {3, 3, 64, 70},
                                    {1, 40, 32, 5}, {2, 4, 96, 131}, {3, 2, 64, 700}};
    for (KvType type = KV_F32; type <= KV_Q8_0; type++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int *s = shapes[i];
            if (type == KV_Q8_0 && s[2] % QK) continue;
            Case c;
            case_open(&c, type, s[0], s[1], s[2], s[3]);
            for (int threads = 1; threads <= 3; threads++) {
                for (int piece = 1; piece <= s[3]; piece = piece * 5 + 1) {
                    memset(c.out, 0xff, (size_t)(c.n * c.n_heads * s[2]) * sizeof(float)); /* NaN */
                    run(&c, piece, threads);
                    double error = worst_error(&c);
                    if (!(error < 5e-6))
                        fail_msg("type %d shape %zu threads %d piece %d: error %g", type, i, threads, piece, error);
                }
            }
            case_close(&c);
        }
    }
}

/* What families have besides: a window, a soft cap, sinks, another scale, a temperature; alone and together. */
static void settings_equal_the_formula(void **state) {
    (void)state;
    static const float sinks[] = {0.5f, -1, 2, 0, 3, -2};
    static const int shapes[][4] = {{3, 2, 64, 300}, {1, 6, 32, 700}}; /* KV heads, group, head_dim, tokens */
    for (KvType type = KV_F32; type <= KV_Q8_0; type++) {
        for (int i = 0; i < 16; i++) {
            const int *s = shapes[i % 2];
            Case c;
            case_open(&c, type, s[0], s[1], s[2], s[3]);
            if (i / 2 == 0 || i / 2 >= 5) c.weights.window = 3 + 97 * (i / 2);
            if (i / 2 == 1 || i / 2 >= 5) c.config.softcap = 2;
            if (i / 2 == 2 || i / 2 >= 5) c.weights.sinks = sinks;
            if (i / 2 == 3 || i / 2 >= 6) c.config.scale = 0.3f;
            if (i / 2 == 4 || i / 2 >= 7) c.config.temperature = 0.1f, c.config.temperature_ctx = 50;
            for (int threads = 1; threads <= 3; threads += 2) {
                for (int piece = 1; piece <= s[3]; piece = piece * 17 + 4) {
                    memset(c.out, 0xff, (size_t)(c.n * c.n_heads * s[2]) * sizeof(float)); /* NaN */
                    run(&c, piece, threads);
                    double error = worst_error(&c);
                    if (!(error < 1e-5))
                        fail_msg("type %d case %d threads %d piece %d: error %g", type, i, threads, piece, error);
                }
            }
            case_close(&c);
        }
    }
}

static void cache_keeps_what_its_type_can(void **state) {
    (void)state;
    static const float tolerance[] = {[KV_F32] = 0, [KV_F16] = 5e-4f, [KV_Q8_0] = 5e-3f};
    float row[64];
    for (KvType type = KV_F32; type <= KV_Q8_0; type++) {
        Case c;
        case_open(&c, type, 2, 1, 64, 40);
        for (int pos = 0; pos < 40; pos++)
            for (int h = 0; h < 2; h++)
                for (int value = 0; value < 2; value++) {
                    if (value) kv_cache_value(row, &c.cache, 1, h, pos);
                    else kv_cache_key(row, &c.cache, 1, h, pos);
                    const float *x = (value ? c.v : c.k) + (pos * 2 + h) * 64;
                    for (int i = 0; i < 64; i++) assert_true(fabsf(row[i] - x[i]) <= tolerance[type]);
                }
        case_close(&c);
    }
}

static void exact_is_exact(void **state) {
    (void)state;
    enum { KV_HEADS = 3, GROUP = 3, D = 64, N = 600 };
    size_t bytes = (size_t)(N * KV_HEADS * GROUP * D) * sizeof(float);
    float *first = malloc(bytes);
    Case c;
    case_open(&c, KV_F16, KV_HEADS, GROUP, D, N);
    c.cache.exact = true;
    run(&c, N, 1);
    memcpy(first, c.out, bytes);
    static const int ways[][2] = {{1, 1}, {1, 2}, {7, 2}, {N, 3}, {100, 4}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run(&c, ways[i][0], ways[i][1]);
        assert_memory_equal(first, c.out, bytes);
    }
    case_close(&c);
    free(first);
}

static void too_large_values_are_noticed(void **state) {
    (void)state;
    enum { D = 64 };
    static const struct {
        KvType type;
        float value;
        bool over;
    } row[] = {{KV_F16, 65504, false}, {KV_F16, -65504, false},   {KV_F16, 65536, true},
               {KV_F16, -1e9f, true},  {KV_F32, 3e38f, false},    {KV_Q8_0, 8e6f, false},
               {KV_Q8_0, -9e6f, true}, {KV_F16, INFINITY, false}, {KV_F16, NAN, false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (int which = 0; which < 2; which++) {
            Case c;
            float k[D] = {0}, v[D] = {0}, back[D];
            case_open(&c, row[i].type, 2, 1, D, 3);
            assert_false(kv_cache_overflowed(&c.cache));
            (which ? v : k)[D - 1] = row[i].value;
            kv_cache_write_key(&c.cache, 0, 1, 2, k);
            kv_cache_write_value(&c.cache, 0, 1, 2, v);
            if (kv_cache_overflowed(&c.cache) != row[i].over) fail_msg("row %zu: %g", i, (double)row[i].value);
            (which ? kv_cache_value : kv_cache_key)(back, &c.cache, 0, 1, 2);
            if (isfinite(row[i].value)) assert_true(isfinite(back[D - 1]) == !row[i].over);
            case_close(&c);
        }
    }
}

/* A NaN in a key of the past reaches every later output of its head, at every level and in every cache type. */
static void nan_reaches_the_output(void **state) {
    (void)state;
    enum { D = 64, N = 70, BAD = 40 };
    for (const KernelLevel *l = kernel_levels; l->kernels; l++) {
        const Kernels *k = kernels_named(l->kernels->name);
        for (KvType type = KV_F32; k && type <= KV_Q8_0; type++) {
            Case c;
            float key[D] = {0};
            case_open(&c, type, 2, 2, D, N);
            c.cache.kernels = k;
            key[3] = NAN;
            kv_cache_write_key(&c.cache, 1, 1, BAD, key);
            run(&c, 1, 2);
            for (int r = 0; r < N; r++)
                for (int h = 0; h < 4; h++)
                    if (isnan(c.out[(r * 4 + h) * D]) != (r >= BAD && h >= 2))
                        fail_msg("%s, type %d: position %d, head %d: %g", k->name, type, r, h,
                                 (double)c.out[(r * 4 + h) * D]);
            case_close(&c);
        }
    }
}

/* Counts the positions of each part that a long cache is cut into: a part begins with nothing accumulated. */
static atomic_int n_parts;
static int part_size[64];
static _Thread_local int part;
static float counting_step(float *s, int valid, int n, float *max, float *denom) {
    if (*denom == 0) part = atomic_fetch_add(&n_parts, 1);
    part_size[part] += valid;
    return kernels_ref.softmax_step(s, valid, n, max, denom);
}

static void parts_are_balanced(void **state) {
    (void)state;
    static const int cases[][2] = {{2100, 8}, {1100, 4}, {4200, 16}, {600, 3}}; /* tokens, threads */
    Kernels counting = kernels_ref;
    counting.softmax_step = counting_step;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = cases[i][0], threads = cases[i][1], most = n / 256 < threads ? n / 256 : threads, sum = 0;
        Case c;
        case_open(&c, KV_F32, 1, 1, 8, n);
        c.cache.kernels = &counting;
        n_parts = 0;
        memset(part_size, 0, sizeof part_size);
        Run r = {&c, 1, aligned_alloc(64, (attention_scratch_bytes(1, 8, threads) + 63) / 64 * 64), n - 1};
        Team *team = team_open(threads);
        team_run(team, body, &r);
        team_close(team);
        free(r.scratch);
        assert_int_equal(n_parts, most);
        for (int j = 0; j < most; j++) {
            assert_true(part_size[j] > 0 && part_size[j] <= n / most + KV_BLOCK);
            sum += part_size[j];
        }
        assert_int_equal(sum, n);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_formula),
        cmocka_unit_test(settings_equal_the_formula),
        cmocka_unit_test(cache_keeps_what_its_type_can),
        cmocka_unit_test(exact_is_exact),
        cmocka_unit_test(too_large_values_are_noticed),
        cmocka_unit_test(nan_reaches_the_output),
        cmocka_unit_test(parts_are_balanced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

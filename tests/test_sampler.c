/* Tests of src/gen/sampler.c: probabilities worked out by hand, ties, NaN, seeds, partial selection. */
#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#include "tests/sampling.h"
#include "tests/skip.h"

static void test_filters(void **state) {
    (void)state;
    double p[4];
    SamplerParams s = plain;
    probabilities(p, s, tenths, 4, NULL, 0);
    expect(p, (double[]){0.4, 0.3, 0.2, 0.1}, 4);
    s.temperature = 0.5f; /* squares: 16, 9, 4, 1 of 30 */
    probabilities(p, s, tenths, 4, NULL, 0);
    expect(p, (double[]){16 / 30.0, 9 / 30.0, 4 / 30.0, 1 / 30.0}, 4);
    s = plain;
    s.top_k = 2;
    probabilities(p, s, tenths, 4, NULL, 0);
    expect(p, (double[]){4 / 7.0, 3 / 7.0, 0, 0}, 4);
    s = plain;
    s.top_p = 0.65f; /* 0.4 + 0.3 crosses it: the one that crosses stays */
    probabilities(p, s, tenths, 4, NULL, 0);
    expect(p, (double[]){4 / 7.0, 3 / 7.0, 0, 0}, 4);
    s = plain;
    s.min_p = 0.5f; /* 0.2 at least */
    s.top_p = 0.95f;
    s.min_p = 0.6f; /* 0.24 at least */
    probabilities(p, s, tenths, 4, NULL, 0);
    expect(p, (double[]){4 / 7.0, 3 / 7.0, 0, 0}, 4);
    /* top-k first: 4/7 alone is over 0.5. The other way round two would stay. */
    s = plain;
    s.top_k = 2;
    s.top_p = 0.5f;
    assert_int_equal(probabilities(p, s, tenths, 4, NULL, 0), 1);
    expect(p, (double[]){1, 0, 0, 0}, 4);
    s.top_p = 0; /* the likeliest alone */
    s.top_k = 0;
    assert_int_equal(probabilities(p, s, tenths, 4, NULL, 0), 1);
}

static void test_penalty(void **state) {
    (void)state;
    double p[3];
    SamplerParams s = plain;
    s.repeat_penalty = 2;
    /* 2 is halved, -1 is doubled, each once though token 0 came twice: weights e^1, e^-2, e^0 */
    probabilities(p, s, (float[]){2, -1, 0}, 3, (int[]){0, 1, 0}, 3);
    expect(p, (double[]){0.70538431, 0.03511903, 0.25949646}, 3);
    s.repeat_last = 1; /* looks back on the last token, 0, only: e^1, e^-1, e^0 */
    probabilities(p, s, (float[]){2, -1, 0}, 3, (int[]){1, 0}, 2);
    expect(p, (double[]){0.66524096, 0.09003057, 0.24472847}, 3);
}

static int next_of(SamplerParams params, const float *logits, int n) {
    Sampler s;
    Error e = {""};
    float copy[16];
    memcpy(copy, logits, (size_t)n * sizeof *copy);
    assert_int_equal(sampler_init(&s, &params, n, &e), 0);
    int id = sampler_next(&s, copy);
    sampler_close(&s);
    return id;
}

static void test_greedy_and_bad_logits(void **state) {
    (void)state;
    SamplerParams greedy = plain;
    greedy.temperature = 0;
    assert_int_equal(next_of(greedy, (float[]){1, 3, 2, 3}, 4), 1); /* ties: the lowest id */
    assert_int_equal(next_of(greedy, (float[]){0, 0, 0}, 3), 0);
    for (int t = 0; t < 2; t++) {
        SamplerParams s = t ? plain : greedy;
        assert_int_equal(next_of(s, (float[]){0, NAN, 5}, 3), -1);
        assert_int_equal(next_of(s, (float[]){0, INFINITY, 5}, 3), -1);
        assert_int_equal(next_of(s, (float[]){-INFINITY, -INFINITY}, 2), -1);
        assert_int_equal(next_of(s, (float[]){-INFINITY, 1}, 2), 1);
    }
    /* many temperatures: the weights are the library's exp to 1e-6 */
    for (float t = 0.05f; t < 30; t *= 1.3f) {
        double p[4], want[4], sum = 0;
        SamplerParams s = plain;
        s.temperature = t;
        probabilities(p, s, (float[]){1.5f, -3, 0.25f, 4}, 4, NULL, 0);
        for (int i = 0; i < 4; i++) sum += want[i] = exp(((double[]){1.5, -3, 0.25, 4}[i] - 4) / (double)t);
        for (int i = 0; i < 4; i++) want[i] /= sum;
        expect(p, want, 4);
    }
    SamplerParams tiny = plain;
    tiny.temperature = 1e-30f;
    assert_int_equal(next_of(tiny, (float[]){1000, 999.9f, -1000}, 3), 0);
}

static void test_bad_parameters(void **state) {
    (void)state;
    SamplerParams bad[8];
    for (int i = 0; i < 8; i++) bad[i] = plain;
    bad[0].temperature = NAN;
    bad[1].temperature = -1;
    bad[2].top_p = 2;
    bad[3].top_p = NAN;
    bad[4].min_p = -1;
    bad[5].repeat_penalty = 0;
    bad[6].top_k = -1;
    bad[7].repeat_last = -1;
    for (int i = 0; i < 8; i++) {
        Sampler s;
        Error e = {""};
        assert_int_equal(sampler_init(&s, &bad[i], 4, &e), -1);
        assert_non_null(strstr(e.text, "expected"));
    }
}

/* Ten equal tokens and seed 0: the ids are the first digits of splitmix64's published numbers
 * e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec over 2^64. */
static void test_seed(void **state) {
    (void)state;
    static const int want[4] = {8, 4, 0, 9};
    Sampler s;
    Error e = {""};
    assert_int_equal(sampler_init(&s, &plain, 10, &e), 0);
    for (int i = 0; i < 4; i++) {
        float logits[10] = {0};
        assert_int_equal(sampler_next(&s, logits), want[i]);
    }
    sampler_close(&s);
}

static int larger_first(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? 1 : -1;
    return x->id - y->id;
}

/* Partial selection keeps exactly what a full sort would. */
static void test_against_full_sort(void **state) {
    (void)state;
    enum { N = 5000 };
    static float logits[N], copy[N];
    static Candidate all[N];
    uint32_t r = 1;
    for (int i = 0; i < N; i++) {
        r = r * 1664525 + 1013904223;
        logits[i] = (float)(r >> 20) / 256; /* 4096 levels: many ties */
    }
    static const struct {
        int k;
        float p;
    } cut[] = {{0, 0.9f}, {0, 0.5f}, {0, 0.999f}, {40, 1}, {40, 0.7f}, {4999, 0.9f}, {1, 1}, {0, 1}, {N, 1}};
    for (size_t c = 0; c < sizeof cut / sizeof *cut; c++) {
        SamplerParams params = plain;
        params.top_k = cut[c].k;
        params.top_p = cut[c].p;
        Sampler s;
        Error e = {""};
        double sum;
        assert_int_equal(sampler_init(&s, &params, N, &e), 0);
        memcpy(copy, logits, sizeof copy);
        int n = sampler_filter(&s, copy, &sum);

        float best = logits[0];
        for (int i = 1; i < N; i++) best = logits[i] > best ? logits[i] : best;
        for (int i = 0; i < N; i++) all[i] = (Candidate){expf(logits[i] - best), i};
        qsort(all, N, sizeof *all, larger_first);
        int want = cut[c].k ? cut[c].k : N;
        double total = 0, weight = 0;
        for (int i = 0; i < want; i++) total += (double)all[i].p;
        if (cut[c].p < 1) {
            int i = 0;
            while (i < want && weight < (double)cut[c].p * total) weight += (double)all[i++].p;
            want = i;
        }
        if (n != want) fail_msg("top-k %d, top-p %g: %d left, expected %d", cut[c].k, (double)cut[c].p, n, want);
        static bool wanted[N]; /* the same tokens; their order is free */
        memset(wanted, 0, sizeof wanted);
        for (int i = 0; i < n; i++) wanted[all[i].id] = true;
        for (int i = 0; i < n; i++) {
            if (!wanted[s.candidates[i].id]) fail_msg("token %d: kept twice or wrongly", s.candidates[i].id);
            wanted[s.candidates[i].id] = false;
        }
        sampler_close(&s);
    }
}

/* With top-k the other logits do not matter: the same tokens by the same draws. */
static void test_largest_alone(void **state) {
    (void)state;
    enum { N = 5000, K = 40, THIRD = N / 3 };
    static float all[N], some[N], full[N];
    static Candidate order[N];
    SamplerParams params = plain;
    params.top_k = K;
    params.top_p = 0.95f;
    Sampler a, b;
    Error e = {""};
    assert_int_equal(sampler_init(&a, &params, N, &e), 0);
    assert_int_equal(sampler_init(&b, &params, N, &e), 0);
    assert_int_equal(sampler_largest(&a), K);
    uint32_t r = 1;
    for (int draw = 0; draw < 100; draw++) {
        for (int i = 0; i < N; i++) {
            r = r * 1664525 + 1013904223;
            all[i] = (float)(r >> 20) / (draw % 2 ? 256 : 4); /* ties; and weights that round to 0 */
            order[i] = (Candidate){all[i], i};
            some[i] = -FLT_MAX;
        }
        qsort(order, N, sizeof *order, larger_first);
        for (int i = 0, kept[3] = {0}; i < N; i++) { /* what three ranks would send */
            int id = order[i].id, third = id / THIRD < 2 ? id / THIRD : 2;
            if (kept[third]++ < K) some[id] = all[id];
        }
        memcpy(full, all, sizeof full);
        assert_int_equal(sampler_next(&a, full), sampler_next(&b, some));
        assert_memory_equal(a.candidates, b.candidates, 2 * sizeof *a.candidates);
    }
    sampler_close(&a);
    sampler_close(&b);
    for (int i = 0; i < 3; i++) {
        SamplerParams other[3] = {params, params, params};
        other[0].repeat_penalty = 1.1f;
        other[1].presence_penalty = 1;
        other[2].top_k = 0;
        assert_int_equal(sampler_init(&a, &other[i], N, &e), 0);
        assert_int_equal(sampler_largest(&a), 0);
        sampler_close(&a);
    }
}

/* ---- the bank of cases from public bug reports, where it is present ---- */

static double number_or(const cJSON *object, const char *key, double otherwise) {
    const cJSON *x = cJSON_GetObjectItem(object, key);
    if (cJSON_IsString(x)) return strcmp(x->valuestring, "nan") == 0 ? NAN : atof(x->valuestring);
    return cJSON_IsNumber(x) ? x->valuedouble : otherwise;
}

static void test_case_bank(void **state) {
    (void)state;
    Error e = {""};
    FILE *there = fopen("../shared/cases/sampler_cases.json", "r");
    if (!there) SKIP(NO_BANK);
    fclose(there);
    cJSON *bank = json_read("../shared/cases/sampler_cases.json", &e), *c;
    assert_non_null(bank);
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(bank, "cases")) {
        const char *name = cJSON_GetObjectItem(c, "name")->valuestring;
        const cJSON *given = cJSON_GetObjectItem(c, "logits"), *params = cJSON_GetObjectItem(c, "params");
        const cJSON *allowed = cJSON_GetObjectItem(c, "allowed"), *probs = cJSON_GetObjectItem(c, "probs");
        bool error_is_fine = cJSON_IsTrue(cJSON_GetObjectItem(c, "error_is_fine"));
        int n = cJSON_GetArraySize(given), count[16] = {0};
        float logits[16];
        for (int i = 0; i < n; i++) {
            const cJSON *x = cJSON_GetArrayItem(given, i);
            logits[i] = cJSON_IsString(x) ? strtof(x->valuestring, NULL) : (float)x->valuedouble;
        }
        SamplerParams p = plain;
        p.temperature = (float)number_or(params, "temperature", 1);
        p.top_p = (float)number_or(params, "top_p", 1);
        p.top_k = (int)number_or(params, "top_k", 0);
        p.seed = (uint64_t)number_or(params, "seed", 1);
        Sampler s;
        e.text[0] = 0;
        if (sampler_init(&s, &p, n, &e)) {
            if (!error_is_fine) fail_msg("%s: %s", name, e.text);
            continue;
        }
        double u = number_or(params, "force_uniform", -1);
        enum { DRAWS = 2000 };
        for (int i = 0; i < DRAWS; i++) {
            float copy[16];
            double sum;
            memcpy(copy, logits, sizeof copy);
            int left = u >= 0 ? sampler_filter(&s, copy, &sum) : 0;
            int id = u >= 0 ? sampler_draw(&s, left, sum, u) : sampler_next(&s, copy);
            if (id < 0) {
                if (!error_is_fine) fail_msg("%s: refused", name);
                break;
            }
            bool fine = false;
            const cJSON *a;
            cJSON_ArrayForEach(a, allowed) fine |= a->valueint == id;
            if (!fine) fail_msg("%s: token %d is not allowed", name, id);
            count[id]++;
        }
        double chi = 0;
        if (probs && u < 0 && !error_is_fine)
            for (int i = 0; i < n; i++) {
                double want = cJSON_GetArrayItem(probs, i)->valuedouble * DRAWS;
                if (want > 0) chi += (count[i] - want) * (count[i] - want) / want;
            }
        if (chi > 25.7) fail_msg("%s: chi-square %.1f, expected under 25.7 (1 in 10000 at 5 degrees)", name, chi);
        sampler_close(&s);
    }
    cJSON_Delete(bank);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_greedy_and_bad_logits),
        cmocka_unit_test(test_bad_parameters),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_against_full_sort),
        cmocka_unit_test(test_largest_alone),
        cmocka_unit_test(test_case_bank),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}

/* Tests of src/gen/sampler.c: probabilities worked out by hand, ties, NaN, seeds, partial selection. */
#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/sampler.h"
#include "gen/stages.h"
#include "io/json.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#include "tests/skip.h"

static const SamplerParams plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64};

/* probabilities - p[n] after all filters; 0 for what was filtered out. Returns the number left. */
static int probabilities(double *p, SamplerParams params, const float *logits, int n, const int *recent, int n_recent) {
    Sampler s;
    Error e = {""};
    double sum;
    float copy[16];
    memcpy(copy, logits, (size_t)n * sizeof *copy);
    assert_int_equal(sampler_init(&s, &params, n, &e), 0);
    for (int i = 0; i < n_recent; i++) sampler_accept(&s, recent[i]);
    int left = sampler_filter(&s, copy, &sum);
    for (int i = 0; i < n; i++) p[i] = 0;
    for (int i = 0; i < left; i++) p[s.candidates[i].id] = (double)s.candidates[i].p / sum;
    sampler_close(&s);
    return left;
}

static void expect(const double *p, const double *want, int n) {
    for (int i = 0; i < n; i++)
        if (fabs(p[i] - want[i]) > 1e-6) fail_msg("token %d: probability %.8f, expected %.8f", i, p[i], want[i]);
}

/* Logits that are logarithms, so that the probabilities are the numbers themselves: 0.4, 0.3, 0.2, 0.1. */
static const float tenths[4] = {-0.91629073f, -1.20397280f, -1.60943791f, -2.30258509f};

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

/* Logits whose probabilities are 0.35, 0.25, 0.2, 0.1, 0.07 and 0.03. The numbers expected come from the definitions of
 * llama.cpp's samplers, computed apart in double. */
static void test_chain(void **state) {
    (void)state;
    static const float percent[6] = {35, 25, 20, 10, 7, 3};
    static const int loop[] = {0, 1, 0, 2, 0}, phrase[] = {0, 1, 2, 2, 1, 2, 5, 0, 1, 2},
                     same[] = {3, 3, 3, 3, 3, 3, 3, 3, 3};
    static const bool after_1[6] = {false, true}, after_0[6] = {true};
    static const DryBreaker sequences[] = {{5, 1, {0}}, {1, 2, {2, 2}}, {1, 1, {2}}};
    static const LogitBias bias[] = {{0, -2}, {5, 1.5f}, {1, -INFINITY}};
#define USUAL        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64, .dry_last = 64
#define DRY(m, b, n) .dry_multiplier = (m), .dry_base = (b), .dry_allowed_length = (n)
#define RECENT(x)    x, sizeof x / sizeof *x
    static const struct {
        const char *name;
        SamplerParams params;
        const int *recent;
        int n_recent;
        double want[6];
    } row[] = {
        {"typical 0.5", {USUAL, .typical = 0.5f}, NULL, 0, {0.4375, 0.3125, 0.25}},
        {"typical 0.2: the likeliest is not typical", {USUAL, .typical = 0.2f}, NULL, 0, {0, 0.55555556, 0.44444444}},
        {"typical 0.92",
         {USUAL, .typical = 0.92f},
         NULL,
         0,
         {0.36082474, 0.25773196, 0.20618557, 0.10309278, 0.072164948}},
        {"typical after top-k", {USUAL, .top_k = 3, .typical = 0.1f}, NULL, 0, {0, 1}},
        {"dynamic temperature",
         {USUAL, .dynatemp_range = 0.5f, .dynatemp_exponent = 1},
         NULL,
         0,
         {0.30101035, 0.2354295, 0.20002549, 0.12056922, 0.092919766, 0.050045667}},
        {"dynamic temperature from 0, squared",
         {.temperature = 0.3f, .top_p = 1, .repeat_penalty = 1, .dynatemp_range = 0.5f, .dynatemp_exponent = 2},
         NULL,
         0,
         {0.45825318, 0.26264379, 0.18157236, 0.057684406, 0.031974625, 0.0078716294}},
        {"XTC, threshold 0.22",
         {USUAL, .xtc_probability = 1, .xtc_threshold = 0.22f},
         NULL,
         0,
         {0, 0.38461538, 0.30769231, 0.15384615, 0.10769231, 0.046153846}},
        {"XTC, threshold 0.05", {USUAL, .xtc_probability = 1, .xtc_threshold = 0.05f}, NULL, 0, {0, 0, 0, 0, 0.7, 0.3}},
        {"XTC, one above 0.3",
         {USUAL, .xtc_probability = 1, .xtc_threshold = 0.3f},
         NULL,
         0,
         {0.35, 0.25, 0.2, 0.1, 0.07, 0.03}},
        {"XTC above a half",
         {USUAL, .xtc_probability = 1, .xtc_threshold = 0.6f},
         NULL,
         0,
         {0.35, 0.25, 0.2, 0.1, 0.07, 0.03}},
        {"frequency",
         {USUAL, .frequency_penalty = 0.5f},
         RECENT(loop),
         {0.14172539, 0.27517824, 0.22014259, 0.18147689, 0.12703382, 0.054443067}},
        {"frequency, a reward",
         {USUAL, .frequency_penalty = -0.5f},
         RECENT(loop),
         {0.62480834, 0.16418153, 0.13134522, 0.039832453, 0.027882717, 0.011949736}},
        {"presence",
         {USUAL, .presence_penalty = 0.7f},
         RECENT(loop),
         {0.29099966, 0.2078569, 0.16628552, 0.16742896, 0.11720027, 0.050228688}},
        {"all penalties",
         {.temperature = 1,
          .top_p = 1,
          .repeat_penalty = 1.2f,
          .repeat_last = 64,
          .frequency_penalty = 0.5f,
          .presence_penalty = 0.25f},
         RECENT(loop),
         {0.12105495, 0.21974722, 0.16812464, 0.2455366, 0.17187562, 0.073660979}},
        {"DRY",
         {USUAL, DRY(0.8f, 1.75f, 2)},
         RECENT(phrase),
         {0.42026934, 0.30019239, 0.059221225, 0.12007696, 0.084053869, 0.016186216}},
        {"DRY from length 1",
         {USUAL, DRY(1, 2, 1)},
         RECENT(phrase),
         {0.56479575, 0.14841196, 0.0059111972, 0.16137021, 0.11295915, 0.0065517251}},
        {"DRY not across token 1",
         {USUAL, DRY(1, 2, 1), .dry_breakers = after_1},
         RECENT(phrase),
         {0.40954245, 0.29253032, 0.086092712, 0.11701213, 0.081908489, 0.012913907}},
        {"DRY not across token 0",
         {USUAL, DRY(0.8f, 1.75f, 2), .dry_breakers = after_0},
         RECENT(phrase),
         {0.4007577, 0.2862555, 0.10289831, 0.1145022, 0.08015154, 0.015434747}},
        {"DRY not across tokens 5 0",
         {USUAL, DRY(0.8f, 1.75f, 2), .dry_sequences = sequences, .n_dry_sequences = 1},
         RECENT(phrase),
         {0.4007577, 0.2862555, 0.10289831, 0.1145022, 0.08015154, 0.015434747}},
        {"DRY, a breaker of two tokens ends the text",
         {USUAL, DRY(0.8f, 1.75f, 2), .dry_sequences = sequences + 1, .n_dry_sequences = 2},
         RECENT(phrase),
         {0.35, 0.25, 0.2, 0.1, 0.07, 0.03}},
        {"DRY, one token again and again",
         {USUAL, DRY(0.1f, 1.5f, 2)},
         RECENT(same),
         {0.37553169, 0.26823692, 0.21458953, 0.034347093, 0.075106337, 0.03218843}},
        {"Mirostat, 2 bits", {USUAL, .mirostat = 2, .mirostat_tau = 1}, NULL, 0, {0.58333333, 0.41666667}},
        {"Mirostat, less than any has", {USUAL, .mirostat = 2, .mirostat_tau = 0.5f}, NULL, 0, {1}},
        {"Mirostat, 3.4 bits",
         {USUAL, .mirostat = 2, .mirostat_tau = 1.7f},
         NULL,
         0,
         {0.38888889, 0.27777778, 0.22222222, 0.11111111}},
        {"bias and ban",
         {USUAL, .bias = bias, .n_bias = 3},
         NULL,
         0,
         {0.085838714, 0, 0.36243833, 0.18121916, 0.12685341, 0.24365038}},
        {"top-k alone, temperature left out",
         {.temperature = 0.5f, .top_p = 0.1f, .repeat_penalty = 1, .top_k = 3, .n_order = 1, .order = {SAMPLER_TOP_K}},
         NULL,
         0,
         {0.4375, 0.3125, 0.25}},
        {"temperature, then min-p",
         {.temperature = 2,
          .top_p = 1,
          .repeat_penalty = 1,
          .min_p = 0.5f,
          .n_order = 2,
          .order = {SAMPLER_TEMPERATURE, SAMPLER_MIN_P}},
         NULL,
         0,
         {0.31891765, 0.26953461, 0.24107908, 0.17046866}},
        {"min-p, then temperature",
         {.temperature = 2,
          .top_p = 1,
          .repeat_penalty = 1,
          .min_p = 0.5f,
          .n_order = 2,
          .order = {SAMPLER_MIN_P, SAMPLER_TEMPERATURE}},
         NULL,
         0,
         {0.38445521, 0.32492396, 0.29062083}},
        {"the usual order",
         {.temperature = 0.7f,
          .top_p = 0.95f,
          .top_k = 5,
          .repeat_penalty = 1.1f,
          .repeat_last = 64,
          .frequency_penalty = 0.1f,
          .typical = 0.8f},
         RECENT(loop),
         {0.4279833, 0.33564578, 0.23637091}},
        {"greedy", {.top_p = 1, .repeat_penalty = 1, .bias = bias, .n_bias = 1}, NULL, 0, {0, 1}},
    };
    float logits[6];
    for (int i = 0; i < 6; i++) logits[i] = logf(percent[i] / 100);
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        double p[6];
        probabilities(p, row[r].params, logits, 6, row[r].recent, row[r].n_recent);
        for (int i = 0; i < 6; i++)
            if (fabs(p[i] - row[r].want[i]) > 2e-6)
                fail_msg("%s: token %d: probability %.8f, expected %.8f", row[r].name, i, p[i], row[r].want[i]);
    }
}

/* The chain's temperature, top-k, top-p, min-p and repeat penalty are those of the fast way. */
static void test_chain_equals_fast(void **state) {
    (void)state;
    SamplerParams s = plain;
    float logits[12];
    int recent[] = {3, 5, 3, 7};
    for (int i = 0; i < 12; i++) logits[i] = (float)((i * 7 + 3) % 12) / 2 - 3;
    for (int k = 0; k < 16; k++) {
        double fast[12], chain[12];
        s.temperature = k & 1 ? 0.6f : 1.5f;
        s.top_k = k & 2 ? 6 : 0;
        s.top_p = k & 4 ? 0.8f : 1;
        s.min_p = k & 8 ? 0.1f : 0;
        s.repeat_penalty = 1.3f;
        s.n_order = 0;
        int n = probabilities(fast, s, logits, 12, recent, 4);
        s.n_order = 5;
        memcpy(s.order,
               (SamplerStage[]){SAMPLER_PENALTIES, SAMPLER_TEMPERATURE, SAMPLER_TOP_K, SAMPLER_TOP_P, SAMPLER_MIN_P},
               5 * sizeof *s.order);
        assert_int_equal(probabilities(chain, s, logits, 12, recent, 4), n);
        expect(chain, fast, 12);
    }
}

/* Mirostat's mu goes down by the learning rate times what the surprise of the drawn token was over the aim. */
static void test_mirostat_learns(void **state) {
    (void)state;
    SamplerParams params = {
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .mirostat = 2, .mirostat_tau = 1, .mirostat_eta = 0.5f};
    static const float half[4] = {0, 0, 0, 0}; /* two bits each */
    Sampler s;
    Error e = {""};
    double sum;
    float copy[4];
    assert_int_equal(sampler_init(&s, &params, 4, &e), 0);
    memcpy(copy, half, sizeof copy);
    assert_int_equal(sampler_filter(&s, copy, &sum), 4); /* mu 2 */
    memcpy(copy, half, sizeof copy);
    assert_in_range(sampler_next(&s, copy), 0, 3); /* mu = 2 - 0.5 * (2 - 1) */
    memcpy(copy, half, sizeof copy);
    assert_int_equal(sampler_filter(&s, copy, &sum), 1); /* all are over 1.5 bits: the first is left */
    memcpy(copy, half, sizeof copy);
    sampler_next(&s, copy); /* a token without a choice has no surprise: mu = 1.5 + 0.5 */
    memcpy(copy, half, sizeof copy);
    assert_int_equal(sampler_filter(&s, copy, &sum), 4);
    sampler_close(&s);
}

/* XTC draws from the seed: as often as its probability says. */
static void test_xtc_chance(void **state) {
    (void)state;
    SamplerParams params = {
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .xtc_probability = 0.3f, .xtc_threshold = 0.1f};
    Sampler s;
    Error e = {""};
    int excluded = 0;
    assert_int_equal(sampler_init(&s, &params, 4, &e), 0);
    for (int i = 0; i < 10000; i++) {
        double sum;
        float copy[4];
        memcpy(copy, tenths, sizeof copy);
        excluded += sampler_filter(&s, copy, &sum) < 4;
    }
    assert_in_range(excluded, 2800, 3200);
    sampler_close(&s);
}

static void test_chain_is_refused(void **state) {
    (void)state;
    static const LogitBias far[] = {{4, 1}};
    static const struct {
        SamplerParams params;
        const char *names;
    } row[] = {
        {{.temperature = 1, .repeat_penalty = 1, .typical = 1.5f}, "typical"},
        {{.temperature = 1, .repeat_penalty = 1, .typical = NAN}, "typical"},
        {{.temperature = 1, .repeat_penalty = 1, .xtc_probability = -0.1f}, "xtc-probability"},
        {{.temperature = 1, .repeat_penalty = 1, .mirostat = 1}, "mirostat"},
        {{.temperature = 1, .repeat_penalty = 1, .dry_multiplier = INFINITY}, "dry-multiplier"},
        {{.temperature = 1, .repeat_penalty = 1, .bias = far, .n_bias = 1}, "logit-bias: expected a token from 0 to 3"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Sampler s;
        Error e = {""};
        assert_int_equal(sampler_init(&s, &row[i].params, 4, &e), -1);
        assert_non_null(strstr(e.text, row[i].names));
    }
}

/* What each stage of top-k 4, top-p 0.8 and min-p 0.3 removes of 0.35 0.25 0.2 0.1 0.07 0.03. */
static void stages_say_who_removed_what(void **state) {
    (void)state;
    Error e = {0};
    Sampler s;
    Staged list[6];
    float logits[6];
    const double p[6] = {0.35, 0.25, 0.2, 0.1, 0.07, 0.03};
    const char *const stage[6] = {NULL, NULL, "min-p", "top-p", "top-k", "top-k"};
    for (int i = 0; i < 6; i++) logits[i] = (float)log(p[i]);
    /* of what top-k leaves, 0.9, the first three hold 0.89; min-p wants 0.6 of the largest */
    SamplerParams params = {.temperature = 1, .top_k = 4, .top_p = 0.8f, .min_p = 0.6f, .repeat_penalty = 1};
    assert_int_equal(sampler_init(&s, &params, 6, &e), 0);
    assert_int_equal(stages_find(list, 6, &s, logits, false, &e), 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(list[i].id, i);
        assert_float_equal(list[i].p, p[i], 1e-6);
        assert_float_equal(list[i].left, i < 2 ? p[i] / 0.6 : 0, 1e-6);
        if (stage[i]) assert_string_equal(list[i].stage, stage[i]);
        else assert_null(list[i].stage);
    }
    sampler_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_chain_equals_fast),
        cmocka_unit_test(test_mirostat_learns),
        cmocka_unit_test(test_xtc_chance),
        cmocka_unit_test(test_chain_is_refused),
        cmocka_unit_test(test_greedy_and_bad_logits),
        cmocka_unit_test(test_bad_parameters),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_against_full_sort),
        cmocka_unit_test(test_case_bank),
        cmocka_unit_test(stages_say_who_removed_what),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}

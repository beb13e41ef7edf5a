/* Tests of src/gen/chain.c: the samplers that people know from llama.cpp, in any order, and who removed which token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gen/sampler.h"
#include "gen/stages.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#include "tests/sampling.h"

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
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_chain_equals_fast),
        cmocka_unit_test(test_mirostat_learns),
        cmocka_unit_test(test_xtc_chance),
        cmocka_unit_test(test_chain_is_refused),
        cmocka_unit_test(stages_say_who_removed_what),
    };
    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}

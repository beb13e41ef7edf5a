/* The probabilities that a sampler leaves, for its tests. Include it after cmocka.h. */
#ifndef TESTS_SAMPLING_H
#define TESTS_SAMPLING_H
#include <math.h>
#include <string.h>

#include "gen/sampler.h"

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

static inline void expect(const double *p, const double *want, int n) {
    for (int i = 0; i < n; i++)
        if (fabs(p[i] - want[i]) > 1e-6) fail_msg("token %d: probability %.8f, expected %.8f", i, p[i], want[i]);
}

/* Logits that are logarithms, so that the probabilities are the numbers themselves: 0.4, 0.3, 0.2, 0.1. */
static const float tenths[4] = {-0.91629073f, -1.20397280f, -1.60943791f, -2.30258509f};
#endif

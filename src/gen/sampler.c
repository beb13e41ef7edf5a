#include "gen/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int sampler_init(Sampler *s, const SamplerParams *p, int n_vocab, Error *e) {
    *s = (Sampler){.params = *p, .rng = p->seed, .n_vocab = n_vocab};
    if (!(p->temperature >= 0) || isinf(p->temperature))
        return fail(e, "temperature: expected a number from 0, found %g", (double)p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return fail(e, "top-p: expected 0 to 1, found %g", (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return fail(e, "min-p: expected 0 to 1, found %g", (double)p->min_p);
    if (!(p->repeat_penalty > 0) || isinf(p->repeat_penalty))
        return fail(e, "repeat-penalty: expected above 0, found %g", (double)p->repeat_penalty);
    if (p->top_k < 0) return fail(e, "top-k: expected a number from 0, found %d", p->top_k);
    if (p->repeat_last < 0) return fail(e, "repeat-last: expected a number from 0, found %d", p->repeat_last);
    s->candidates = malloc((size_t)n_vocab * sizeof *s->candidates);
    s->recent = malloc(((size_t)p->repeat_last + 1) * sizeof *s->recent);
    if (s->candidates && s->recent) return 0;
    sampler_close(s);
    return fail(e, "sampler: memory: expected room for %d candidates, found none", n_vocab);
}

void sampler_close(Sampler *s) {
    free(s->candidates);
    free(s->recent);
    *s = (Sampler){0};
}

void sampler_accept(Sampler *s, int id) {
    if (s->params.repeat_last == 0) return;
    s->recent[s->next_recent] = id;
    s->next_recent = (s->next_recent + 1) % s->params.repeat_last;
    if (s->n_recent < s->params.repeat_last) s->n_recent++;
}

static void penalize(const Sampler *s, float *logits) {
    float penalty = s->params.repeat_penalty;
    if (penalty == 1) return;
    for (int i = 0; i < s->n_recent; i++) {
        bool again = false; /* each token once, however often it came */
        for (int j = 0; j < i && !again; j++) again = s->recent[j] == s->recent[i];
        float *logit = &logits[s->recent[i]];
        if (!again) *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
}

/* The order of candidates: larger weight first, then lower id. */
static bool before(Candidate a, Candidate b) { return a.p > b.p || (a.p == b.p && a.id < b.id); }

static void swap(Candidate *a, Candidate *b) {
    Candidate t = *a;
    *a = *b;
    *b = t;
}

/* keep_first - moves the candidates that come first in the order to the front, until there are `enough` of them
 * or of their weight, the one that crosses it included. Returns their number. Quickselect: each round looks at
 * one side only, so nothing is sorted. */
static int keep_first(Candidate *c, int n, int enough, double enough_weight) {
    int from = 0, to = n; /* c[0..from) are in, with `weight`; the border is in (from, to] */
    double weight = 0;
    while (to - from > 1) {
        /* The median of three is never the last of the range, so the range shrinks. */
        Candidate x = c[from], y = c[from + (to - from) / 2], z = c[to - 1], pivot;
        if (before(y, x)) swap(&x, &y);
        pivot = to - from == 2 || before(z, x) ? x : before(z, y) ? z : y;
        int mid = from;
        double part = 0;
        for (int i = from; i < to; i++)
            if (!before(pivot, c[i])) {
                part += (double)c[i].p;
                swap(&c[i], &c[mid++]);
            }
        if (mid >= enough || weight + part >= enough_weight) to = mid;
        else {
            from = mid;
            weight += part;
        }
    }
    return to;
}

/* exp_of - e^x for x <= 0, in plain arithmetic that the compiler can do on several values at once: n is x / ln 2
 * rounded, e^x = 2^n e^(x - n ln 2), and the rest is a polynomial. Source: Cephes, expf.c (2 ulp). */
static inline float exp_of(float x) {
    const float lowest = -87; /* e^-87 is the smallest that is no denormal; below it is 0 here */
    float in = x < lowest ? lowest : x;
    float n = (in * 1.44269504f + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: the sum has no fraction bits */
    float r = in - n * 0.693359375f + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1;
    union {
        int bits;
        float value;
    } power = {.bits = ((int)n + 127) << 23};
    return x < lowest ? 0 : y * power.value;
}

static double weight_of(const Candidate *c, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)c[i].p;
    return sum;
}

int sampler_filter(Sampler *s, float *logits, double *sum) {
    const SamplerParams *p = &s->params;
    Candidate *c = s->candidates;
    int n = 0, bad = 0, best = 0;
    float max = -INFINITY;
    penalize(s, logits);
#pragma omp simd reduction(| : bad) reduction(max : max)
    for (int i = 0; i < s->n_vocab; i++) {
        bad |= !(logits[i] < INFINITY); /* NaN too */
        max = logits[i] > max ? logits[i] : max;
    }
    if (bad || max == -INFINITY) return -1;
    if (p->temperature == 0) {
        while (logits[best] != max) best++;
        c[0] = (Candidate){1, best};
        *sum = 1;
        return 1;
    }
#pragma omp simd
    for (int i = 0; i < s->n_vocab; i++) c[i] = (Candidate){exp_of((logits[i] - max) / p->temperature), i};
    for (int i = 0; i < s->n_vocab; i++) {
        c[n] = c[i];
        n += c[i].p > 0;
    }
    if (p->top_k && p->top_k < n) n = keep_first(c, n, p->top_k, INFINITY);
    if (p->top_p < 1) {
        /* What weighs less than an n-th of the mass that may be dropped cannot be in the smallest set. */
        double total = weight_of(c, n), least = (1 - (double)p->top_p) * total / n;
        int kept = 0;
        for (int i = 0; i < n; i++)
            if ((double)c[i].p >= least) c[kept++] = c[i];
        if (kept) n = kept;
        n = keep_first(c, n, n, (double)p->top_p * total);
    }
    if (p->min_p > 0) {
        int kept = 0;
        for (int i = 0; i < n; i++) /* the largest weight is 1 */
            if (c[i].p >= p->min_p) c[kept++] = c[i];
        n = kept;
    }
    *sum = weight_of(c, n);
    return n;
}

/* Uniform in [0, 1), 53 bits. splitmix64: every seed is a good one, 0 included. */
static double uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

int sampler_draw(const Sampler *s, int n, double sum, double u) {
    double left = u * sum;
    for (int i = 0; i < n - 1; i++) {
        left -= (double)s->candidates[i].p;
        if (left < 0) return s->candidates[i].id;
    }
    return s->candidates[n - 1].id; /* rounding never leaves the draw without a token */
}

int sampler_next(Sampler *s, float *logits) {
    double sum;
    int n = sampler_filter(s, logits, &sum);
    if (n < 0) return -1;
    return n == 1 ? s->candidates[0].id : sampler_draw(s, n, sum, uniform(&s->rng));
}

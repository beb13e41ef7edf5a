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

/* Heap with the first candidate at the root. */
static void sift_down(Candidate *c, int i, int n) {
    for (;;) {
        int first = i, left = 2 * i + 1, right = left + 1;
        if (left < n && before(c[left], c[first])) first = left;
        if (right < n && before(c[right], c[first])) first = right;
        if (first == i) return;
        swap(&c[i], &c[first]);
        i = first;
    }
}

/* Moves candidates from the front of the order to c[0..], until `enough` of them or of their weight; the
 * rest of the vocabulary is never sorted. Returns their number. */
static int take_first(Candidate *c, int n, int enough, double enough_weight) {
    double weight = 0;
    int taken = 0;
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(c, i, n);
    /* the heap lives in c[0..n - taken); what was taken stands behind it,
     * the first one last; reversing the whole puts it in front, in order */
    do {
        weight += (double)c[0].p;
        swap(&c[0], &c[n - 1 - taken]);
        taken++;
        sift_down(c, 0, n - taken);
    } while (taken < n && taken < enough && weight < enough_weight);
    for (int i = 0; i < n / 2; i++) swap(&c[i], &c[n - 1 - i]);
    return taken;
}

static double weight_of(const Candidate *c, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)c[i].p;
    return sum;
}

int sampler_filter(Sampler *s, float *logits, double *sum) {
    const SamplerParams *p = &s->params;
    Candidate *c = s->candidates;
    int best = -1, n = 0;
    penalize(s, logits);
    for (int i = 0; i < s->n_vocab; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY) return -1;
        if (logits[i] > (best < 0 ? -INFINITY : logits[best])) best = i;
    }
    if (best < 0) return -1;
    if (p->temperature == 0) {
        c[0] = (Candidate){1, best};
        *sum = 1;
        return 1;
    }
    for (int i = 0; i < s->n_vocab; i++) {
        float weight = expf((logits[i] - logits[best]) / p->temperature);
        if (weight > 0) c[n++] = (Candidate){weight, i};
    }
    if (p->top_k && p->top_k < n) n = take_first(c, n, p->top_k, INFINITY);
    if (p->top_p < 1) {
        /* What weighs less than an n-th of the mass that may be dropped cannot be in the smallest set. */
        double total = weight_of(c, n), least = (1 - (double)p->top_p) * total / n;
        int kept = 0;
        for (int i = 0; i < n; i++)
            if ((double)c[i].p >= least) c[kept++] = c[i];
        if (kept) n = kept;
        n = take_first(c, n, n, (double)p->top_p * total);
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

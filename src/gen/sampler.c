#include "gen/chain.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/kernels.h"

enum { BLOCK = 256 }; /* weights under one maximum */

int sampler_init(Sampler *s, const SamplerParams *p, int n_vocab, Error *e) {
    *s = (Sampler){.params = *p, .rng = p->seed, .n_vocab = n_vocab};
    if (!(p->temperature >= 0) || isinf(p->temperature))
        return fail(e, "temperature: expected a number from 0, found %g", (double)p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1)) return fail(e, "top-p: expected 0 to 1, found %g", (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1)) return fail(e, "min-p: expected 0 to 1, found %g", (double)p->min_p);
    if (!(p->repeat_penalty > 0) || isinf(p->repeat_penalty))
        return fail(e, "repeat-penalty: expected above 0, found %g", (double)p->repeat_penalty);
    if (p->top_k < 0) return fail(e, "top-k: expected a number from 0, found %d", p->top_k);
    if (p->repeat_last < 0) return fail(e, "repeat-last: expected a number from 0, found %d", p->repeat_last);
    s->window = p->repeat_last;
    if (p->dry_multiplier > 0 && p->dry_last > s->window) s->window = p->dry_last;
    if (chain_check(p, n_vocab, e)) return -1;
    if (chain_wanted(p) && !(s->chain = chain_new(p, n_vocab)))
        return fail(e, "sampler: memory: expected room for %d candidates, found none", n_vocab);
    s->candidates = malloc((size_t)n_vocab * sizeof *s->candidates);
    s->weights = malloc((size_t)n_vocab * sizeof *s->weights);
    s->block_max = malloc(((size_t)n_vocab / BLOCK + 1) * sizeof *s->block_max);
    s->recent = malloc(((size_t)s->window + 1) * sizeof *s->recent);
    if (s->candidates && s->weights && s->block_max && s->recent) return 0;
    sampler_close(s);
    return fail(e, "sampler: memory: expected room for %d candidates, found none", n_vocab);
}

void sampler_close(Sampler *s) {
    chain_free(s->chain);
    free(s->candidates);
    free(s->weights);
    free(s->block_max);
    free(s->recent);
    *s = (Sampler){0};
}

void sampler_accept(Sampler *s, int id) {
    if (s->window == 0) return;
    s->recent[s->next_recent] = id;
    s->next_recent = (s->next_recent + 1) % s->window;
    if (s->n_recent < s->window) s->n_recent++;
}

int sampler_recent(const Sampler *s, int back) {
    return s->recent[(s->next_recent - 1 - back + s->window) % s->window];
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

static double weight_of(const Candidate *c, int n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += (double)c[i].p;
    return sum;
}

/* weigh - weights[i] = e^((logits[i] - max) / temperature), and the largest of each block. Returns their sum. */
static double weigh(Sampler *s, const float *logits, float max) {
    double sum = 0;
    for (int from = 0; from < s->n_vocab; from += BLOCK) {
        int n = s->n_vocab - from < BLOCK ? s->n_vocab - from : BLOCK;
        float *w = s->weights + from, part = 0, largest = 0;
        for (int i = 0; i < n; i++) w[i] = (logits[from + i] - max) / s->params.temperature;
        kernels_best()->exp(w, w, (size_t)n);
#pragma omp simd reduction(+ : part) reduction(max : largest)
        for (int i = 0; i < n; i++) {
            part += w[i];
            largest = w[i] > largest ? w[i] : largest;
        }
        s->block_max[from / BLOCK] = largest;
        sum += (double)part;
    }
    return sum;
}

/* kth_block - the k-th largest of the blocks' maxima: at least k values are as large. */
static float kth_block(Sampler *s, int k) {
    int blocks = (s->n_vocab + BLOCK - 1) / BLOCK;
    if (k > blocks) return -INFINITY;
    for (int i = 0; i < blocks; i++) s->candidates[i] = (Candidate){s->block_max[i], i};
    keep_first(s->candidates, blocks, k, INFINITY);
    float least = s->candidates[0].p;
    for (int i = 1; i < k; i++) least = s->candidates[i].p < least ? s->candidates[i].p : least;
    return least;
}

/* collect - the tokens whose values [n_vocab] are at least that large, and above `floor`. Most blocks have none. */
static int collect(Sampler *s, const float *values, float least, float floor) {
    int n = 0;
    for (int from = 0; from < s->n_vocab; from += BLOCK) {
        float max = s->block_max[from / BLOCK];
        if (max < least || max <= floor) continue;
        int to = s->n_vocab - from < BLOCK ? s->n_vocab : from + BLOCK;
        for (int i = from; i < to; i++) {
            s->candidates[n] = (Candidate){values[i], i};
            n += values[i] >= least && values[i] > floor;
        }
    }
    return n;
}

static int by_order(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    return before(*y, *x) - before(*x, *y);
}

/* keep_largest - the k tokens with the largest logits, the first in the order first, and their weights. No other logit
 * changes them. */
static int keep_largest(Sampler *s, const float *logits, int k, float max) {
    Candidate *c = s->candidates;
    float *w = s->weights;
    for (int from = 0; from < s->n_vocab; from += BLOCK) {
        int to = s->n_vocab - from < BLOCK ? s->n_vocab : from + BLOCK;
        float largest = -FLT_MAX;
#pragma omp simd reduction(max : largest)
        for (int i = from; i < to; i++) largest = logits[i] > largest ? logits[i] : largest;
        s->block_max[from / BLOCK] = largest;
    }
    int n = collect(s, logits, kth_block(s, k), -INFINITY);
    if (k < n) n = keep_first(c, n, k, INFINITY);
    qsort(c, (size_t)n, sizeof *c, by_order);
    for (int i = 0; i < n; i++) w[i] = (c[i].p - max) / s->params.temperature;
    kernels_best()->exp(w, w, (size_t)n);
    for (int i = 0; i < n; i++) c[i].p = w[i];
    while (c[n - 1].p == 0) n--; /* the first weighs 1 */
    return n;
}

/* keep_weighty - all tokens but, where top-p cuts, those that weigh less than an n-th of the mass that may be dropped:
 * none of them is in the smallest set. */
static int keep_weighty(Sampler *s, const float *logits, float max, double *total) {
    float least = 0;
    *total = weigh(s, logits, max);
    if (s->params.top_p < 1) least = (float)((1 - (double)s->params.top_p) * *total / s->n_vocab * 0.999);
    return collect(s, s->weights, least, 0);
}

int sampler_largest(const Sampler *s) {
    if (s->chain || s->params.repeat_penalty != 1) return 0;
    return s->params.temperature == 0 ? 1 : s->params.top_k < s->n_vocab ? s->params.top_k : 0;
}

int sampler_filter(Sampler *s, float *logits, double *sum) {
    const SamplerParams *p = &s->params;
    Candidate *c = s->candidates;
    int bad = 0, possible = 0, best = 0;
    float max = -FLT_MAX; /* what compilers begin a reduction with: none finds -INFINITY in it */
    if (s->chain) return chain_filter(s->chain, s, logits, sum);
    penalize(s, logits);
#pragma omp simd reduction(| : bad, possible) reduction(max : max)
    for (int i = 0; i < s->n_vocab; i++) {
        bad |= !(logits[i] < INFINITY); /* NaN too */
        possible |= logits[i] > -INFINITY;
        max = logits[i] > max ? logits[i] : max;
    }
    if (bad || !possible) return -1;
    if (p->temperature == 0) {
        while (logits[best] != max) best++;
        c[0] = (Candidate){1, best};
        *sum = 1;
        return 1;
    }
    double total = 0;
    bool largest = p->top_k && p->top_k < s->n_vocab;
    int n = largest ? keep_largest(s, logits, p->top_k, max) : keep_weighty(s, logits, max, &total);
    if (p->top_p < 1) {
        if (largest) total = weight_of(c, n);
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

double sampler_uniform(Sampler *s) { return uniform(&s->rng); }

int sampler_pick(Sampler *s, int n, double sum) {
    int id = n == 1 ? s->candidates[0].id : sampler_draw(s, n, sum, uniform(&s->rng));
    if (s->chain) chain_drawn(s->chain, s, n, sum, id);
    return id;
}

int sampler_next(Sampler *s, float *logits) {
    double sum;
    int n = sampler_filter(s, logits, &sum);
    return n < 0 ? -1 : sampler_pick(s, n, sum);
}

/* What is left of p where q does not reach it. q [n_vocab] by token. */
static double rest_of(const Candidate *c, double sum, const float *q) {
    double rest = (double)c->p / sum - (double)q[c->id];
    return rest > 0 ? rest : 0;
}

static int draw_rest(Sampler *s, int n, double sum, const float *q) {
    const Candidate *c = s->candidates;
    double left = 0;
    int last = 0;
    for (int i = 0; i < n; i++) left += rest_of(&c[i], sum, q);
    left *= uniform(&s->rng);
    for (int i = 0; i < n; i++) {
        double rest = rest_of(&c[i], sum, q);
        if (rest > 0) last = i;
        if ((left -= rest) < 0) break;
    }
    return c[last].id;
}

int sampler_next_proposed(Sampler *s, float *logits, const Proposal *proposal) {
    double sum, p = 0;
    float *q = s->weights;
    if (!proposal->q) return sampler_next(s, logits);
    int n = sampler_filter(s, logits, &sum), id = proposal->id;
    if (n < 0) return -1;
    for (int i = 0; i < n; i++) {
        q[s->candidates[i].id] = 0;
        if (s->candidates[i].id == id) p = (double)s->candidates[i].p / sum;
    }
    for (int i = 0; i < proposal->n; i++) q[proposal->q[i].id] = (float)((double)proposal->q[i].p / proposal->sum);
    if (uniform(&s->rng) * (double)q[id] >= p) id = draw_rest(s, n, sum, q);
    if (s->chain) chain_drawn(s->chain, s, n, sum, id);
    return id;
}

void sampler_follow(Sampler *s, const Sampler *other) {
    s->n_recent = s->next_recent = 0;
    for (int i = other->n_recent - 1; i >= 0; i--) sampler_accept(s, sampler_recent(other, i));
    if (s->chain && other->chain) chain_follow(s->chain, other->chain);
}

double logits_log_sum(const float *logits, int n) {
    float max = logits[0];
    for (int i = 1; i < n; i++) max = fmaxf(max, logits[i]);
    double sum = exp((double)(logits[0] - max));
    for (int i = 1; i < n; i++) sum += exp((double)(logits[i] - max));
    return (double)max + log(sum);
}

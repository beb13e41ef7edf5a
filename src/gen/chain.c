#include "gen/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    float logit, p; /* p: set by softmax */
    int id;
} Token;

struct Chain {
    Token *tokens; /* [n_vocab] */
    int n;         /* that are left, sorted: the largest logit first, then the lowest id */
    float mu;      /* Mirostat's largest surprise */
    int *longest;  /* [n_vocab] DRY: the longest repetition that a token would go on with; -1: none */
    int *repeat;   /* [window] DRY: how much of the text's end is found again so many tokens back */
};

const char *const sampler_stage_names[SAMPLER_COUNT] = {"penalties", "dry",   "temperature", "top-k",
                                                        "top-p",     "min-p", "typical",     "xtc"};

int sampler_stage_named(const char *name, size_t n) {
    for (int i = 0; i < SAMPLER_COUNT; i++) {
        const char *known = sampler_stage_names[i];
        bool same = strlen(known) == n;
        for (size_t k = 0; k < n && same; k++) same = known[k] == name[k] || (known[k] == '-' && name[k] == '_');
        if (same) return i;
    }
    return -1;
}

int chain_check(const SamplerParams *p, int n_vocab, Error *e) {
    const struct {
        const char *name;
        float value, min, max;
    } row[] = {
        {"typical", p->typical, 0, 1},
        {"dynatemp-range", p->dynatemp_range, 0, 1e6f},
        {"dynatemp-exp", p->dynatemp_exponent, 0, 1e6f},
        {"xtc-probability", p->xtc_probability, 0, 1},
        {"xtc-threshold", p->xtc_threshold, 0, 1},
        {"frequency-penalty", p->frequency_penalty, -1e6f, 1e6f},
        {"presence-penalty", p->presence_penalty, -1e6f, 1e6f},
        {"dry-multiplier", p->dry_multiplier, 0, 1e6f},
        {"dry-base", p->dry_base, 0, 1e6f},
        {"mirostat-ent", p->mirostat_tau, 0, 1e6f},
        {"mirostat-lr", p->mirostat_eta, 0, 1e6f},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!(row[i].value >= row[i].min && row[i].value <= row[i].max))
            return fail(e, "%s: expected a number from %g to %g, found %g", row[i].name, (double)row[i].min,
                        (double)row[i].max, (double)row[i].value);
    if (p->mirostat != 0 && p->mirostat != 2) return fail(e, "mirostat: expected 0 or 2, found %d", p->mirostat);
    for (int i = 0; i < p->n_bias; i++)
        if (p->bias[i].id < 0 || p->bias[i].id >= n_vocab || !(p->bias[i].bias < INFINITY))
            return fail(e, "logit-bias: expected a token from 0 to %d and a number, found %d and %g", n_vocab - 1,
                        p->bias[i].id, (double)p->bias[i].bias);
    return 0;
}

bool chain_wanted(const SamplerParams *p) {
    return p->n_order || p->n_bias || p->mirostat || (p->typical > 0 && p->typical < 1) || p->dynatemp_range > 0 ||
           p->xtc_probability > 0 || p->frequency_penalty != 0 || p->presence_penalty != 0 || p->dry_multiplier > 0;
}

Chain *chain_new(const SamplerParams *p, int n_vocab) {
    Chain *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->mu = 2 * p->mirostat_tau;
    c->tokens = malloc((size_t)n_vocab * sizeof *c->tokens);
    c->longest = malloc((size_t)n_vocab * sizeof *c->longest);
    c->repeat = malloc(((size_t)p->dry_last + 1) * sizeof *c->repeat);
    if (c->tokens && c->longest && c->repeat) return c;
    chain_free(c);
    return NULL;
}

void chain_follow(Chain *c, const Chain *other) { c->mu = other->mu; }

void chain_free(Chain *c) {
    if (!c) return;
    free(c->tokens);
    free(c->longest);
    free(c->repeat);
    free(c);
}

static int by_logit(const void *a, const void *b) {
    const Token *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

static void sort(Chain *c) { qsort(c->tokens, (size_t)c->n, sizeof *c->tokens, by_logit); }

static void softmax(Chain *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += (double)(c->tokens[i].p = expf(c->tokens[i].logit - c->tokens[0].logit));
    for (int i = 0; i < c->n; i++) c->tokens[i].p = (float)((double)c->tokens[i].p / sum);
}

/* In nats. */
static double entropy(const Chain *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        if (c->tokens[i].p > 0) sum -= (double)c->tokens[i].p * log((double)c->tokens[i].p);
    return sum;
}

/* Repeat: CTRL, arXiv:1909.05858. Frequency and presence: OpenAI's API. */
static void penalties(Chain *c, const Sampler *s) {
    const SamplerParams *p = &s->params;
    int n = s->n_recent < p->repeat_last ? s->n_recent : p->repeat_last;
    int *count = c->longest;
    if (p->repeat_penalty == 1 && p->frequency_penalty == 0 && p->presence_penalty == 0) return;
    memset(count, 0, (size_t)s->n_vocab * sizeof *count);
    for (int i = 0; i < n; i++) count[sampler_recent(s, i)]++;
    for (int i = 0; i < c->n; i++) {
        Token *t = &c->tokens[i];
        int times = count[t->id];
        if (!times) continue;
        t->logit = t->logit > 0 ? t->logit / p->repeat_penalty : t->logit * p->repeat_penalty;
        t->logit -= (float)times * p->frequency_penalty + p->presence_penalty;
    }
    sort(c);
}

/* The tokens of the longest breaker that begins at the token i tokens back; 0: none does. */
static int breaker_at(const Sampler *s, int i) {
    const SamplerParams *p = &s->params;
    int token = sampler_recent(s, i), from = 0, to = p->n_dry_sequences;
    int longest = p->dry_breakers && p->dry_breakers[token];
    while (from < to) {
        int middle = from + (to - from) / 2;
        if (p->dry_sequences[middle].head < token) from = middle + 1;
        else to = middle;
    }
    for (; from < p->n_dry_sequences && p->dry_sequences[from].head == token; from++) {
        const DryBreaker *b = &p->dry_sequences[from];
        int same = 0;
        if (b->n + 1 <= longest || b->n > i) continue;
        while (same < b->n && b->tail[same] == sampler_recent(s, i - same - 1)) same++;
        if (same == b->n) longest = b->n + 1;
    }
    return longest;
}

/* A token that would make a repetition longer is penalized by multiplier * base^(length - allowed), length being that
 * of the repetition so far; none goes across a breaker. Source: p-e-w, oobabooga/text-generation-webui, pull 5677. */
static void dry(Chain *c, const Sampler *s) {
    const SamplerParams *p = &s->params;
    int n = s->n_recent < p->dry_last ? s->n_recent : p->dry_last, limit = n;
    if (p->dry_multiplier == 0 || p->dry_base < 1 || n <= p->dry_allowed_length) return;
    for (int i = 0, found = 0; i < n && !found; i++) /* what comes after the last breaker is all that may repeat */
        if ((found = breaker_at(s, i)) > 0) limit = i - (found - 1);
    if (limit < p->dry_allowed_length) return;
    for (int i = 0; i < s->n_vocab; i++) c->longest[i] = -1;
    /* repeat[k]: the length of the longest common end of the text and of the text without its last k tokens: the
     * Z-function of the text read backward. */
    for (int k = 1, left = 0, right = 0; k < n; k++) {
        int z = k < right && c->repeat[k - left] < right - k ? c->repeat[k - left] : k < right ? right - k : 0;
        while (z + k < n && sampler_recent(s, z) == sampler_recent(s, z + k)) z++;
        c->repeat[k] = z;
        if (z + k > right) left = k, right = z + k;
        int length = z < limit ? z : limit, next = sampler_recent(s, k - 1);
        if (length >= p->dry_allowed_length && length > c->longest[next]) c->longest[next] = length;
    }
    int most = p->dry_base > 1.000001f ? (int)(88.7228391f / logf(p->dry_base)) : 0; /* beyond it a float overflows */
    for (int i = 0; i < c->n; i++) {
        Token *t = &c->tokens[i];
        if (c->longest[t->id] < 0 || (p->dry_breakers && p->dry_breakers[t->id])) continue;
        int power = c->longest[t->id] - p->dry_allowed_length;
        if (most > 0 && power > most) power = most;
        t->logit -= p->dry_multiplier * powf(p->dry_base, (float)power);
    }
    sort(c);
}

static void temperature(Chain *c, const Sampler *s) {
    const SamplerParams *p = &s->params;
    float t = p->temperature;
    if (p->dynatemp_range > 0 && c->n > 1) { /* little entropy: the model is sure, and sampled cold */
        float low = t > p->dynatemp_range ? t - p->dynatemp_range : 0, high = t + p->dynatemp_range;
        softmax(c);
        t = low + (high - low) * powf((float)(entropy(c) / log(c->n)), p->dynatemp_exponent);
    }
    if (t <= 0) c->n = 1;
    else
        for (int i = c->n - 1; i >= 0; i--) c->tokens[i].logit = (c->tokens[i].logit - c->tokens[0].logit) / t;
}

static void top_k(Chain *c, const Sampler *s) {
    if (s->params.top_k && s->params.top_k < c->n) c->n = s->params.top_k;
}

/* Holtzman et al., arXiv:1904.09751. */
static void top_p(Chain *c, const Sampler *s) {
    double sum = 0;
    if (s->params.top_p >= 1) return;
    softmax(c);
    for (int i = 0; i < c->n; i++) {
        sum += (double)c->tokens[i].p;
        if (sum >= (double)s->params.top_p) c->n = i + 1;
    }
}

/* Nguyen et al., arXiv:2407.01082. */
static void min_p(Chain *c, const Sampler *s) {
    if (s->params.min_p <= 0) return;
    softmax(c);
    int n = 1;
    while (n < c->n && c->tokens[n].p >= s->params.min_p * c->tokens[0].p) n++;
    c->n = n;
}

static int by_p(const void *a, const void *b) {
    float x = ((const Token *)a)->p, y = ((const Token *)b)->p;
    return x != y ? (x > y) - (x < y) : by_logit(a, b);
}

/* The tokens whose surprise is nearest to the entropy, until they hold the probability. Meister et al.,
 * arXiv:2202.00666, section 4. */
static void typical(Chain *c, const Sampler *s) {
    if (s->params.typical <= 0 || s->params.typical >= 1) return;
    softmax(c);
    double h = entropy(c), sum = 0;
    for (int i = 0; i < c->n; i++) c->tokens[i].p = (float)fabs(-log((double)c->tokens[i].p) - h);
    float best = c->tokens[0].logit;
    double total = 0;
    for (int i = 0; i < c->n; i++) total += exp((double)(c->tokens[i].logit - best));
    qsort(c->tokens, (size_t)c->n, sizeof *c->tokens, by_p);
    for (int i = 0; i < c->n; i++) {
        sum += exp((double)(c->tokens[i].logit - best)) / total;
        if (sum > (double)s->params.typical) c->n = i + 1;
    }
    sort(c);
}

/* With this probability, all tokens above the threshold but the least of them are excluded. Source: p-e-w,
 * oobabooga/text-generation-webui, pull 6335. */
static void xtc(Chain *c, Sampler *s) {
    const SamplerParams *p = &s->params;
    if (p->xtc_probability <= 0 || p->xtc_threshold > 0.5f || c->n < 2) return;
    if (sampler_uniform(s) > (double)p->xtc_probability) return;
    softmax(c);
    int above = 0;
    while (above < c->n && c->tokens[above].p >= p->xtc_threshold) above++;
    if (above < 2) return;
    c->n -= above - 1;
    memmove(c->tokens, c->tokens + above - 1, (size_t)c->n * sizeof *c->tokens);
}

/* What is more surprising than mu bits is cut off. Basu et al., arXiv:2007.14966, algorithm 2. */
static void mirostat(Chain *c) {
    softmax(c);
    int n = 0;
    while (n < c->n && -log2f(c->tokens[n].p) <= c->mu) n++;
    c->n = n ? n : 1;
}

static void run_stage(Chain *c, Sampler *s, SamplerStage stage) {
    switch (stage) {
    case SAMPLER_PENALTIES: penalties(c, s); break;
    case SAMPLER_DRY: dry(c, s); break;
    case SAMPLER_TEMPERATURE: temperature(c, s); break;
    case SAMPLER_TOP_K: top_k(c, s); break;
    case SAMPLER_TOP_P: top_p(c, s); break;
    case SAMPLER_MIN_P: min_p(c, s); break;
    case SAMPLER_TYPICAL: typical(c, s); break;
    case SAMPLER_XTC: xtc(c, s); break;
    case SAMPLER_COUNT: break;
    }
}

int chain_filter(Chain *c, Sampler *s, const float *logits, double *sum) {
    const SamplerParams *p = &s->params;
    float *weights = s->weights;
    bool possible = false;
    for (int i = 0; i < s->n_vocab; i++) {
        if (!(logits[i] < INFINITY)) return -1; /* NaN too */
        weights[i] = logits[i];
    }
    for (int i = 0; i < p->n_bias; i++) weights[p->bias[i].id] += p->bias[i].bias;
    c->n = 0;
    for (int i = 0; i < s->n_vocab; i++) {
        possible |= logits[i] > -INFINITY;
        if (weights[i] > -INFINITY) c->tokens[c->n++] = (Token){.logit = weights[i], .id = i};
    }
    if (!possible || c->n == 0) return -1;
    sort(c);
    int n = p->n_order ? p->n_order : p->mirostat ? SAMPLER_TOP_K : SAMPLER_COUNT;
    for (int i = 0; i < n; i++) run_stage(c, s, p->n_order ? p->order[i] : (SamplerStage)i);
    if (p->mirostat && c->n > 1) mirostat(c);
    softmax(c);
    *sum = 0;
    for (int i = 0; i < c->n; i++) {
        s->candidates[i] = (Candidate){c->tokens[i].p, c->tokens[i].id};
        *sum += (double)c->tokens[i].p;
    }
    return c->n;
}

void chain_drawn(Chain *c, const Sampler *s, int n, double sum, int id) {
    if (!s->params.mirostat) return;
    for (int i = 0; i < n; i++)
        if (s->candidates[i].id == id)
            c->mu -=
                s->params.mirostat_eta * (-log2f((float)((double)s->candidates[i].p / sum)) - s->params.mirostat_tau);
}

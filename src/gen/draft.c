#include "gen/draft.h"

#include "gen/shift.h"

int drafts_rows(const Options *o) { return 1 + (o->draft ? DRAFT_MODEL_MOST : o->lookup); }

int drafts_open(Drafts *d, const Options *o, const Session *session, const SamplerParams *params, Error *e) {
    *d = (Drafts){.row = -1, .most = drafts_rows(o) - 1};
    if (d->most == 0) return 0;
    d->drafter = o->draft ? draft_model_open(o, session, params, e) : draft_lookup_open(e);
    return d->drafter ? 0 : -1;
}

void drafts_close(Drafts *d) {
    if (d->drafter) d->drafter->close(d->drafter);
    *d = (Drafts){.row = -1};
}

void drafts_forget(Drafts *d) {
    d->row = -1;
    d->n = 0;
    d->only_compared = false;
}

void drafts_begin(Drafts *d, const int *ids, int n) {
    drafts_forget(d);
    d->n_passes = d->n_drafted = d->n_accepted = 0;
    if (d->drafter && d->drafter->read) d->drafter->read(d->drafter, ids, n);
}

/* ---- How many tokens to draft ------------------------------------------------------------------ */

/* What a pass of several rows costs, in passes of one: docs/performance.md. Not measured here, since the text must not
 * depend on the clock. */
static double pass_cost(int rows) {
    static const struct {
        int rows;
        double cost;
    } point[] = {{1, 1}, {2, 1.7}, {4, 1.95}, {8, 2.6}, {16, 4}, {32, 6.5}, {65, 11}};
    int i = 1;
    while (rows > point[i].rows) i++;
    double part = (double)(rows - point[i - 1].rows) / (point[i].rows - point[i - 1].rows);
    return point[i - 1].cost + part * (point[i].cost - point[i - 1].cost);
}

static int class_of(const Drafts *d, int i) { return d->sure + i < DRAFT_CLASSES ? d->sure + i : DRAFT_CLASSES - 1; }

/* The share of a class's guesses that is right: what was seen, beside what is usual as if seen so many times. */
static double chance(const Drafts *d, int i) {
    enum { USUAL = 4 };
    static const double usual[DRAFT_CLASSES] = {0, 0.2, 0.35, 0.4, 0.5, 0.7, 0.75, 0.8, 0.9};
    int class = class_of(d, i);
    return (d->score[class].right + USUAL * usual[class]) / (d->score[class].checked + USUAL);
}

static void note(Drafts *d, int i, bool right) {
    const double fade = 0.98;
    Score *s = &d->score[class_of(d, i)];
    s->right = fade * s->right + right;
    s->checked = fade * s->checked + 1;
}

/* The length that gives the most tokens for what the pass costs. A pass of k drafted tokens gives one and, of each
 * drafted one, the chance that it and all before it are right (equation 1 with a chance for each token). */
static int plan(const Drafts *d, int most) {
    enum { WORTH_PERCENT = 105 };
    double all_right = 1, tokens = 1, best = WORTH_PERCENT / 100.0;
    int k = d->drafter->least < most ? d->drafter->least : most;
    for (int i = 1; i <= most; i++) {
        all_right *= chance(d, i - 1);
        tokens += all_right;
        double gain = tokens / (pass_cost(1 + i) + i * d->drafter->cost);
        if (gain > best) best = gain, k = i;
    }
    return k;
}

/* ---- A pass -------------------------------------------------------------------------------------- */

static void guess(Drafts *d, const Session *session, const Sampler *s, const int *text, int n, int most) {
    Drafter *drafter = d->drafter;
    drafts_forget(d);
    if (!drafter || most <= 0 || (d->sure = drafter->sure(drafter, text, n)) == 0) return;
    int k = plan(d, most < d->most ? most : d->most);
    while (k && !same_angles(&session->model.config, n, n + k)) k--;
    d->only_compared = k == 0 && drafter->cost == 0;
    d->n = drafter->guess(drafter, text, n, s, d->guess, d->only_compared ? 1 : k);
    if (d->n == 0) d->only_compared = false;
}

float *drafts_forward(Drafts *d, Session *session, const Sampler *s, const int *text, int n, int most) {
    const Model *m = &session->model;
    State *state = &session->state;
    if (d->row > 0) return state->logits + (size_t)d->row * (size_t)m->config.vocab_size;
    int tokens[1 + DRAFT_MOST] = {text[n - 1]};
    guess(d, session, s, text, n, most);
    int rows = d->only_compared ? 1 : 1 + d->n;
    for (int i = 1; i < rows; i++) tokens[i] = d->guess[i - 1].id;
    model_forward(m, state, tokens, rows, n - 1);
    if (rows > 1 && !m->comm && kv_cache_overflowed(&state->attn.cache)) {
        /* It may be a guess's key that is too large, not the text's. */
        *state->attn.cache.overflow = false;
        d->n = 0;
        model_forward(m, state, tokens, rows = 1, n - 1);
    }
    model_logits_span(m, state, 0, rows);
    d->row = 0;
    d->n_passes++;
    d->n_drafted += rows - 1;
    return state->logits;
}

int drafts_sample(Drafts *d, Sampler *s, float *logits) {
    if (d->row < 0 || d->row >= d->n) {
        drafts_forget(d);
        return sampler_next(s, logits);
    }
    const Proposal *guess = &d->guess[d->row];
    int id = sampler_next_proposed(s, logits, guess);
    bool right = id == guess->id;
    note(d, d->row, right);
    if (right && !d->only_compared) d->row++, d->n_accepted++;
    else drafts_forget(d);
    return id;
}

double drafts_tokens_a_pass(const Drafts *d) { return d->n_passes ? 1 + (double)d->n_accepted / d->n_passes : 0; }

void drafts_report(const Drafts *d, FILE *log) {
    if (!d->drafter) return;
    fprintf(log, "drafts: %d tokens, %d accepted (%.0f%%); %.2f tokens a pass\n", d->n_drafted, d->n_accepted,
            d->n_drafted ? 100.0 * d->n_accepted / d->n_drafted : 0, drafts_tokens_a_pass(d));
}

/* A small model drafts for a large one of the same vocabulary. Its cache follows the text: of what it drafted, the
 * tokens that were accepted stay. */
#include <stdlib.h>
#include <string.h>

#include "gen/draft.h"
#include "gen/signals.h"

typedef struct {
    Drafter drafter; /* first */
    Options o;       /* of the draft's session */
    Session session;
    Sampler sampler;
    int n_vocab;           /* ids that both models know */
    int *cached, n_cached; /* [n_ctx] tokens whose keys and values are in the cache */
    Candidate *q;          /* [DRAFT_MODEL_MOST, n_vocab] what each drafted token was drawn from */
} DraftModel;

static bool go_on(void *arg, int done, int total) {
    (void)arg, (void)done, (void)total;
    return !interrupted;
}

/* Brings the cache to text[n]; the last token is read again where it is there: its logits are wanted. Returns their row
 * of the last pass, -1 when there are none: the text is too long, or Ctrl-C came. */
static int follow_text(DraftModel *d, const int *text, int n) {
    State *state = &d->session.state;
    int kept = 0;
    if (n > state->options.n_ctx) return -1;
    while (kept < d->n_cached && kept < n - 1 && d->cached[kept] == text[kept]) kept++;
    kept = kv_cache_kept(&state->attn.cache, kept);
    for (int i = kept; i < n; i++)
        if (text[i] >= d->n_vocab) return -1;
    memcpy(d->cached + kept, text + kept, (size_t)(n - kept) * sizeof *text);
    d->n_cached = kept;
    d->n_cached += model_prefill(&d->session.model, state, text + kept, n - kept, kept, WANTED_LAST, go_on, NULL);
    return d->n_cached < n ? -1 : (n - kept - 1) % state->options.n_batch;
}

static void read_prompt(Drafter *drafter, const int *text, int n) { follow_text((DraftModel *)drafter, text, n); }

static int sure(Drafter *drafter, const int *text, int n) {
    (void)text;
    return n <= ((DraftModel *)drafter)->session.state.options.n_ctx ? DRAFT_CLASSES - 1 : 0;
}

/* Draws one token from the logits, and keeps what it was drawn from. A single candidate is certain. */
static bool draw(DraftModel *d, float *logits, Proposal *out, Candidate *q) {
    Sampler *s = &d->sampler;
    double sum;
    int n = sampler_filter(s, logits, &sum);
    if (n < 0) return false; /* NaN: the draft's own fault, and it costs no text */
    int id = sampler_pick(s, n, sum);
    sampler_accept(s, id);
    *out = (Proposal){.id = id};
    if (n == 1) return true;
    memcpy(q, s->candidates, (size_t)n * sizeof *q);
    *out = (Proposal){id, q, n, sum};
    return true;
}

static int guess(Drafter *drafter, const int *text, int n, const Sampler *s, Proposal *out, int most) {
    DraftModel *d = (DraftModel *)drafter;
    const Model *m = &d->session.model;
    State *state = &d->session.state;
    if (most > state->options.n_ctx - n + 1) most = state->options.n_ctx - n + 1;
    int row = follow_text(d, text, n), i = 0;
    if (row < 0) return 0;
    sampler_follow(&d->sampler, s);
    model_logits(m, state, row);
    while (i < most && draw(d, state->logits, &out[i], d->q + (size_t)i * (size_t)d->n_vocab) && ++i < most) {
        int id = d->cached[d->n_cached] = out[i - 1].id;
        model_forward(m, state, &id, 1, d->n_cached++);
        model_logits(m, state, 0);
    }
    return i;
}

static void model_close(Drafter *drafter) {
    DraftModel *d = (DraftModel *)drafter;
    sampler_close(&d->sampler);
    session_close(&d->session);
    free(d->cached);
    free(d->q);
    free(d);
}

/* Ids mean the same in both. */
static int check_vocabulary(const DraftModel *d, const Session *session, Error *e) {
    const Tokenizer *mine = d->session.tokenizer, *theirs = session->tokenizer;
    int n = tokenizer_vocab_size(theirs);
    if (tokenizer_vocab_size(mine) != n)
        return fail(e, "%s: vocabulary: expected the %d tokens of %s, found %d", d->o.checkpoint, n,
                    session->checkpoint.path, tokenizer_vocab_size(mine));
    for (int i = 0; i < n; i++) {
        size_t n_found, n_wanted;
        const char *found = tokenizer_piece(mine, i, &n_found), *wanted = tokenizer_piece(theirs, i, &n_wanted);
        if (n_found != n_wanted || memcmp(found, wanted, n_found) != 0)
            return fail(e, "%s: vocabulary: token %d: expected '%.60s' as in %s, found '%.60s'", d->o.checkpoint, i,
                        wanted, session->checkpoint.path, found);
    }
    return 0;
}

static double bytes_of(const Checkpoint *ck) {
    double sum = 0;
    for (int i = 0; i < ck->n_files; i++) sum += (double)ck->files[i].size;
    return sum;
}

/* What is said of the model alone is not said of its draft; ranks share the model alone. */
static Options options_of(const Options *o) {
    Options mine = *o;
    mine.checkpoint = o->draft;
    mine.draft = NULL;
    mine.quiet = true;
    mine.check = false;
    mine.comm = NULL;
    mine.rope_theta = mine.rope_factor = 0;
    mine.rope_scaling = mine.rope_pairing = -1;
    mine.rope_original_ctx = 0;
    return mine;
}

static int open_sampler(DraftModel *d, const SamplerParams *params, Error *e) {
    SamplerParams mine = *params;
    mine.seed = ~params->seed;
    for (int i = 0; i < params->n_bias; i++)
        if (params->bias[i].id >= d->n_vocab) mine.n_bias = 0;
    return sampler_init(&d->sampler, &mine, d->n_vocab, e);
}

static int open_parts(DraftModel *d, const Session *session, const SamplerParams *params, Error *e) {
    const Options *o = &d->o;
    if (session_open(&d->session, o, SESSION_TOKENIZER, e) || check_vocabulary(d, session, e)) return -1;
    int n_ctx = session->state.options.n_ctx, own_ctx = d->session.model.config.n_ctx;
    if (n_ctx > own_ctx) n_ctx = own_ctx; /* beyond it nothing is drafted */
    if (session_state(&d->session, o, n_ctx, e)) return -1;
    d->n_vocab = d->session.model.config.vocab_size;
    if (d->n_vocab > session->model.config.vocab_size) d->n_vocab = session->model.config.vocab_size;
    d->cached = calloc((size_t)n_ctx, sizeof *d->cached);
    d->q = calloc((size_t)DRAFT_MODEL_MOST * (size_t)d->n_vocab, sizeof *d->q);
    if (!d->cached || !d->q) return fail(e, "%s: memory: expected some, found none", o->checkpoint);
    d->drafter.cost = bytes_of(&d->session.checkpoint) / bytes_of(&session->checkpoint);
    return open_sampler(d, params, e);
}

Drafter *draft_model_open(const Options *o, const Session *session, const SamplerParams *params, Error *e) {
    DraftModel *d = calloc(1, sizeof *d);
    if (!d) {
        fail(e, "--draft: memory: expected some, found none");
        return NULL;
    }
    d->o = options_of(o);
    d->drafter = (Drafter){.read = read_prompt, .sure = sure, .guess = guess, .close = model_close, .least = 1};
    if (open_parts(d, session, params, e) == 0) return &d->drafter;
    model_close(&d->drafter);
    return NULL;
}

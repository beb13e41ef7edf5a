#include "gen/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gen/shift.h"
#include "gen/signals.h"

/* Slot - room for one text: a Sequence of the State, and who has it. */
typedef struct {
    Job *job; /* NULL: free */
    Generator g;
    Record record;
    Stream stream;
    Sequence *sequence;
    int *read,
        n_read;       /* [n_ctx] tokens of a prompt whose keys and values are in the cache, of a job that is done too */
    int row;          /* of the pass, whose logits choose the next token; -1: none */
    bool ran;         /* part of the last pass, */
    bool was_reading; /* which read tokens of its prompt */
    bool failed;      /* no token could be chosen; the job's error says why */
} Slot;

typedef struct {
    Session *s;
    const BatchJobs *jobs;
    BatchCount *count;
    Slot *slots; /* [n] */
    int n, n_ctx;
    bool empty;  /* no job is left that has not begun */
    int *tokens; /* [n_batch] of a pass */
    int *rows;   /* [n] those whose logits are wanted */
    Span *spans; /* [n] */
} Batch;

static bool is_reading(const Slot *t) { return t->job && t->n_read < t->job->n; }

/* ---- A job begins and ends ---- */

static void finish(Batch *b, Slot *t) {
    Job *job = t->job;
    if (!job->dropped && !*job->error.text && !stream_end(&t->stream, &job->error))
        record_print(&t->record, &t->g, job->text, job->size, job->ids, job->n, &job->error);
    b->count->n_written += t->g.n_decode;
    stream_close(&t->stream);
    record_close(&t->record);
    generator_close(&t->g);
    t->job = NULL;
    b->jobs->done(b->jobs->arg, job);
}

static int begin(Batch *b, Slot *t) {
    Job *job = t->job;
    Error *e = &job->error;
    const Tokenizer *words = b->s->tokenizer;
    t->row = -1;
    *t->sequence->cache.overflow = false;
    if (job->n > b->n_ctx)
        return fail(e, "prompt: expected at most the context's %d tokens, found %d (raise it with -c)", b->n_ctx,
                    job->n);
    if (generator_init(&t->g, &job->o, b->s, e) || record_open(&t->record, &job->o, job->out, e) ||
        generator_tell(&t->g, record_token, &t->record, job->o.logprobs > 0, e))
        return -1;
    t->record.id = job->id;
    t->g.say_seed = false; /* it is in the result */
    stream_init(&t->stream, t->record.text, job->o.stop, job->o.n_stop);
    t->g.prev = -1;
    for (int i = 0; i < job->n; i++) {
        sampler_accept(&t->g.sampler, job->ids[i]);
        t->g.prev = tokenizer_next(words, t->g.prev, job->ids[i]);
    }
    int kept = 0; /* the last token is read again: its logits choose the next */
    while (kept < t->n_read && kept < job->n - 1 && t->read[kept] == job->ids[kept]) kept++;
    kept = kv_cache_kept(&t->sequence->cache, kept);
    b->count->n_copied += kept;
    t->n_read = kept;
    memcpy(t->read, job->ids, (size_t)job->n * sizeof *t->read);
    return 0;
}

/* Free slots get jobs. */
static int admit(Batch *b, Error *e) {
    for (Slot *t = b->slots; t < b->slots + b->n; t++)
        while (!t->job && !b->empty) {
            t->job = b->jobs->next(b->jobs->arg, e);
            if (*e->text) return -1;
            b->empty = !t->job;
            if (t->job && (*t->job->error.text || begin(b, t))) finish(b, t);
        }
    return 0;
}

/* ---- Prompts that begin alike ---- */

/* How many tokens of t's prompt are the first `of` tokens of u's. */
static int alike(const Slot *t, const Slot *u, int of) {
    int n = 0;
    while (n < of && n < t->job->n - 1 && t->job->ids[n] == u->read[n]) n++;
    return n;
}

/* Copies what another slot has read of this one's prompt. Returns whether it is worth waiting for more of it. */
static bool share(Batch *b, Slot *t) {
    enum { WORTH = 16 };
    bool wait = false;
    const Slot *best = NULL;
    int most = t->n_read;
    for (const Slot *u = b->slots; u < b->slots + b->n; u++) {
        if (u == t || !same_angles(&b->s->model.config, t->job->n, u->job ? u->job->n : u->n_read)) continue;
        int there = kv_cache_kept(&u->sequence->cache, alike(t, u, u->n_read));
        if (there > most) most = there, best = u;
        bool before = is_reading(u) && u->job->number < t->job->number;
        int coming = before ? alike(t, u, u->job->n) : 0;
        wait |= coming >= t->n_read + WORTH && coming > u->n_read;
    }
    if (best && most >= t->n_read + WORTH) {
        sequence_copy(t->sequence, best->sequence, most);
        b->count->n_copied += most - t->n_read;
        t->n_read = most;
    }
    return wait;
}

/* ---- A pass ---- */

typedef struct {
    int n, n_spans, n_rows;
} Plan;

static void add(Batch *b, Plan *p, Slot *t, const int *tokens, int n, int pos, int seq_len, bool wanted) {
    memcpy(b->tokens + p->n, tokens, (size_t)n * sizeof *tokens);
    b->spans[p->n_spans++] = (Span){t->sequence, p->n, n, pos, seq_len};
    p->n += n;
    t->ran = true;
    if (!wanted) return;
    t->row = p->n_rows;
    b->rows[p->n_rows++] = p->n - 1;
}

/* The slot that reads the earliest prompt after `number`. */
static Slot *next_reading(const Batch *b, int number) {
    Slot *first = NULL;
    for (Slot *t = b->slots; t < b->slots + b->n; t++)
        if (is_reading(t) && t->job->number > number && (!first || t->job->number < first->job->number)) first = t;
    return first;
}

/* A token of every text that is written, then as many of the prompts as the batch holds. */
static Plan plan(Batch *b) {
    Plan p = {0};
    int room = b->s->state.options.n_batch;
    for (Slot *t = b->slots; t < b->slots + b->n; t++) {
        t->row = -1;
        t->ran = false;
        if (!t->job || is_reading(t)) continue;
        add(b, &p, t, &t->g.next, 1, t->g.n_cached, t->g.n_cached + 1, true);
    }
    for (Slot *t = next_reading(b, -1); t && p.n < room; t = next_reading(b, t->job->number)) {
        if (share(b, t)) continue;
        int left = t->job->n - t->n_read, n = left < room - p.n ? left : room - p.n;
        add(b, &p, t, t->job->ids + t->n_read, n, t->n_read, t->job->n, n == left);
    }
    return p;
}

/* Chooses the next token of each text that has logits: every thread takes the next text, as each has a sampler and
 * logits of its own. */
static void sample(const Thread *thread, void *arg) {
    Batch *b = arg;
    size_t vocab = (size_t)b->s->model.config.vocab_size;
    for (int i; team_next(thread, b->n, &i);) {
        Slot *t = &b->slots[i];
        if (!t->ran || t->row < 0) continue;
        Error *e = &t->job->error;
        t->failed = session_check_cache(b->s, &t->sequence->cache, e) ||
                    generator_sample(&t->g, b->s->state.logits + (size_t)t->row * vocab, e);
    }
}

/* The slot's text goes on with the token that was chosen; false: it has ended. */
static bool go_on(Batch *b, Slot *t) {
    if (t->failed || generator_put(&t->g, &t->stream, &t->job->error) != 1) return false;
    if (t->g.n_cached < b->n_ctx) return true;
    t->g.reason = "context";
    return false;
}

static void step(Batch *b) {
    State *state = &b->s->state;
    const Model *m = &b->s->model;
    double start = now();
    Plan p = plan(b);
    model_pass_spans(m, state, b->tokens, b->spans, p.n_spans);
    for (Slot *t = b->slots; t < b->slots + b->n; t++) {
        const Span *span = b->spans;
        if (!t->ran) continue;
        while (span->sequence != t->sequence) span++;
        t->was_reading = is_reading(t);
        if (t->was_reading) {
            t->n_read += span->n;
            t->g.n_prefill += span->n;
            b->count->n_read += span->n;
        }
        t->g.n_cached = span->pos + span->n;
    }
    if (p.n_rows) {
        model_logits_rows(m, state, b->rows, p.n_rows);
        team_run(state->team, sample, b);
    }
    double seconds = now() - start;
    for (Slot *t = b->slots; t < b->slots + b->n; t++) {
        if (!t->ran) continue;
        *(t->was_reading ? &t->g.prefill_seconds : &t->g.decode_seconds) += seconds;
        if (t->row >= 0 && !go_on(b, t)) finish(b, t);
    }
}

/* ---- All of it ---- */

static void batch_close(Batch *b) {
    for (Slot *t = b->slots; b->slots && t < b->slots + b->n; t++) {
        if (t->job) {
            t->job->dropped = true;
            finish(b, t);
        }
        free(t->read);
    }
    free(b->slots);
    free(b->tokens);
    free(b->rows);
    free(b->spans);
}

static int batch_open(Batch *b, Error *e) {
    const StateOptions *o = &b->s->state.options;
    size_t n = (size_t)b->n;
    b->slots = calloc(n, sizeof *b->slots);
    b->tokens = calloc((size_t)o->n_batch, sizeof *b->tokens);
    b->rows = calloc(n, sizeof *b->rows);
    b->spans = calloc(n, sizeof *b->spans);
    bool bad = !b->slots || !b->tokens || !b->rows || !b->spans;
    for (int i = 0; i < b->n && !bad; i++) {
        b->slots[i].sequence = &b->s->state.texts[i];
        b->slots[i].read = calloc((size_t)b->n_ctx, sizeof *b->slots[i].read);
        bad = !b->slots[i].read;
    }
    return bad ? fail(e, "batch: memory: expected room for %d texts, found none", b->n) : 0;
}

int batch_run(Session *s, const BatchJobs *jobs, BatchCount *count, Error *e) {
    const StateOptions *o = &s->state.options;
    Batch b = {.s = s, .jobs = jobs, .count = count, .n = o->n_texts, .n_ctx = o->n_ctx};
    double start = now();
    *count = (BatchCount){0};
    int status = batch_open(&b, e);
    while (!status && !interrupted) {
        bool busy = false;
        if ((status = admit(&b, e))) break;
        for (int i = 0; i < b.n; i++) busy |= b.slots[i].job != NULL;
        if (!busy) break;
        step(&b);
    }
    batch_close(&b);
    count->seconds = now() - start;
    return status;
}

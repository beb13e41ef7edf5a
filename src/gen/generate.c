#include "gen/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/system.h"
#include "gen/progress.h"
#include "gen/shift.h"
#include "gen/signals.h"
#include "kernels/quantize.h"

enum { DEFAULT_STEPS = 256 };

static int find_breakers(Generator *g, SamplerParams *p, Error *e) {
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const Options *o = g->o;
    const Session *s = g->session;
    bool given = o->n_breaker >= 0;
    if (breakers_find(&g->breakers, s->tokenizer, s->model.config.vocab_size, given ? o->breaker : usual,
                      given ? o->n_breaker : 4, e))
        return -1;
    p->dry_breakers = g->breakers.single;
    p->dry_sequences = g->breakers.list;
    p->n_dry_sequences = g->breakers.n;
    return 0;
}

/* A control token adds no text, so that its text could never be seen in an answer. */
static void find_stop_tokens(Generator *g, const Options *o, const Tokenizer *t) {
    for (int i = 0; t && i < o->n_stop; i++) {
        const char *bytes;
        char buffer[8];
        int id = tokenizer_find(t, o->stop[i]);
        if (id >= 0 && tokenizer_decode(t, -1, id, &bytes, buffer) == 0) g->stop[g->n_stop++] = id;
    }
}

int generator_init(Generator *g, const Options *o, Session *session, Error *e) {
    SamplerParams params = o->sampler;
    *g = (Generator){.o = o, .session = session, .next = -1, .reason = "steps"};
    if (!o->seed_given) {
        if (!system_random(&params.seed, sizeof params.seed)) params.seed = (uint64_t)time(NULL);
        g->say_seed = !o->quiet && params.temperature > 0;
    }
    find_stop_tokens(g, o, session->tokenizer);
    int n_ctx = session->state.options.n_ctx; /* no more tokens than these are ever looked back on */
    if (params.repeat_last > n_ctx) params.repeat_last = n_ctx;
    if (params.dry_last < 0 || params.dry_last > n_ctx) params.dry_last = n_ctx;
    params.bias = o->bias;
    params.n_bias = o->n_bias;
    if (params.dry_multiplier > 0 && find_breakers(g, &params, e)) return -1;
    g->cached = calloc((size_t)n_ctx, sizeof *g->cached);
    if (!g->cached) return fail(e, "context: memory: expected some, found none");
    if (sampler_init(&g->sampler, &params, session->model.config.vocab_size, e)) return -1;
    return drafts_open(&g->drafts, o, session, &params, e);
}

int generator_tell(Generator *g, int (*each)(void *arg, const Generator *g, int id, const float *logits, Error *e),
                   void *arg, bool want_logits, Error *e) {
    g->each = each;
    g->each_arg = arg;
    if (!want_logits) return 0;
    g->logits = calloc((size_t)g->session->model.config.vocab_size, sizeof *g->logits);
    return g->logits ? 0 : fail(e, "logits: memory: expected some, found none");
}

void generator_close(Generator *g) {
    free(g->logits);
    drafts_close(&g->drafts);
    breakers_close(&g->breakers);
    sampler_close(&g->sampler);
    free(g->cached);
    *g = (Generator){0};
}

/* Prefill - how far it is: batches of n_batch tokens, layer by layer. */
typedef struct {
    Progress progress;
    int done, total, n_batch, n_layers;
} Prefill;

/* false ends the prefill (Ctrl-C). */
static bool batch_done(void *arg, int done, int total) {
    Prefill *p = arg;
    p->done = done;
    progress_show(&p->progress, done, total);
    return !interrupted;
}

static bool layer_done(void *arg, int layer) {
    Prefill *p = arg;
    int left = p->total - p->done, n = left < p->n_batch ? left : p->n_batch;
    progress_show(&p->progress, p->done + (int)((int64_t)n * (layer + 1) / p->n_layers), p->total);
    return !interrupted;
}

/* prefill - ids [n] from position pos on; returns how many were processed. */
static int prefill(Session *s, const int *ids, int n, int pos, Progress progress) {
    Prefill p = {progress, 0, n, s->state.options.n_batch, s->model.config.n_layers};
    s->state.layer_done = layer_done;
    s->state.layer_arg = &p;
    int done = model_prefill(&s->model, &s->state, ids, n, pos, WANTED_LAST, batch_done, &p);
    s->state.layer_done = NULL;
    progress_end(&p.progress);
    return done;
}

static int not_finite(const Generator *g, int pos, Error *e) {
    return fail(e, "%s: logits at position %d: expected finite numbers, found NaN or infinity (see --check)",
                g->o->checkpoint, pos);
}

int generator_sample(Generator *g, float *logits, Error *e) {
    if (g->logits) memcpy(g->logits, logits, (size_t)g->session->model.config.vocab_size * sizeof *g->logits);
    g->next = drafts_sample(&g->drafts, &g->sampler, logits);
    g->accepted = false;
    return g->next >= 0 ? 0 : not_finite(g, g->n_cached - 1, e);
}

static bool is_among(const int *tokens, int n, int token) {
    for (int i = 0; i < n; i++)
        if (tokens[i] == token) return true;
    return false;
}

static bool ends(const Generator *g, int id) {
    return is_among(g->stop, g->n_stop, id) || is_among(g->session->eos, g->session->n_eos, id);
}

static int steps_of(const Generator *g) { return g->o->steps < 0 ? DEFAULT_STEPS : g->o->steps; }

/* How many tokens may be drafted behind the sampled one: the context and -n end the text. */
static int room_for_draft(const Generator *g) {
    int room = g->session->state.options.n_ctx - g->n_cached - 1, steps = steps_of(g);
    int left = steps - g->n_decode - !g->accepted - 1; /* the last token is sampled, not drafted */
    return steps && left < room ? left : room;
}

/* The logits after the sampled token. */
static void advance(Generator *g) {
    g->cached[g->n_cached] = g->next; /* n_cached counts it once it is part of the text */
    g->ahead = drafts_forward(&g->drafts, g->session, &g->sampler, g->cached, g->n_cached + 1, room_for_draft(g));
}

/* look_ahead - forwards the first new token before it is printed. */
static int look_ahead(Generator *g, Error *e) {
    Session *s = g->session;
    if (ends(g, g->next) || g->o->steps == 1 || g->n_cached == s->state.options.n_ctx) return 0;
    double start = now();
    advance(g);
    if (!floats_finite(g->ahead, (size_t)s->model.config.vocab_size))
        return session_check(s, e) ? -1 : not_finite(g, g->n_cached, e);
    g->decode_seconds += now() - start;
    return session_check(s, e);
}

void generator_reuse(Generator *g, const int *ids, int n) {
    enum { WORTH = 8 /* tokens; fewer may be alike by chance */ };
    int kept = 0, longest = 0, from = 0;
    while (kept < g->n_cached && kept < n && g->cached[kept] == ids[kept]) kept++;
    const KvCache *cache = &g->session->state.attn.cache;
    bool refused = cache_shift_refused(&g->session->model) || kv_cache_wrapped(cache);
    kept = kv_cache_kept(cache, kept);
    for (int at = kept + 1; !refused && at < g->n_cached && longest < g->n_cached - at; at++) {
        int length = 0;
        while (at + length < g->n_cached && kept + length < n && g->cached[at + length] == ids[kept + length]) length++;
        if (length > longest) longest = length, from = at;
    }
    g->n_cached = kept;
    if (longest < WORTH) return;
    cache_shift(&g->session->model, &g->session->state, kept, from, longest);
    memmove(g->cached + kept, g->cached + from, (size_t)longest * sizeof *g->cached);
    g->n_cached += longest;
}

int generator_rewrite(Generator *g, const int *ids, int n, Error *e) {
    Session *s = g->session;
    drafts_forget(&g->drafts);
    generator_reuse(g, ids, n);
    if (g->n_cached == n) return 0;
    memcpy(g->cached + g->n_cached, ids + g->n_cached, (size_t)(n - g->n_cached) * sizeof *ids);
    g->n_cached += prefill(s, ids + g->n_cached, n - g->n_cached, g->n_cached, (Progress){0});
    return session_check(s, e);
}

int generator_prompt(Generator *g, const int *ids, int n, Error *e) {
    Session *s = g->session;
    int n_ctx = s->state.options.n_ctx, kept = 0;
    s->state.largest = g->logits ? 0 : sampler_largest(&g->sampler);
    if (n > n_ctx)
        return fail(e, "%s: prompt: expected at most the context's %d tokens, found %d (raise it with -c)",
                    g->o->checkpoint, n_ctx, n);
    /* At least one token is read again: its logits choose the next. */
    while (kept < g->n_cached && kept < n - 1 && g->cached[kept] == ids[kept]) kept++;
    kept = kv_cache_kept(&s->state.attn.cache, kept);
    for (int i = kept; i < n; i++) sampler_accept(&g->sampler, ids[i]);
    memcpy(g->cached + kept, ids + kept, (size_t)(n - kept) * sizeof *ids);
    double start = now();
    Progress progress;
    progress_begin(&progress, g->o->log, "prefill", g->o->quiet);
    int done = prefill(s, ids + kept, n - kept, kept, progress);
    drafts_begin(&g->drafts, ids, n);
    g->n_cached = kept + done;
    g->next = g->prev = -1;
    g->ahead = NULL;
    for (int i = 0; i < n && s->tokenizer; i++) g->prev = tokenizer_next(s->tokenizer, g->prev, ids[i]);
    g->n_prefill = done;
    g->n_decode = 0;
    g->prefill_seconds = now() - start;
    g->decode_seconds = 0;
    if (interrupted) return 0;
    model_logits(&s->model, &s->state, (done - 1) % s->state.options.n_batch);
    return session_check(s, e) || generator_sample(g, s->state.logits, e) || look_ahead(g, e) ? -1 : 0;
}

/* forward - puts the sampled token into the cache and samples the one after it. */
static int forward(Generator *g, Error *e) {
    Session *s = g->session;
    double start = now();
    if (!g->ahead) advance(g);
    g->n_cached++;
    int status = session_check(s, e) || generator_sample(g, g->ahead, e) ? -1 : 0;
    g->ahead = NULL;
    g->decode_seconds += now() - start;
    return status;
}

void generator_say_seed(Generator *g) {
    if (g->say_seed) fprintf(g->o->log, "seed: %llu\n", (unsigned long long)g->sampler.params.seed);
    g->say_seed = false;
}

/* From red over yellow to green by the cube of the probability, as whisper.cpp's --print-colors. What was held back has
 * the shade of the token that completes it. */
static int shade_of(const Generator *g) {
    static const unsigned char ramp[] = {196, 202, 208, 214, 220, 226, 190, 154, 118, 82};
    int vocab = g->session->model.config.vocab_size;
    double cube = exp(3 * ((double)g->logits[g->next] - logits_log_sum(g->logits, vocab)));
    return ramp[cube < 0.95 ? (int)(10 * cube) : 9];
}

int generator_put(Generator *g, Stream *stream, Error *e) {
    const Session *s = g->session;
    int steps = steps_of(g);
    const char *bytes = "";
    char buffer[8];
    bool stop = is_among(g->stop, g->n_stop, g->next);
    if (stop || is_among(s->eos, s->n_eos, g->next)) {
        g->reason = stop ? "stop-text" : "eos";
        return 0;
    }
    g->n_decode++;
    sampler_accept(&g->sampler, g->next);
    g->accepted = true;
    size_t n = 0; /* an embedding may be padded: those ids have no text */
    if (g->next < tokenizer_vocab_size(s->tokenizer))
        n = tokenizer_decode(s->tokenizer, g->prev, g->next, &bytes, buffer);
    g->prev = tokenizer_next(s->tokenizer, g->prev, g->next);
    if (stream->shaded) stream->shade = shade_of(g);
    if (stream_write(stream, bytes, n, e)) return -1;
    if (g->each && g->each(g->each_arg, g, g->next, g->logits, e)) return -1;
    if (stream->stopped) g->reason = "stop-text";
    else if (steps && g->n_decode == steps) g->reason = "steps";
    else return 1;
    return 0;
}

int generator_text(Generator *g, Stream *stream, Error *e) {
    int status = 0, more = 1;
    generator_say_seed(g);
    g->reason = "interrupt";
    while (g->next >= 0 && !status && (more = generator_put(g, stream, e)) > 0 && !interrupted) {
        bool full = g->n_cached == g->session->state.options.n_ctx;
        int room = !full ? 1 : g->make_room ? g->make_room(g, g->room_arg, e) : 0;
        if (room == 0) g->reason = "context";
        if (room <= 0 || interrupted) {
            status = room < 0 ? -1 : 0;
            break;
        }
        status = forward(g, e);
    }
    if (more < 0) return -1;
    return stream_end(stream, e) || status ? -1 : 0;
}

static double rate(int tokens, double seconds_taken) {
    return tokens > 0 && seconds_taken > 0 ? tokens / seconds_taken : 0;
}

double generator_prefill_rate(const Generator *g) { return rate(g->n_prefill, g->prefill_seconds); }

/* The first new token comes out of the prefill, so one forward pass less than tokens is timed. */
double generator_decode_rate(const Generator *g) { return rate(g->n_decode - 1, g->decode_seconds); }

void generator_report(const Generator *g) {
    if (g->o->quiet) return;
    int n_ctx = g->session->state.options.n_ctx, model_ctx = g->session->model.config.n_ctx;
    if (g->o->ctx < 0 && n_ctx < model_ctx && g->n_cached == n_ctx)
        fprintf(g->o->log, "context: %d of the model's %d are full (raise it with -c)\n", n_ctx, model_ctx);
    fprintf(g->o->log, "prefill: %d tokens, %.1f tok/s; decode: %d tokens, %.1f tok/s\n", g->n_prefill,
            generator_prefill_rate(g), g->n_decode, generator_decode_rate(g));
    drafts_report(&g->drafts, g->o->log);
}

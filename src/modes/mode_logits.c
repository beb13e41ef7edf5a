#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#include "modes/modes.h"
#include "gen/session.h"

enum { LIKELIEST = 10 /* tokens of a row that are shown, unless --top-k says another number */ };

static void print_row(FILE *out, const float *logits, int n) {
    for (int i = 0; i < n; i++) fprintf(out, "%s%.9g", i ? ", " : "", (double)logits[i]);
}

/* JSON has no NaN: a model that makes one is broken, and is named so. */
static int check_row(const float *logits, int n, int pos, const char *what, Error *e) {
    for (int i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return fail(e, "%s: logit %d at position %d: expected a finite number, found %g", what, i, pos,
                        (double)logits[i]);
    return 0;
}

typedef struct {
    int id;
    float logit;
} Ranked;

static int by_logit(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

/* The `most` likeliest tokens after a position, with their text where there is a tokenizer; order [n] is scratch. */
static void print_likeliest(FILE *out, const Tokenizer *t, int pos, const float *logits, int n, int most,
                            Ranked *order) {
    double sum = 0;
    for (int i = 0; i < n; i++) order[i] = (Ranked){i, logits[i]};
    qsort(order, (size_t)n, sizeof *order, by_logit);
    for (int i = 0; i < n; i++) sum += exp((double)(order[i].logit - order[0].logit));
    fprintf(out, "position %d: largest logit %.9g, token %d\n   token       logit  probability%s\n", pos,
            (double)order->logit, order->id, t ? "  text" : "");
    for (int i = 0; i < most && i < n; i++) {
        fprintf(out, "%8d  %10.5f  %10.4f%%", order[i].id, (double)order[i].logit,
                100 * exp((double)(order[i].logit - order[0].logit)) / sum);
        if (t && order[i].id < tokenizer_vocab_size(t)) {
            const char *text;
            char buffer[8];
            size_t length = tokenizer_decode(t, 0, order[i].id, &text, buffer);
            if (length == 0) text = tokenizer_piece(t, order[i].id, &length);
            fputs("  ", out);
            text_print_json(out, text, length);
        }
        fputc('\n', out);
    }
}

typedef struct {
    Session *session;
    const char *what;
    float *rows; /* [n, vocab] of all positions, or [vocab] of the last */
    bool all;
    Error *e;
    bool failed;
} Keep;

/* Called after each batch, while its rows are there. */
static bool keep_rows(void *arg, int done, int total) {
    Keep *k = arg;
    const Session *s = k->session;
    int vocab = s->model.config.vocab_size, first = s->state.pos;
    for (int pos = k->all ? first : total - 1; pos < done && !k->failed; pos++) {
        const float *logits = model_logits(&s->model, &k->session->state, pos - first);
        k->failed = session_check(s, k->e) || check_row(logits, vocab, pos, k->what, k->e);
        memcpy(k->rows + (k->all ? (size_t)pos * (size_t)vocab : 0), logits, (size_t)vocab * sizeof *logits);
    }
    return !k->failed;
}

int mode_logits(const Options *o, FILE *out, Error *e) {
    Session s;
    int *ids = NULL, n = 0, code = 1;
    char *text = NULL;
    size_t size;
    float *rows = NULL;
    Ranked *order = NULL;
    if (session_open(&s, o, o->tokens ? 0 : SESSION_TOKENIZER, e)) return 1;
    if (session_prompt(&s, o, &ids, &n, &text, &size, e)) goto done;
    int vocab = s.model.config.vocab_size, limit = o->ctx > 0 ? o->ctx : s.model.config.n_ctx;
    if (n > limit) {
        fail(e, "%s: tokens: expected at most the context's %d, found %d", o->checkpoint, limit, n);
        goto done;
    }
    size_t left = memory_available(""); /* asked before the State is there: what is not written yet may count as free */
    if (session_state(&s, o, n, e)) goto done;
    /* Kept until the last is known to be sound: a broken model prints nothing. */
    size_t kept = o->all ? (size_t)n : 1, row_bytes = (size_t)vocab * sizeof *rows;
    size_t bytes = state_bytes(&s.model, &s.state.options) + kept * row_bytes;
    if (bytes > left) {
        fail(e,
             "%s: memory: expected %zu MiB for %zu rows of logits and their context, found %zu MiB free (lower it with "
             "fewer tokens, or without --all)",
             o->checkpoint, (bytes >> 20) + 1, kept, left >> 20);
        goto done;
    }
    rows = calloc(kept, row_bytes);
    if (!rows) {
        fail(e, "%s: memory: expected room for %zu rows of logits, found none", o->checkpoint, kept);
        goto done;
    }
    Keep keep = {&s, o->checkpoint, rows, o->all, e, false};
    model_prefill(&s.model, &s.state, ids, n, 0, o->all ? WANTED_ALL : WANTED_LAST, keep_rows, &keep);
    if (keep.failed) goto done;
    if (o->json) {
        fputs("{\"tokens\": [", out);
        for (int i = 0; i < n; i++) fprintf(out, "%s%d", i ? ", " : "", ids[i]);
        fputs("], \"logits\": [", out);
        for (size_t r = 0; r < kept; r++) {
            if (o->all) fprintf(out, "%s[", r ? ", " : "");
            print_row(out, rows + r * (size_t)vocab, vocab);
            if (o->all) fputs("]", out);
        }
        fputs("]}\n", out);
    } else {
        int most = o->sampler.top_k ? o->sampler.top_k : LIKELIEST;
        if (!(order = malloc((size_t)vocab * sizeof *order))) {
            fail(e, "%s: memory: expected room for %d logits, found none", o->checkpoint, vocab);
            goto done;
        }
        for (size_t r = 0; r < kept; r++)
            print_likeliest(out, s.tokenizer, o->all ? (int)r : n - 1, rows + r * (size_t)vocab, vocab, most, order);
    }
    code = 0;
done:
    free(order);
    free(rows);
    free(text);
    free(ids);
    session_close(&s);
    return code;
}

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

#include "modes/modes.h"
#include "gen/session.h"

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

static void print_plain(FILE *out, int pos, const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    fprintf(out, "position %d: largest logit %.9g, token %d\n", pos, (double)logits[best], best);
}

int mode_logits(const Options *o, FILE *out, Error *e) {
    Session s;
    int *ids = NULL, n = 0, code = 1;
    char *text = NULL;
    size_t size;
    float *rows = NULL;
    if (session_open(&s, o, o->tokens ? 0 : SESSION_TOKENIZER, e)) return 1;
    if (session_prompt(&s, o, &ids, &n, &text, &size, e)) goto done;
    int vocab = s.model.config.vocab_size, limit = o->ctx ? o->ctx : s.model.config.n_ctx;
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
    int batch = s.state.options.n_batch;
    for (int pos = 0; pos < n; pos += batch) {
        int m = n - pos < batch ? n - pos : batch;
        if (o->all) model_forward(&s.model, &s.state, ids + pos, m, pos);
        else if (pos == 0) model_prefill(&s.model, &s.state, ids, n, 0, NULL, NULL);
        for (int r = 0; r < m; r++) {
            if (!o->all && pos + r != n - 1) continue;
            const float *logits = model_logits(&s.model, &s.state, r);
            if (session_check(&s, e)) goto done;
            if (check_row(logits, vocab, pos + r, o->checkpoint, e)) goto done;
            float *to = rows + (o->all ? (size_t)(pos + r) * (size_t)vocab : 0);
            for (int i = 0; i < vocab; i++) to[i] = logits[i];
        }
    }
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
        for (size_t r = 0; r < kept; r++) print_plain(out, o->all ? (int)r : n - 1, rows + r * (size_t)vocab, vocab);
    }
    code = 0;
done:
    free(rows);
    free(text);
    free(ids);
    session_close(&s);
    return code;
}

#include "gen/record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int record_open(Record *r, const Options *o, FILE *out, Error *e) {
    *r = (Record){.o = o, .out = out};
    r->text = open_memstream(&r->bytes, &r->n_bytes);
    return r->text ? 0 : fail(e, "text: memory: expected some, found none");
}

void record_close(Record *r) {
    if (r->text) fclose(r->text);
    free(r->bytes);
    free(r->chosen);
    free(r->likely);
    *r = (Record){0};
}

static int make_room(Record *r, Error *e) {
    if (r->n < r->room) return 0;
    int room = r->room ? 2 * r->room : 256;
    TokenLogprob *chosen = realloc(r->chosen, (size_t)room * sizeof *chosen);
    if (chosen) r->chosen = chosen;
    TokenLogprob *likely = realloc(r->likely, ((size_t)room * (size_t)r->o->logprobs + 1) * sizeof *likely);
    if (likely) r->likely = likely;
    if (!chosen || !likely) return fail(e, "text: memory: expected room for %d tokens, found none", room);
    r->room = room;
    return 0;
}

/* The n likeliest, sorted; of equal ones the lowest id first. */
static void find_likely(TokenLogprob *out, int n, const float *logits, int n_vocab, double sum) {
    int kept = 0;
    for (int id = 0; id < n_vocab; id++) {
        float logprob = (float)((double)logits[id] - sum);
        if (kept == n && !(logprob > out[n - 1].logprob)) continue;
        int at = kept < n ? kept++ : n - 1;
        for (; at > 0 && logprob > out[at - 1].logprob; at--) out[at] = out[at - 1];
        out[at] = (TokenLogprob){id, logprob};
    }
    for (; kept < n; kept++) out[kept] = (TokenLogprob){-1, -INFINITY};
}

static void print_text_of(FILE *out, const Generator *g, int id) {
    const Tokenizer *t = g->session->tokenizer;
    const char *bytes = "";
    char buffer[8];
    size_t n = id < tokenizer_vocab_size(t) ? tokenizer_decode(t, 0, id, &bytes, buffer) : 0;
    text_print_json(out, bytes, n);
}

static void print_likely(const Record *r, const Generator *g, int step) {
    fputs(", \"likely\": [", r->out);
    for (int i = 0; i < r->o->logprobs; i++) {
        const TokenLogprob *t = &r->likely[(size_t)step * (size_t)r->o->logprobs + (size_t)i];
        if (t->id < 0) break;
        fprintf(r->out, "%s{\"id\": %d, \"text\": ", i ? ", " : "", t->id);
        print_text_of(r->out, g, t->id);
        fprintf(r->out, ", \"logprob\": %.6g}", fmax((double)t->logprob, -1e30));
    }
    fputs("]", r->out);
}

int record_token(void *record, const Generator *g, int id, const float *logits, Error *e) {
    Record *r = record;
    if (make_room(r, e)) return -1;
    double sum = logits ? logits_log_sum(logits, g->session->model.config.vocab_size) : 0;
    r->chosen[r->n] = (TokenLogprob){id, logits ? (float)((double)logits[id] - sum) : 0};
    if (r->o->logprobs)
        find_likely(r->likely + (size_t)r->n * (size_t)r->o->logprobs, r->o->logprobs, logits,
                    g->session->model.config.vocab_size, sum);
    r->n++;
    if (!r->o->json_lines) return 0;
    fflush(r->text);
    fprintf(r->out, "{\"id\": %d, \"text\": ", id);
    text_print_json(r->out, r->bytes + r->n_said, r->n_bytes - r->n_said);
    fprintf(r->out, ", \"logprob\": %.6g", (double)r->chosen[r->n - 1].logprob);
    if (r->o->logprobs) print_likely(r, g, r->n - 1);
    fputs("}\n", r->out);
    r->n_said = r->n_bytes;
    return fflush(r->out) ? fail(e, "standard output: expected to write a token, found %s", strerror(errno)) : 0;
}

int record_print(Record *r, const Generator *g, const char *prompt, size_t n_prompt, const int *ids, int n, Error *e) {
    FILE *out = r->out;
    fflush(r->text);
    if (r->id) fprintf(out, "{\"id\": %s, \"prompt\": ", r->id);
    else fputs("{\"prompt\": ", out);
    if (prompt) text_print_json(out, prompt, n_prompt);
    else {
        fputs("[", out);
        for (int i = 0; i < n; i++) fprintf(out, "%s%d", i ? ", " : "", ids[i]);
        fputs("]", out);
    }
    fputs(", \"text\": ", out);
    text_print_json(out, r->bytes ? r->bytes : "", r->n_bytes);
    fputs(", \"tokens\": [", out);
    for (int i = 0; i < r->n; i++) fprintf(out, "%s%d", i ? ", " : "", r->chosen[i].id);
    fprintf(out, "], \"stop\": \"%s\", \"seed\": %llu, ", g->reason, (unsigned long long)g->sampler.params.seed);
    fprintf(out, "\"prefill\": {\"tokens\": %d, \"tok_s\": %.1f}, ", g->n_prefill, generator_prefill_rate(g));
    fprintf(out, "\"decode\": {\"tokens\": %d, \"tok_s\": %.1f}", g->n_decode, generator_decode_rate(g));
    if (g->drafts.drafter)
        fprintf(out, ", \"drafts\": {\"tokens\": %d, \"accepted\": %d, \"tokens_a_pass\": %.3f}", g->drafts.n_drafted,
                g->drafts.n_accepted, drafts_tokens_a_pass(&g->drafts));
    if (r->o->logprobs) {
        fputs(", \"logprobs\": [", out);
        for (int i = 0; i < r->n; i++) {
            fprintf(out, "%s{\"id\": %d, \"logprob\": %.6g", i ? ", " : "", r->chosen[i].id,
                    (double)r->chosen[i].logprob);
            print_likely(r, g, i);
            fputs("}", out);
        }
        fputs("]", out);
    }
    fputs("}\n", out);
    return fflush(out) || ferror(out)
               ? fail(e, "standard output: expected to write the result, found %s", strerror(errno))
               : 0;
}

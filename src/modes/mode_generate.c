#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/file.h"
#include "gen/generate.h"
#include "gen/receipt.h"
#include "gen/record.h"
#include "gen/shift.h"
#include "gen/snapshot.h"
#include "modes/modes.h"

/* The prompt as it was given; ids have no text of their own and are decoded. -1 when writing failed. */
static int echo_prompt(const Options *o, const Session *s, const int *ids, int n, FILE *out, const char *text,
                       size_t size) {
    if (o->color) fputs("\033[36m", out);
    if (text) text_print(out, text, size, o->raw);
    for (int i = 0, prev = -1; !text && i < n; prev = tokenizer_next(s->tokenizer, prev, ids[i++])) {
        const char *bytes;
        char buffer[8];
        size_t length = tokenizer_decode(s->tokenizer, prev, ids[i], &bytes, buffer);
        text_print(out, bytes, length, o->raw);
    }
    if (o->color) fputs("\033[0m", out);
    return fflush(out) || ferror(out) ? -1 : 0;
}

/* --keep: the first tokens stay, and the later half of the rest. The first few take much of the attention whatever they
 * say (attention sinks: StreamingLLM, arXiv:2309.17453). */
static int forget_half(Generator *g, void *arg, Error *e) {
    enum { SINKS = 4 };
    int keep = g->o->keep > SINKS ? g->o->keep : SINKS, gone = (g->n_cached - keep) / 2;
    bool *said = arg;
    if (gone < 1) return 0;
    if (!*said && !g->o->quiet && kv_cache_wrapped(&g->session->state.attn.cache))
        fprintf(g->o->log,
                "context: full; the half that stays is read anew: layers with a window have kept no other\n");
    *said = true;
    size_t n = (size_t)(g->n_cached - gone);
    int *ids = malloc(n * sizeof *ids);
    if (!ids) return fail(e, "context: memory: expected some, found none");
    memcpy(ids, g->cached, (size_t)keep * sizeof *ids);
    memcpy(ids + keep, g->cached + keep + gone, (n - (size_t)keep) * sizeof *ids);
    int status = generator_rewrite(g, ids, (int)n, e);
    free(ids);
    return status ? -1 : 1;
}

static int set_keep(Generator *g, bool *said, Error *e) {
    const char *why = cache_shift_refused(&g->session->model);
    if (g->o->keep < 0) return 0;
    if (why)
        return fail(e, "%s: --keep: expected a model whose cached keys can be moved, found none: %s", g->o->checkpoint,
                    why);
    g->make_room = forget_half;
    g->room_arg = said;
    return 0;
}

/* --receipt and --replay. */
static int keep_receipt(const Options *o, const Generator *g, const Record *r, const char *prompt, size_t n_prompt,
                        Error *e) {
    if (!o->receipt && !o->replay) return 0;
    int *tokens = malloc(((size_t)r->n + 1) * sizeof *tokens);
    if (!tokens) return fail(e, "receipt: memory: expected some, found none");
    for (int i = 0; i < r->n; i++) tokens[i] = r->chosen[i].id;
    fflush(r->text);
    int status = 0;
    if (o->receipt) status = receipt_write(o->receipt, g, prompt, n_prompt, r->bytes, r->n_bytes, tokens, r->n, e);
    if (!status && o->replay) status = receipt_compare(o->replay, g, r->bytes, r->n_bytes, tokens, r->n, e);
    free(tokens);
    return status;
}

int mode_generate(const Options *o, FILE *out, Error *e) {
    Session s;
    Generator g = {0};
    Stream stream = {0};
    Record record = {0};
    int *ids = NULL, n = 0, code = 1;
    bool said = false; /* why --keep reads half of the context anew */
    char *text = NULL;
    size_t size = 0;
    if (o->receipt && file_can_write(o->receipt, e)) return 1;
    if (session_open(&s, o, SESSION_TOKENIZER, e)) return 1;
    if (session_prompt(&s, o, &ids, &n, &text, &size, e) || session_state(&s, o, 0, e) ||
        generator_init(&g, o, &s, e) || set_keep(&g, &said, e) ||
        (o->session && snapshot_open(o->session, &g, NULL, e)))
        goto done;
    /* What stands in for a prompt of ids is their list. */
    const char *prompt = text ? text : (const char *)ids;
    size_t n_prompt = text ? size : (size_t)n * sizeof *ids;
    if (o->replay && receipt_prompt(o->replay, prompt, n_prompt, e)) goto done;
    bool recorded = o->json || o->receipt || o->replay;
    bool shaded = o->color && !o->json;
    if (recorded && record_open(&record, o, out, e)) goto done;
    if (generator_tell(&g, recorded ? record_token : NULL, &record, o->json_lines || o->logprobs || shaded, e))
        goto done;
    if (generator_prompt(&g, ids, n, e)) goto done;
    generator_say_seed(&g);
    /* Only now is anything printed: what failed up to here leaves standard output empty. */
    if (!o->no_echo && !o->json && !interrupted && echo_prompt(o, &s, ids, n, out, text, size)) {
        fail(e, "standard output: expected to write the prompt, found %s", strerror(errno));
        goto done;
    }
    stream_init(&stream, o->json ? record.text : out, o->stop, o->n_stop);
    stream.raw = o->raw;
    stream.shaded = shaded;
    if (recorded && !o->json) stream.copy = record.text;
    if (generator_text(&g, &stream, e)) goto done;
    if (o->json ? record_print(&record, &g, text, size, ids, n, e) : fputc('\n', out) == EOF || fflush(out)) {
        fail(e, "standard output: expected to write the text, found %s", strerror(errno));
        goto done;
    }
    if (keep_receipt(o, &g, &record, prompt, n_prompt, e)) goto done;
    generator_report(&g);
    if (o->session && snapshot_write(o->session, &g, NULL, e)) goto done;
    if (!o->quiet) fprintf(o->log, "stop: %s\n", g.reason);
    code = interrupted ? 130 : 0;
done:
    stream_close(&stream);
    record_close(&record);
    generator_close(&g);
    free(text);
    free(ids);
    session_close(&s);
    return code;
}

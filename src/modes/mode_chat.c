/* chat - a conversation on a terminal, one user message a line from a pipe, or one question and its answer (-i, -f). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/chat_input.h"
#include "modes/chat_mode.h"
#include "modes/modes.h"

/* ---- The context ---- */

/* Ids of n messages with the request for an answer. */
static int encode(Chat *c, const Message *messages, int n_messages, int **ids, int *n, Error *e) {
    ChatText text;
    if (chat_render(&text, &c->template, messages, n_messages, time(NULL), e)) return -1;
    int status = chat_encode(c->session.tokenizer, &text, ids, n, e);
    chat_text_close(&text);
    return status;
}

/* --keep: the turns that begin among the first so many tokens stay. */
static int find_kept(Chat *c, Error *e) {
    const Turns *t = &c->turns;
    int begins = 0, *ids;
    for (c->n_kept = 0; begins < c->o.keep && c->n_kept + 2 < t->n;) {
        do c->n_kept++;
        while (c->n_kept < t->n && t->list[c->n_kept].role != ROLE_USER);
        if (encode(c, t->list, c->n_kept, &ids, &begins, e)) return -1;
        free(ids);
    }
    return 0;
}

/* Ids of what is left when all turns that may be dropped are: what stays, and the last question with its answer. */
static int encode_least(Chat *c, int **ids, int *n, Error *e) {
    const Turns *t = &c->turns;
    int kept = t->list[0].role == ROLE_SYSTEM, last = t->n - 1;
    if (kept < c->n_kept) kept = c->n_kept;
    while (last > kept && t->list[last].role != ROLE_USER) last--;
    if (last < kept) last = kept;
    Message *least = malloc((size_t)t->n * sizeof *least);
    if (!least) return fail(e, "chat: memory: expected some, found none");
    memcpy(least, t->list, (size_t)kept * sizeof *least);
    memcpy(least + kept, t->list + last, (size_t)(t->n - last) * sizeof *least);
    int status = encode(c, least, kept + t->n - last, ids, n, e);
    free(least);
    return status;
}

/* Says that messages were forgotten, and once why they cost more than they need to. */
static void say_dropped(Chat *c, int n) {
    const char *why = cache_shift_refused(&c->session.model);
    if (!why && kv_cache_wrapped(&c->session.state.attn.cache)) why = "layers with a window have kept no other";
    if (c->o.quiet || n == 0) return;
    if (c->terminal) fputc('\n', c->o.log);
    fprintf(c->o.log, "context: full; the %d oldest messages are forgotten\n", n);
    if (why && !c->said_shift) fprintf(c->o.log, "context: the rest is read anew: keys cannot be moved, as %s\n", why);
    c->said_shift = true;
}

/* Gives the ids of the conversation. When they leave less than `room` tokens, the oldest turns are dropped until there
 * is room for an eighth of the context more. None is dropped in vain: ids that leave less come back when even the last
 * question alone would. */
static int fit(Chat *c, int room, int **ids, int *n, Error *e) {
    int n_ctx = c->session.state.options.n_ctx, dropped = 0, gone;
    if (encode(c, c->turns.list, c->turns.n, ids, n, e)) return -1;
    if (*n + room <= n_ctx) return 0;
    free(*ids);
    *ids = NULL;
    if (find_kept(c, e) || encode_least(c, ids, n, e)) return -1;
    if (*n + room > n_ctx) return 0;
    do {
        free(*ids);
        *ids = NULL;
        dropped += gone = turns_drop_oldest(&c->turns, c->n_kept);
        if (encode(c, c->turns.list, c->turns.n, ids, n, e)) return -1;
    } while (gone && *n + room + n_ctx / 8 > n_ctx);
    say_dropped(c, dropped);
    c->dropped |= dropped > 0;
    return 0;
}

/* In the middle of an answer the context is full: the oldest turns go, and the answer goes on. */
static int make_room(Generator *g, void *arg, Error *e) {
    Chat *c = arg;
    int n_ctx = c->session.state.options.n_ctx, n_answer = g->n_cached - c->n_prompt, *ids, n;
    int before = c->turns.n;
    if (fit(c, n_answer + 1, &ids, &n, e)) return -1;
    int status = c->turns.n < before && n + n_answer < n_ctx, *all = NULL;
    if (status) {
        all = malloc((size_t)(n + n_answer) * sizeof *all);
        if (!all) status = fail(e, "chat: memory: expected some, found none");
    }
    if (status == 1) {
        memcpy(all, ids, (size_t)n * sizeof *all);
        memcpy(all + n, g->cached + c->n_prompt, (size_t)n_answer * sizeof *all);
        if (generator_rewrite(g, all, n + n_answer, e)) status = -1;
        c->n_prompt = n;
        c->dropped = false;
    }
    free(all);
    free(ids);
    return status;
}

/* ---- An answer ---- */

/* Why an answer ended before the model ended it. */
static void say_cut(const Chat *c) {
    const char *why = c->g.reason;
    if (c->o.quiet) return;
    if (strcmp(why, "steps") == 0) fprintf(c->o.log, "cut: %d tokens, as -n/--steps says\n", c->g.n_decode);
    else if (strcmp(why, "context") == 0)
        fprintf(c->o.log, "cut: the context of %d tokens is full (-c raises it, -n/--steps limits answers)\n",
                c->session.state.options.n_ctx);
    else if (strcmp(why, "interrupt") == 0) fprintf(c->o.log, "cut: Ctrl-C\n");
}

/* Ends the answer on standard output: --json has noted it, and prints it now. */
static int end_output(Chat *c, Error *e) {
    const Message *question = &c->turns.list[c->turns.n - 1];
    if (c->o.json) return record_print(&c->record, &c->g, question->text, question->n, NULL, 0, e);
    if (fputc('\n', c->out) != EOF && fflush(c->out) == 0) return 0;
    return fail(e, "standard output: expected to write the answer, found %s", strerror(errno));
}

/* Writes the answer to ids[n], and adds it to the turns. */
static int write_answer(Chat *c, const int *ids, int n, Error *e) {
    Stream stream;
    char *reply = NULL;
    size_t n_reply = 0;
    if (c->o.json && record_open(&c->record, &c->o, c->out, e)) return -1;
    stream_init(&stream, c->o.json ? c->record.text : c->out, c->o.stop, c->o.n_stop);
    stream.raw = c->o.raw;
    stream.shaded = c->o.color && !c->o.json;
    stream.copy = open_memstream(&reply, &n_reply);
    int status = stream.copy ? 0 : fail(e, "chat: memory: expected some, found none");
    c->n_prompt = n;
    if (!status && c->dropped) generator_reuse(&c->g, ids, n - 1);
    if (!status) c->dropped = false;
    if (!status && (generator_prompt(&c->g, ids, n, e) || generator_text(&c->g, &stream, e) || end_output(c, e)))
        status = -1;
    if (stream.copy && fclose(stream.copy)) status = fail(e, "chat: memory: expected some, found none");
    stream_close(&stream);
    record_close(&c->record);
    bool nothing = !status && c->g.n_decode == 0 && strcmp(c->g.reason, "interrupt") == 0;
    if (nothing) turns_pop(&c->turns); /* the question, too: it was not read to its end */
    if (!status && !nothing) return turns_add(&c->turns, ROLE_ASSISTANT, reply, n_reply, e);
    free(reply);
    return status;
}

/* A message that cannot be answered is dropped: said on a terminal, where the chat goes on; a failure in a pipe. */
static int refuse_message(Chat *c, const Error *why, Error *e) {
    turns_pop(&c->turns);
    if (!c->terminal) return fail_again(e, why);
    fprintf(c->o.log, "%s\n", why->text);
    return 0;
}

int chat_answer(Chat *c, Error *e) {
    int *ids, n, n_ctx = c->session.state.options.n_ctx;
    Error why = {""};
    if (fit(c, 1, &ids, &n, &why)) return refuse_message(c, &why, e);
    if (n >= n_ctx) {
        free(ids);
        fail(&why,
             "message: expected at most the context's %d tokens with what the template adds, found %d (raise it with "
             "-c)",
             n_ctx, n);
        return refuse_message(c, &why, e);
    }
    int status = write_answer(c, ids, n, e);
    free(ids);
    if (status) return -1;
    say_cut(c);
    if (c->statistics) generator_report(&c->g);
    return 1;
}

/* ---- The conversation ---- */

/* One message, or a command of a terminal; takes over text. */
static int take_message(Chat *c, char *text, size_t n, bool typed, Error *e) {
    if (n == 0 || (typed && text[0] == '/' && text[1] != '/')) {
        int status = n ? chat_command(c, text, e) : 0;
        free(text);
        return status;
    }
    if (typed && text[0] == '/') memmove(text, text + 1, n--);
    if (turns_add(&c->turns, ROLE_USER, text, n, e)) return -1;
    int status = chat_answer(c, e);
    if (c->terminal && interrupted) interrupted = 0; /* Ctrl-C ends the answer, not the chat */
    return status < 0 ? -1 : 0;
}

static int converse(Chat *c, Error *e) {
    ChatInput *in = chat_input_open(c->terminal, e);
    char *text;
    size_t n;
    int status = in ? 1 : -1;
    while (status > 0 && !interrupted && !c->over) {
        status = chat_input_read(in, &text, &n, e);
        if (status == 1 && take_message(c, text, n, c->terminal, e)) status = -1;
    }
    chat_input_close(in);
    return status < 0 ? -1 : 0;
}

static int run(Chat *c, Error *e) {
    char *text;
    size_t n;
    c->g.make_room = make_room;
    c->g.room_arg = c;
    if (!c->o.prompt && !c->o.prompt_file) return converse(c, e);
    return options_text(&c->o, &text, &n, e) ? -1 : take_message(c, text, n, false, e);
}

int mode_chat(const Options *o, FILE *out, Error *e) {
    Chat c = {.o = *o, .out = out, .statistics = true};
    int code = 1;
    if (c.o.steps < 0) c.o.steps = 0; /* what the context leaves */
    c.terminal = !o->prompt && !o->prompt_file && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (session_open(&c.session, &c.o, SESSION_TOKENIZER, e)) return 1;
    if (chat_template_open(&c.template, o->chat_template, c.session.tokenizer, o->checkpoint, e)) goto done;
    if (chat_sampling(&c.o, &c.session.checkpoint, e)) goto done;
    if (session_state(&c.session, &c.o, 0, e) || generator_init(&c.g, &c.o, &c.session, e)) goto done;
    if (o->json && generator_tell(&c.g, record_token, &c.record, o->json_lines || o->logprobs, e)) goto done;
    bool seen = c.terminal || o->color; /* for /top, for the shades */
    if (seen && !o->json && generator_tell(&c.g, NULL, NULL, true, e)) goto done;
    if (o->session && snapshot_open(o->session, &c.g, &c.turns, e)) goto done;
    if (o->system && turns_system(&c.turns, o->system, e)) goto done;
    if (run(&c, e) || (o->session && snapshot_write(o->session, &c.g, &c.turns, e))) goto done;
    if (interrupted) c.g.reason = "interrupt";
    if (!o->quiet && !c.terminal && c.turns.n) fprintf(o->log, "stop: %s\n", c.g.reason);
    code = interrupted ? 130 : 0;
done:
    turns_close(&c.turns);
    chat_template_close(&c.template);
    generator_close(&c.g);
    session_close(&c.session);
    return code;
}

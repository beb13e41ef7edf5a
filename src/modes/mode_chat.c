/* chat - a conversation on a terminal, or one user message a line from standard input. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

#include "chat/chat.h"
#include "gen/generate.h"
#include "modes/modes.h"

/* The next user message without its newline, malloc'ed; NULL at the end of the input and after Ctrl-C. */
static int read_message(char **line, bool terminal, Error *e) {
    *line = NULL;
    if (terminal) {
        *line = readline("> ");
        if (*line && **line) add_history(*line);
        return 0;
    }
    size_t room = 0;
    ssize_t n = getline(line, &room, stdin);
    if (n > 0 && (*line)[n - 1] == '\n') (*line)[n - 1] = 0;
    if (n >= 0) return 0;
    int why = errno;
    free(*line);
    *line = NULL;
    return feof(stdin) || interrupted ? 0 : fail(e, "standard input: expected a line, found %s", strerror(why));
}

typedef struct {
    Message *list; /* [n] */
    int n;
} History;

/* Takes over text. */
static int history_add(History *h, Role role, char *text, size_t n, Error *e) {
    Message *larger = text ? realloc(h->list, ((size_t)h->n + 1) * sizeof *h->list) : NULL;
    if (!larger) {
        free(text);
        return fail(e, "chat: memory: expected some, found none");
    }
    h->list = larger;
    h->list[h->n++] = (Message){role, text, n};
    return 0;
}

static void history_close(History *h) {
    for (int i = 0; i < h->n; i++) free(h->list[i].text);
    free(h->list);
}

/* One answer: the whole conversation is rendered as transformers' apply_chat_template would; what of it stands in
 * the cache already is not read again. Returns 0, 1 when the context is full, -1 on failure. */
static int answer(Generator *g, const ChatTemplate *t, History *h, FILE *out, Error *e) {
    const Options *o = g->o;
    ChatText rendered;
    Stream stream;
    char *reply = NULL;
    size_t n_reply = 0;
    int *ids = NULL, n = 0, status = -1;
    if (chat_render(&rendered, t, h->list, h->n, time(NULL), e)) return -1;
    stream_init(&stream, out, o->stop, o->n_stop);
    stream.raw = o->raw;
    stream.copy = open_memstream(&reply, &n_reply);
    if (!stream.copy) {
        fail(e, "chat: memory: expected some, found none");
        goto done;
    }
    if (chat_encode(g->session->tokenizer, &rendered, &ids, &n, e)) goto done;
    if (n > g->session->state.options.n_ctx && g->n_cached) {
        g->reason = "context";
        status = 1;
        goto done;
    }
    if (generator_prompt(g, ids, n, e) || generator_text(g, &stream, e)) goto done;
    if (fputc('\n', out) == EOF || fflush(out)) {
        fail(e, "standard output: expected to write the answer, found an error");
        goto done;
    }
    generator_report(g);
    status = strcmp(g->reason, "context") == 0;
done:
    if (stream.copy && fclose(stream.copy)) status = fail(e, "chat: memory: expected some, found none");
    stream_close(&stream);
    chat_text_close(&rendered);
    free(ids);
    if (status != 0) free(reply);
    else if (history_add(h, ROLE_ASSISTANT, reply, n_reply, e)) status = -1;
    return status;
}

int mode_chat(const Options *o, FILE *out, Error *e) {
    Session s;
    Generator g = {0};
    History h = {0};
    ChatTemplate t = {0};
    int code = 1, status = 0;
    char *first = NULL;
    size_t size;
    if (session_open(&s, o, SESSION_TOKENIZER, e)) return 1;
    if (chat_template_open(&t, o->chat_template, s.tokenizer, o->checkpoint, e)) goto done;
    if (o->system && history_add(&h, ROLE_SYSTEM, strdup(o->system), strlen(o->system), e)) goto done;
    if ((o->prompt || o->prompt_file) && options_text(o, &first, &size, e)) goto done;
    if (session_state(&s, o, 0, e) || generator_init(&g, o, &s, e)) goto done;
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    while (status == 0 && !interrupted) {
        char *text = first;
        if (!text && read_message(&text, terminal, e)) goto done;
        if (!text) break;
        size_t n = first ? size : strlen(text);
        first = NULL;
        if (n == 0) {
            free(text);
            continue;
        }
        if (history_add(&h, ROLE_USER, text, n, e)) goto done;
        status = answer(&g, &t, &h, out, e);
    }
    if (status < 0) goto done;
    if (interrupted) g.reason = "interrupt";
    if (!o->quiet) fprintf(o->log, "stop: %s\n", g.reason);
    code = interrupted ? 130 : 0;
done:
    free(first);
    history_close(&h);
    chat_template_close(&t);
    generator_close(&g);
    session_close(&s);
    return code;
}

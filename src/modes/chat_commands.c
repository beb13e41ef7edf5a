/* The commands of a chat on a terminal: a table of them, and of what /set sets. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "gen/stages.h"
#include "modes/chat_mode.h"

/* Says something of the chat itself. */
#define SAY(c, ...) fprintf((c)->o.log, __VA_ARGS__)

typedef struct {
    const char *name, *arguments, *help;
    int (*run)(Chat *c, const char *argument, Error *e);
} Command;

static const Command commands[];

static int run_help(Chat *c, const char *argument, Error *e) {
    (void)argument, (void)e;
    for (const Command *k = commands; k->name; k++)
        if (k->help) SAY(c, "  /%-8s%-14s%s\n", k->name, k->arguments, k->help);
    SAY(c, "  //TEXT                a message that begins with one slash\n"
           "  \"\"\"                   begins and ends a message of several lines; so does \\ at a line's end\n"
           "  Ctrl-C                ends an answer; Ctrl-D ends the chat\n");
    return 0;
}

static int run_bye(Chat *c, const char *argument, Error *e) {
    (void)argument, (void)e;
    c->over = true;
    return 0;
}

static int run_clear(Chat *c, const char *argument, Error *e) {
    (void)argument, (void)e;
    turns_keep(&c->turns, c->turns.n && c->turns.list[0].role == ROLE_SYSTEM);
    SAY(c, "the conversation begins anew\n");
    return 0;
}

static int run_system(Chat *c, const char *argument, Error *e) {
    const Turns *t = &c->turns;
    bool there = t->n && t->list[0].role == ROLE_SYSTEM;
    if (!*argument) {
        SAY(c, "system prompt: ");
        if (there) text_print(c->o.log, t->list[0].text, t->list[0].n, c->o.raw); /* a session's may be a stranger's */
        SAY(c, there ? "\n" : "the template's\n");
        return 0;
    }
    if (turns_system(&c->turns, argument, e)) return -1;
    SAY(c, "system prompt set\n");
    return 0;
}

/* ---- /set ---- */

static const struct {
    const char *name;
    bool real;
    size_t offset;
    double min, max;
    const char *help;
} settings[] = {
    {"temperature", true, offsetof(SamplerParams, temperature), 0, 1e6, "0 is greedy"},
    {"top-p", true, offsetof(SamplerParams, top_p), 0, 1, ""},
    {"top-k", false, offsetof(SamplerParams, top_k), 0, 1 << 30, "0: off"},
    {"min-p", true, offsetof(SamplerParams, min_p), 0, 1, "0: off"},
    {"repeat-penalty", true, offsetof(SamplerParams, repeat_penalty), 1e-6, 1e6, "1: off"},
    {"steps", false, SIZE_MAX, 0, 1 << 30, "tokens of an answer at most; 0: what the context leaves"},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void *setting_at(Chat *c, int i) {
    return settings[i].offset == SIZE_MAX ? (void *)&c->o.steps : (char *)&c->g.sampler.params + settings[i].offset;
}

static int run_set(Chat *c, const char *argument, Error *e) {
    (void)e;
    char name[40], *end;
    const char *value = strchr(argument, ' ');
    snprintf(name, sizeof name, "%.*s", (int)(value ? value - argument : (long)strlen(argument)), argument);
    for (int i = 0; i < N_SETTINGS; i++) {
        void *at = setting_at(c, i);
        if (*name && strcmp(name, settings[i].name) != 0) continue;
        if (value) {
            double x = strtod(value, &end);
            if (end == value || *end || !(x >= settings[i].min && x <= settings[i].max)) {
                SAY(c, "/set %s: expected a number from %g to %g\n", name, settings[i].min, settings[i].max);
                return 0;
            }
            if (settings[i].real) *(float *)at = (float)x;
            else *(int *)at = (int)x;
        }
        SAY(c, "  %-15s %-8g %s\n", settings[i].name, settings[i].real ? (double)*(float *)at : *(int *)at,
            settings[i].help);
        if (*name) return 0;
    }
    if (*name) SAY(c, "/set: expected a name that /set lists, found another\n");
    return 0;
}

/* ---- Files ---- */

/* A failure that is said, and does not end the chat. */
static int say_failure(Chat *c, const Error *why) {
    SAY(c, "%s\n", why->text);
    return 0;
}

static int run_save(Chat *c, const char *argument, Error *e) {
    (void)e;
    Error why = {""};
    if (!*argument) SAY(c, "/save: expected a file\n");
    else if (snapshot_write(argument, &c->g, &c->turns, &why)) return say_failure(c, &why);
    else SAY(c, "saved: %d messages, %d tokens\n", c->turns.n, c->g.n_cached);
    return 0;
}

static int run_load(Chat *c, const char *argument, Error *e) {
    (void)e;
    Error why = {""};
    if (!*argument) SAY(c, "/load: expected a file\n");
    else if (snapshot_read(argument, &c->g, &c->turns, &why)) return say_failure(c, &why);
    else SAY(c, "loaded: %d messages, %d tokens\n", c->turns.n, c->g.n_cached);
    return 0;
}

/* ---- The last turn ---- */

/* Drops the last answer; with_question: and what it answers. False when there is none. */
static bool drop_last(Chat *c, bool with_question) {
    Turns *t = &c->turns;
    int n = t->n;
    if (n && t->list[n - 1].role == ROLE_ASSISTANT) turns_pop(t);
    if (!t->n || t->list[t->n - 1].role != ROLE_USER) return false;
    if (with_question) turns_pop(t);
    return t->n < n || !with_question;
}

static int run_regen(Chat *c, const char *argument, Error *e) {
    (void)argument;
    if (!drop_last(c, false)) {
        SAY(c, "/regen: expected an answer, found none\n");
        return 0;
    }
    return chat_answer(c, e) < 0 ? -1 : 0;
}

static int run_undo(Chat *c, const char *argument, Error *e) {
    (void)argument, (void)e;
    if (drop_last(c, true)) SAY(c, "the last message and its answer are dropped\n");
    else SAY(c, "/undo: expected a message, found none\n");
    return 0;
}

/* ---- Numbers ---- */

static int run_stats(Chat *c, const char *argument, Error *e) {
    (void)e;
    bool on = strcmp(argument, "on") == 0;
    if (on || strcmp(argument, "off") == 0) {
        c->statistics = on;
        SAY(c, "statistics after each answer: %s\n", argument);
    } else generator_report(&c->g);
    return 0;
}

/* The candidates for the token that was chosen last, and the sampler that removed each. */
static int run_top(Chat *c, const char *argument, Error *e) {
    enum { USUAL = 10, MOST = 100 };
    Staged list[MOST];
    const Tokenizer *t = c->session.tokenizer;
    int n = *argument ? atoi(argument) : USUAL;
    if (n < 1 || n > MOST || c->g.next < 0 || !c->g.logits) {
        if (c->g.next < 0) SAY(c, "/top: expected an answer, found none\n");
        else SAY(c, "/top: expected a number from 1 to %d\n", MOST);
        return 0;
    }
    if ((n = stages_find(list, n, &c->g.sampler, c->g.logits, c->g.accepted, e)) < 0) return -1;
    SAY(c, "candidates for the last token of the answer\n   token     model   sampled  text\n");
    for (int i = 0; i < n; i++) {
        const char *text = "";
        char buffer[8];
        size_t length = 0;
        if (list[i].id < tokenizer_vocab_size(t)) length = tokenizer_decode(t, 0, list[i].id, &text, buffer);
        if (length == 0 && list[i].id < tokenizer_vocab_size(t)) text = tokenizer_piece(t, list[i].id, &length);
        SAY(c, "%8d %8.3f%% %8.3f%%  ", list[i].id, 100 * (double)list[i].p, 100 * (double)list[i].left);
        text_print_json(c->o.log, text, length);
        if (list[i].stage) SAY(c, "  removed by %s\n", list[i].stage);
        else SAY(c, list[i].id == c->g.next ? "  chosen\n" : "\n");
    }
    return 0;
}

static int run_context(Chat *c, const char *argument, Error *e) {
    (void)argument, (void)e;
    SAY(c, "context: %d of %d tokens, %d messages\n", c->g.n_cached, c->session.state.options.n_ctx, c->turns.n);
    return 0;
}

static const Command commands[] = {
    {"help", "", "this list", run_help},
    {"clear", "", "begin anew, with the same system prompt", run_clear},
    {"system", "[TEXT]", "show or set the system prompt", run_system},
    {"set", "[NAME [X]]", "show or set a setting", run_set},
    {"regen", "", "answer again", run_regen},
    {"undo", "", "drop the last message and its answer", run_undo},
    {"save", "FILE", "write the conversation, with its keys and values", run_save},
    {"load", "FILE", "go on with a conversation that was saved", run_load},
    {"stats", "[on|off]", "show the last statistics, or show them after each answer", run_stats},
    {"top", "[N]", "the candidates for the last token, and the sampler that removed each", run_top},
    {"context", "", "how full the context is", run_context},
    {"bye", "", "end", run_bye},
    {"?", "", NULL, run_help},
    {"exit", "", NULL, run_bye},
    {"quit", "", NULL, run_bye},
    {NULL, NULL, NULL, NULL},
};

int chat_command(Chat *c, const char *line, Error *e) {
    size_t n = strcspn(line + 1, " \t\n");
    const char *argument = line + 1 + n;
    argument += strspn(argument, " \t\n");
    for (const Command *k = commands; k->name; k++)
        if (strlen(k->name) == n && memcmp(k->name, line + 1, n) == 0) return k->run(c, argument, e);
    char shown[4 * 20 + 1];
    text_show(shown, sizeof shown, line + 1, n, 20, false);
    SAY(c, "/%s: expected a command of /help (a message that begins with a slash: //)\n", shown);
    return 0;
}

#include "gen/chat.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sources: the tokenizer_config.json of SmolLM2 and Qwen2 (chatml), Llama-2-chat, Llama-3-Instruct,
 * Mistral-7B-Instruct-v0.1 and v0.2, zephyr-7b-beta and TinyLlama-Chat, gemma-2-it. The order matters: the
 * first row that fits is taken. */
static const ChatTemplate templates[] = {
    {.name = "chatml", .has = "<|im_start|>", .start = "",
     .before = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
     .reply = "<|im_start|>assistant\n", .end = "<|im_end|>"},
    /* Llama 3.1 and later add dates and tools to the system prompt: those are not this row. */
    {.name = "llama-3", .has = "<|start_header_id|>", .lacks = "Cutting Knowledge", .start = "<|begin_of_text|>",
     .before = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|start_header_id|>user<|end_header_id|>\n\n",
                "<|start_header_id|>assistant<|end_header_id|>\n\n"},
     .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .reply = "<|start_header_id|>assistant<|end_header_id|>\n\n", .end = "<|eot_id|>", .trim = true},
    {.name = "llama-2", .has = "<<SYS>>", .start = "",
     .before = {"<<SYS>>\n", "<s>[INST] ", " "}, .after = {"\n<</SYS>>\n\n", " [/INST]", " </s>"},
     .reply = "", .end = "</s>", .fold = true, .trim = true},
    {.name = "mistral", .has = "'[INST] '", .has_too = "' [/INST]'", .start = "<s>",
     .before = {NULL, "[INST] ", ""}, .after = {"", " [/INST]", "</s>"}, .reply = "", .end = "</s>"},
    {.name = "mistral-v2", .has = "\" [INST] \"", .has_too = "\" [/INST]\"", .start = "<s>",
     .before = {"", " [INST] ", " "}, .after = {"\n\n", " [/INST]", "</s>"}, .reply = "", .end = "</s>",
     .fold = true},
    {.name = "zephyr", .has = "<|user|>", .has_too = "eos_token", .lacks = "<|end|>", .start = "",
     .before = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .after = {"</s>\n", "</s>\n", "</s>\n"},
     .reply = "<|assistant|>\n", .end = "</s>"},
    {.name = "gemma", .has = "<start_of_turn>", .start = "<bos>",
     .before = {"", "<start_of_turn>user\n", "<start_of_turn>model\n"},
     .after = {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"},
     .reply = "<start_of_turn>model\n", .end = "<end_of_turn>", .fold = true, .trim = true},
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

const ChatTemplate *chat_template_find(const char *name) {
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}

const ChatTemplate *chat_template_detect(const char *jinja) {
    for (int i = 0; i < N_TEMPLATES; i++) {
        const ChatTemplate *t = &templates[i];
        if (strstr(jinja, t->has) && (!t->has_too || strstr(jinja, t->has_too)) &&
            (!t->lacks || !strstr(jinja, t->lacks)))
            return t;
    }
    return NULL;
}

const char *chat_template_names(char out[160]) {
    out[0] = 0;
    for (int i = 0; i < N_TEMPLATES; i++)
        snprintf(out + strlen(out), 160 - strlen(out), "%s%s", i ? ", " : "", templates[i].name);
    return out;
}

int chat_default_system(char **system, const ChatTemplate *t, const char *jinja, Error *e) {
    static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
    *system = NULL;
    if (strcmp(t->name, "chatml") != 0) return 0;
    for (const char *at = strstr(jinja, open); at; at = strstr(at, open)) {
        at += sizeof open - 1;
        if (*at == '\n') at++;
        else if (at[0] == '\\' && at[1] == 'n') at += 2;
        const char *end = strstr(at, close);
        if (!end) return 0;
        /* A quote in between ends the literal: what follows is computed, not a default. */
        if (end == at || memchr(at, '\'', (size_t)(end - at))) continue;
        char *text = malloc((size_t)(end - at) + 1), *to = text;
        if (!text) return fail(e, "chat: memory: expected some, found none");
        while (at < end) {
            bool newline = at[0] == '\\' && at[1] == 'n';
            *to++ = newline ? '\n' : *at;
            at += newline ? 2 : 1;
        }
        *to = 0;
        *system = text;
        return 0;
    }
    return 0;
}

static int append(ChatText *c, const char *text, size_t n, unsigned char plain, Error *e) {
    if (c->n + n + 1 > c->room) {
        size_t room = 2 * (c->n + n + 1);
        char *larger = realloc(c->text, room);
        if (larger) c->text = larger;
        unsigned char *marks = larger ? realloc(c->plain, room) : NULL;
        if (!marks) return fail(e, "chat: memory: expected %zu bytes, found less", room);
        c->plain = marks;
        c->room = room;
    }
    memcpy(c->text + c->n, text, n);
    memset(c->plain + c->n, plain, n);
    c->n += n;
    c->text[c->n] = 0;
    return 0;
}

static int append_template(ChatText *c, const char *text, Error *e) { return append(c, text, strlen(text), 0, e); }

static int append_message(ChatText *c, const Message *m, bool trim_left, bool trim_right, Error *e) {
    const char *from = m->text, *to = m->text + m->n;
    while (trim_left && from < to && isspace((unsigned char)*from)) from++;
    while (trim_right && to > from && isspace((unsigned char)to[-1])) to--;
    return append(c, from, (size_t)(to - from), 1, e);
}

int chat_render(ChatText *out, const ChatTemplate *t, const Message *messages, int n, Error *e) {
    const Message *folded = NULL;
    *out = (ChatText){0};
    if (append_template(out, t->start, e)) goto failed;
    for (int i = 0; i < n; i++) {
        const Message *m = &messages[i];
        if (!t->before[m->role]) {
            fail(e, "chat template %s: expected no system prompt, found one", t->name);
            goto failed;
        }
        if (m->role == ROLE_SYSTEM && t->fold) {
            folded = m;
            continue;
        }
        if (append_template(out, t->before[m->role], e)) goto failed;
        bool inside = folded && m->role == ROLE_USER;
        if (inside && (append_template(out, t->before[ROLE_SYSTEM], e) || append_message(out, folded, false, false, e) ||
                       append_template(out, t->after[ROLE_SYSTEM], e)))
            goto failed;
        if (inside) folded = NULL;
        if (append_message(out, m, t->trim && !inside, t->trim, e) || append_template(out, t->after[m->role], e))
            goto failed;
    }
    if (append_template(out, t->reply, e)) goto failed;
    return 0;
failed:
    chat_text_close(out);
    return -1;
}

void chat_text_close(ChatText *c) {
    free(c->text);
    free(c->plain);
    *c = (ChatText){0};
}

/* The special token that the template wrote at c->text[at]: its id and length, or -1. */
static int special_at(const Tokenizer *t, const ChatText *c, size_t at, size_t *length) {
    char piece[64];
    if (c->plain[at] || (c->text[at] != '<' && c->text[at] != '[')) return -1;
    for (size_t n = 1; n < sizeof piece && at + n <= c->n && !c->plain[at + n - 1]; n++) {
        piece[n - 1] = c->text[at + n - 1];
        if (piece[n - 1] != '>' && piece[n - 1] != ']') continue;
        piece[n] = 0;
        *length = n;
        return tokenizer_find(t, piece);
    }
    return -1;
}

typedef struct {
    int *ids; /* [n] owned */
    int n;
    size_t room;
} Ids;

static int ids_append(Ids *all, const int *part, int n, Error *e) {
    size_t need = (size_t)all->n + (size_t)n;
    if (n == 0) return 0;
    if (need > all->room) {
        int *larger = realloc(all->ids, 2 * need * sizeof *larger);
        if (!larger) return fail(e, "chat: memory: expected room for %zu tokens, found less", 2 * need);
        all->ids = larger;
        all->room = 2 * need;
    }
    memcpy(all->ids + all->n, part, (size_t)n * sizeof *part);
    all->n += n;
    return 0;
}

static int append_text(Ids *all, const Tokenizer *t, const char *text, size_t n, Error *e) {
    int *part, n_part;
    if (n == 0) return 0;
    if (tokenizer_encode(t, text, n, 0, &part, &n_part, e)) return -1;
    int status = ids_append(all, part, n_part, e);
    free(part);
    return status;
}

int chat_encode(const Tokenizer *t, const ChatText *c, int **ids, int *n, Error *e) {
    Ids all = {0};
    size_t from = 0, at = 0, length;
    while (at < c->n) {
        int special = special_at(t, c, at, &length);
        if (special < 0) {
            at++;
            continue;
        }
        /* The text between two special tokens is encoded as one, whoever wrote it. */
        if (append_text(&all, t, c->text + from, at - from, e) || ids_append(&all, &special, 1, e)) goto failed;
        from = at += length;
    }
    if (append_text(&all, t, c->text + from, at - from, e)) goto failed;
    *ids = all.ids;
    *n = all.n;
    return 0;
failed:
    free(all.ids);
    return -1;
}

#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* In a template's strings, what the model and the day say; see ChatWords. */
#define BOS   "\1"
#define EOS   "\2"
#define TODAY "\3"

/* Parts of rows that are alike: what stands in the shape of the template's text (chat/jinja.h), and what it writes. */
#define LLAMA3_HAS   "'<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+message.content|trim+'<|eot_id|>'"
#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3_REPLY "{{'" LLAMA3("assistant") "'}}"
#define LLAMA3_WRITES                                                                                                  \
    .start = BOS, .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"}, .trim = {true, true, true},                     \
    .reply = LLAMA3("assistant"), .end = "<|eot_id|>"
#define LLAMA31_SYSTEM "{{'Cutting Knowledge Date: December 2023\nToday Date: '+date_string+'\n\n'}}"
#define LLAMA31_HAS                                                                                                    \
    "{{bos_token}}", "{{" LLAMA3_HAS "}}", LLAMA3_REPLY, LLAMA31_SYSTEM, "{{system_message+'<|eot_id|>'}}"
#define LLAMA31(today)   LLAMA3("system") "Cutting Knowledge Date: December 2023\nToday Date: " today "\n\n"
#define ZEPHYR_HAS(role) "{{'<|" role "|>\n'+message.content+eos_token+'\n'}}"

/* Sources: the tokenizer_config.json of the models named. tests/fixtures/chat holds their texts, and what
 * transformers makes of them. */
static const ChatTemplate templates[] = {
    /* SmolLM2, Qwen 2 and 2.5, OpenHermes 2.5 */
    {.name = "chatml",
     .has = {"{{'<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>\n'}}", "{{'<|im_start|>assistant\n'}}"},
     .lacks = {"think>", "enable_thinking", "bos_token", "system_message"},
     .start = "",
     .before = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
     .reply = "<|im_start|>assistant\n",
     .end = "<|im_end|>"},
    /* Llama 3 Instruct */
    {.name = "llama-3",
     .has = {"{%set content=" LLAMA3_HAS "%}", "{%set content=bos_token+content%}", "{{content}}", LLAMA3_REPLY},
     .before = {LLAMA3("system"), LLAMA3("user"), LLAMA3("assistant")},
     LLAMA3_WRITES},
    /* Llama 3.1 and 3.3 Instruct: a system turn always, with the day the template was written. */
    {.name = "llama-3.1",
     .has = {LLAMA31_HAS, "{%set date_string='26 Jul 2024'%}", "{%set system_message=''%}"},
     .lacks = {"strftime_now"},
     .system = "",
     .before = {LLAMA31("26 Jul 2024"), LLAMA3("user"), LLAMA3("assistant")},
     LLAMA3_WRITES},
    /* Llama 3.2 Instruct: the same with the day it is. */
    {.name = "llama-3.2",
     .has = {LLAMA31_HAS, "{%set date_string=strftime_now('%d %b %Y')%}", "{%set system_message=''%}"},
     .system = "",
     .before = {LLAMA31(TODAY), LLAMA3("user"), LLAMA3("assistant")},
     LLAMA3_WRITES},
    /* Llama 2 Chat */
    {.name = "llama-2",
     .has = {"{{bos_token+'[INST] '+content.strip()+' [/INST]'}}", "{{' '+content.strip()+' '+eos_token}}",
             "{%set content='<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message.content%}"},
     .lacks = {"true==true"},
     .start = "",
     .fold = FOLD_FIRST,
     .before = {"<<SYS>>\n", BOS "[INST] ", " "},
     .after = {"\n<</SYS>>\n\n", " [/INST]", " " EOS},
     .trim = {false, true, true},
     .reply = ""},
    /* Mistral 7B Instruct v0.1 */
    {.name = "mistral-v1",
     .has = {"{{bos_token}}", "{{'[INST] '+message.content+' [/INST]'}}", "{{message.content+eos_token+' '}}"},
     .start = BOS,
     .before = {NULL, "[INST] ", ""},
     .after = {"", " [/INST]", EOS " "},
     .reply = ""},
    /* Mistral 7B Instruct v0.2 and Mixtral 8x7B Instruct at first */
    {.name = "mistral",
     .has = {"{{bos_token}}", "{{'[INST] '+message.content+' [/INST]'}}", "{{message.content+eos_token}}"},
     .start = BOS,
     .before = {NULL, "[INST] ", ""},
     .after = {"", " [/INST]", EOS},
     .reply = ""},
    /* Mistral 7B Instruct v0.2 */
    {.name = "mistral-v2",
     .has = {"{{bos_token}}", "{{' [INST] '+system_message+'\n\n'+message.content+' [/INST]'}}",
             "{{' [INST] '+message.content+' [/INST]'}}", "{{' '+message.content+eos_token}}",
             "{%if loop.first and system_message is defined%}"},
     .lacks = {"{%set system_message='"},
     .start = BOS,
     .fold = FOLD_FIRST,
     .before = {"", " [INST] ", " "},
     .after = {"\n\n", " [/INST]", EOS},
     .reply = ""},
    /* Mistral 7B Instruct v0.3 */
    {.name = "mistral-v3",
     .has = {"{{bos_token}}", "{{'[INST] '+system_message+'\n\n'+message.content+'[/INST]'}}",
             "{{'[INST] '+message.content+'[/INST]'}}", "{{' '+message.content|trim+eos_token}}",
             "{%if loop.last and system_message is defined%}"},
     .lacks = {"{%set system_message='"},
     .start = BOS,
     .fold = FOLD_LAST,
     .before = {"", "[INST] ", " "},
     .after = {"\n\n", "[/INST]", EOS},
     .trim = {false, false, true},
     .reply = ""},
    /* Zephyr 7B beta, TinyLlama Chat, StableLM 2 Zephyr */
    {.name = "zephyr",
     .has = {ZEPHYR_HAS("system"), ZEPHYR_HAS("user"), ZEPHYR_HAS("assistant"), "{{'<|assistant|>\n'}}"},
     .start = "",
     .before = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .after = {EOS "\n", EOS "\n", EOS "\n"},
     .reply = "<|assistant|>\n"},
    /* Gemma 1 and 2 */
    {.name = "gemma",
     .has = {"{{bos_token}}", "{{'<start_of_turn>'+role+'\n'+message.content|trim+'<end_of_turn>\n'}}",
             "{{'<start_of_turn>model\n'}}", "{{raise_exception('System role not supported')}}"},
     .start = BOS,
     .before = {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"},
     .after = {"", "<end_of_turn>\n", "<end_of_turn>\n"},
     .trim = {false, true, true},
     .reply = "<start_of_turn>model\n",
     .end = "<end_of_turn>"},
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

/* What is known of templates that no row can express. */
static const struct {
    const char *has, *what;
} others[] = {
    {"think>", "one that takes the thoughts out of earlier answers"},
    {"<|im_sep|>", "that of Phi-4"},
    {"<|end|>", "that of Phi-3"},
    {"[SYSTEM_PROMPT]", "that of Mistral's tokenizer v7"},
    {"{%set system_message='", "one with a system prompt of its own"},
};
enum { N_OTHERS = sizeof others / sizeof *others };

const ChatTemplate *chat_template_find(const char *name) {
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* The system prompt in an output that is nothing but a system turn, {{'BEFOREtextAFTER'}}, or NULL. Only where a
 * conversation begins with such a turn can a template put one first. */
static const char *own_system(const ChatTemplate *t, const char *output, size_t *n) {
    const char *before = t->before[ROLE_SYSTEM], *after = t->after[ROLE_SYSTEM];
    if (!before || *t->start || t->fold != FOLD_NOT || !begins(output, "{{'") || !begins(output + 3, before))
        return NULL;
    const char *text = output + 3 + strlen(before), *end = text;
    while (*end && *end != '\'') end += end[0] == '\\' && end[1] ? 2 : 1;
    size_t n_after = strlen(after);
    if (!begins(end, "'}}") || (size_t)(end - text) < n_after || !begins(end - n_after, after)) return NULL;
    *n = (size_t)(end - text) - n_after;
    return strstr(text, after) == text + *n ? text : NULL;
}

/* Does the template write nothing but what the row knows? What it writes of tools there is no need to know. */
static bool writes_no_more(const ChatTemplate *t, const char *shape) {
    if (strstr(shape, "tool")) return true;
    size_t n_own;
    for (const char *at = strstr(shape, "{{"), *end; at; at = strstr(end, "{{")) {
        if (!(end = strstr(at, "}}"))) return false;
        end += 2;
        bool known = begins(at, "{{raise_exception(") || own_system(t, at, &n_own);
        for (int i = 0; i < MAX_HAS && t->has[i]; i++)
            known |= strlen(t->has[i]) == (size_t)(end - at) && begins(at, t->has[i]);
        if (!known) return false;
    }
    return true;
}

static bool fits(const ChatTemplate *t, const char *shape) {
    for (int i = 0; i < MAX_HAS && t->has[i]; i++)
        if (!strstr(shape, t->has[i])) return false;
    for (int i = 0; i < MAX_LACKS && t->lacks[i]; i++)
        if (strstr(shape, t->lacks[i])) return false;
    return writes_no_more(t, shape);
}

const ChatTemplate *chat_template_detect(const char *shape) {
    for (int i = 0; i < N_TEMPLATES; i++)
        if (fits(&templates[i], shape)) return &templates[i];
    return NULL;
}

const char *chat_template_other(const char *shape) {
    for (int i = 0; i < N_OTHERS; i++)
        if (strstr(shape, others[i].has)) return others[i].what;
    return "one that is not known";
}

const char *chat_template_names(char out[160]) {
    out[0] = 0;
    for (int i = 0; i < N_TEMPLATES; i++)
        snprintf(out + strlen(out), 160 - strlen(out), "%s%s", i ? ", " : "", templates[i].name);
    return out;
}

int chat_default_system(char **system, const ChatTemplate *t, const char *shape, Error *e) {
    const char *text = t->system;
    size_t n = text ? strlen(text) : 0;
    *system = NULL;
    for (const char *at = shape; !text && (at = strstr(at, "{{")); at++) text = own_system(t, at, &n);
    if (!text) return 0;
    char *to = *system = malloc(n + 1);
    if (!to) return fail(e, "chat: memory: expected %zu bytes, found less", n + 1);
    for (const char *end = text + n; text < end; text++) {
        if (*text == '\\') text++;
        *to++ = *text;
    }
    *to = 0;
    return 0;
}

/* words->bos and ->eos: the pieces as the vocabulary spells them. */
static void copy_piece(char to[CHAT_WORD], const Tokenizer *t, int id) {
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);
    if (n >= CHAT_WORD) n = 0;
    memcpy(to, piece, n);
    to[n] = 0;
}

void chat_words(ChatWords *words, const Tokenizer *t, time_t now) {
    int eos[16], n_eos = tokenizer_eos(t, eos);
    struct tm day;
    copy_piece(words->bos, t, tokenizer_bos(t));
    copy_piece(words->eos, t, n_eos ? eos[0] : -1);
    if (!localtime_r(&now, &day) || !strftime(words->today, sizeof words->today, "%d %b %Y", &day)) words->today[0] = 0;
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

static int append_template(ChatText *c, const char *text, const ChatWords *words, Error *e) {
    for (; *text; text++) {
        const char *word = *text == *BOS     ? words->bos
                           : *text == *EOS   ? words->eos
                           : *text == *TODAY ? words->today
                                             : NULL;
        if (*text == *EOS && !*word) return fail(e, "chat template: end token: expected one, found none");
        if (append(c, word ? word : text, word ? strlen(word) : 1, 0, e)) return -1;
    }
    return 0;
}

/* Bytes of the white space at text, 0 when there is none; what Python's str.strip() takes for it. */
static size_t space_at(const char *text, size_t n) {
    utf8proc_int32_t c;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    if (length <= 0) return 0;
    utf8proc_category_t kind = utf8proc_category(c);
    bool space = (c >= 9 && c <= 13) || (c >= 28 && c <= 31) || c == 0x85 || kind == UTF8PROC_CATEGORY_ZS ||
                 kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
    return space ? (size_t)length : 0;
}

/* Drops the white space around what was written since `start`. */
static void trim(ChatText *c, size_t start) {
    size_t from = start, to, space;
    while (from < c->n && (space = space_at(c->text + from, c->n - from))) from += space;
    to = from;
    for (size_t at = from; at < c->n; at += space ? space : 1)
        if (!(space = space_at(c->text + at, c->n - at))) to = at + 1;
    memmove(c->text + start, c->text + from, to - from);
    memmove(c->plain + start, c->plain + from, to - from);
    c->n = start + to - from;
    c->text[c->n] = 0;
}

/* One message with what stands around it; inside: a system prompt that stands in it, or NULL. */
static int append_message(ChatText *c, const ChatTemplate *t, const ChatWords *words, const Message *m,
                          const Message *inside, Error *e) {
    if (append_template(c, t->before[m->role], words, e)) return -1;
    size_t start = c->n;
    if (inside && (append_template(c, t->before[ROLE_SYSTEM], words, e) || append(c, inside->text, inside->n, 1, e) ||
                   append_template(c, t->after[ROLE_SYSTEM], words, e)))
        return -1;
    if (append(c, m->text, m->n, 1, e)) return -1;
    if (t->trim[m->role]) trim(c, start);
    return append_template(c, t->after[m->role], words, e);
}

int chat_render(ChatText *out, const ChatTemplate *t, const ChatWords *words, const Message *messages, int n,
                Error *e) {
    const Message *system = n && messages[0].role == ROLE_SYSTEM ? messages : NULL;
    int first = system && t->fold != FOLD_NOT, inside = t->fold == FOLD_LAST ? n - 1 : 1;
    *out = (ChatText){0};
    if (system && !t->before[ROLE_SYSTEM])
        return fail(e, "chat template %s: expected no system prompt, found one", t->name);
    if (first && (n == 1 || messages[inside].role != ROLE_USER))
        return fail(e, "chat template %s: expected a user message for the system prompt, found none", t->name);
    if (append(out, "", 0, 0, e) || append_template(out, t->start, words, e)) goto failed;
    for (int i = first; i < n; i++) {
        if (i && messages[i].role == ROLE_SYSTEM) {
            fail(e, "chat template %s: expected the system prompt first, found it as message %d", t->name, i + 1);
            goto failed;
        }
        if (append_message(out, t, words, &messages[i], first && i == inside ? system : NULL, e)) goto failed;
    }
    if (append_template(out, t->reply, words, e)) goto failed;
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

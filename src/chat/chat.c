#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"

/* Templates by name, for models that carry none. The whole conversation is in `messages`. */
#define ALTERNATE                                                                                                      \
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                                                           \
    "{{ raise_exception('expected user and assistant messages in turn, found ' ~ m.role) }}{% endif -%}"
#define NO_SYSTEM                                                                                                      \
    "{%- if messages[0].role == 'system' %}{{ raise_exception('expected no system prompt, found one') }}{% endif -%}"
/* The system prompt goes into a user message: `system` holds it, `turns` what is left. */
#define TAKE_SYSTEM                                                                                                    \
    "{%- set system = messages[0].content if messages[0].role == 'system' else none -%}"                               \
    "{%- set turns = messages if system is none else messages[1:] -%}"
#define LLAMA3(role, text) "'<|start_header_id|>' ~ " role " ~ '<|end_header_id|>\\n\\n' ~ " text " ~ '<|eot_id|>'"
#define LLAMA3_TURNS                                                                                                   \
    "{%- for m in turns %}{{ " LLAMA3(                                                                                 \
        "m.role", "m.content | trim") " }}{% endfor -%}"                                                               \
                                      "{%- if add_generation_prompt %}{{ "                                             \
                                      "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif -%}"
#define LLAMA31(today)                                                                                                 \
    TAKE_SYSTEM                                                                                                        \
    "{{- bos_token ~ " LLAMA3("'system'", "'Cutting Knowledge Date: December 2023\\nToday Date: ' ~ " today            \
                                          " ~ '\\n\\n' ~ (system or '') | trim") " -}}" LLAMA3_TURNS

static const struct {
    const char *name, *jinja;
} named[] = {
    {"chatml",
     "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{% endfor -%}"
     "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"},
    {"llama-3", "{%- set turns = messages -%}{{- bos_token -}}" LLAMA3_TURNS},
    {"llama-3.1", LLAMA31("'26 Jul 2024'")},
    {"llama-3.2", LLAMA31("strftime_now('%d %b %Y')")},
    {"llama-2",
     TAKE_SYSTEM "{%- for m in turns %}" ALTERNATE "{%- if m.role == 'user' -%}"
                 "{%- set text = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' ~ m.content if loop.first and system "
                 "is not none else m.content -%}"
                 "{{ bos_token ~ '[INST] ' ~ text | trim ~ ' [/INST]' }}"
                 "{%- else %}{{ ' ' ~ m.content | trim ~ ' ' ~ eos_token }}{% endif -%}{% endfor -%}"},
    {"mistral-v1",
     NO_SYSTEM "{{- bos_token -}}{%- for m in messages %}" ALTERNATE
               "{{- '[INST] ' ~ m.content ~ ' [/INST]' if m.role == 'user' else m.content ~ eos_token ~ ' ' -}}"
               "{%- endfor -%}"},
    {"mistral", NO_SYSTEM "{{- bos_token -}}{%- for m in messages %}" ALTERNATE
                          "{{- '[INST] ' ~ m.content ~ ' [/INST]' if m.role == 'user' else m.content ~ eos_token -}}"
                          "{%- endfor -%}"},
    {"mistral-v2",
     TAKE_SYSTEM "{{- bos_token -}}{%- for m in turns %}" ALTERNATE
                 "{%- set before = system ~ '\\n\\n' if loop.first and system is not none else '' -%}"
                 "{{- ' [INST] ' ~ before ~ m.content ~ ' [/INST]' if m.role == 'user' else ' ' ~ m.content ~ "
                 "eos_token -}}{%- endfor -%}"},
    {"mistral-v3",
     TAKE_SYSTEM "{{- bos_token -}}{%- for m in turns %}" ALTERNATE
                 "{%- set before = system ~ '\\n\\n' if loop.last and system is not none else '' -%}"
                 "{{- '[INST] ' ~ before ~ m.content ~ '[/INST]' if m.role == 'user' else ' ' ~ m.content | trim ~ "
                 "eos_token -}}{%- endfor -%}"},
    {"zephyr", "{%- for m in messages %}{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}{% endfor -%}"
               "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif -%}"},
    {"gemma",
     NO_SYSTEM "{{- bos_token -}}{%- for m in messages %}" ALTERNATE
               "{{- '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' ~ m.content | trim ~ "
               "'<end_of_turn>\\n' -}}{%- endfor -%}"
               "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif -%}"},
};
enum { N_NAMED = sizeof named / sizeof *named };

const char *chat_template_named(const char *name) {
    for (int i = 0; i < N_NAMED; i++)
        if (strcmp(named[i].name, name) == 0) return named[i].jinja;
    return NULL;
}

const char *chat_template_names(char out[200]) {
    out[0] = 0;
    for (int i = 0; i < N_NAMED; i++) text_list(out, 200, ", ", named[i].name);
    return out;
}

/* The text of a token, as the vocabulary spells it. */
static int copy_piece(char out[CHAT_WORD], const Tokenizer *t, int id, Error *e) {
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);
    if (n >= CHAT_WORD)
        return fail(e, "chat template: token %d: expected at most %d bytes, found %zu", id, CHAT_WORD - 1, n);
    memcpy(out, piece, n);
    out[n] = 0;
    return 0;
}

int chat_template_open(ChatTemplate *t, const char *which, const Tokenizer *tokenizer, const char *file, Error *e) {
    char names[200];
    int eos[16], n_eos = tokenizer_eos(tokenizer, eos);
    *t = (ChatTemplate){.name = which ? which : "the model's"};
    if (copy_piece(t->bos, tokenizer, tokenizer_bos(tokenizer), e)) return -1;
    if (copy_piece(t->eos, tokenizer, n_eos ? eos[0] : -1, e)) return -1;
    t->jinja = which ? chat_template_named(which) : tokenizer_chat_template(tokenizer);
    if (!t->jinja && !which)
        return fail(e, "%s: chat template: expected one, found none (give it with --chat-template)", file);
    if (!t->jinja && access(which, F_OK) != 0)
        return fail(e, "--chat-template: expected a file or one of %s, found '%.40s'", chat_template_names(names),
                    which);
    t->n = t->jinja ? strlen(t->jinja) : 0;
    if (t->jinja) return 0;
    if (file_read(&t->owned, &t->n, which, e)) return -1;
    t->jinja = t->owned;
    return 0;
}

void chat_template_close(ChatTemplate *t) {
    free(t->owned);
    *t = (ChatTemplate){0};
}

int chat_render(ChatText *out, const ChatTemplate *t, const Message *messages, int n, time_t now, Error *e) {
    JinjaInput in = {.messages = messages,
                     .n_messages = n,
                     .bos = *t->bos ? t->bos : NULL,
                     .eos = *t->eos ? t->eos : NULL,
                     .add_generation_prompt = true,
                     .now = now};
    return jinja_render(out, t->jinja, t->n, &in, e);
}

int chat_encode(const Tokenizer *t, const ChatText *c, int **ids, int *n, Error *e) {
    return tokenizer_encode_marked(t, c->text, c->plain, c->n, TOKENIZE_SPECIAL | TOKENIZE_CONTROL, ids, n, e);
}

/* chat - a conversation as the model's chat template writes it, and the ids of it. */
#pragma once
#include "chat/jinja.h"
#include "tokenizer.h"

enum { CHAT_WORD = 128 };

/* ChatTemplate - a Jinja text and the tokens it may name. */
typedef struct {
    const char *name; /* for messages: a name of the table, a file, or "the model's" */
    char *owned;      /* the text, when it was read from a file */
    const char *jinja;
    size_t n;
    char bos[CHAT_WORD], eos[CHAT_WORD]; /* pieces as the vocabulary spells them; "": none */
} ChatTemplate;

/* chat_template_open - which: a name of the table, else a file of Jinja; NULL: the tokenizer's own. Fails, with `file`
 * as the checkpoint's name, when there is none. Source of the table: the tokenizer_config.json of the models named. */
int chat_template_open(ChatTemplate *t, const char *which, const Tokenizer *tokenizer, const char *file, Error *e);
void chat_template_close(ChatTemplate *t);

/* chat_template_named - the Jinja text of a name of the table, or NULL. chat_template_names - "chatml, gemma, ..." */
const char *chat_template_named(const char *name);
const char *chat_template_names(char out[200]);

/* chat_render - the messages with the request for an answer behind them. now: the day that a template may write.
 * Reference: transformers' apply_chat_template with add_generation_prompt; test: tests/test_chat.c */
int chat_render(ChatText *out, const ChatTemplate *t, const Message *messages, int n, time_t now, Error *e);

/* chat_encode - ids of the rendered text: special tokens only where the template wrote them. */
int chat_encode(const Tokenizer *t, const ChatText *c, int **ids, int *n, Error *e);

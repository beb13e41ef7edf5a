/* chat - a conversation as the model's own chat template writes it. Each template is a row of a table, chosen
 * by what stands in the checkpoint's Jinja text; there is no Jinja interpreter here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer.h"

typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_COUNT } Role;

typedef struct {
    Role role;
    char *text;         /* [n] owned by the caller */
    size_t n;           /* bytes */
} Message;

typedef struct {
    const char *name;
    const char *has, *has_too, *lacks; /* what its Jinja text holds, and what not; NULL: anything */
    const char *start;                 /* before all messages: BOS */
    const char *before[ROLE_COUNT], *after[ROLE_COUNT]; /* around a message; before NULL: no such role */
    const char *reply;                 /* asks for the answer */
    const char *end;                   /* the token that ends an answer */
    bool fold;  /* the system prompt stands inside the first user message */
    bool trim;  /* white space around a message is dropped */
} ChatTemplate;

/* chat_template_find - the row of that name. chat_template_detect - the row that a Jinja text is recognised
 * as. NULL: none. */
const ChatTemplate *chat_template_find(const char *name);
const ChatTemplate *chat_template_detect(const char *jinja);
/* chat_template_names - "chatml, llama-2, ..." */
const char *chat_template_names(char out[160]);

/* chat_default_system - the system prompt that the Jinja text puts where the conversation has none; *system is
 * malloc'ed, NULL when there is none. */
int chat_default_system(char **system, const ChatTemplate *t, const char *jinja, Error *e);

/* ChatText - the rendered conversation. What a person wrote is marked, so that "<|im_end|>" in it stays text. */
typedef struct {
    char *text;            /* [n] owned */
    unsigned char *plain;  /* [n] 1: of a message, 0: of the template */
    size_t n, room;
} ChatText;

/* chat_render - all messages, then the request for an answer. Refuses a role that the template has not. */
int chat_render(ChatText *out, const ChatTemplate *t, const Message *messages, int n, Error *e);
void chat_text_close(ChatText *c);

/* chat_encode - ids of the rendered text: special tokens only where the template wrote them. */
int chat_encode(const Tokenizer *t, const ChatText *c, int **ids, int *n, Error *e);

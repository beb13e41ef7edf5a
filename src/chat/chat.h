/* chat - a conversation as the model's own chat template writes it. Each template is a row of a table, chosen
 * by what stands in the checkpoint's Jinja text; one that no row can express is refused: there is no Jinja
 * interpreter here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/error.h"
#include "tokenizer.h"

typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_COUNT } Role;

typedef struct {
    Role role;
    char *text; /* [n] owned by the caller */
    size_t n;   /* bytes */
} Message;

typedef enum { FOLD_NOT, FOLD_FIRST, FOLD_LAST } Fold;
enum { MAX_HAS = 7, MAX_LACKS = 4, CHAT_WORD = 64 };

typedef struct {
    const char *name;
    const char *has[MAX_HAS], *lacks[MAX_LACKS];        /* in the shape of its Jinja text (chat/jinja.h): what it holds,
                                                         * each output among it, and what not */
    const char *start;                                  /* before all messages */
    const char *before[ROLE_COUNT], *after[ROLE_COUNT]; /* around a message; before NULL: no such role */
    const char *reply;                                  /* asks for the answer */
    const char *end;                                    /* the token that ends an answer; NULL: the model's own */
    const char *system;                                 /* system prompt where the conversation has none, or NULL */
    Fold fold;             /* the system prompt stands inside the first, or the last, user message */
    bool trim[ROLE_COUNT]; /* white space around a message is dropped, with all that stands in it */
} ChatTemplate;

/* ChatWords - what a template names and does not spell out itself. */
typedef struct {
    char bos[CHAT_WORD], eos[CHAT_WORD]; /* "<s>"; "": none */
    char today[16];                      /* "03 Oct 2024" */
} ChatWords;

/* chat_words - those of a tokenizer; the day is the local one. */
void chat_words(ChatWords *words, const Tokenizer *t, time_t now);

/* chat_template_find - the row of that name. chat_template_detect - the row that a Jinja text, given as
 * jinja_shape writes it, is recognised as. NULL: none; chat_template_other - then, what it is called. */
const ChatTemplate *chat_template_find(const char *name);
const ChatTemplate *chat_template_detect(const char *shape);
const char *chat_template_other(const char *shape);
/* chat_template_names - "chatml, llama-3, ..." */
const char *chat_template_names(char out[160]);

/* chat_default_system - the system prompt that the template puts where the conversation has none (shape: of the
 * checkpoint's Jinja text, or ""); *system is malloc'ed, NULL when there is none. */
int chat_default_system(char **system, const ChatTemplate *t, const char *shape, Error *e);

/* ChatText - the rendered conversation. What a person wrote is marked, so that "<|im_end|>" in it stays text. */
typedef struct {
    char *text;           /* [n] owned */
    unsigned char *plain; /* [n] 1: of a message, 0: of the template */
    size_t n, room;
} ChatText;

/* chat_render - the messages (a system prompt first or not at all, then user and assistant in turn), and the request
 * for an answer. Refuses a system prompt where the template has none. Reference: transformers' apply_chat_template
 * with add_generation_prompt; test: tests/test_chat.c */
int chat_render(ChatText *out, const ChatTemplate *t, const ChatWords *words, const Message *messages, int n, Error *e);
void chat_text_close(ChatText *c);

/* chat_encode - ids of the rendered text: special tokens only where the template wrote them. */
int chat_encode(const Tokenizer *t, const ChatText *c, int **ids, int *n, Error *e);

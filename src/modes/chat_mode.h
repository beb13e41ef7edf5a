/* chat_mode - between mode_chat.c and its commands. */
#pragma once
#include "chat/chat.h"
#include "chat/turns.h"
#include "gen/generate.h"
#include "gen/record.h"
#include "gen/shift.h"
#include "gen/snapshot.h"

typedef struct {
    Options o; /* a copy: /set changes it */
    Session session;
    Generator g;
    ChatTemplate template;
    Turns turns;
    Record record; /* --json: of the answer that is written */
    FILE *out;
    bool terminal;
    bool statistics; /* printed after each answer */
    bool over;       /* /bye */
    bool dropped;    /* turns that the cache still holds */
    bool said_shift; /* why keys are not moved was said */
    int n_kept;      /* --keep: messages at the start that are not dropped */
    int n_prompt;    /* tokens of the cache that are the prompt of the last answer */
} Chat;

/* chat_answer - answers the last user message. Returns 1; 0 when the message does not fit the context (it is said, and
 * dropped); -1 on failure. */
int chat_answer(Chat *c, Error *e);

/* chat_command - runs a line that begins with "/". What goes wrong is said, and the chat goes on; -1 when it cannot. */
int chat_command(Chat *c, const char *line, Error *e);

/* chat_sampling - the temperature, top-p and top-k that were not given: those of the model's generation_config.json or
 * of its GGUF, else 0.7 and the program's. */
int chat_sampling(Options *o, const Checkpoint *ck, Error *e);

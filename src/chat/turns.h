/* turns - the messages of a conversation, in order: a system prompt or none, then user and assistant in turn. */
#pragma once
#include "base/error.h"
#include "chat/message.h"

typedef struct {
    Message *list; /* [n] texts owned */
    int n;
} Turns;

/* turns_add - takes over text (malloc'ed; NULL is a lack of memory). */
int turns_add(Turns *t, Role role, char *text, size_t n, Error *e);
/* turns_pop - drops the last message. */
void turns_pop(Turns *t);
/* turns_keep - drops all messages from the n-th on. */
void turns_keep(Turns *t, int n);
/* turns_system - the system prompt is text from now on; NULL: none. */
int turns_system(Turns *t, const char *text, Error *e);
/* turns_drop_oldest - drops the oldest user message from message `from` on and what answered it; the system prompt and
 * the last user message stay. Returns how many messages went. */
int turns_drop_oldest(Turns *t, int from);
void turns_close(Turns *t);

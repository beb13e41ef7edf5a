#include "chat/turns.h"

#include <stdlib.h>
#include <string.h>

int turns_add(Turns *t, Role role, char *text, size_t n, Error *e) {
    Message *larger = text ? realloc(t->list, ((size_t)t->n + 1) * sizeof *t->list) : NULL;
    if (!larger) {
        free(text);
        return fail(e, "chat: memory: expected some, found none");
    }
    t->list = larger;
    t->list[t->n++] = (Message){role, text, n};
    return 0;
}

static void drop(Turns *t, int from, int n) {
    for (int i = from; i < from + n; i++) free(t->list[i].text);
    memmove(t->list + from, t->list + from + n, (size_t)(t->n - from - n) * sizeof *t->list);
    t->n -= n;
}

void turns_pop(Turns *t) {
    if (t->n) drop(t, t->n - 1, 1);
}

void turns_keep(Turns *t, int n) {
    while (t->n > n) turns_pop(t);
}

int turns_system(Turns *t, const char *text, Error *e) {
    if (t->n && t->list[0].role == ROLE_SYSTEM) drop(t, 0, 1);
    if (!text) return 0;
    if (turns_add(t, ROLE_SYSTEM, strdup(text), strlen(text), e)) return -1;
    Message system = t->list[t->n - 1];
    memmove(t->list + 1, t->list, (size_t)(t->n - 1) * sizeof *t->list);
    t->list[0] = system;
    return 0;
}

int turns_drop_oldest(Turns *t, int from) {
    int first = t->n && t->list[0].role == ROLE_SYSTEM;
    if (first < from) first = from;
    int end = first + 1;
    while (end < t->n && t->list[end].role != ROLE_USER) end++;
    if (end >= t->n) return 0;
    drop(t, first, end - first);
    return end - first;
}

void turns_close(Turns *t) {
    turns_keep(t, 0);
    free(t->list);
    *t = (Turns){0};
}

/* tripwire - --check: the first NaN or infinity of a forward pass, by layer, operation, row and the operand that was
 * already bad. It is a Tap: without the flag nobody watches and nothing is paid. */
#pragma once
#include "model.h"

typedef struct {
    const Model *model;
    const char *path; /* for the message */
    Error found;      /* "" while every number was finite */
} Tripwire;

/* tripwire_set - lets it watch the state. t must stay where it is for as long as s lives. */
void tripwire_set(Tripwire *t, State *s, const Model *m, const char *path);

/* tripwire_check - fails when it has seen one; an unset (zeroed) Tripwire never has. */
int tripwire_check(const Tripwire *t, Error *e);

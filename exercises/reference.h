/* reference.h - what the exercises are judged by. */
#pragma once
#include "plain.h"

enum { EXERCISES = 8, MAX_WRONG = 10 };

/* Wrong - a usual mistake: the function with the mistake in it, and what to tell who made it. */
typedef struct {
    Parts part; /* of which one is set */
    const char *cause;
} Wrong;

extern const Parts reference;
extern const Wrong wrong[EXERCISES][MAX_WRONG]; /* ends with a NULL cause */

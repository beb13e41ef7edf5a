/* message - what one side of a conversation says. */
#pragma once
#include <stddef.h>

typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_COUNT } Role;

typedef struct {
    Role role;
    char *text; /* [n] owned by the caller; what is not UTF-8 in it is shown to the template as U+FFFD */
    size_t n;
} Message;

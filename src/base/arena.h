/* arena - one block of memory handed out in 64-byte aligned pieces, freed as a whole.
 *
 * Used twice with the same code: a counting pass over an Arena without memory adds up what is
 * needed (`base` NULL), then arena_init allocates it and the second pass hands it out. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "error.h"

typedef struct {
    unsigned char *base; /* [size] bytes, 64-byte aligned, zeroed; NULL while counting */
    size_t size, used;   /* bytes */
    bool overflow;       /* a product or the sum did not fit size_t */
} Arena;

/* size_mul, size_add - *out = a op b; false when it does not fit (then *out is SIZE_MAX). */
bool size_mul(size_t *out, size_t a, size_t b);
bool size_add(size_t *out, size_t a, size_t b);

/* arena_init - zeroed memory for `size` bytes. Untouched pages cost nothing. Fails when there is
 * none, or when the counting pass overflowed. `what` names it in the message. */
int arena_init(Arena *a, size_t size, const char *what, Error *e);

/* arena_take - the next count * item_bytes bytes; NULL while counting or when it does not fit. */
void *arena_take(Arena *a, size_t count, size_t item_bytes);

void arena_close(Arena *a);

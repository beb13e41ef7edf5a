#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 };

bool size_mul(size_t *out, size_t a, size_t b) {
    bool ok = !__builtin_mul_overflow(a, b, out);
    if (!ok) *out = SIZE_MAX;
    return ok;
}

bool size_add(size_t *out, size_t a, size_t b) {
    bool ok = !__builtin_add_overflow(a, b, out);
    if (!ok) *out = SIZE_MAX;
    return ok;
}

int arena_init(Arena *a, size_t size, const char *what, Error *e) {
    *a = (Arena){0};
    if (size == 0) size = ALIGNMENT;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return fail(e, "%s: memory: expected %zu MiB free, found less", what, (size >> 20) + 1);
    a->base = p;
    a->size = size;
    return 0;
}

void *arena_take(Arena *a, size_t count, size_t item_bytes) {
    size_t bytes, padded, end;
    if (!size_mul(&bytes, count, item_bytes) || !size_add(&padded, bytes, ALIGNMENT - 1) ||
        !size_add(&end, a->used, padded & ~(size_t)(ALIGNMENT - 1))) {
        a->overflow = true;
        return NULL;
    }
    if (a->base && end > a->size) return NULL;
    void *p = a->base ? a->base + a->used : NULL;
    a->used = end;
    return p;
}

void arena_close(Arena *a) {
    if (a->base) munmap(a->base, a->size);
    *a = (Arena){0};
}

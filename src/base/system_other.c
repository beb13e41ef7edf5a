#if !defined(__linux__) && !defined(__APPLE__)
#include "system.h"

#include <stdint.h>
#include <unistd.h>

size_t system_cores(void) { return 0; }

size_t system_memory(const char *root) {
    (void)root;
    return SIZE_MAX;
}

bool system_random(void *bytes, size_t n) { return getentropy(bytes, n) == 0; }

bool system_dotprod(void) { return false; }

bool system_mapped_at(char *path, size_t room, const void *address) {
    (void)path, (void)room, (void)address;
    return false;
}
#endif

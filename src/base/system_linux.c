#if defined(__linux__)
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cgroup.h"

/* Cores of the mask: two hardware threads share a core's arithmetic, so it counts once, at its first allowed thread. */
static size_t cores_in(const cpu_set_t *mask, size_t bytes) {
    size_t cores = 0, n = 8 * bytes;
    for (size_t cpu = 0; cpu < n; cpu++) {
        if (!CPU_ISSET_S(cpu, bytes, mask)) continue;
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
        size_t first = number_in(path, "%zu", n);
        cores += first >= n || first == cpu || !CPU_ISSET_S(first, bytes, mask);
    }
    return cores;
}

size_t system_cores(void) {
    enum { FIRST = CPU_SETSIZE, MOST = 1 << 20 }; /* the kernel refuses a mask that is shorter than its own */
    size_t cores = 0;
    for (int n = FIRST; n <= MOST && cores == 0; n *= 2) {
        cpu_set_t *mask = CPU_ALLOC(n);
        if (!mask) break;
        bool read = sched_getaffinity(0, CPU_ALLOC_SIZE(n), mask) == 0;
        if (read) cores = cores_in(mask, CPU_ALLOC_SIZE(n));
        CPU_FREE(mask);
        if (!read && errno != EINVAL) break;
    }
    return cores;
}

size_t system_memory(const char *root) {
    char path[1024];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    size_t kib = number_in(path, "MemAvailable: %zu", SIZE_MAX);
    return kib > SIZE_MAX >> 10 ? SIZE_MAX : kib << 10;
}

bool system_random(void *bytes, size_t n) { return getentropy(bytes, n) == 0; }

#if defined(__aarch64__)
bool system_dotprod(void) { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
#else
bool system_dotprod(void) { return false; }
#endif

/* One line a mapping: "from-to rwxp offset device inode    /path", numbers in hexadecimal. */
bool system_mapped_at(char *path, size_t room, const void *address) {
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char line[4096 + 128], c;
    size_t n = 0;
    bool found = false;
    while (fd >= 0 && !found && read(fd, &c, 1) == 1) {
        if (c != '\n') {
            if (n + 1 < sizeof line) line[n++] = c;
            continue;
        }
        line[n] = 0;
        n = 0;
        char *end, *name = strchr(line, '/');
        uintptr_t from = (uintptr_t)strtoull(line, &end, 16);
        uintptr_t to = *end == '-' ? (uintptr_t)strtoull(end + 1, NULL, 16) : 0;
        found = name && (uintptr_t)address >= from && (uintptr_t)address < to && strlen(name) < room;
        if (found) strcpy(path, name);
    }
    if (fd >= 0) close(fd);
    return found;
}
#endif

#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cgroup.h"
#include "system.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t address_space_left(const char *root) {
    char path[1024];
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/proc/self/statm", root); /* its first number is all pages of the process */
    size_t used = number_in(path, "%zu", 0) * (size_t)sysconf(_SC_PAGESIZE);
    return (size_t)limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 0;
}

size_t memory_available(const char *root) {
    return smaller(system_memory(root), smaller(cgroup_memory(root), address_space_left(root)));
}

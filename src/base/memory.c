#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH = 1024 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* The number that the file holds, or the one in the line that begins with `name`; otherwise when there is none, as in a
 * limit of "max". */
static size_t number_in(const char *path, const char *name, size_t otherwise) {
    FILE *f = fopen(path, "r");
    size_t result = otherwise, n = name ? strlen(name) : 0;
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long x;
        if ((name && strncmp(line, name, n) != 0) || sscanf(line + n, "%llu", &x) != 1) continue;
        result = (size_t)x;
        break;
    }
    if (f) fclose(f);
    return result;
}

/* How a version of cgroups names things. */
typedef struct {
    const char *mount, *limit, *usage, *file_pages[2];
} Naming;
static const Naming version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", {"active_file ", "inactive_file "}};
static const Naming version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                 {"total_active_file ", "total_inactive_file "}};

/* What the limit of one group leaves. */
static size_t group_left(const char *root, const Naming *v, const char *group) {
    char file[2 * PATH];
    snprintf(file, sizeof file, "%s%s%s/%s", root, v->mount, group, v->limit);
    size_t limit = number_in(file, NULL, SIZE_MAX);
    if (limit == SIZE_MAX) return SIZE_MAX;
    snprintf(file, sizeof file, "%s%s%s/%s", root, v->mount, group, v->usage);
    size_t used = number_in(file, NULL, 0);
    snprintf(file, sizeof file, "%s%s%s/memory.stat", root, v->mount, group);
    for (int i = 0; i < 2; i++) {
        size_t droppable = number_in(file, v->file_pages[i], 0);
        used -= smaller(used, droppable);
    }
    return limit > used ? limit - used : 0;
}

/* The least that the group and those above it leave. A container may show its own group as the mount's root while its
 * name is the outer one: what is not there is passed over. */
static size_t groups_left(const char *root, const Naming *v, char *group) {
    size_t left = SIZE_MAX;
    for (;;) {
        size_t n = strlen(group);
        while (n && group[n - 1] == '/') group[--n] = 0;
        left = smaller(left, group_left(root, v, group));
        char *slash = strrchr(group, '/');
        if (!slash) return left;
        *slash = 0;
    }
}

/* /proc/self/cgroup: lines "0::/group" (version 2) and "4:memory,x:/group" (version 1). */
static size_t cgroup_left(const char *root) {
    char path[PATH], line[PATH];
    size_t left = SIZE_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (controllers[1] == 0) left = smaller(left, groups_left(root, &version_2, group));
        else if (strstr(controllers, "memory")) left = smaller(left, groups_left(root, &version_1, group));
    }
    if (f) fclose(f);
    return left;
}

static size_t address_space_left(const char *root) {
    char path[PATH];
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/proc/self/statm", root); /* its first number is all pages of the process */
    size_t used = number_in(path, NULL, 0) * (size_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 0;
}

size_t memory_available(const char *root) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    size_t kib = number_in(path, "MemAvailable:", SIZE_MAX);
    size_t left = kib > SIZE_MAX >> 10 ? SIZE_MAX : kib << 10;
    return smaller(left, smaller(cgroup_left(root), address_space_left(root)));
}

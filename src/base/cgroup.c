#include "cgroup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH = 1024 };

size_t number_in(const char *path, const char *format, size_t otherwise) {
    FILE *f = fopen(path, "r");
    size_t x = otherwise;
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, format, &x) == 1) break;
    if (f) fclose(f);
    return x;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* The number in a file of a group's folder. */
static size_t of_group(const char *folder, const char *name, const char *format, size_t otherwise) {
    char file[3 * PATH];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    return number_in(file, format, otherwise);
}

static size_t memory_of(const char *folder, bool v2) {
    static const char *const droppable[2][2] = {{"total_active_file %zu", "total_inactive_file %zu"},
                                                {"active_file %zu", "inactive_file %zu"}};
    size_t limit = of_group(folder, v2 ? "memory.max" : "memory.limit_in_bytes", "%zu", SIZE_MAX);
    if (limit == SIZE_MAX) return SIZE_MAX;
    size_t used = of_group(folder, v2 ? "memory.current" : "memory.usage_in_bytes", "%zu", 0);
    for (int i = 0; i < 2; i++) used -= smaller(used, of_group(folder, "memory.stat", droppable[v2][i], 0));
    return limit > used ? limit - used : 0;
}

static size_t cpus_of(const char *folder, bool v2) {
    size_t quota = of_group(folder, v2 ? "cpu.max" : "cpu.cfs_quota_us", "%zu", SIZE_MAX);
    size_t period = v2 ? of_group(folder, "cpu.max", "%*s %zu", 0) : of_group(folder, "cpu.cfs_period_us", "%zu", 0);
    return quota == SIZE_MAX || period == 0 ? SIZE_MAX : quota / period + (quota % period != 0);
}

/* What a group leaves of something. */
typedef size_t (*Left)(const char *folder, bool v2);

/* The least that the group and those above it leave. A container may show its own group as the mount's root while its
 * name is the outer one: what is not there is passed over. */
static size_t groups_left(const char *mount, char *group, bool v2, Left left_of) {
    char folder[2 * PATH + 64];
    size_t left = SIZE_MAX;
    for (;;) {
        size_t n = strlen(group);
        while (n && group[n - 1] == '/') group[--n] = 0;
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        left = smaller(left, left_of(folder, v2));
        char *slash = strrchr(group, '/');
        if (!slash) return left;
        *slash = 0;
    }
}

/* Is the word one of a list as "cpu,cpuacct"? */
static bool listed(char *list, const char *word) {
    for (char *rest, *w = strtok_r(list, ",", &rest); w; w = strtok_r(NULL, ",", &rest))
        if (strcmp(w, word) == 0) return true;
    return false;
}

/* /proc/self/cgroup: lines "0::/group" (version 2) and "4:memory,x:/group" (version 1). */
static size_t cgroup_left(const char *root, const char *controller, Left left_of) {
    char path[PATH], line[PATH], mount[PATH];
    size_t left = SIZE_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        bool v2 = controllers[1] == 0;
        if (!v2 && !listed(controllers + 1, controller)) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/", v2 ? "" : controller);
        left = smaller(left, groups_left(mount, group, v2, left_of));
    }
    if (f) fclose(f);
    return left;
}

size_t cgroup_memory(const char *root) { return cgroup_left(root, "memory", memory_of); }

size_t cgroup_cpus(const char *root) { return cgroup_left(root, "cpu", cpus_of); }

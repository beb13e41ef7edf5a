/* cgroup - what the control groups (versions 1 and 2) that this process is in, and those above them, leave to it.
 * root stands before /proc and /sys: "" but in tests. */
#pragma once
#include <stddef.h>

/* cgroup_memory - bytes that the memory limits leave (pages of files that the kernel can drop count as free);
 * SIZE_MAX when there is no limit. */
size_t cgroup_memory(const char *root);

/* cgroup_cpus - CPUs' worth of time that the quotas allow, rounded up; SIZE_MAX when there is no quota. */
size_t cgroup_cpus(const char *root);

/* number_in - the number in the first line of a small file of the kernel's that has the format, as "Name: %zu";
 * otherwise when there is none, as in a limit of "max". -1, which stands for no limit too, reads as SIZE_MAX. */
size_t number_in(const char *path, const char *format, size_t otherwise) __attribute__((format(scanf, 2, 0)));

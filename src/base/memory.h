/* memory - how much of it this process may still take. */
#pragma once
#include <stddef.h>

/* memory_available - bytes: the least of what the machine has (Linux: MemAvailable), what the memory limits of the
 * process's cgroup and of those above it leave (version 2 and 1; pages of files that the kernel can drop count as
 * free), and what `ulimit -v` leaves. SIZE_MAX when nothing of that is known. root stands before /proc and /sys: "" but
 * in tests.
 */
size_t memory_available(const char *root);

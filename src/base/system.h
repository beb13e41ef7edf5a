/* system - what is asked of the operating system that POSIX has no call for; one file a system: system_linux.c,
 * system_macos.c and system_other.c. Tests: tests/test_team.c, tests/test_limits.c, tests/test_checkpoint.c */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* system_cores - cores that this process may run on: hardware threads of one core count once, and of cores of two kinds
 * the fast ones count. 0: unknown. */
size_t system_cores(void);

/* system_memory - bytes that the machine has left, pages that it can drop among them; SIZE_MAX: unknown. root stands
 * before /proc: "" but in tests. */
size_t system_memory(const char *root);

/* system_random - n bytes, at most 256, that nobody can foresee; false: there are none. */
bool system_random(void *bytes, size_t n);

/* system_dotprod - has this ARM CPU the dot products of int8 (FEAT_DotProd)? */
bool system_dotprod(void);

/* system_mapped_at - path [room]: of the file that the page at address is mapped from; false: of none, or unknown.
 * Allocates nothing, so that a handler of SIGBUS may call it. */
bool system_mapped_at(char *path, size_t room, const void *address);

/* LIBRARY - the file of a shared library of that name and number of its interface, for dlopen. */
#if defined(__APPLE__)
#define LIBRARY(name, number) "lib" name "." #number ".dylib"
#else
#define LIBRARY(name, number) "lib" name ".so." #number
#endif

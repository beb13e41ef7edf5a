/* clock - time that only goes forward. */
#pragma once
#include <time.h>

/* now - seconds since some moment. */
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

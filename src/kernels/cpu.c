/* cpu - which tables this machine can run, and the choice among them. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

bool mat_is_quantized(const Mat *w) {
    if (w->dtype == DTYPE_Q8_GROUP) return w->group % QK == 0 && w->cols % w->group == 0;
    return dtype_info[w->dtype].int8;
}

static bool usable(const KernelLevel *l, unsigned level) {
    return (l->needs & level) == l->needs && (!l->kernels->usable || l->kernels->usable());
}

void kernels_list(char out[KERNELS_LIST]) {
    int n = 0;
    size_t at = 0;
    while (kernel_levels[n].kernels) n++;
    for (int i = n; i-- > 0 && at < KERNELS_LIST;)
        at += (size_t)snprintf(out + at, KERNELS_LIST - at, "%s%s", kernel_levels[i].kernels->name,
                               i > 1    ? ", "
                               : i == 1 ? " or "
                                        : "");
}

const Kernels *kernels_named(const char *name) {
    unsigned level = cpu_level();
    for (const KernelLevel *l = kernel_levels; l->kernels; l++)
        if (strcmp(l->kernels->name, name) == 0 && usable(l, level)) return l->kernels;
    return NULL;
}

const Kernels *kernels_best(void) {
    static _Atomic(const Kernels *) best; /* a constant of the machine: every thread finds the same */
    const Kernels *k = atomic_load(&best);
    if (k) return k;
    unsigned level = cpu_level();
    const char *wanted = getenv("RUN_CPU");
    const KernelLevel *from = kernel_levels;
    for (const KernelLevel *l = kernel_levels; wanted && l->kernels; l++)
        if (strcmp(l->kernels->name, wanted) == 0) from = l;
    while (!usable(from, level)) from++;
    atomic_store(&best, from->kernels);
    return from->kernels;
}

/* cpu - which tables this machine can run, and the choice among them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

bool mat_is_quantized(const Mat *w) {
    if (w->dtype == DTYPE_Q8_GROUP) return w->group % QK == 0 && w->cols % w->group == 0;
    return dtype_info[w->dtype].int8;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* What the CPU has (cpuid) and the system saves on a switch of threads (xgetbv). */
static unsigned cpu_level(void) {
    unsigned a, b, c, d, a7, b7, c7, d7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    bool ymm = (low & 0x06) == 0x06, zmm = (low & 0xe6) == 0xe6;
    if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return 0;
    bool avx2 = ymm && (c & bit_FMA) && (c & bit_F16C) && (b7 & bit_AVX2);
    if (!avx2) return 0;
    bool avx512 = zmm && (b7 & bit_AVX512F) && (b7 & bit_AVX512BW) && (b7 & bit_AVX512VL) && (b7 & bit_AVX512DQ) &&
                  (c7 & 1u << 11); /* the last is AVX512-VNNI */
    bool avxvnni = __get_cpuid_count(7, 1, &a7, &b7, &c7, &d7) && (a7 & 1u << 4);
    return HAS_AVX2 | (avxvnni ? HAS_AVXVNNI : 0u) | (avx512 ? HAS_AVX512 : 0u);
}
#else
static unsigned cpu_level(void) { return 0; }
#endif

const Kernels *kernels_named(const char *name) {
    unsigned level = cpu_level();
    for (const KernelLevel *l = kernel_levels; l->kernels; l++)
        if (strcmp(l->kernels->name, name) == 0 && (l->needs & level) == l->needs) return l->kernels;
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
    while ((from->needs & level) != from->needs) from++;
    atomic_store(&best, from->kernels);
    return from->kernels;
}

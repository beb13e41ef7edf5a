/* cpu - which tables this machine can run, and the choice among them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

bool mat_is_quantized(const Mat *w) {
    if (w->dtype == DTYPE_Q8_GROUP) return w->group % QK == 0 && w->cols % w->group == 0;
    return dtype_info[w->dtype].block_values > 1;
}

#if defined(__x86_64__)
#include <cpuid.h>

extern const Kernels kernels_avx2, kernels_avxvnni, kernels_avx512;

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
    return 1u | (avxvnni ? 2u : 0) | (avx512 ? 4u : 0);
}

static const Kernels *const tables[] = {&kernels_avx512, &kernels_avxvnni, &kernels_avx2, &kernels_ref};
static const unsigned needs[] = {4, 2, 1, 0};
#else
static unsigned cpu_level(void) { return 0; }
static const Kernels *const tables[] = {&kernels_ref};
static const unsigned needs[] = {0};
#endif

enum { TABLES = sizeof tables / sizeof *tables };

const Kernels *kernels_named(const char *name) {
    unsigned level = cpu_level();
    for (int i = 0; i < TABLES; i++)
        if (strcmp(tables[i]->name, name) == 0 && (needs[i] & level) == needs[i]) return tables[i];
    return NULL;
}

const Kernels *kernels_best(void) {
    static _Atomic(const Kernels *) best; /* a constant of the machine: every thread finds the same */
    const Kernels *k = atomic_load(&best);
    if (k) return k;
    unsigned level = cpu_level();
    const char *wanted = getenv("RUN_CPU");
    int from = 0;
    for (int i = 0; wanted && i < TABLES; i++)
        if (strcmp(tables[i]->name, wanted) == 0) from = i;
    while ((needs[from] & level) != needs[from]) from++;
    atomic_store(&best, tables[from]);
    return tables[from];
}

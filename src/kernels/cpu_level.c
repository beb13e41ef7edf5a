/* cpu_level - what this machine's CPU has, by its architecture. */
#include "base/system.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* What the CPU has (cpuid) and the system saves on a switch of threads (xgetbv). */
unsigned cpu_level(void) {
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

#elif defined(__aarch64__)
unsigned cpu_level(void) { return HAS_NEON | (system_dotprod() ? HAS_DOTPROD : 0u); }

#else
unsigned cpu_level(void) { return 0; }
#endif

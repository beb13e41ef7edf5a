#include "modes/int8_peak.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Sums that do not wait for each other: more than an instruction's latency times its rate. */
enum { SUMS = 12 };

/* What a loop has summed up is used, so that the loop is not left out. */
#define USE(sum)                                                                                                       \
    for (int i = 0; i < SUMS; i++) __asm__ volatile("" : : "x"((sum)[i]))

/* vpdpbusd on 512 bits: 64 multiply-adds. */
__attribute__((target("avx512f,avx512vnni"))) static double loop_avx512(long loops) {
    __m512i sum[SUMS], u = _mm512_set1_epi8(3), s = _mm512_set1_epi8(5);
    for (int i = 0; i < SUMS; i++) sum[i] = _mm512_setzero_si512();
    for (long n = 0; n < loops; n++) {
        __asm__ volatile("" : "+x"(u)); /* another vector each time, as far as the compiler knows */
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], u, s);
    }
#pragma GCC unroll 12
    USE(sum);
    return 64.0 * SUMS * (double)loops;
}

/* The same on 256 bits: 32. */
__attribute__((target("avx2,avxvnni"))) static double loop_avxvnni(long loops) {
    __m256i sum[SUMS], u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(5);
    for (int i = 0; i < SUMS; i++) sum[i] = _mm256_setzero_si256();
    for (long n = 0; n < loops; n++) {
        __asm__ volatile("" : "+x"(u));
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) sum[i] = _mm256_dpbusd_avx_epi32(sum[i], u, s);
    }
#pragma GCC unroll 12
    USE(sum);
    return 32.0 * SUMS * (double)loops;
}

/* vpmaddubsw, vpmaddwd and an addition: 32. */
__attribute__((target("avx2"))) static double loop_avx2(long loops) {
    __m256i sum[SUMS], u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(5), one = _mm256_set1_epi16(1);
    for (int i = 0; i < SUMS; i++) sum[i] = _mm256_setzero_si256();
    for (long n = 0; n < loops; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            __asm__ volatile("" : "+x"(u)); /* or the products would be computed once */
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), one));
        }
    }
#pragma GCC unroll 12
    USE(sum);
    return 32.0 * SUMS * (double)loops;
}
#endif

double int8_peak(const char *level, long loops) {
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0) return loop_avx512(loops);
    if (strcmp(level, "avxvnni") == 0) return loop_avxvnni(loops);
    if (strcmp(level, "avx2") == 0) return loop_avx2(loops);
#else
    (void)level, (void)loops;
#endif
    return 0;
}

#include "modes/int8_peak.h"

#include <string.h>

/* Sums that do not wait for each other: more than an instruction's latency times its rate. */
enum { SUMS = 12 };

/* What a loop has summed up is used, so that the loop is not left out; KIND: the assembler's letter for a vector. */
#define USE(sum)                                                                                                       \
    for (int i = 0; i < SUMS; i++) __asm__ volatile("" : : KIND((sum)[i]))

#if defined(__x86_64__)
#include <immintrin.h>
#define KIND "x"

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

#elif defined(__aarch64__)
#include <arm_neon.h>
#define KIND "w"

/* sdot: 16 multiply-adds. */
__attribute__((target("arch=armv8.2-a+dotprod"))) static double loop_neondot(long loops) {
    int32x4_t sum[SUMS] = {{0}};
    int8x16_t u = vdupq_n_s8(3), s = vdupq_n_s8(5);
    for (long n = 0; n < loops; n++) {
        __asm__ volatile("" : "+w"(u));
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) sum[i] = vdotq_s32(sum[i], u, s);
    }
#pragma GCC unroll 12
    USE(sum);
    return 16.0 * SUMS * (double)loops;
}

/* smull, smull2, addp and sadalp: 16. */
static double loop_neon(long loops) {
    int32x4_t sum[SUMS] = {{0}};
    int8x16_t u = vdupq_n_s8(3), s = vdupq_n_s8(5);
    for (long n = 0; n < loops; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            __asm__ volatile("" : "+w"(u)); /* or the products would be computed once */
            int16x8_t low = vmull_s8(vget_low_s8(u), vget_low_s8(s)), high = vmull_high_s8(u, s);
            sum[i] = vpadalq_s16(sum[i], vpaddq_s16(low, high));
        }
    }
#pragma GCC unroll 12
    USE(sum);
    return 16.0 * SUMS * (double)loops;
}
#endif

double int8_peak(const char *level, long loops) {
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0) return loop_avx512(loops);
    if (strcmp(level, "avxvnni") == 0) return loop_avxvnni(loops);
    if (strcmp(level, "avx2") == 0) return loop_avx2(loops);
#elif defined(__aarch64__)
    if (strcmp(level, "neondot") == 0) return loop_neondot(loops);
    if (strcmp(level, "neon") == 0) return loop_neon(loops);
#else
    (void)level, (void)loops;
#endif
    return 0;
}

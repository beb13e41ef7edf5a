#include "modes/int8_peak.h"

#include <string.h>

/* Sums that do not wait for each other: more than an instruction's latency times its rate. */
enum { SUMS = 12 };

/* loop_LEVEL - so many times SUMS products of a vector V, MACS multiply-adds each; ADD(sum, u, s) is one. The assembler
 * statements, KIND being their letter for a vector, have no instructions: u is another vector each time as far as the
 * compiler knows, or the products would be computed once, and what is summed up is used. */
#define LOOP(LEVEL, TARGET, V, SET, MACS)                                                                              \
    __attribute__((target(TARGET))) static double loop_##LEVEL(long loops) {                                           \
        V sum[SUMS] = {{0}}, u = SET(3), s = SET(5);                                                                   \
        for (long n = 0; n < loops; n++) {                                                                             \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) {                                                  \
                __asm__ volatile("" : "+" KIND(u));                                                                    \
                sum[i] = ADD_##LEVEL(sum[i], u, s);                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) __asm__ volatile("" : : KIND(sum[i]));                 \
        return (double)(MACS)*SUMS * (double)loops;                                                                    \
    }

#if defined(__x86_64__)
#include <immintrin.h>
#define KIND "x"

#define ADD_avx512(sum, u, s)  _mm512_dpbusd_epi32(sum, u, s)
#define ADD_avxvnni(sum, u, s) _mm256_dpbusd_avx_epi32(sum, u, s)
#define ADD_avx2(sum, u, s)    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)))

LOOP(avx512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8, 64) /* vpdpbusd */
LOOP(avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi8, 32)
LOOP(avx2, "avx2", __m256i, _mm256_set1_epi8, 32) /* vpmaddubsw, vpmaddwd and an addition */

#elif defined(__aarch64__)
#include <arm_neon.h>
#define KIND "w"

#define ADD_neondot(sum, u, s) (int8x16_t) vdotq_s32((int32x4_t)(sum), u, s)
#define ADD_neon(sum, u, s)                                                                                            \
    (int8x16_t) vpadalq_s16((int32x4_t)(sum), vpaddq_s16(vmull_s8(vget_low_s8(u), vget_low_s8(s)), vmull_high_s8(u, s)))

LOOP(neondot, "arch=armv8.2-a+dotprod", int8x16_t, vdupq_n_s8, 16) /* sdot */
LOOP(neon, "arch=armv8-a", int8x16_t, vdupq_n_s8, 16)              /* smull, smull2, addp and sadalp */
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

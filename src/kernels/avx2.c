/* avx2 - the kernels for AVX2, FMA and F16C. */
#include "kernels/simd256.h"

/* 32 products of an unsigned and a signed byte, added in fours. The pair sums of maddubs are 16 bits wide:
 * |u| <= 128 and |s| <= 127 stay below 32767, a full-range unsigned byte would saturate. */
static inline __m256i dot_u8s8(__m256i acc, __m256i u, __m256i s) {
    __m256i pairs = _mm256_maddubs_epi16(u, s);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#define HAS_VNNI   0
#define TABLE      kernels_avx2
#define TABLE_NAME "avx2"
#include "kernels/simd_body.h"

/* avx2 - the kernels for AVX2, FMA and F16C. */
#include "kernels/simd256.h"

enum { QTILE_ROWS = 2, Q_VECTORS = 2 };
#include "kernels/lanes8.h"

/* 32 products of an unsigned and a signed byte, added in fours. The pair sums of maddubs are 16 bits wide:
 * |u| <= 128 and |s| <= 127 stay below 32767, a full-range unsigned byte would saturate. */
static inline I8 dot_u8s8(I8 acc, I8 u, I8 s) {
    __m256i pairs = _mm256_maddubs_epi16(u, s);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline I8 dot32_s8s8(I8 acc, I8 w, I8 s) { return dot_u8s8(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(s, w)); }

#define HAS_DOT     0
#define SIGN_OFFSET 0
#define TABLE       kernels_avx2
#define TABLE_NAME  "avx2"
#include "kernels/simd_body.h"

/* avxvnni - the kernels for AVX2 machines with VNNI in 256 bits. */
#include "kernels/simd256.h"

static inline __m256i dot_u8s8(__m256i acc, __m256i u, __m256i s) { return _mm256_dpbusd_avx_epi32(acc, u, s); }

#define HAS_VNNI   1
#define TABLE      kernels_avxvnni
#define TABLE_NAME "avxvnni"
static inline I i_dot(I acc, I u, I s) { return dot_u8s8(acc, u, s); }
#include "kernels/simd_body.h"

/* avxvnni - the kernels for AVX2 machines with VNNI in 256 bits. */
#include "kernels/simd256.h"

enum { QTILE_ROWS = 2, Q_VECTORS = 2 };
#include "kernels/lanes8.h"

static inline I8 dot_u8s8(I8 acc, I8 u, I8 s) { return _mm256_dpbusd_avx_epi32(acc, u, s); }
static inline I8 dot32_s8s8(I8 acc, I8 w, I8 s) { return dot_u8s8(acc, i8_xor(w, i8_set8((char)0x80)), s); }
static inline I i_dot_four(I acc, I u, const int8_t *x, int s) { return dot_u8s8(acc, u, i_set1(dword(x + 4 * s))); }

#define HAS_DOT     1
#define SIGN_OFFSET 128
#define TABLE       kernels_avxvnni
#define TABLE_NAME  "avxvnni"
#include "kernels/simd_body.h"

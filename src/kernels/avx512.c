/* avx512 - the kernels for AVX-512 F, BW, VL, DQ with VNNI. One row of decode stays in 256 bits (memory is the
 * limit there), products of many rows use all 512. */
#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16, TILE_ROWS = 8, TILE_COLS = 32, QTILE_ROWS = 8 };
typedef __m512 V;
typedef __m512i I;

static inline V v_zero(void) { return _mm512_setzero_ps(); }
static inline V v_set1(float x) { return _mm512_set1_ps(x); }
static inline V v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, V x) { _mm512_storeu_ps(p, x); }
static inline V v_add(V a, V b) { return _mm512_add_ps(a, b); }
static inline V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
static inline V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
static inline V v_div(V a, V b) { return _mm512_div_ps(a, b); }
static inline V v_max(V a, V b) { return _mm512_max_ps(a, b); }
static inline V v_min(V a, V b) { return _mm512_min_ps(a, b); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
static inline V v_of_ints(I a) { return _mm512_cvtepi32_ps(a); }
static inline V v_from_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline void v_to_f16(uint16_t *p, V x) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline V v_zero_below(V y, V x, V low) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ), y); }
static inline V v_keep_nan(V y, V x) { return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x); }
static inline V v_scale_exponent(V x, V bits) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(bits), 23)));
}
static inline I i_zero(void) { return _mm512_setzero_si512(); }
static inline I i_set1(int x) { return _mm512_set1_epi32(x); }
static inline I i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline I i_dot(I acc, I u, I s) { return _mm512_dpbusd_epi32(acc, u, s); }

static inline __m256i dot_u8s8(__m256i acc, __m256i u, __m256i s) { return _mm256_dpbusd_epi32(acc, u, s); }

#define HAS_VNNI   1
#define LANES_16   1
#define TABLE      kernels_avx512
#define TABLE_NAME "avx512"
#include "kernels/simd_body.h"

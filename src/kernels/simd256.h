/* simd256 - what simd_body.h is written in, for vectors of 8 floats. */
#pragma once
#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8, TILE_ROWS = 6, TILE_COLS = 16, QTILE_ROWS = 4 };
typedef __m256 V;
typedef __m256i I;

static inline V v_zero(void) { return _mm256_setzero_ps(); }
static inline V v_set1(float x) { return _mm256_set1_ps(x); }
static inline V v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, V x) { _mm256_storeu_ps(p, x); }
static inline V v_add(V a, V b) { return _mm256_add_ps(a, b); }
static inline V v_sub(V a, V b) { return _mm256_sub_ps(a, b); }
static inline V v_mul(V a, V b) { return _mm256_mul_ps(a, b); }
static inline V v_div(V a, V b) { return _mm256_div_ps(a, b); }
static inline V v_max(V a, V b) { return _mm256_max_ps(a, b); }
static inline V v_min(V a, V b) { return _mm256_min_ps(a, b); }
static inline V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
static inline V v_of_ints(I a) { return _mm256_cvtepi32_ps(a); }
static inline V v_from_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void v_to_f16(uint16_t *p, V x) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
/* y, or 0 where x < low */
static inline V v_zero_below(V y, V x, V low) { return _mm256_and_ps(y, _mm256_cmp_ps(x, low, _CMP_GE_OQ)); }
/* y, or NaN where x is NaN */
static inline V v_keep_nan(V y, V x) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
/* x * 2^n, n in the low bits of `bits` */
static inline V v_scale_exponent(V x, V bits) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(bits), 23)));
}
static inline I i_zero(void) { return _mm256_setzero_si256(); }
static inline I i_set1(int x) { return _mm256_set1_epi32(x); }
static inline I i_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

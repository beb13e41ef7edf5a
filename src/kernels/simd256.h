/* simd256 - what simd_body.h is written in, for vectors of 8 floats. */
#pragma once
#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8, TILE_ROWS = 6, TILE_COLS = 16, QTILE_ROWS = 2, Q_VECTORS = 2 };
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
static inline V v_from_s8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
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
static inline void i_store(void *p, I x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline I i_set8(char x) { return _mm256_set1_epi8(x); }
static inline I i_same16(const void *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
static inline I i_and(I a, I b) { return _mm256_and_si256(a, b); }
static inline I i_or(I a, I b) { return _mm256_or_si256(a, b); }
static inline I i_xor(I a, I b) { return _mm256_xor_si256(a, b); }
static inline I i_add(I a, I b) { return _mm256_add_epi32(a, b); }
static inline I i_min(I a, I b) { return _mm256_min_epi32(a, b); }
static inline I i_max(I a, I b) { return _mm256_max_epi32(a, b); }
static inline I i_shuffle8(I a, I b) { return _mm256_shuffle_epi8(a, b); }
static inline I i_unpacklo32(I a, I b) { return _mm256_unpacklo_epi32(a, b); }
static inline I i_unpackhi32(I a, I b) { return _mm256_unpackhi_epi32(a, b); }
static inline I i_unpacklo64(I a, I b) { return _mm256_unpacklo_epi64(a, b); }
static inline I i_unpackhi64(I a, I b) { return _mm256_unpackhi_epi64(a, b); }
#define i_srl16(x, n) _mm256_srli_epi16(x, n)
#define i_sll16(x, n) _mm256_slli_epi16(x, n)
static inline I i_srl32(I x, int n) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_sll32(I x, int n) { return _mm256_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_sra32(I x, int n) { return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_each_dword(int byte) { /* to shuffle by: that byte of each lane's own dword */
    return _mm256_add_epi32(i_same16((const int[4]){0, 0x04040404, 0x08080808, 0x0c0c0c0c}), i_set1(byte));
}
static inline I i_where(I x, I mask, char value) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(x, mask), mask), _mm256_set1_epi8(value));
}
static inline V v_of_bits(I x) { return _mm256_castsi256_ps(x); }
static inline V v_of_f16(I x) {
    x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline __m128i piece(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
static inline I i_pieces(const uint8_t *p, size_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(piece(p)), piece(p + stride), 1);
}
static inline int dword(const uint8_t *p) {
    int x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
}
static inline I i_dwords(const uint8_t *p, size_t s) {
    return _mm256_setr_epi32(dword(p), dword(p + s), dword(p + 2 * s), dword(p + 3 * s), dword(p + 4 * s),
                             dword(p + 5 * s), dword(p + 6 * s), dword(p + 7 * s));
}

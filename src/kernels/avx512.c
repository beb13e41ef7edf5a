/* avx512 - the kernels for AVX-512 F, BW, VL, DQ with VNNI. All of its 512 bits are used but where decode takes f32 and
 * f16, of which 256 already wait for memory. */
#include "kernels/simd256.h"

enum { LANES = 16, TILE_ROWS = 8, TILE_COLS = 32, QTILE_ROWS = 4, Q_VECTORS = 2 };
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
static inline V v_from_s8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
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
static inline void i_store(void *p, I x) { _mm512_storeu_si512(p, x); }
static inline I i_set8(char x) { return _mm512_set1_epi8(x); }
static inline I i_same16(const void *p) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)); }
static inline I i_and(I a, I b) { return _mm512_and_si512(a, b); }
static inline I i_or(I a, I b) { return _mm512_or_si512(a, b); }
static inline I i_xor(I a, I b) { return _mm512_xor_si512(a, b); }
static inline I i_add(I a, I b) { return _mm512_add_epi32(a, b); }
static inline I i_min(I a, I b) { return _mm512_min_epi32(a, b); }
static inline I i_max(I a, I b) { return _mm512_max_epi32(a, b); }
static inline I i_shuffle8(I a, I b) { return _mm512_shuffle_epi8(a, b); }
static inline I i_unpacklo32(I a, I b) { return _mm512_unpacklo_epi32(a, b); }
static inline I i_unpackhi32(I a, I b) { return _mm512_unpackhi_epi32(a, b); }
static inline I i_unpacklo64(I a, I b) { return _mm512_unpacklo_epi64(a, b); }
static inline I i_unpackhi64(I a, I b) { return _mm512_unpackhi_epi64(a, b); }
#define i_srl16(x, n) _mm512_srli_epi16(x, n)
#define i_sll16(x, n) _mm512_slli_epi16(x, n)
static inline I i_srl32(I x, int n) { return _mm512_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_sll32(I x, int n) { return _mm512_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_sra32(I x, int n) { return _mm512_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I i_each_dword(int byte) { /* to shuffle by: that byte of each lane's own dword */
    return _mm512_add_epi32(i_same16((const int[4]){0, 0x04040404, 0x08080808, 0x0c0c0c0c}), i_set1(byte));
}
static inline I i_where(I x, I mask, char value) {
    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(x, mask), value);
}
static inline V v_of_bits(I x) { return _mm512_castsi512_ps(x); }
static inline V v_of_f16(I x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
static inline I i_pair(I8 low, I8 high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
static inline I i_pieces(const uint8_t *p, size_t stride) {
    return i_pair(i8_pieces(p, stride), i8_pieces(p + 2 * stride, stride));
}
static inline I i_dwords(const uint8_t *p, size_t s) { return i_pair(i8_dwords(p, s), i8_dwords(p + 8 * s, s)); }
/* products with the s-th four of x in every lane, added in fours */
static inline I i_dot_four(I acc, I u, const int8_t *x, int s) {
    return _mm512_dpbusd_epi32(acc, u, i_set1(dword(x + 4 * s)));
}

static inline I8 dot_u8s8(I8 acc, I8 u, I8 s) { return _mm256_dpbusd_epi32(acc, u, s); }
static inline I8 dot32_s8s8(I8 acc, I8 w, I8 s) { return dot_u8s8(acc, i8_xor(w, i8_set8((char)0x80)), s); }

#define HAS_DOT     1
#define SIGN_OFFSET 128
#define LANES_16    1
#define TABLE       kernels_avx512
#define TABLE_NAME  "avx512"
#include "kernels/simd_body.h"

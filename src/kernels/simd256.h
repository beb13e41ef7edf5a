/* simd256 - what the kernels are written in, for Intel's vectors of 8 floats or of 32 bytes.
 * neon.h has the same for ARM. */
#pragma once
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A loop of few turns, a constant: neon.h wants it unrolled early. */
#define EACH(i, n)     for (int i = 0; i < (n); i++)
#define IN_MEMORY(x)   __asm__("" : "+m"(x)) /* the compiler forgets what it knows of x */
#define IN_REGISTER(x) __asm__("" : "+x"(x)) /* and does not regroup the sum that x is */

typedef __m256 V8;  /* 8 floats */
typedef __m256i I8; /* 8 int32, 32 bytes */
typedef __m128 V4;
typedef __m128i I4;

static inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }
static inline uint16_t float_to_half(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

static inline V8 v8_zero(void) { return _mm256_setzero_ps(); }
static inline V8 v8_set1(float x) { return _mm256_set1_ps(x); }
static inline V8 v8_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v8_store(float *p, V8 x) { _mm256_storeu_ps(p, x); }
static inline V8 v8_add(V8 a, V8 b) { return _mm256_add_ps(a, b); }
static inline V8 v8_sub(V8 a, V8 b) { return _mm256_sub_ps(a, b); }
static inline V8 v8_mul(V8 a, V8 b) { return _mm256_mul_ps(a, b); }
static inline V8 v8_div(V8 a, V8 b) { return _mm256_div_ps(a, b); }
static inline V8 v8_max(V8 a, V8 b) { return _mm256_max_ps(a, b); }
static inline V8 v8_min(V8 a, V8 b) { return _mm256_min_ps(a, b); }
static inline V8 v8_fma(V8 a, V8 b, V8 c) { return _mm256_fmadd_ps(a, b, c); }
static inline V8 v8_of_ints(I8 a) { return _mm256_cvtepi32_ps(a); }
static inline V8 v8_from_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline V8 v8_from_s8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline void v8_to_f16(uint16_t *p, V8 x) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
/* y, or 0 where x < low */
static inline V8 v8_zero_below(V8 y, V8 x, V8 low) { return _mm256_and_ps(y, _mm256_cmp_ps(x, low, _CMP_GE_OQ)); }
/* y, or NaN where x is NaN */
static inline V8 v8_keep_nan(V8 y, V8 x) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
/* x * 2^n, n in the low bits of `bits` */
static inline V8 v8_scale_exponent(V8 x, V8 bits) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(bits), 23)));
}
static inline I8 i8_zero(void) { return _mm256_setzero_si256(); }
static inline I8 i8_set1(int x) { return _mm256_set1_epi32(x); }
static inline I8 i8_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void i8_store(void *p, I8 x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline I8 i8_set8(char x) { return _mm256_set1_epi8(x); }
static inline I8 i8_same16(const void *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
static inline I8 i8_and(I8 a, I8 b) { return _mm256_and_si256(a, b); }
static inline I8 i8_or(I8 a, I8 b) { return _mm256_or_si256(a, b); }
static inline I8 i8_xor(I8 a, I8 b) { return _mm256_xor_si256(a, b); }
static inline I8 i8_add(I8 a, I8 b) { return _mm256_add_epi32(a, b); }
static inline I8 i8_min(I8 a, I8 b) { return _mm256_min_epi32(a, b); }
static inline I8 i8_max(I8 a, I8 b) { return _mm256_max_epi32(a, b); }
static inline I8 i8_shuffle8(I8 a, I8 b) { return _mm256_shuffle_epi8(a, b); }
static inline I8 i8_unpacklo32(I8 a, I8 b) { return _mm256_unpacklo_epi32(a, b); }
static inline I8 i8_unpackhi32(I8 a, I8 b) { return _mm256_unpackhi_epi32(a, b); }
static inline I8 i8_unpacklo64(I8 a, I8 b) { return _mm256_unpacklo_epi64(a, b); }
static inline I8 i8_unpackhi64(I8 a, I8 b) { return _mm256_unpackhi_epi64(a, b); }
#define i8_srl16(x, n) _mm256_srli_epi16(x, n)
#define i8_sll16(x, n) _mm256_slli_epi16(x, n)
static inline I8 i8_srl32(I8 x, int n) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I8 i8_sll32(I8 x, int n) { return _mm256_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I8 i8_sra32(I8 x, int n) { return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline I8 i8_each_dword(int byte) { /* to shuffle by: that byte of each lane's own dword */
    return _mm256_add_epi32(i8_same16((const int[4]){0, 0x04040404, 0x08080808, 0x0c0c0c0c}), i8_set1(byte));
}
/* value in each byte of which x has the bits of mask, else 0 */
static inline I8 i8_where(I8 x, I8 mask, char value) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(x, mask), mask), _mm256_set1_epi8(value));
}
static inline V8 v8_of_bits(I8 x) { return _mm256_castsi256_ps(x); }
static inline I8 v8_bits(V8 x) { return _mm256_castps_si256(x); }
static inline V8 v8_of_f16(I8 x) { /* of the low halves of the lanes */
    x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline __m128i piece(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
static inline I8 i8_pieces(const uint8_t *p, size_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(piece(p)), piece(p + stride), 1);
}
static inline int dword(const void *p) {
    int x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
}
static inline I8 i8_dwords(const uint8_t *p, size_t s) {
    return _mm256_setr_epi32(dword(p), dword(p + s), dword(p + 2 * s), dword(p + 3 * s), dword(p + 4 * s),
                             dword(p + 5 * s), dword(p + 6 * s), dword(p + 7 * s));
}

/* ---- Of 256 bits at every level: decode, and what is read of a block ------------------------------------ */

static inline V4 v4_load(const float *p) { return _mm_loadu_ps(p); }
static inline void v4_store(float *p, V4 x) { _mm_storeu_ps(p, x); }
static inline V4 v4_set1(float x) { return _mm_set1_ps(x); }
static inline V4 v4_fma(V4 a, V4 b, V4 c) { return _mm_fmadd_ps(a, b, c); }
static inline V4 v4_of_ints(I4 x) { return _mm_cvtepi32_ps(x); }
static inline V4 v8_half(V8 x, int half) { return half ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x); }
static inline I4 i4_load(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void i4_store(void *p, I4 x) { _mm_storeu_si128((__m128i *)p, x); }
static inline I4 i4_set1(int x) { return _mm_set1_epi32(x); }
static inline I4 i4_sub(I4 a, I4 b) { return _mm_sub_epi32(a, b); }
/* each lane's two int16 times those of b, added */
static inline I4 i4_madd16(I4 a, I4 b) { return _mm_madd_epi16(a, b); }
static inline I4 i8_half(I8 x, int half) { return half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x); }
static inline I8 i8_set(int a, int b, int c, int d, int e, int f, int g, int h) {
    return _mm256_setr_epi32(a, b, c, d, e, f, g, h);
}
static inline I8 i8_first(int x) { return _mm256_zextsi128_si256(_mm_cvtsi32_si128(x)); }
static inline I8 i8_firsts(int x, int y) { return _mm256_insert_epi32(i8_first(x), y, 4); } /* of both halves */
static inline I8 i8_low_halves(I8 a, I8 b) { return _mm256_permute2x128_si256(a, b, 0x20); }
static inline I8 i8_high_halves(I8 a, I8 b) { return _mm256_permute2x128_si256(a, b, 0x31); }
/* in each byte: x >> n, of it the bits of mask */
static inline I8 i8_bits_from(I8 x, int n, char mask) {
    return _mm256_and_si256(_mm256_srl_epi16(x, _mm_cvtsi32_si128(n)), _mm256_set1_epi8(mask));
}
/* 0 .. 15 from 16 bytes: the low nibbles, then the high ones */
static inline I8 i8_nibbles(const uint8_t *p) {
    __m256i x = _mm256_srlv_epi32(i8_same16(p), _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}
/* value in byte k where bit k of x is set, else 0 */
static inline I8 i8_where_bit(int x, char value) {
    __m256i bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    __m256i each = _mm256_shuffle_epi8(_mm256_set1_epi32(x), bytes); /* byte k of x in bytes 8 k .. */
    return i8_where(each, _mm256_set1_epi64x((int64_t)0x8040201008040201), value);
}
/* bits i * width .. of x in lane i */
static inline I8 i8_fields(int x, int width) {
    const int w = width;
    __m256i from = _mm256_setr_epi32(0, w, 2 * w, 3 * w, 4 * w, 5 * w, 6 * w, 7 * w);
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(x), from), _mm256_set1_epi32((1 << w) - 1));
}
static inline V8 v8_load_where(const float *p, I8 mask) { return _mm256_maskload_ps(p, mask); }
static inline V8 v8_from_bf16(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(i4_load(p)), 16));
}
static inline V8 v8_of_8_bytes(uint32_t low, uint32_t high) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_setr_epi32((int)low, (int)high, 0, 0)));
}
/* 8 f16, s bytes apart */
static inline V8 v8_of_f16_each(const uint8_t *p, size_t s) {
    short h[8];
    for (int i = 0; i < 8; i++) __builtin_memcpy(h + i, p + (size_t)i * s, 2);
    return _mm256_cvtph_ps(_mm_setr_epi16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]));
}
/* the same, and those that follow each */
static inline V8 v8_of_f16_pairs(V8 *second, const uint8_t *p, size_t s) {
    __m128i low = _mm_setr_epi32(dword(p), dword(p + s), dword(p + 2 * s), dword(p + 3 * s));
    __m128i high = _mm_setr_epi32(dword(p + 4 * s), dword(p + 5 * s), dword(p + 6 * s), dword(p + 7 * s));
    const __m128i half = _mm_set1_epi32(0xffff);
    *second = _mm256_cvtph_ps(_mm_packus_epi32(_mm_srli_epi32(low, 16), _mm_srli_epi32(high, 16)));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm_and_si128(low, half), _mm_and_si128(high, half)));
}
static inline I4 i4_evens_odds(I4 x) { /* of its bytes */
    return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
}
static inline I4 i4_nibbles(I4 x, bool high) {
    return _mm_and_si128(high ? _mm_srli_epi16(x, 4) : x, _mm_set1_epi8(15));
}
static inline V8 v8_of_signed(I4 x, int half) { /* of 8 of its bytes */
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half ? _mm_srli_si128(x, 8) : x));
}
/* scale_3k of all 16, whose 12 bytes are the last of x */
static inline I4 i4_scales_3k(I4 x) {
    x = _mm_srli_si128(x, 4);
    __m128i low = _mm_unpacklo_epi64(x, _mm_srli_epi16(x, 4)), high = _mm_shuffle_epi32(x, 0xaa);
    high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    x = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_slli_epi16(high, 4));
    return _mm_sub_epi8(x, _mm_set1_epi8(32));
}
static inline float v8_sum(V8 x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline V4 v8_sums4(const V8 x[4]) { /* the sum of each */
    __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
static inline int i8_sum(I8 x) {
    __m128i s = _mm_add_epi32(i8_half(x, 0), i8_half(x, 1));
    s = _mm_hadd_epi32(s, s);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(s, s));
}
/* the sum of each x, or of each of its halves */
static inline void i8_sums4(I4 *sums, const I8 x[4], int parts) {
    __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    sums[0] = i8_half(s, 0);
    if (parts == 1) sums[0] = _mm_add_epi32(sums[0], i8_half(s, 1));
    else sums[1] = i8_half(s, 1);
}
#define dot32_u8s8 dot_u8s8 /* which lane has which sum is left to ARM */

/* acc + sums * scale, of all lanes or of each half with its own */
static inline V8 add_32(V8 acc, I8 sums, float scale) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(scale), acc);
}
static inline V8 add_halves(V8 acc, I8 sums, float low, float high) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low)), acc);
}
/* x[j] = 8 values of row j becomes x[i] = values i and i + 4 of the four rows */
static inline void v8_transpose4(V8 x[4]) {
    __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
    x[0] = _mm256_shuffle_ps(a, c, 0x44);
    x[1] = _mm256_shuffle_ps(a, c, 0xee);
    x[2] = _mm256_shuffle_ps(b, d, 0x44);
    x[3] = _mm256_shuffle_ps(b, d, 0xee);
}
/* of 32 floats; as integers magnitudes have the same order, and NaN is the largest */
static inline float largest_magnitude(const V8 v[4]) {
    __m256i largest = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++)
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_set1_epi32(INT32_MAX), _mm256_castps_si256(v[i])));
    __m128i m = _mm_max_epi32(i8_half(largest, 0), i8_half(largest, 1));
    m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(m, _mm_shuffle_epi32(m, 1))));
}
/* q = v * inverse to nearest, and the sums of q's halves */
static inline void round_block(int8_t q[32], int16_t sum[2], const V8 v[4], float inverse) {
    __m256i n[4];
    for (int i = 0; i < 4; i++) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    i8_store(q, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    __m256i pairs = _mm256_hadd_epi32(_mm256_add_epi32(n[0], n[1]), _mm256_add_epi32(n[2], n[3]));
    __m128i s = _mm_add_epi32(i8_half(pairs, 0), i8_half(pairs, 1));
    s = _mm_hadd_epi32(s, s);
    _mm_storeu_si32(sum, _mm_packs_epi32(s, s));
}

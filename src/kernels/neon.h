/* neon - what the kernels are written in, for ARM: each vector of simd256.h, where what a function does is said, is two
 * of NEON's. */
#pragma once
#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QTILE_ROWS = 4, Q_VECTORS = 1 };
/* Arrays of structures are registers where their loops are gone. */
#define EACH(i, n)   _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#define IN_MEMORY(x) ((void)0) /* products take one float of a register as it is */

typedef float32x4_t V4;
typedef int32x4_t I4;
typedef struct {
    V4 lo, hi;
} V8;
typedef struct {
    I4 lo, hi;
} I8;

static inline V4 v4_of_half(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
static inline float half_to_float(uint16_t h) { return vgetq_lane_f32(v4_of_half(vdup_n_u16(h)), 0); }
static inline uint16_t float_to_half(float x) {
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0);
}

/* ---- Floats --------------------------------------------------------------------------------------- */

static inline V4 v4_load(const float *p) { return vld1q_f32(p); }
static inline void v4_store(float *p, V4 x) { vst1q_f32(p, x); }
static inline V4 v4_set1(float x) { return vdupq_n_f32(x); }
static inline V4 v4_fma(V4 a, V4 b, V4 c) { return vfmaq_f32(c, a, b); }
static inline V4 v4_of_ints(I4 x) { return vcvtq_f32_s32(x); }
static inline V8 v8_set1(float x) { return (V8){v4_set1(x), v4_set1(x)}; }
static inline V8 v8_zero(void) { return v8_set1(0); }
static inline V8 v8_load(const float *p) { return (V8){v4_load(p), v4_load(p + 4)}; }
static inline void v8_store(float *p, V8 x) {
    v4_store(p, x.lo);
    v4_store(p + 4, x.hi);
}
static inline V8 v8_add(V8 a, V8 b) { return (V8){a.lo + b.lo, a.hi + b.hi}; }
static inline V8 v8_sub(V8 a, V8 b) { return (V8){a.lo - b.lo, a.hi - b.hi}; }
static inline V8 v8_mul(V8 a, V8 b) { return (V8){a.lo * b.lo, a.hi * b.hi}; }
static inline V8 v8_div(V8 a, V8 b) { return (V8){a.lo / b.lo, a.hi / b.hi}; }
static inline V8 v8_max(V8 a, V8 b) { return (V8){vmaxnmq_f32(a.lo, b.lo), vmaxnmq_f32(a.hi, b.hi)}; }
static inline V8 v8_min(V8 a, V8 b) { return (V8){vminnmq_f32(a.lo, b.lo), vminnmq_f32(a.hi, b.hi)}; }
static inline V8 v8_fma(V8 a, V8 b, V8 c) { return (V8){v4_fma(a.lo, b.lo, c.lo), v4_fma(a.hi, b.hi, c.hi)}; }
static inline V8 v8_of_ints(I8 a) { return (V8){v4_of_ints(a.lo), v4_of_ints(a.hi)}; }
static inline V8 v8_of_bits(I8 x) { return (V8){(V4)x.lo, (V4)x.hi}; }
static inline I8 v8_bits(V8 x) { return (I8){(I4)x.lo, (I4)x.hi}; }
static inline V4 v8_half(V8 x, int half) { return half ? x.hi : x.lo; }
static inline V8 v8_zero_below(V8 y, V8 x, V8 low) {
    return (V8){(V4)((I4)y.lo & (x.lo >= low.lo)), (V4)((I4)y.hi & (x.hi >= low.hi))};
}
static inline V8 v8_keep_nan(V8 y, V8 x) {
    return (V8){vbslq_f32(vceqq_f32(x.lo, x.lo), y.lo, x.lo), vbslq_f32(vceqq_f32(x.hi, x.hi), y.hi, x.hi)};
}
static inline V8 v8_scale_exponent(V8 x, V8 bits) {
    return (V8){(V4)((I4)x.lo + ((I4)bits.lo << 23)), (V4)((I4)x.hi + ((I4)bits.hi << 23))};
}

/* ---- Integers ------------------------------------------------------------------------------------- */

static inline uint8x16_t bytes(const void *p) { return vld1q_u8(p); }
static inline I4 i4_load(const void *p) { return (I4)bytes(p); }
static inline void i4_store(void *p, I4 x) { vst1q_u8(p, (uint8x16_t)x); }
static inline I4 i4_set1(int x) { return vdupq_n_s32(x); }
static inline I4 i4_sub(I4 a, I4 b) { return a - b; }
static inline I4 i4_madd16(I4 a, I4 b) {
    int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
static inline I8 i8_set1(int x) { return (I8){i4_set1(x), i4_set1(x)}; }
static inline I8 i8_zero(void) { return i8_set1(0); }
static inline I8 i8_set(int a, int b, int c, int d, int e, int f, int g, int h) {
    return (I8){{a, b, c, d}, {e, f, g, h}};
}
static inline I8 i8_first(int x) { return i8_set(x, 0, 0, 0, 0, 0, 0, 0); }
static inline I8 i8_firsts(int x, int y) { return i8_set(x, 0, 0, 0, y, 0, 0, 0); }
static inline I8 i8_set8(char x) { return (I8){(I4)vdupq_n_u8((uint8_t)x), (I4)vdupq_n_u8((uint8_t)x)}; }
static inline I8 i8_load(const void *p) { return (I8){i4_load(p), i4_load((const char *)p + 16)}; }
static inline void i8_store(void *p, I8 x) {
    i4_store(p, x.lo);
    i4_store((char *)p + 16, x.hi);
}
static inline I8 i8_same16(const void *p) { return (I8){i4_load(p), i4_load(p)}; }
static inline I8 i8_pieces(const uint8_t *p, size_t stride) { return (I8){i4_load(p), i4_load(p + stride)}; }
static inline int dword(const void *p) {
    int x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
}
static inline I8 i8_dwords(const uint8_t *p, size_t s) {
    return i8_set(dword(p), dword(p + s), dword(p + 2 * s), dword(p + 3 * s), dword(p + 4 * s), dword(p + 5 * s),
                  dword(p + 6 * s), dword(p + 7 * s));
}
static inline I8 i8_and(I8 a, I8 b) { return (I8){a.lo & b.lo, a.hi & b.hi}; }
static inline I8 i8_or(I8 a, I8 b) { return (I8){a.lo | b.lo, a.hi | b.hi}; }
static inline I8 i8_xor(I8 a, I8 b) { return (I8){a.lo ^ b.lo, a.hi ^ b.hi}; }
static inline I8 i8_add(I8 a, I8 b) { return (I8){a.lo + b.lo, a.hi + b.hi}; }
static inline I8 i8_min(I8 a, I8 b) { return (I8){vminq_s32(a.lo, b.lo), vminq_s32(a.hi, b.hi)}; }
static inline I8 i8_max(I8 a, I8 b) { return (I8){vmaxq_s32(a.lo, b.lo), vmaxq_s32(a.hi, b.hi)}; }
static inline I8 i8_sll32(I8 x, int n) { return (I8){x.lo << n, x.hi << n}; }
static inline I8 i8_sra32(I8 x, int n) { return (I8){x.lo >> n, x.hi >> n}; }
static inline I8 i8_srl32(I8 x, int n) { return (I8){(I4)((uint32x4_t)x.lo >> n), (I4)((uint32x4_t)x.hi >> n)}; }
static inline I8 i8_srl16(I8 x, int n) { return (I8){(I4)((uint16x8_t)x.lo >> n), (I4)((uint16x8_t)x.hi >> n)}; }
static inline I8 i8_sll16(I8 x, int n) { return (I8){(I4)((uint16x8_t)x.lo << n), (I4)((uint16x8_t)x.hi << n)}; }
static inline I4 i4_shuffle8(I4 a, I4 b) { return (I4)vqtbl1q_u8((uint8x16_t)a, (uint8x16_t)b); }
static inline I8 i8_shuffle8(I8 a, I8 b) { return (I8){i4_shuffle8(a.lo, b.lo), i4_shuffle8(a.hi, b.hi)}; }
static inline I8 i8_each_dword(int byte) {
    const I4 each = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    return (I8){each + byte, each + byte};
}
static inline I4 i4_where(I4 x, I4 mask, char value) { /* mask: one bit in a byte */
    return (I4)(vtstq_u8((uint8x16_t)x, (uint8x16_t)mask) & (uint8_t)value);
}
static inline I8 i8_where(I8 x, I8 mask, char value) {
    return (I8){i4_where(x.lo, mask.lo, value), i4_where(x.hi, mask.hi, value)};
}
static inline I8 i8_unpacklo32(I8 a, I8 b) { return (I8){vzip1q_s32(a.lo, b.lo), vzip1q_s32(a.hi, b.hi)}; }
static inline I8 i8_unpackhi32(I8 a, I8 b) { return (I8){vzip2q_s32(a.lo, b.lo), vzip2q_s32(a.hi, b.hi)}; }
static inline I4 i4_unpacklo64(I4 a, I4 b) { return (I4)vzip1q_s64((int64x2_t)a, (int64x2_t)b); }
static inline I4 i4_unpackhi64(I4 a, I4 b) { return (I4)vzip2q_s64((int64x2_t)a, (int64x2_t)b); }
static inline I8 i8_unpacklo64(I8 a, I8 b) { return (I8){i4_unpacklo64(a.lo, b.lo), i4_unpacklo64(a.hi, b.hi)}; }
static inline I8 i8_unpackhi64(I8 a, I8 b) { return (I8){i4_unpackhi64(a.lo, b.lo), i4_unpackhi64(a.hi, b.hi)}; }
static inline I8 i8_low_halves(I8 a, I8 b) { return (I8){a.lo, b.lo}; }
static inline I8 i8_high_halves(I8 a, I8 b) { return (I8){a.hi, b.hi}; }

/* ---- What is read of a block ------------------------------------------------------------------------ */

static inline V8 v8_of_halves(uint16x8_t h) { return (V8){v4_of_half(vget_low_u16(h)), v4_of_half(vget_high_u16(h))}; }
static inline V8 v8_from_f16(const uint16_t *p) { return v8_of_halves((uint16x8_t)bytes(p)); }
static inline V8 v8_of_signed(I4 x, int half) {
    int16x8_t y = half ? vmovl_high_s8((int8x16_t)x) : vmovl_s8(vget_low_s8((int8x16_t)x));
    return (V8){v4_of_ints(vmovl_s16(vget_low_s16(y))), v4_of_ints(vmovl_high_s16(y))};
}
static inline V8 v8_from_s8(const int8_t *p) { return v8_of_signed((I4)vcombine_s8(vld1_s8(p), vdup_n_s8(0)), 0); }
static inline void v8_to_f16(uint16_t *p, V8 x) {
    vst1q_u8((uint8_t *)p, (uint8x16_t)vcombine_f16(vcvt_f16_f32(x.lo), vcvt_f16_f32(x.hi)));
}
static inline V8 v8_of_f16(I8 x) { return v8_of_halves(vuzp1q_u16((uint16x8_t)x.lo, (uint16x8_t)x.hi)); }
static inline V8 v8_from_bf16(const uint8_t *p) {
    uint16x8_t h = (uint16x8_t)bytes(p);
    return (V8){(V4)vshll_n_u16(vget_low_u16(h), 16), (V4)vshll_high_n_u16(h, 16)};
}
static inline V8 v8_of_f16_each(const uint8_t *p, size_t s) {
    uint16_t h[8];
    for (int i = 0; i < 8; i++) __builtin_memcpy(h + i, p + (size_t)i * s, sizeof *h);
    return v8_of_halves((uint16x8_t){h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]});
}
static inline V8 v8_of_f16_pairs(V8 *second, const uint8_t *p, size_t s) {
    I8 x = i8_dwords(p, s);
    *second = v8_of_halves(vuzp2q_u16((uint16x8_t)x.lo, (uint16x8_t)x.hi));
    return v8_of_f16(x);
}
static inline V8 v8_of_8_bytes(uint32_t low, uint32_t high) {
    uint16x8_t x = vmovl_u8(vcreate_u8((uint64_t)high << 32 | low));
    return (V8){vcvtq_f32_u32(vmovl_u16(vget_low_u16(x))), vcvtq_f32_u32(vmovl_high_u16(x))};
}
static inline V8 v8_load_where(const float *p, I8 mask) { return v8_of_bits(i8_and(i8_load(p), mask)); }
static inline I8 i8_bits_from(I8 x, int n, char mask) {
    uint8_t left = (uint8_t)(0xff >> n), m = (uint8_t)mask;
    I8 y = {(I4)((uint8x16_t)x.lo >> n), (I4)((uint8x16_t)x.hi >> n)};
    return m == left ? y : i8_and(y, i8_set8(mask));
}
static inline I8 i8_nibbles(const uint8_t *p) { return (I8){(I4)(bytes(p) & 15), (I4)(bytes(p) >> 4)}; }
static inline I8 i8_where_bit(int x, char value) {
    const uint8x16_t two = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const I4 mask = (I4)vdupq_n_u64(0x8040201008040201);
    I4 all = i4_set1(x), low = i4_shuffle8(all, (I4)two), high = i4_shuffle8(all, (I4)(two + 2));
    return (I8){i4_where(low, mask, value), i4_where(high, mask, value)};
}
static inline I8 i8_fields(int x, int width) {
    const I4 lane = {0, 1, 2, 3};
    const uint32x4_t all = vdupq_n_u32((uint32_t)x), mask = vdupq_n_u32((1u << width) - 1);
    return (I8){(I4)(vshlq_u32(all, lane * -width) & mask), (I4)(vshlq_u32(all, (lane + 4) * -width) & mask)};
}
static inline I4 i4_evens_odds(I4 x) {
    const uint8x16_t from = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    return i4_shuffle8(x, (I4)from);
}
static inline I4 i4_nibbles(I4 x, bool high) { return (I4)(high ? (uint8x16_t)x >> 4 : (uint8x16_t)x & 15); }
static inline I4 i4_scales_3k(I4 x) {
    const I4 each = {0, -2, -4, -6};
    uint8x16_t low = vextq_u8((uint8x16_t)x, (uint8x16_t)x, 4);
    low = (uint8x16_t)i4_unpacklo64((I4)(low & 15), (I4)(low >> 4));
    uint8x16_t high = (uint8x16_t)vshlq_u32(vdupq_n_u32((uint32_t)x[3]), each) & 3;
    return (I4)((low | high << 4) - 32);
}

/* ---- Decode: sums over lanes ------------------------------------------------------------------------ */

static inline float v8_sum(V8 x) { return vaddvq_f32(x.lo + x.hi); }
static inline V4 v8_sums4(const V8 x[4]) {
    return vpaddq_f32(vpaddq_f32(x[0].lo + x[0].hi, x[1].lo + x[1].hi),
                      vpaddq_f32(x[2].lo + x[2].hi, x[3].lo + x[3].hi));
}
static inline int i8_sum(I8 x) { return vaddvq_s32(x.lo + x.hi); }
static inline void i8_sums4(I4 *sums, const I8 x[4], int parts) {
    sums[0] = vpaddq_s32(vpaddq_s32(x[0].lo, x[1].lo), vpaddq_s32(x[2].lo, x[3].lo));
    if (parts == 2) sums[1] = vpaddq_s32(vpaddq_s32(x[0].hi, x[1].hi), vpaddq_s32(x[2].hi, x[3].hi));
}
static inline V8 add_32(V8 acc, I8 sums, float scale) {
    return (V8){vfmaq_n_f32(acc.lo, v4_of_ints(sums.lo), scale), acc.hi};
}
static inline V8 add_halves(V8 acc, I8 sums, float low, float high) {
    return (V8){vfmaq_n_f32(acc.lo, v4_of_ints(sums.lo), low), vfmaq_n_f32(acc.hi, v4_of_ints(sums.hi), high)};
}
static inline void v4_transpose4(V4 *a, V4 *b, V4 *c, V4 *d) {
    I4 x = (I4)vtrn1q_f32(*a, *b), y = (I4)vtrn2q_f32(*a, *b), z = (I4)vtrn1q_f32(*c, *d), w = (I4)vtrn2q_f32(*c, *d);
    *a = (V4)i4_unpacklo64(x, z);
    *b = (V4)i4_unpacklo64(y, w);
    *c = (V4)i4_unpackhi64(x, z);
    *d = (V4)i4_unpackhi64(y, w);
}
static inline void v8_transpose4(V8 x[4]) {
    v4_transpose4(&x[0].lo, &x[1].lo, &x[2].lo, &x[3].lo);
    v4_transpose4(&x[0].hi, &x[1].hi, &x[2].hi, &x[3].hi);
}

/* ---- Activations in 8 bits -------------------------------------------------------------------------- */

static inline float largest_magnitude(const V8 v[4]) {
    I4 largest = i4_set1(0);
    for (int i = 0; i < 4; i++) largest = vmaxq_s32(vmaxq_s32(largest, (I4)vabsq_f32(v[i].lo)), (I4)vabsq_f32(v[i].hi));
    return vgetq_lane_f32((V4)i4_set1(vmaxvq_s32(largest)), 0);
}
static inline int16x8_t round_8(V8 x, float inverse) {
    int16x8_t lo = (int16x8_t)vcvtnq_s32_f32(x.lo * inverse), hi = (int16x8_t)vcvtnq_s32_f32(x.hi * inverse);
    return vuzp1q_s16(lo, hi);
}
static inline void round_block(int8_t q[32], int16_t sum[2], const V8 v[4], float inverse) {
    for (int half = 0; half < 2; half++) {
        int16x8_t a = round_8(v[2 * half], inverse), b = round_8(v[2 * half + 1], inverse);
        vst1q_s8(q + 16 * half, vuzp1q_s8((int8x16_t)a, (int8x16_t)b));
        sum[half] = vaddvq_s16(a + b);
    }
}

/* ---- Products of bytes: signed ones, and unsigned ones below 128 --------------------------------------- */

static inline I4 i4_dot(I4 acc, I4 w, I4 s) { /* added in fours */
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(acc, (int8x16_t)w, (int8x16_t)s);
#else
    int8x16_t a = (int8x16_t)w, b = (int8x16_t)s; /* two products fit into 16 bits: -128 * 127 * 2 */
    return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b)));
#endif
}
static inline I8 dot_u8s8(I8 acc, I8 u, I8 s) { return (I8){i4_dot(acc.lo, u.lo, s.lo), i4_dot(acc.hi, u.hi, s.hi)}; }

/* dot_u8s8 with the s-th four of x in every lane. */
static inline I4 i4_dot_four(I4 acc, I4 w, I4 x, int s) {
#ifdef __ARM_FEATURE_DOTPROD
    switch (s % 4) {
    case 0: return vdotq_laneq_s32(acc, (int8x16_t)w, (int8x16_t)x, 0);
    case 1: return vdotq_laneq_s32(acc, (int8x16_t)w, (int8x16_t)x, 1);
    case 2: return vdotq_laneq_s32(acc, (int8x16_t)w, (int8x16_t)x, 2);
    default: return vdotq_laneq_s32(acc, (int8x16_t)w, (int8x16_t)x, 3);
    }
#else
    return i4_dot(acc, w, i4_set1(x[s % 4]));
#endif
}
static inline I8 i_dot_four(I8 acc, I8 w, const int8_t *x, int s) {
    I4 each = i4_load(x + s / 4 * 16);
    return (I8){i4_dot_four(acc.lo, w.lo, each, s), i4_dot_four(acc.hi, w.hi, each, s)};
}

/* All 32 in the first four lanes. */
static inline I8 dot32_s8s8(I8 acc, I8 w, I8 s) {
#ifdef __ARM_FEATURE_DOTPROD
    return (I8){i4_dot(i4_dot(acc.lo, w.lo, s.lo), w.hi, s.hi), acc.hi};
#else
    int8x16_t a = (int8x16_t)w.lo, b = (int8x16_t)s.lo, c = (int8x16_t)w.hi, d = (int8x16_t)s.hi;
    int16x8_t x = vmlal_high_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), a, b);
    int16x8_t y = vmlal_high_s8(vmull_s8(vget_low_s8(c), vget_low_s8(d)), c, d);
    return (I8){vpadalq_s16(vpadalq_s16(acc.lo, x), y), acc.hi};
#endif
}
#define dot32_u8s8 dot32_s8s8

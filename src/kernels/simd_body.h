/* simd_body - the kernels, compiled once for each instruction set by avx2.c, avxvnni.c, avx512.c, which define
 * the vector V of LANES floats, I of LANES int32, dot_u8s8, HAS_VNNI (then also i_dot) and TABLE. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE       static inline __attribute__((always_inline))
#define IN_MEMORY(x) __asm__("" : "+m"(x)) /* the compiler forgets what it knows of x */

/* ---- Elementwise ------------------------------------------------------------------------------- */

/* e^x as 2^n * e^r with |r| <= ln 2 / 2, where a polynomial of degree 7 is exact to a rounding. ln 2 is taken
 * off in two parts, the first with few enough bits that n times it is exact (Cody & Waite; coefficients as in
 * Cephes' expf). Below the smallest normal number the result is 0, above 88.37 that of 88.37; NaN stays NaN. */
INLINE V v_exp(V x) {
    const V low = v_set1(-87.33654f), magic = v_set1(12582912.f); /* 1.5 * 2^23: adding it rounds to integers */
    V clamped = v_min(v_set1(88.37626f), v_max(low, x));
    V shifted = v_fma(clamped, v_set1(1.44269504f), magic);
    V n = v_sub(shifted, magic);
    V r = v_fma(n, v_set1(-0.693359375f), clamped);
    r = v_fma(n, v_set1(2.12194440e-4f), r);
    V p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set1(1));
    return v_keep_nan(v_zero_below(v_scale_exponent(p, shifted), x, low), x);
}

INLINE V v_sigmoid(V x) { return v_div(v_set1(1), v_add(v_set1(1), v_exp(v_sub(v_zero(), x)))); }

INLINE float v_sum(V x) {
    float lane[LANES], sum = 0;
    v_store(lane, x);
    for (int i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

INLINE float v_largest(V x) {
    float lane[LANES], max;
    v_store(lane, x);
    max = lane[0];
    for (int i = 1; i < LANES; i++) max = lane[i] > max ? lane[i] : max;
    return max;
}

static void exps(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_exp(v_load(x + i)));
    if (i == n) return;
    float rest[LANES] = {0};
    memcpy(rest, x + i, (n - i) * sizeof *x);
    v_store(rest, v_exp(v_load(rest)));
    memcpy(y + i, rest, (n - i) * sizeof *x);
}

INLINE V v_swiglu(V gate, V up) { return v_mul(v_mul(gate, v_sigmoid(gate)), up); }

static void swiglu(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(gate + i, v_swiglu(v_load(gate + i), v_load(up + i)));
    if (i == n) return;
    float g[LANES] = {0}, u[LANES] = {0};
    memcpy(g, gate + i, (n - i) * sizeof *g);
    memcpy(u, up + i, (n - i) * sizeof *u);
    v_store(g, v_swiglu(v_load(g), v_load(u)));
    memcpy(gate + i, g, (n - i) * sizeof *g);
}

/* gelu_tanh: (1 + tanh u) / 2 is the sigmoid of 2u. */
INLINE V v_gelu(V x) {
    V cubed = v_mul(v_mul(x, x), x);
    V u = v_mul(v_fma(cubed, v_set1(0.044715f), x), v_set1(2 * 0.7978845608028654f));
    return v_mul(x, v_sigmoid(u));
}

static void gelu(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(x + i, v_gelu(v_load(x + i)));
    if (i == n) return;
    float rest[LANES] = {0};
    memcpy(rest, x + i, (n - i) * sizeof *x);
    v_store(rest, v_gelu(v_load(rest)));
    memcpy(x + i, rest, (n - i) * sizeof *x);
}

static float sum_squares(const float *x, int n) {
    V sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            V v = v_load(x + i + j * LANES);
            sum[j] = v_fma(v, v, sum[j]);
        }
    double total = (double)v_sum(sum[0]) + (double)v_sum(sum[1]) + (double)v_sum(sum[2]) + (double)v_sum(sum[3]);
    for (; i < n; i++) total += (double)x[i] * (double)x[i];
    return (float)total;
}

static void from_f16(float *y, const uint16_t *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_from_f16(x + i));
    for (; i < n; i++) y[i] = _cvtsh_ss(x[i]);
}

static void to_f16(uint16_t *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_to_f16(y + i, v_load(x + i));
    for (; i < n; i++) y[i] = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

static float softmax_step(float *s, int valid, int n, float *max, float *total) {
    for (int i = valid; i < n; i++) s[i] = -3e38f; /* e^that is 0 */
    V largest = v_set1(*max);
    int i = 0;
    for (; i + LANES <= n; i += LANES) largest = v_max(largest, v_load(s + i));
    float larger = v_largest(largest);
    for (; i < n; i++) larger = s[i] > larger ? s[i] : larger;
    float change = *max - larger, keep = 1;
    if (change < 0) exps(&keep, &change, 1);
    V minus = v_set1(-larger), sum = v_zero();
    float rest = 0;
    for (i = 0; i + LANES <= n; i += LANES) {
        V e = v_exp(v_add(v_load(s + i), minus));
        v_store(s + i, e);
        sum = v_add(sum, e);
    }
    for (; i < n; i++) {
        s[i] -= larger;
        exps(s + i, s + i, 1);
        rest += s[i];
    }
    *max = larger;
    *total = *total * keep + v_sum(sum) + rest;
    return keep;
}

INLINE int sum_of(const int16_t *half) { return half[0] + half[1]; }

static void quantize(int8_t *q, float *d, int16_t (*sum)[2], float *weight_of_min, int step, const float *x,
                     int blocks) {
    const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
    for (int b = 0; b < blocks; b++, q += step * QK, d += step, sum += step, weight_of_min += step, x += QK) {
        __m256 v[4];
        __m256i largest = _mm256_setzero_si256();
        for (int i = 0; i < 4; i++) { /* as integers magnitudes have the same order, and NaN is the largest */
            v[i] = _mm256_loadu_ps(x + 8 * i);
            largest = _mm256_max_epi32(largest, _mm256_and_si256(magnitude, _mm256_castps_si256(v[i])));
        }
        __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
        m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
        float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(m, _mm_shuffle_epi32(m, 1))));
        if (!(max <= FLT_MAX)) { /* infinite or NaN: no product with it may look like a value */
            memset(q, 0, QK);
            *d = *weight_of_min = NAN;
            memset(sum, 0, sizeof *sum);
            continue;
        }
        *d = max / 127;
        __m256 inverse = _mm256_set1_ps(127 / max <= FLT_MAX ? 127 / max : 0); /* 0, and what is as good as 0 */
        __m256i n[4];
        for (int i = 0; i < 4; i++) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(void *)q, bytes);
        __m256i pairs = _mm256_hadd_epi32(_mm256_add_epi32(n[0], n[1]), _mm256_add_epi32(n[2], n[3]));
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        s = _mm_hadd_epi32(s, s);
        _mm_storeu_si32(sum, _mm_packs_epi32(s, s));
        *weight_of_min = *d * (float)sum_of(*sum);
    }
}

/* ---- Reading weights: one row's piece of whatever type ----------------------------------------- */

INLINE uint16_t u16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

INLINE int u32_at(const uint8_t *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE const uint8_t *row_of(const Mat *w, int r) { return (const uint8_t *)w->data + (size_t)r * w->stride_bytes; }

/* What a quantized type's integers are. t is a constant wherever these are called, and they vanish. */
INLINE bool is_quantized(DType t) { return t != DTYPE_F32 && t != DTYPE_F16 && t != DTYPE_BF16; }
INLINE bool is_k(DType t) { return t == DTYPE_Q4_K || t == DTYPE_Q5_K || t == DTYPE_Q6_K; }
INLINE bool is_signed(DType t) { return t == DTYPE_Q8_0 || t == DTYPE_Q8_GROUP; } /* bytes; else 0 .. 2^bits - 1 */
INLINE int bits_of(DType t) {
    return t == DTYPE_Q5_0 || t == DTYPE_Q5_1 || t == DTYPE_Q5_K ? 5 : t == DTYPE_Q6_K ? 6 : is_signed(t) ? 8 : 4;
}
INLINE bool has_min(DType t) { return t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K; }
/* What stands for 0 in a type without a minimum. */
INLINE int zero_of(DType t) { return t == DTYPE_Q4_0 ? 8 : t == DTYPE_Q5_0 ? 16 : t == DTYPE_Q6_K ? 32 : 0; }

/* Bytes of 8 blocks of 32 values, which the K types keep together. */
INLINE int bytes_of_8(DType t) {
    switch (t) {
    case DTYPE_Q8_0: return 8 * (int)sizeof(BlockQ8_0);
    case DTYPE_Q4_0: return 8 * (int)sizeof(BlockQ4_0);
    case DTYPE_Q4_1: return 8 * (int)sizeof(BlockQ4_1);
    case DTYPE_Q5_0: return 8 * (int)sizeof(BlockQ5_0);
    case DTYPE_Q5_1: return 8 * (int)sizeof(BlockQ5_1);
    case DTYPE_Q4_K: return (int)sizeof(BlockQ4_K);
    case DTYPE_Q5_K: return (int)sizeof(BlockQ5_K);
    case DTYPE_Q6_K: return (int)sizeof(BlockQ6_K);
    default: return 8 * QK;
    }
}

/* Where the 32 values of block b of row r lie: in a block of their own, or in one of 256 together with 7 others. */
INLINE const uint8_t *block_of(const Mat *w, int r, int b, DType t) {
    return row_of(w, r) + (is_k(t) ? (size_t)(b / 8 * bytes_of_8(t)) : (size_t)b * (size_t)(bytes_of_8(t) / 8));
}

INLINE __m256i load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* 0 .. 15 from 16 bytes: the low nibbles, then the high ones. */
INLINE __m256i nibbles(const uint8_t *p) {
    __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    x = _mm256_srlv_epi32(x, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

/* 0 .. 15 from 32 bytes: all low nibbles or all high ones. */
INLINE __m256i nibbles_of_32(const uint8_t *p, bool high) {
    __m256i x = load32(p);
    return _mm256_and_si256(high ? _mm256_srli_epi16(x, 4) : x, _mm256_set1_epi8(15));
}

/* 16 in each byte of which x has the bits of mask, else 0. */
INLINE __m256i fifth_bit(__m256i x, __m256i mask) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(x, mask), mask), _mm256_set1_epi8(16));
}

/* The 32 integers of block b of its row; p is block_of() it. */
INLINE __m256i block_ints(const uint8_t *p, int b, DType t) {
    const int i = b % 8;
    switch (t) {
    case DTYPE_Q8_0: return load32(p + offsetof(BlockQ8_0, q));
    case DTYPE_Q4_0: return nibbles(p + offsetof(BlockQ4_0, q));
    case DTYPE_Q4_1: return nibbles(p + offsetof(BlockQ4_1, q));
    case DTYPE_Q5_0:
    case DTYPE_Q5_1: {
        p += t == DTYPE_Q5_0 ? offsetof(BlockQ5_0, high) : offsetof(BlockQ5_1, high);
        __m256i bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        __m256i high = _mm256_shuffle_epi8(_mm256_set1_epi32(u32_at(p)), bytes); /* byte k of it beside values 8 k .. */
        return _mm256_or_si256(nibbles(p + 4), fifth_bit(high, _mm256_set1_epi64x((int64_t)0x8040201008040201)));
    }
    case DTYPE_Q4_K: return nibbles_of_32(p + offsetof(BlockQ4_K, q) + i / 2 * QK, i % 2);
    case DTYPE_Q5_K: {
        __m256i high = fifth_bit(load32(p + offsetof(BlockQ5_K, high)), _mm256_set1_epi8((char)(1 << i)));
        return _mm256_or_si256(nibbles_of_32(p + offsetof(BlockQ5_K, q) + i / 2 * QK, i % 2), high);
    }
    case DTYPE_Q6_K: {
        const int half = i / 4, j = i % 4;
        __m256i x = load32(p + offsetof(BlockQ6_K, high) + half * QK);
        x = j == 0 ? _mm256_slli_epi16(x, 4) : j == 1 ? _mm256_slli_epi16(x, 2) : j == 2 ? x : _mm256_srli_epi16(x, 2);
        x = _mm256_and_si256(x, _mm256_set1_epi8(0x30));
        return _mm256_or_si256(nibbles_of_32(p + half * 64 + j % 2 * QK, j / 2), x);
    }
    default: return load32(p);
    }
}

INLINE float group_scale(const Mat *w, int r, int b) {
    size_t at = ((size_t)r * (size_t)w->cols + (size_t)b * QK) / (size_t)w->group;
    float d;
    memcpy(&d, (const char *)w->scales + at * sizeof d, sizeof d);
    return d;
}

/* Scale of block b of row r, and its minimum where the type has one. Not for Q6_K, which has two. */
INLINE float block_scale(float *min, const Mat *w, int r, int b, DType t) {
    const uint8_t *p = block_of(w, r, b, t);
    *min = 0;
    if (t == DTYPE_Q8_GROUP) return group_scale(w, r, b);
    float d = _cvtsh_ss(u16_at(p));
    if (!has_min(t)) return d;
    *min = _cvtsh_ss(u16_at(p + 2));
    if (!is_k(t)) return d;
    int scale, of_min;
    scale_min_k(&scale, &of_min, p + offsetof(BlockQ4_K, scales), b % 8);
    *min *= -(float)of_min;
    return d * (float)scale;
}

/* Scales of the 8 blocks from block b of row r, and their minima. */
INLINE __m256 block_scales(__m256 *min, const Mat *w, int r, int b, DType t) {
    const int s = bytes_of_8(t) / 8;
    const uint8_t *p = block_of(w, r, b, t);
    if (t == DTYPE_Q8_GROUP) {
        float d[8];
        for (int i = 0; i < 8; i++) d[i] = group_scale(w, r, b + i);
        return _mm256_loadu_ps(d);
    }
    if (is_k(t)) { /* scale_min_k of all 8 */
        const uint32_t two = 0x03030303, four = 0x0f0f0f0f, six = 0x3f3f3f3f;
        uint32_t x = (uint32_t)u32_at(p + 4), y = (uint32_t)u32_at(p + 8), z = (uint32_t)u32_at(p + 12);
        __m128i scale = _mm_setr_epi32((int)(x & six), (int)((z & four) | (x >> 6 & two) << 4), 0, 0);
        __m128i of_min = _mm_setr_epi32((int)(y & six), (int)((z >> 4 & four) | (y >> 6 & two) << 4), 0, 0);
        *min =
            _mm256_mul_ps(_mm256_set1_ps(-_cvtsh_ss(u16_at(p + 2))), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(of_min)));
        return _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(u16_at(p))), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(scale)));
    }
    if (has_min(t)) { /* the minimum follows the scale */
        __m128i low = _mm_setr_epi32(u32_at(p), u32_at(p + s), u32_at(p + 2 * s), u32_at(p + 3 * s));
        __m128i high = _mm_setr_epi32(u32_at(p + 4 * s), u32_at(p + 5 * s), u32_at(p + 6 * s), u32_at(p + 7 * s));
        const __m128i half = _mm_set1_epi32(0xffff);
        *min = _mm256_cvtph_ps(_mm_packus_epi32(_mm_srli_epi32(low, 16), _mm_srli_epi32(high, 16)));
        return _mm256_cvtph_ps(_mm_packus_epi32(_mm_and_si128(low, half), _mm_and_si128(high, half)));
    }
    __m256 d = _mm256_cvtph_ps(_mm_setr_epi16(
        (short)u16_at(p), (short)u16_at(p + s), (short)u16_at(p + 2 * s), (short)u16_at(p + 3 * s),
        (short)u16_at(p + 4 * s), (short)u16_at(p + 5 * s), (short)u16_at(p + 6 * s), (short)u16_at(p + 7 * s)));
    *min = _mm256_mul_ps(d, _mm256_set1_ps((float)-zero_of(t)));
    return d;
}

/* The two scales of each of 8 blocks of Q6_K: those of their first halves, those of their second. */
INLINE void scales_of_16(__m256 scale[2], const uint8_t *p) {
    const __m128i halves = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + offsetof(BlockQ6_K, scales)));
    __m256 d = _mm256_set1_ps(_cvtsh_ss(u16_at(p + offsetof(BlockQ6_K, d))));
    bytes = _mm_shuffle_epi8(bytes, halves);
    scale[0] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    scale[1] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}

/* 8 values of an unquantized type as f32. */
INLINE __m256 floats8(const uint8_t *p, DType t) {
    if (t == DTYPE_F32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (t == DTYPE_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

INLINE float float_at(const uint8_t *p, DType t) {
    if (t == DTYPE_F16) return _cvtsh_ss(u16_at(p));
    uint32_t bits = t == DTYPE_BF16 ? (uint32_t)u16_at(p) << 16 : 0;
    float f;
    memcpy(&f, t == DTYPE_F32 ? (const void *)p : (const void *)&bits, sizeof f);
    return f;
}

/* ---- Decode: a few weight rows times one row of activations ------------------------------------- */

INLINE float sum8(__m256 x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* out[j] = the sum of x[j] */
INLINE void sums8(float *out, const __m256 *x, int n) {
    if (n == 4) {
        __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
        _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
    } else {
        for (int j = 0; j < n; j++) out[j] = sum8(x[j]);
    }
}

/* Decode takes R rows that lie `step` rows apart, each the head of a stream through memory: several streams, and each
 * asking for its lines some way ahead, are what one core needs to use the memory's whole rate. */
enum { AHEAD_BYTES = 1024 };

INLINE void prefetch_ahead(const uint8_t *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + AHEAD_BYTES + i, _MM_HINT_T0);
}

/* What is taken off every weight's integer in a product, put right by the sum of the activations: what the type takes
 * off them, or what makes bytes unsigned for VNNI. */
INLINE int offset_of(DType t) { return is_signed(t) ? (HAS_VNNI ? 128 : 0) : zero_of(t); }

/* start + products of the 32 integers of block b of row r, without their offset, with q; a lane sums four. */
INLINE __m256i block_dot(__m256i start, const Mat *w, int r, int b, __m256i q, DType t) {
    __m256i v = block_ints(block_of(w, r, b, t), b, t);
    if (!is_signed(t)) return dot_u8s8(start, v, q);
#if HAS_VNNI
    return dot_u8s8(start, _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80)), q);
#else
    return dot_u8s8(start, _mm256_abs_epi8(v), _mm256_sign_epi8(q, v));
#endif
}

/* Products of block b + i of R rows with the activations, each block's integers times its scale. */
INLINE void gemv_block(__m256 *acc, const Mat *w, int r, int R, int step, int b, int i, float (*scale)[16],
                       const Act *a, size_t at, DType t) {
    at += (size_t)(b + i);
    __m256i q = load32(a->q + at * QK), start = _mm256_setzero_si256();
    if (is_signed(t) && HAS_VNNI) start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-offset_of(t) * sum_of(a->sum[at])));
    if (t == DTYPE_Q6_K) { /* for each half of the block, which has its own scale */
        start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-offset_of(t) * a->sum[at][0]));
        start = _mm256_insert_epi32(start, -offset_of(t) * a->sum[at][1], 4);
    }
    for (int j = 0; j < R; j++) {
        __m256i sum = block_dot(start, w, r + j * step, b + i, q, t);
        __m256 s = t == DTYPE_Q6_K ? _mm256_set_m128(_mm_set1_ps(scale[j][8 + i]), _mm_set1_ps(scale[j][i]))
                                   : _mm256_set1_ps(scale[j][i]);
        acc[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), s, acc[j]);
    }
}

/* Blocks [b + done, b + 8) of R rows, those before are done. What a type adds to every weight is multiplied with
 * the sum of the activations, eight blocks at a time. */
INLINE void gemv_blocks(__m256 *acc, const Mat *w, int r, int R, int step, int b, int done, const Act *a, size_t at,
                        DType t) {
    static const int32_t mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    float scale[4][16];
    const __m256i left = load32(mask + 8 - done);
    __m256 d = _mm256_maskload_ps(a->d + at + (size_t)b, left);
    __m256 weight_of_min = _mm256_maskload_ps(a->weight_of_min + at + (size_t)b, left);
    for (int j = 0; j < R; j++) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        prefetch_ahead(p, bytes_of_8(t));
        if (t == DTYPE_Q6_K) {
            __m256 both[2];
            scales_of_16(both, p);
            for (int half = 0; half < 2; half++) _mm256_storeu_ps(scale[j] + 8 * half, _mm256_mul_ps(both[half], d));
        } else {
            __m256 min, wd = block_scales(&min, w, r + j * step, b, t);
            _mm256_storeu_ps(scale[j], _mm256_mul_ps(wd, d));
            if (has_min(t) || zero_of(t)) acc[j] = _mm256_fmadd_ps(min, weight_of_min, acc[j]);
        }
        IN_MEMORY(scale[j]); /* one float of it at a time is cheaper to load than to shuffle out of a register */
    }
    if (done == 0) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) gemv_block(acc, w, r, R, step, b, i, scale, a, at, t);
    } else {
        for (int i = done; i < 8; i++) gemv_block(acc, w, r, R, step, b, i, scale, a, at, t);
    }
}

/* at: index of the activations' first block. */
INLINE void gemv_rows_q(float *out, const Mat *w, int r, int R, int step, const Act *a, size_t at, DType t) {
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) gemv_blocks(acc, w, r, R, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) gemv_blocks(acc, w, r, R, step, a->blocks - 8, b - (a->blocks - 8), a, at, t);
    sums8(out, acc, R);
}

/* Rows of fewer than 8 blocks, which the K types do not have. */
INLINE float gemv_short_q(const Mat *w, int r, const Act *a, size_t at, DType t) {
    __m256 acc = _mm256_setzero_ps();
    float rest = 0, scale[1][16];
    for (int b = 0; b < a->blocks; b++) {
        float min, d = block_scale(&min, w, r, b, t);
        scale[0][0] = d * a->d[at + (size_t)b];
        gemv_block(&acc, w, r, 1, 0, b, 0, scale, a, at, t);
        rest += (has_min(t) ? min : d * (float)-zero_of(t)) * a->weight_of_min[at + (size_t)b];
    }
    return sum8(acc) + rest;
}

INLINE void gemv_rows_f(float *out, const Mat *w, int r, int R, int step, const Act *a, int row, DType t) {
    const float *x = a->x + (size_t)row * (size_t)a->dim;
    const int each = t == DTYPE_F32 ? 4 : 2, line = 64 / each;
    __m256 acc[4][2], sum[4];
    for (int j = 0; j < R; j++) acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    int c = 0;
    for (; c + line <= w->cols; c += line) { /* a line of memory */
        for (int j = 0; j < R; j++) prefetch_ahead(row_of(w, r + j * step) + (size_t)(c * each), 64);
        for (int i = 0; i < line; i += 16) {
            __m256 x0 = _mm256_loadu_ps(x + c + i), x1 = _mm256_loadu_ps(x + c + i + 8);
            for (int j = 0; j < R; j++) {
                const uint8_t *p = row_of(w, r + j * step) + (size_t)((c + i) * each);
                acc[j][0] = _mm256_fmadd_ps(floats8(p, t), x0, acc[j][0]);
                acc[j][1] = _mm256_fmadd_ps(floats8(p + 8 * each, t), x1, acc[j][1]);
            }
        }
    }
    for (int j = 0; j < R; j++) sum[j] = _mm256_add_ps(acc[j][0], acc[j][1]);
    sums8(out, sum, R);
    for (int j = 0; j < R; j++)
        for (int i = c; i < w->cols; i++) out[j] += float_at(row_of(w, r + j * step) + (size_t)(i * each), t) * x[i];
}

/* ---- Decode with gemm's order of sums: element after element, block after block, rows side by side in a vector ----
 */

/* v[j] = 8 values of row j becomes v[i] = value i of the 8 rows. */
INLINE void transpose8(__m256i *v) {
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

/* x[j] = 8 values of row j becomes x[i] = values i and i + 4 of the four rows. */
INLINE void transpose4(__m256 x[4]) {
    __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
    x[0] = _mm256_shuffle_ps(a, c, 0x44);
    x[1] = _mm256_shuffle_ps(a, c, 0xee);
    x[2] = _mm256_shuffle_ps(b, d, 0x44);
    x[3] = _mm256_shuffle_ps(b, d, 0xee);
}

INLINE __m128 of_block(const __m256 x[4], int i) {
    return i < 4 ? _mm256_castps256_ps128(x[i]) : _mm256_extractf128_ps(x[i - 4], 1);
}

/* f + product of blocks [b + done, b + 8) of rows r + j * step, as tile_q adds them up. */
INLINE __m128 exact_blocks(__m128 f, const Mat *w, int r, int step, int b, int done, const Act *a, size_t at, DType t) {
    const int parts = t == DTYPE_Q6_K ? 2 : 1;
    __m256 of_part[2], scale[2][4], min[4], d = _mm256_loadu_ps(a->d + at + (size_t)b);
    for (int j = 0; j < 4; j++) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        prefetch_ahead(p, bytes_of_8(t));
        if (t == DTYPE_Q6_K) scales_of_16(of_part, p);
        else of_part[0] = block_scales(&min[j], w, r + j * step, b, t);
        for (int part = 0; part < parts; part++) scale[part][j] = _mm256_mul_ps(of_part[part], d);
    }
    for (int part = 0; part < parts; part++) transpose4(scale[part]);
    if (has_min(t)) transpose4(min);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        if (i < done) continue;
        const size_t block = at + (size_t)(b + i);
        const int16_t *sums = a->sum[block];
        __m256i q = load32(a->q + block * QK), sum[4];
        for (int j = 0; j < 4; j++) sum[j] = block_dot(_mm256_setzero_si256(), w, r + j * step, b + i, q, t);
        sum[0] = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[3]));
        __m128i half[2] = {_mm256_castsi256_si128(sum[0]), _mm256_extracti128_si256(sum[0], 1)};
        if (parts == 1) half[0] = _mm_add_epi32(half[0], half[1]);
        for (int part = 0; part < parts; part++) {
            int offset = offset_of(t) * (parts == 2 ? sums[part] : sum_of(sums));
            __m128i whole = offset_of(t) ? _mm_sub_epi32(half[part], _mm_set1_epi32(offset)) : half[part];
            f = _mm_fmadd_ps(_mm_cvtepi32_ps(whole), of_block(scale[part], i), f);
        }
        if (has_min(t)) f = _mm_fmadd_ps(of_block(min, i), _mm_set1_ps(a->weight_of_min[block]), f);
    }
    return f;
}

/* A row of fewer than 8 blocks. */
INLINE float exact_short(float f, const Mat *w, int r, const Act *a, size_t at, DType t) {
    for (int b = 0; b < a->blocks; b++, at++) {
        float min, d = block_scale(&min, w, r, b, t) * a->d[at];
        __m256i sum = block_dot(_mm256_setzero_si256(), w, r, b, load32(a->q + at * QK), t);
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        s = _mm_hadd_epi32(s, s);
        s = _mm_hadd_epi32(s, s);
        f = fmaf((float)(_mm_cvtsi128_si32(s) - offset_of(t) * sum_of(a->sum[at])), d, f);
        if (has_min(t)) f = fmaf(min, a->weight_of_min[at], f);
    }
    return f;
}

INLINE void exact_rows(float *y, const Mat *w, int r, int step, const Act *a, size_t at, bool add, DType t) {
    float f[4] = {0};
    for (int j = 0; j < 4 && add; j++) f[j] = y[r + j * step];
    __m128 sum = _mm_loadu_ps(f);
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) sum = exact_blocks(sum, w, r, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) sum = exact_blocks(sum, w, r, step, a->blocks - 8, b + 8 - a->blocks, a, at, t);
    _mm_storeu_ps(f, sum);
    for (int j = 0; j < 4; j++) y[r + j * step] = f[j];
}

INLINE void exact_q(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add, DType t) {
    const size_t at = (size_t)row * (size_t)a->blocks;
    const bool few = !is_k(t) && a->blocks < 8;
    const int step = few ? 0 : (to - from) / 4;
    for (int r = from; r < from + step; r++) exact_rows(y, w, r, step, a, at, add, t);
    for (int r = from + 4 * step; r < to; r++) {
        if (few) y[r] = exact_short(add ? y[r] : 0, w, r, a, at, t);
        else exact_rows(y, w, r, 0, a, at, add, t);
    }
}

/* Two vectors of 8 rows: a sum takes longer than its turn comes again in one. */
INLINE void exact_f(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add, DType t) {
    enum { ROWS = 16 };
    const float *x = a->x + (size_t)row * (size_t)a->dim;
    const size_t each = t == DTYPE_F32 ? 4 : 2;
    for (int r = from; r < to; r += ROWS) {
        const int rows = to - r < ROWS ? to - r : ROWS;
        const uint8_t *p[ROWS];
        float out[ROWS] = {0};
        for (int i = 0; i < ROWS; i++) p[i] = row_of(w, r + (i < rows ? i : rows - 1));
        if (add) memcpy(out, y + r, (size_t)rows * sizeof *y);
        __m256 f[2] = {_mm256_loadu_ps(out), _mm256_loadu_ps(out + 8)};
        int c = 0;
        for (; c + 8 <= w->cols; c += 8)
            for (int g = 0; g < 2; g++) {
                __m256i v[8];
                for (int i = 0; i < 8; i++) {
                    const uint8_t *q = p[8 * g + i] + (size_t)c * each;
                    if ((size_t)c * each % 64 == 0) _mm_prefetch((const char *)q + AHEAD_BYTES, _MM_HINT_T0);
                    v[i] = _mm256_castps_si256(floats8(q, t));
                }
                transpose8(v);
                for (int i = 0; i < 8; i++)
                    f[g] = _mm256_fmadd_ps(_mm256_castsi256_ps(v[i]), _mm256_set1_ps(x[c + i]), f[g]);
            }
        _mm256_storeu_ps(out, f[0]);
        _mm256_storeu_ps(out + 8, f[1]);
        for (; c < w->cols; c++)
            for (int i = 0; i < rows; i++) out[i] = fmaf(float_at(p[i] + (size_t)c * each, t), x[c], out[i]);
        memcpy(y + r, out, (size_t)rows * sizeof *y);
    }
}

INLINE void gemv_typed(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add, DType t) {
    if (a->exact) {
        if (is_quantized(t)) exact_q(y, w, from, to, a, row, add, t);
        else exact_f(y, w, from, to, a, row, add, t);
        return;
    }
    const size_t at = (size_t)row * (size_t)a->blocks;
    const bool few = is_quantized(t) && !is_k(t) && a->blocks < 8;
    const int step = few ? 0 : (to - from) / 4;
    float out[4];
    for (int r = from; r < from + step; r++) {
        if (is_quantized(t)) gemv_rows_q(out, w, r, 4, step, a, at, t);
        else gemv_rows_f(out, w, r, 4, step, a, row, t);
        for (int j = 0; j < 4; j++) y[r + j * step] = add ? y[r + j * step] + out[j] : out[j];
    }
    for (int r = from + 4 * step; r < to; r++) {
        if (!is_quantized(t)) gemv_rows_f(out, w, r, 1, 0, a, row, t);
        else if (few) out[0] = gemv_short_q(w, r, a, at, t);
        else gemv_rows_q(out, w, r, 1, 0, a, at, t);
        y[r] = add ? y[r] + out[0] : out[0];
    }
}

/* Calls f_typed(ARGS, type) with w's type as a constant; or the scalar kernel for groups that no block fits, and for
 * quantized weights with f32 activations (--precise). */
/* clang-format off */
#define CASE(f, t, ...) case t: f##_typed(__VA_ARGS__, t); return;
#define BY_TYPE(f, ...) \
    if ((w->dtype == DTYPE_Q8_GROUP && !mat_is_quantized(w)) || (mat_is_quantized(w) && !a->blocks)) { \
        kernels_ref.f(__VA_ARGS__); \
        return; \
    } \
    switch (w->dtype) { \
        CASE(f, DTYPE_F32, __VA_ARGS__) CASE(f, DTYPE_F16, __VA_ARGS__) CASE(f, DTYPE_BF16, __VA_ARGS__) \
        CASE(f, DTYPE_Q8_0, __VA_ARGS__) CASE(f, DTYPE_Q8_GROUP, __VA_ARGS__) CASE(f, DTYPE_Q4_0, __VA_ARGS__) \
        CASE(f, DTYPE_Q4_1, __VA_ARGS__) CASE(f, DTYPE_Q5_0, __VA_ARGS__) CASE(f, DTYPE_Q5_1, __VA_ARGS__) \
        CASE(f, DTYPE_Q4_K, __VA_ARGS__) CASE(f, DTYPE_Q5_K, __VA_ARGS__) CASE(f, DTYPE_Q6_K, __VA_ARGS__) \
    case DTYPE_COUNT: return; \
    }
/* clang-format on */

static void gemv(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add) {
    BY_TYPE(gemv, y, w, from, to, a, row, add)
}

/* ---- Prefill: panels of weight rows, interleaved so that a vector holds one column of many rows ----- */

enum { Q_BLOCKS = 64, F_COLS = 1024 }; /* of a panel: 2048 columns, 1024 columns */

typedef struct {
    _Alignas(64) uint8_t q[Q_BLOCKS * LANES * QK];        /* [blocks, 8 steps, LANES rows, 4 columns] */
    float d[2 * Q_BLOCKS * LANES], min[Q_BLOCKS * LANES]; /* [blocks, LANES]; d of Q6_K [blocks, 2, LANES] */
} QPanel;

INLINE void panel_q(QPanel *panel, const Mat *w, int r0, int rows, int b0, int blocks, DType t) {
    for (int b = 0; b < blocks; b++) {
        for (int g = 0; g < LANES; g += 8) {
            __m256i v[8];
            for (int i = 0; i < 8; i++) {
                float *d = panel->d + (t == DTYPE_Q6_K ? 2 : 1) * b * LANES + g + i,
                      *min = panel->min + b * LANES + g + i;
                v[i] = _mm256_setzero_si256();
                *d = *min = 0;
                if (t == DTYPE_Q6_K) d[LANES] = 0;
                if (g + i >= rows) continue;
                const uint8_t *p = block_of(w, r0 + g + i, b0 + b, t);
                v[i] = block_ints(p, b, t);
                if (is_signed(t) && HAS_VNNI) v[i] = _mm256_xor_si256(v[i], _mm256_set1_epi8((char)0x80));
                if (t == DTYPE_Q6_K) {
                    const int8_t *scales = (const int8_t *)p + offsetof(BlockQ6_K, scales) + b % 8 * 2;
                    float of_scales = _cvtsh_ss(u16_at(p + offsetof(BlockQ6_K, d)));
                    d[0] = of_scales * (float)scales[0];
                    d[LANES] = of_scales * (float)scales[1];
                } else {
                    *d = block_scale(min, w, r0 + g + i, b0 + b, t);
                }
            }
            transpose8(v);
            for (int s = 0; s < 8; s++)
                _mm256_store_si256((__m256i *)(void *)(panel->q + (b * 8 + s) * LANES * 4 + g * 4), v[s]);
        }
    }
}

/* c[QTILE_ROWS tokens][LANES rows] (+)= panel * activations. a_at: index of the first token's first block. The unsigned
 * form u = w + zero is put right in the integers: their sum begins at -zero times sum(q). */
INLINE void tile_q(float *c, size_t c_stride, const QPanel *panel, int blocks, const Act *a, size_t a_at, bool add,
                   DType t) {
    const int zero = offset_of(t);
    const int parts = t == DTYPE_Q6_K ? 2 : 1, steps = 8 / parts; /* of a block; each part has its scale */
    V f[QTILE_ROWS];
    for (int i = 0; i < QTILE_ROWS; i++) f[i] = add ? v_load(c + (size_t)i * c_stride) : v_zero();
    for (int b = 0; b < blocks; b++, a_at += (size_t)a->tile) {
        const int8_t *q = a->q + a_at * QK;
#pragma GCC unroll 2
        for (int part = 0; part < parts; part++) {
            I acc[QTILE_ROWS];
            for (int i = 0; i < QTILE_ROWS; i++) {
                const int16_t *sum = a->sum[a_at + (size_t)i];
                acc[i] = zero ? i_set1(-zero * (parts == 2 ? sum[part] : sum_of(sum))) : i_zero();
            }
            const uint8_t *p = panel->q + (b * 8 + part * steps) * LANES * 4;
#if !HAS_VNNI
            /* 16 bits hold so many pair sums of a lane, each at most (2^bits - 1) * 127 * 2. */
            const int most = bits_of(t) == 4 ? 8 : bits_of(t) == 5 ? 4 : 2;
            I pairs[QTILE_ROWS];
            for (int i = 0; i < QTILE_ROWS; i++) pairs[i] = i_zero();
#endif
#pragma GCC unroll 8
            for (int s = 0; s < steps; s++) {
                I v = i_load(p + s * LANES * 4);
#if !HAS_VNNI
                I magnitude = is_signed(t) ? _mm256_abs_epi8(v) : v;
#endif
                for (int i = 0; i < QTILE_ROWS; i++) {
                    int32_t four;
                    memcpy(&four, q + i * QK + (part * steps + s) * 4, sizeof four);
#if HAS_VNNI
                    acc[i] = i_dot(acc[i], v, i_set1(four));
#else
                    if (is_signed(t)) {
                        acc[i] = dot_u8s8(acc[i], magnitude, _mm256_sign_epi8(i_set1(four), v));
                        continue;
                    }
                    pairs[i] = _mm256_add_epi16(pairs[i], _mm256_maddubs_epi16(v, i_set1(four)));
                    if ((s + 1) % most) continue;
                    acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(pairs[i], _mm256_set1_epi16(1)));
                    pairs[i] = i_zero();
#endif
                }
            }
            V d = v_load(panel->d + (b * parts + part) * LANES);
            for (int i = 0; i < QTILE_ROWS; i++)
                f[i] = v_fma(v_of_ints(acc[i]), v_mul(d, v_set1(a->d[a_at + (size_t)i])), f[i]);
        }
        if (has_min(t)) {
            V min = v_load(panel->min + b * LANES);
            for (int i = 0; i < QTILE_ROWS; i++) f[i] = v_fma(min, v_set1(a->weight_of_min[a_at + (size_t)i]), f[i]);
        }
    }
    for (int i = 0; i < QTILE_ROWS; i++) v_store(c + (size_t)i * c_stride, f[i]);
}

INLINE void gemm_q(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add, DType t) {
    QPanel panel;
    float edge[QTILE_ROWS * LANES];
    for (int r = from; r < to; r += LANES) {
        int rows = to - r < LANES ? to - r : LANES;
        for (int b = 0; b < a->blocks; b += Q_BLOCKS) {
            int blocks = a->blocks - b < Q_BLOCKS ? a->blocks - b : Q_BLOCKS;
            bool more = add || b > 0;
            panel_q(&panel, w, r, rows, b, blocks, t);
            for (int i = 0; i < a->n; i += QTILE_ROWS) {
                size_t at = (size_t)(i / a->tile * a->tile) * (size_t)a->blocks + (size_t)(b * a->tile + i % a->tile);
                int m = a->n - i < QTILE_ROWS ? a->n - i : QTILE_ROWS;
                bool whole = rows == LANES && m == QTILE_ROWS;
                float *c = whole ? y + (size_t)i * y_stride + r : edge;
                size_t c_stride = whole ? y_stride : LANES;
                for (int j = 0; j < m && more && !whole; j++)
                    memcpy(edge + j * LANES, y + (size_t)(i + j) * y_stride + r, (size_t)rows * sizeof *edge);
                tile_q(c, c_stride, &panel, blocks, a, at, more, t);
                for (int j = 0; j < m && !whole; j++)
                    memcpy(y + (size_t)(i + j) * y_stride + r, edge + j * LANES, (size_t)rows * sizeof *edge);
            }
        }
    }
}

INLINE void tile_of(float *const *c, const float *const *a, int m, const float *b, size_t b_stride, int k, bool add) {
    V sum[TILE_ROWS][2];
    for (int i = 0; i < m; i++) {
        sum[i][0] = add ? v_load(c[i]) : v_zero();
        sum[i][1] = add ? v_load(c[i] + LANES) : v_zero();
    }
    for (int j = 0; j < k; j++, b += b_stride) {
        V b0 = v_load(b), b1 = v_load(b + LANES);
        for (int i = 0; i < m; i++) {
            V x = v_set1(a[i][j]);
            sum[i][0] = v_fma(x, b0, sum[i][0]);
            sum[i][1] = v_fma(x, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < m; i++) {
        v_store(c[i], sum[i][0]);
        v_store(c[i] + LANES, sum[i][1]);
    }
}

static void tile(float *const *c, const float *const *a, int m, const float *b, size_t b_stride, int k, bool add) {
    switch (m) { /* a constant m keeps the sums in registers */
    case 1: tile_of(c, a, 1, b, b_stride, k, add); return;
    case 2: tile_of(c, a, 2, b, b_stride, k, add); return;
    case 3: tile_of(c, a, 3, b, b_stride, k, add); return;
    case 4: tile_of(c, a, 4, b, b_stride, k, add); return;
    case 5: tile_of(c, a, 5, b, b_stride, k, add); return;
    case 6: tile_of(c, a, 6, b, b_stride, k, add); return;
#ifdef LANES_16
    case 7: tile_of(c, a, 7, b, b_stride, k, add); return;
    case 8: tile_of(c, a, 8, b, b_stride, k, add); return;
#endif
    }
}

/* panel[k][TILE_COLS] = columns c0 .. c0 + cols of rows r0 .. r0 + rows, as f32. */
INLINE void panel_f(float *panel, const Mat *w, int r0, int rows, int c0, int cols, DType t) {
    const size_t each = t == DTYPE_F32 ? 4 : 2;
    for (int g = 0; g < TILE_COLS; g += 8) {
        int c = 0;
        for (; c + 8 <= cols; c += 8) {
            __m256i v[8];
            for (int i = 0; i < 8; i++)
                v[i] = g + i < rows ? _mm256_castps_si256(floats8(row_of(w, r0 + g + i) + (size_t)(c0 + c) * each, t))
                                    : _mm256_setzero_si256();
            transpose8(v);
            for (int i = 0; i < 8; i++) _mm256_store_si256((__m256i *)(void *)(panel + (c + i) * TILE_COLS + g), v[i]);
        }
        for (; c < cols; c++)
            for (int i = 0; i < 8; i++)
                panel[c * TILE_COLS + g + i] =
                    g + i < rows ? float_at(row_of(w, r0 + g + i) + (size_t)(c0 + c) * each, t) : 0;
    }
}

INLINE void gemm_f(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add, DType t) {
    _Alignas(64) float panel[F_COLS * TILE_COLS];
    float edge[TILE_ROWS][TILE_COLS];
    for (int r = from; r < to; r += TILE_COLS) {
        int rows = to - r < TILE_COLS ? to - r : TILE_COLS;
        for (int k = 0; k < w->cols; k += F_COLS) {
            int cols = w->cols - k < F_COLS ? w->cols - k : F_COLS;
            bool more = add || k > 0;
            panel_f(panel, w, r, rows, k, cols, t);
            for (int i = 0; i < a->n; i += TILE_ROWS) {
                int m = a->n - i < TILE_ROWS ? a->n - i : TILE_ROWS;
                const float *x[TILE_ROWS];
                float *c[TILE_ROWS];
                for (int j = 0; j < m; j++) {
                    x[j] = a->x + (size_t)(i + j) * (size_t)a->dim + k;
                    float *out = y + (size_t)(i + j) * y_stride + r;
                    c[j] = rows == TILE_COLS ? out : edge[j];
                    if (rows < TILE_COLS && more) memcpy(edge[j], out, (size_t)rows * sizeof *out);
                }
                tile(c, x, m, panel, TILE_COLS, cols, more);
                for (int j = 0; j < m && rows < TILE_COLS; j++)
                    memcpy(y + (size_t)(i + j) * y_stride + r, edge[j], (size_t)rows * sizeof **c);
            }
        }
    }
}

INLINE void gemm_typed(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add, DType t) {
    if (is_quantized(t)) gemm_q(y, y_stride, w, from, to, a, add, t);
    else gemm_f(y, y_stride, w, from, to, a, add, t);
}

static void gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add) {
    BY_TYPE(gemm, y, y_stride, w, from, to, a, add)
}

const Kernels TABLE = {.name = TABLE_NAME,
                       .int8 = true,
                       .tile_rows = TILE_ROWS,
                       .tile_cols = TILE_COLS,
                       .quantize = quantize,
                       .gemv = gemv,
                       .gemm = gemm,
                       .tile = tile,
                       .softmax_step = softmax_step,
                       .exp = exps,
                       .sum_squares = sum_squares,
                       .swiglu = swiglu,
                       .gelu = gelu,
                       .from_f16 = from_f16,
                       .to_f16 = to_f16};

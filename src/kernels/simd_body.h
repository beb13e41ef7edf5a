/* simd_body - the kernels, compiled once for each instruction set by avx2.c, avxvnni.c, avx512.c, which define
 * the vector V of LANES floats, I of LANES int32, dot_u8s8, HAS_VNNI (then also i_dot) and TABLE. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))
#define IN_MEMORY(x) __asm__("" : "+m"(x)) /* the compiler forgets what it knows of x */

/* ---- Elementwise ------------------------------------------------------------------------------- */

/* e^x as 2^n * e^r with |r| <= ln 2 / 2, where a polynomial of degree 7 is exact to a rounding. ln 2 is taken
 * off in two parts, the first with few enough bits that n times it is exact (Cody & Waite; coefficients as in
 * Cephes' expf). Below the smallest normal number the result is 0, above 88.37 that of 88.37. */
INLINE V v_exp(V x) {
    const V low = v_set1(-87.33654f), magic = v_set1(12582912.f); /* 1.5 * 2^23: adding it rounds to integers */
    V clamped = v_min(v_max(x, low), v_set1(88.37626f));
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
    return v_zero_below(v_scale_exponent(p, shifted), x, low);
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

static void add_to(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
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

static void scale_by(float *y, const float *x, const float *weight, float s, int n) {
    for (int i = 0; i < n; i++) y[i] = weight[i] * (x[i] * s);
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

static void quantize(int8_t *q, float *d, int32_t *sum, float *weight_of_min, int step, const float *x,
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
        if (!(max <= FLT_MAX)) { /* infinite or no number: so is every product, none of it may look like a value */
            memset(q, 0, QK);
            *d = *weight_of_min = NAN;
            *sum = 0;
            continue;
        }
        *d = max / 127;
        __m256 inverse = _mm256_set1_ps(max > 0 ? 127 / max : 0);
        __m256i n[4];
        for (int i = 0; i < 4; i++) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        __m256i total = _mm256_add_epi32(_mm256_add_epi32(n[0], n[1]), _mm256_add_epi32(n[2], n[3]));
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(void *)q, bytes);
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
        s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
        *sum = _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 1)));
        *weight_of_min = *d * (float)*sum;
    }
}

/* ---- Reading weights: one row's piece of whatever type ----------------------------------------- */

INLINE uint16_t u16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

INLINE const uint8_t *row_of(const Mat *w, int r) { return (const uint8_t *)w->data + (size_t)r * w->stride_bytes; }

INLINE int block_bytes(DType t) {
    return t == DTYPE_Q8_0 ? (int)sizeof(BlockQ8_0) : t == DTYPE_Q4_0 ? (int)sizeof(BlockQ4_0)
           : t == DTYPE_Q4_1 ? (int)sizeof(BlockQ4_1) : QK;
}

/* The 32 integers of a block: signed bytes for the 8-bit types, 0..15 for the 4-bit ones. */
INLINE __m256i block_ints(const uint8_t *block, DType t) {
    if (t == DTYPE_Q8_GROUP) return _mm256_loadu_si256((const __m256i *)(const void *)block);
    if (t == DTYPE_Q8_0) return _mm256_loadu_si256((const __m256i *)(const void *)(block + 2));
    __m256i x = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)(block + (t == DTYPE_Q4_0 ? 2 : 4))));
    x = _mm256_srlv_epi32(x, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

INLINE float group_scale(const Mat *w, int r, int b) {
    size_t at = ((size_t)r * (size_t)w->cols + (size_t)b * QK) / (size_t)w->group;
    float d;
    memcpy(&d, (const char *)w->scales + at * sizeof d, sizeof d);
    return d;
}

INLINE int u32_at(const uint8_t *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Scales of the 8 blocks from block b of row r; for Q4_1, where each is followed by the block's minimum, those too. */
INLINE __m256 block_scales(__m256 *min, const Mat *w, int r, int b, DType t) {
    const int s = block_bytes(t);
    const uint8_t *p = row_of(w, r) + (size_t)b * (size_t)s;
    if (t == DTYPE_Q8_GROUP) {
        float d[8];
        for (int i = 0; i < 8; i++) d[i] = group_scale(w, r, b + i);
        return _mm256_loadu_ps(d);
    }
    if (t == DTYPE_Q4_1) {
        __m128i low = _mm_setr_epi32(u32_at(p), u32_at(p + s), u32_at(p + 2 * s), u32_at(p + 3 * s));
        __m128i high = _mm_setr_epi32(u32_at(p + 4 * s), u32_at(p + 5 * s), u32_at(p + 6 * s), u32_at(p + 7 * s));
        const __m128i half = _mm_set1_epi32(0xffff);
        *min = _mm256_cvtph_ps(_mm_packus_epi32(_mm_srli_epi32(low, 16), _mm_srli_epi32(high, 16)));
        return _mm256_cvtph_ps(_mm_packus_epi32(_mm_and_si128(low, half), _mm_and_si128(high, half)));
    }
    return _mm256_cvtph_ps(_mm_setr_epi16((short)u16_at(p), (short)u16_at(p + s), (short)u16_at(p + 2 * s),
                                          (short)u16_at(p + 3 * s), (short)u16_at(p + 4 * s),
                                          (short)u16_at(p + 5 * s), (short)u16_at(p + 6 * s),
                                          (short)u16_at(p + 7 * s)));
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

/* Products of block b + i of R rows with the activations, each block's integers times its scale. */
INLINE void gemv_block(__m256 *acc, const Mat *w, int r, int R, int step, int b, int i, float (*scale)[8],
                       const Act *a, size_t at, DType t) {
    const bool bytes = t == DTYPE_Q8_0 || t == DTYPE_Q8_GROUP;
    at += (size_t)(b + i);
    __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)(a->q + at * QK)), start = _mm256_setzero_si256();
#if HAS_VNNI /* bytes as w + 128, put right by a sum that begins at -128 sum(q) */
    if (bytes) start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-128 * a->sum[at]));
#endif
    for (int j = 0; j < R; j++) {
        __m256i v = block_ints(row_of(w, r + j * step) + (size_t)(b + i) * (size_t)block_bytes(t), t), sum;
#if HAS_VNNI
        if (bytes) v = _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80));
        sum = dot_u8s8(start, v, q);
#else
        if (bytes) sum = dot_u8s8(start, _mm256_abs_epi8(v), _mm256_sign_epi8(q, v));
        else sum = dot_u8s8(start, v, q);
#endif
        acc[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale[j][i]), acc[j]);
    }
}

/* Blocks [b + done, b + 8) of R rows, those before are done. What 4-bit types add to every weight is multiplied with
 * the sum of the activations, eight blocks at a time. */
INLINE void gemv_blocks(__m256 *acc, const Mat *w, int r, int R, int step, int b, int done, const Act *a, size_t at,
                        DType t) {
    static const int32_t mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    float scale[4][8];
    const __m256i left = _mm256_loadu_si256((const __m256i *)(const void *)(mask + 8 - done));
    __m256 d = _mm256_maskload_ps(a->d + at + (size_t)b, left);
    __m256 weight_of_min = _mm256_maskload_ps(a->weight_of_min + at + (size_t)b, left);
    for (int j = 0; j < R; j++) {
        prefetch_ahead(row_of(w, r + j * step) + (size_t)b * (size_t)block_bytes(t), 8 * block_bytes(t));
        __m256 min, wd = block_scales(&min, w, r + j * step, b, t);
        _mm256_storeu_ps(scale[j], _mm256_mul_ps(wd, d));
        IN_MEMORY(scale[j]); /* one float of it at a time is cheaper to load than to shuffle out of a register */
        if (t == DTYPE_Q4_0) min = _mm256_mul_ps(wd, _mm256_set1_ps(-8));
        if (t == DTYPE_Q4_0 || t == DTYPE_Q4_1) acc[j] = _mm256_fmadd_ps(min, weight_of_min, acc[j]);
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
    if (b < a->blocks) gemv_blocks(acc, w, r, R, step, a->blocks - 8, b - (a->blocks - 8), a, at, t);
    sums8(out, acc, R);
}

/* Rows of fewer than 8 blocks. */
INLINE float gemv_short_q(const Mat *w, int r, const Act *a, size_t at, DType t) {
    __m256 acc = _mm256_setzero_ps();
    float rest = 0, scale[1][8];
    for (int b = 0; b < a->blocks; b++) {
        const uint8_t *p = row_of(w, r) + (size_t)b * (size_t)block_bytes(t);
        float d = t == DTYPE_Q8_GROUP ? group_scale(w, r, b) : _cvtsh_ss(u16_at(p));
        scale[0][0] = d * a->d[at + (size_t)b];
        gemv_block(&acc, w, r, 1, 0, b, 0, scale, a, at, t);
        if (t == DTYPE_Q4_0) rest += d * -8 * a->weight_of_min[at + (size_t)b];
        if (t == DTYPE_Q4_1) rest += _cvtsh_ss(u16_at(p + 2)) * a->weight_of_min[at + (size_t)b];
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

INLINE void gemv_typed(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add, DType t) {
    const bool quantized = t == DTYPE_Q8_0 || t == DTYPE_Q4_0 || t == DTYPE_Q4_1 || t == DTYPE_Q8_GROUP;
    const size_t at = (size_t)row * (size_t)a->blocks;
    const int step = quantized && a->blocks < 8 ? 0 : (to - from) / 4;
    float out[4];
    for (int r = from; r < from + step; r++) {
        if (quantized) gemv_rows_q(out, w, r, 4, step, a, at, t);
        else gemv_rows_f(out, w, r, 4, step, a, row, t);
        for (int j = 0; j < 4; j++) y[r + j * step] = add ? y[r + j * step] + out[j] : out[j];
    }
    for (int r = from + 4 * step; r < to; r++) {
        if (!quantized) gemv_rows_f(out, w, r, 1, 0, a, row, t);
        else if (a->blocks >= 8) gemv_rows_q(out, w, r, 1, 0, a, at, t);
        else out[0] = gemv_short_q(w, r, a, at, t);
        y[r] = add ? y[r] + out[0] : out[0];
    }
}

static void gemv(float *y, const Mat *w, int from, int to, const Act *a, int row, bool add) {
    switch (w->dtype) {
    case DTYPE_F32: gemv_typed(y, w, from, to, a, row, add, DTYPE_F32); return;
    case DTYPE_F16: gemv_typed(y, w, from, to, a, row, add, DTYPE_F16); return;
    case DTYPE_BF16: gemv_typed(y, w, from, to, a, row, add, DTYPE_BF16); return;
    case DTYPE_Q8_0: gemv_typed(y, w, from, to, a, row, add, DTYPE_Q8_0); return;
    case DTYPE_Q4_0: gemv_typed(y, w, from, to, a, row, add, DTYPE_Q4_0); return;
    case DTYPE_Q4_1: gemv_typed(y, w, from, to, a, row, add, DTYPE_Q4_1); return;
    case DTYPE_Q8_GROUP:
        if (mat_is_quantized(w)) gemv_typed(y, w, from, to, a, row, add, DTYPE_Q8_GROUP);
        else kernels_ref.gemv(y, w, from, to, a, row, add);
        return;
    case DTYPE_COUNT: return;
    }
}

/* ---- Prefill: panels of weight rows, interleaved so that a vector holds one column of many rows ----- */

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

enum { Q_BLOCKS = 64, F_COLS = 1024 }; /* of a panel: 2048 columns, 1024 columns */

typedef struct {
    _Alignas(64) uint8_t q[Q_BLOCKS * LANES * QK]; /* [blocks, 8 steps, LANES rows, 4 columns] */
    float d[Q_BLOCKS * LANES], min[Q_BLOCKS * LANES]; /* [blocks, LANES] */
} QPanel;

INLINE void panel_q(QPanel *panel, const Mat *w, int r0, int rows, int b0, int blocks, DType t) {
    const bool bytes = t == DTYPE_Q8_0 || t == DTYPE_Q8_GROUP;
    for (int b = 0; b < blocks; b++) {
        for (int g = 0; g < LANES; g += 8) {
            __m256i v[8];
            for (int i = 0; i < 8; i++) {
                v[i] = _mm256_setzero_si256();
                panel->d[b * LANES + g + i] = panel->min[b * LANES + g + i] = 0;
                if (g + i >= rows) continue;
                const uint8_t *p = row_of(w, r0 + g + i) + (size_t)(b0 + b) * (size_t)block_bytes(t);
                v[i] = block_ints(p, t);
                if (bytes && HAS_VNNI) v[i] = _mm256_xor_si256(v[i], _mm256_set1_epi8((char)0x80));
                panel->d[b * LANES + g + i] =
                    t == DTYPE_Q8_GROUP ? group_scale(w, r0 + g + i, b0 + b) : _cvtsh_ss(u16_at(p));
                if (t == DTYPE_Q4_1) panel->min[b * LANES + g + i] = _cvtsh_ss(u16_at(p + 2));
            }
            transpose8(v);
            for (int s = 0; s < 8; s++)
                _mm256_store_si256((__m256i *)(void *)(panel->q + (b * 8 + s) * LANES * 4 + g * 4), v[s]);
        }
    }
}

/* c[m tokens][LANES rows] (+)= panel * activations. a_at: index of the first token's first block. The unsigned
 * form u = w + 128 (or w + 8) is put right in the integers: their sum begins at -128 (-8) times sum(q). */
INLINE void tile_q(float *c, size_t c_stride, int m, const QPanel *panel, int blocks, const Act *a, size_t a_at,
                   bool add, DType t) {
    const bool bytes = t == DTYPE_Q8_0 || t == DTYPE_Q8_GROUP;
    const int offset = bytes ? (HAS_VNNI ? -128 : 0) : t == DTYPE_Q4_0 ? -8 : 0;
    V f[QTILE_ROWS];
    for (int i = 0; i < m; i++) f[i] = add ? v_load(c + (size_t)i * c_stride) : v_zero();
    for (int b = 0; b < blocks; b++, a_at += (size_t)a->tile) {
        const uint8_t *p = panel->q + b * LANES * QK;
        const int8_t *q = a->q + a_at * QK;
        I acc[QTILE_ROWS];
        for (int i = 0; i < m; i++) acc[i] = offset ? i_set1(offset * a->sum[a_at + (size_t)i]) : i_zero();
#if HAS_VNNI
#pragma GCC unroll 8
        for (int s = 0; s < 8; s++) {
            I v = i_load(p + s * LANES * 4);
            for (int i = 0; i < m; i++) {
                int32_t four;
                memcpy(&four, q + i * QK + s * 4, sizeof four);
                acc[i] = i_dot(acc[i], v, i_set1(four));
            }
        }
#else
        I pairs[QTILE_ROWS]; /* 4-bit types: the 8 pair sums of a lane, each at most 15 * 127 * 2, fit 16 bits */
        for (int i = 0; i < m; i++) pairs[i] = i_zero();
#pragma GCC unroll 8
        for (int s = 0; s < 8; s++) {
            I v = i_load(p + s * LANES * 4), magnitude = bytes ? _mm256_abs_epi8(v) : v;
            for (int i = 0; i < m; i++) {
                int32_t four;
                memcpy(&four, q + i * QK + s * 4, sizeof four);
                if (bytes) acc[i] = dot_u8s8(acc[i], magnitude, _mm256_sign_epi8(i_set1(four), v));
                else pairs[i] = _mm256_add_epi16(pairs[i], _mm256_maddubs_epi16(v, i_set1(four)));
            }
        }
        if (!bytes)
            for (int i = 0; i < m; i++)
                acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(pairs[i], _mm256_set1_epi16(1)));
#endif
        V d = v_load(panel->d + b * LANES);
        for (int i = 0; i < m; i++)
            f[i] = v_fma(v_of_ints(acc[i]), v_mul(d, v_set1(a->d[a_at + (size_t)i])), f[i]);
        if (t == DTYPE_Q4_1) {
            V min = v_load(panel->min + b * LANES);
            for (int i = 0; i < m; i++) f[i] = v_fma(min, v_set1(a->weight_of_min[a_at + (size_t)i]), f[i]);
        }
    }
    for (int i = 0; i < m; i++) v_store(c + (size_t)i * c_stride, f[i]);
}

INLINE void gemm_q(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add, DType t) {
    QPanel panel;
    float edge[QTILE_ROWS * LANES];
    const int step = a->tile < QTILE_ROWS ? 1 : QTILE_ROWS;
    for (int r = from; r < to; r += LANES) {
        int rows = to - r < LANES ? to - r : LANES;
        for (int b = 0; b < a->blocks; b += Q_BLOCKS) {
            int blocks = a->blocks - b < Q_BLOCKS ? a->blocks - b : Q_BLOCKS;
            bool more = add || b > 0;
            panel_q(&panel, w, r, rows, b, blocks, t);
            for (int i = 0; i < a->n; i += step) {
                size_t at = (size_t)(i / a->tile * a->tile) * (size_t)a->blocks + (size_t)(b * a->tile + i % a->tile);
                int m = a->n - i < step ? a->n - i : step;
                bool whole = rows == LANES && m == step;
                float *c = whole ? y + (size_t)i * y_stride + r : edge;
                size_t c_stride = whole ? y_stride : LANES;
                for (int j = 0; j < m && more && !whole; j++)
                    memcpy(edge + j * LANES, y + (size_t)(i + j) * y_stride + r, (size_t)rows * sizeof *edge);
                if (step == 1) tile_q(c, c_stride, 1, &panel, blocks, a, at, more, t);
                else tile_q(c, c_stride, QTILE_ROWS, &panel, blocks, a, at, more, t);
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
            for (int i = 0; i < 8; i++)
                _mm256_store_si256((__m256i *)(void *)(panel + (c + i) * TILE_COLS + g), v[i]);
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

static void gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Act *a, bool add) {
    switch (w->dtype) {
    case DTYPE_F32: gemm_f(y, y_stride, w, from, to, a, add, DTYPE_F32); return;
    case DTYPE_F16: gemm_f(y, y_stride, w, from, to, a, add, DTYPE_F16); return;
    case DTYPE_BF16: gemm_f(y, y_stride, w, from, to, a, add, DTYPE_BF16); return;
    case DTYPE_Q8_0: gemm_q(y, y_stride, w, from, to, a, add, DTYPE_Q8_0); return;
    case DTYPE_Q4_0: gemm_q(y, y_stride, w, from, to, a, add, DTYPE_Q4_0); return;
    case DTYPE_Q4_1: gemm_q(y, y_stride, w, from, to, a, add, DTYPE_Q4_1); return;
    case DTYPE_Q8_GROUP:
        if (mat_is_quantized(w)) gemm_q(y, y_stride, w, from, to, a, add, DTYPE_Q8_GROUP);
        else kernels_ref.gemm(y, y_stride, w, from, to, a, add);
        return;
    case DTYPE_COUNT: return;
    }
}

const Kernels TABLE = {TABLE_NAME, true,   TILE_ROWS, TILE_COLS, quantize, gemv,        gemm,     tile,     softmax_step,
                       exps,       swiglu, gelu,      add_to,    sum_squares, scale_by, from_f16, to_f16};

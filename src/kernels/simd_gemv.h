/* simd_gemv - decode: a few weight rows times one row of activations.
 * A part of simd_body.h. */
#pragma once

/* out[j] = the sum of x[j] */
INLINE void sums8(float *out, const V8 *x, int n) {
    if (n == 4) v4_store(out, v8_sums4(x));
    else
        for (int j = 0; j < n; j++) out[j] = v8_sum(x[j]);
}

/* gemv walks R rows `step` apart: R concurrent memory streams with software prefetch, which one core needs to saturate
 * the memory's bandwidth. */
enum { AHEAD_BYTES = 1024 };

INLINE void prefetch_ahead(const uint8_t *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + AHEAD_BYTES + i);
}

/* The zero point of the stored integers, compensated by the block sums of the activations: the type's, or what signed
 * bytes are made unsigned by. */
INLINE int offset_of(DType t) { return is_signed(t) ? SIGN_OFFSET : zero_of(t); }

/* d * sum of the activations of a block, or of one half of it for a type that has_halves: what a minimum multiplies. */
INLINE float sum_of_part(const Rows *a, size_t at, int part, DType t) {
    return has_halves(t) ? a->d[at] * (float)a->sum[at][part] : a->d_sum[at];
}

/* start + products of the 32 integers of block b of row r, without their offset, with q: the first half of the lanes
 * has those of the first 16, where the type has_halves. */
INLINE I8 block_dot(I8 start, const Mat *w, int r, int b, I8 q, DType t) {
    I8 v = block_ints(block_of(w, r, b, t), b, t);
    if (has_halves(t)) return dot_u8s8(start, v, q);
    return is_signed(t) ? dot32_s8s8(start, v, q) : dot32_u8s8(start, v, q);
}

/* Products of block b + i of R rows with the activations, each block's integers times its scale. */
INLINE void gemv_block(V8 *acc, const Mat *w, int r, int R, int step, int b, int i, float (*scale)[16], const Rows *a,
                       size_t at, DType t) {
    at += (size_t)(b + i);
    I8 q = i8_load(a->q + at * QK), start = i8_zero();
    if (is_signed(t) && SIGN_OFFSET) start = i8_first(-offset_of(t) * sum_of(a->sum[at]));
    if (has_halves(t) && offset_of(t)) /* for each half of the block, which has its own scale */
        start = i8_firsts(-offset_of(t) * a->sum[at][0], -offset_of(t) * a->sum[at][1]);
    EACH(j, R) {
        I8 sum = block_dot(start, w, r + j * step, b + i, q, t);
        acc[j] =
            has_halves(t) ? add_halves(acc[j], sum, scale[j][i], scale[j][8 + i]) : add_32(acc[j], sum, scale[j][i]);
    }
}

#ifdef LANES_16
#include "kernels/simd_gemv512.h"
enum { AT_ONCE = 2 }; /* blocks that gemv_some takes */
#else
typedef V8 Sum;           /* of a row's products, in parts */
typedef float Scales[16]; /* of 8 blocks, then of their second halves */
enum { AT_ONCE = 1 };

INLINE Sum sum_zero(void) { return v8_zero(); }
INLINE Sum sum_fma(V8 a, V8 b, Sum c) { return v8_fma(a, b, c); }
INLINE V8 sum_8(Sum x) { return x; }
INLINE void scales_set(Scales *scale, const V8 *part, int parts) {
    EACH(half, parts) v8_store(*scale + 8 * half, part[half]);
    IN_MEMORY(*scale); /* one float of it at a time is cheaper to load than to shuffle out of a register */
}
INLINE void gemv_some(Sum *acc, const Mat *w, int r, int R, int step, int b, int i, Scales *scale, const Rows *a,
                      size_t at, DType t) {
    gemv_block(acc, w, r, R, step, b, i, scale, a, at, t);
}
#endif

/* Blocks [b + done, b + 8) of R rows, those before are done. What a type adds to every weight is multiplied with
 * the sum of the activations, eight blocks at a time. */
INLINE void gemv_blocks(Sum *acc, const Mat *w, int r, int R, int step, int b, int done, const Rows *a, size_t at,
                        DType t) {
    static const int32_t mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    const int parts = has_halves(t) ? 2 : 1;
    Scales scale[4];
    const I8 left = i8_load(mask + 8 - done);
    V8 d = v8_load_where(a->d + at + (size_t)b, left), d_sum = v8_load_where(a->d_sum + at + (size_t)b, left), sums[2];
    if (has_halves(t) && has_min(t)) { /* of the blocks' first halves, of their second */
        I8 pairs = i8_load(a->sum + at + (size_t)b);
        sums[0] = v8_of_ints(i8_sra32(i8_sll32(pairs, 16), 16));
        sums[1] = v8_of_ints(i8_sra32(pairs, 16));
    }
    EACH(j, R) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        V8 both[2], min[2];
        prefetch_ahead(p, bytes_of_8(t));
        if (has_halves(t)) scales_of_16(both, min, p, t);
        else both[0] = block_scales(min, w, r + j * step, b, t);
        EACH(half, parts) {
            both[half] = v8_mul(both[half], d);
            if (has_min(t) || (!has_halves(t) && zero_of(t)))
                acc[j] = sum_fma(min[half], has_halves(t) ? v8_mul(d, sums[half]) : d_sum, acc[j]);
        }
        scales_set(&scale[j], both, parts);
    }
    if (done == 0) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i += AT_ONCE) gemv_some(acc, w, r, R, step, b, i, scale, a, at, t);
    } else {
        for (int i = done / AT_ONCE * AT_ONCE; i < 8; i += AT_ONCE)
            gemv_some(acc, w, r, R, step, b, i, scale, a, at, t);
    }
}

/* at: index of the activations' first block. */
INLINE void gemv_rows_q(float *out, const Mat *w, int r, int R, int step, const Rows *a, size_t at, DType t) {
    Sum acc[4] = {sum_zero(), sum_zero(), sum_zero(), sum_zero()};
    V8 sum[4];
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) gemv_blocks(acc, w, r, R, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) gemv_blocks(acc, w, r, R, step, a->blocks - 8, b - (a->blocks - 8), a, at, t);
    EACH(j, R) sum[j] = sum_8(acc[j]);
    sums8(out, sum, R);
}

/* Rows of fewer than 8 blocks, which the K types do not have. */
INLINE float gemv_short_q(const Mat *w, int r, const Rows *a, size_t at, DType t) {
    V8 acc = v8_zero();
    float rest = 0, scale[1][16];
    for (int b = 0; b < a->blocks; b++) {
        float min, d = block_scale(&min, w, r, b, t);
        scale[0][0] = d * a->d[at + (size_t)b];
        gemv_block(&acc, w, r, 1, 0, b, 0, scale, a, at, t);
        rest += (has_min(t) ? min : d * (float)-zero_of(t)) * a->d_sum[at + (size_t)b];
    }
    return v8_sum(acc) + rest;
}

INLINE void gemv_rows_f(float *out, const Mat *w, int r, int R, int step, const Rows *a, int row, DType t) {
    const float *x = a->x + (size_t)row * (size_t)a->dim;
    const int each = t == DTYPE_F32 ? 4 : 2, line = 64 / each;
    V8 acc[4][2], sum[4];
    EACH(j, R) acc[j][0] = acc[j][1] = v8_zero();
    int c = 0;
    for (; c + line <= w->cols; c += line) { /* a line of memory */
        EACH(j, R) prefetch_ahead(row_of(w, r + j * step) + (size_t)(c * each), 64);
        for (int i = 0; i < line; i += 16) {
            V8 x0 = v8_load(x + c + i), x1 = v8_load(x + c + i + 8);
            EACH(j, R) {
                const uint8_t *p = row_of(w, r + j * step) + (size_t)((c + i) * each);
                acc[j][0] = v8_fma(floats8(p, t), x0, acc[j][0]);
                acc[j][1] = v8_fma(floats8(p + 8 * each, t), x1, acc[j][1]);
            }
        }
    }
    EACH(j, R) sum[j] = v8_add(acc[j][0], acc[j][1]);
    sums8(out, sum, R);
    EACH(j, R)
        for (int i = c; i < w->cols; i++) out[j] += float_at(row_of(w, r + j * step) + (size_t)(i * each), t) * x[i];
}

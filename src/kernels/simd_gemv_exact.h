/* simd_gemv_exact - decode with gemm's order of sums, for --deterministic: element after element, block after block,
 * with several weight rows side by side in a vector.
 * A part of simd_body.h. */
#pragma once

INLINE V4 of_block(const V8 x[4], int i) { return v8_half(x[i % 4], i / 4); }

/* f + product of blocks [b + done, b + 8) of rows r + j * step, as tile_q adds them up. */
INLINE V4 exact_blocks(V4 f, const Mat *w, int r, int step, int b, int done, const Rows *a, size_t at, DType t) {
    const int parts = has_halves(t) ? 2 : 1;
    V8 of_part[2], min_of_part[2], scale[2][4], min[2][4], d = v8_load(a->d + at + (size_t)b);
    EACH(j, 4) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        prefetch_ahead(p, bytes_of_8(t));
        if (has_halves(t)) scales_of_16(of_part, min_of_part, p, t);
        else of_part[0] = block_scales(&min_of_part[0], w, r + j * step, b, t);
        EACH(part, parts) {
            scale[part][j] = v8_mul(of_part[part], d);
            if (has_min(t)) min[part][j] = min_of_part[part];
        }
    }
    EACH(part, parts) {
        v8_transpose4(scale[part]);
        if (has_min(t)) v8_transpose4(min[part]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        if (i < done) continue;
        const size_t block = at + (size_t)(b + i);
        const int16_t *sums = a->sum[block];
        I8 q = i8_load(a->q + block * QK), sum[4];
        EACH(j, 4) sum[j] = block_dot(i8_zero(), w, r + j * step, b + i, q, t);
        I4 of_rows[2];
        i8_sums4(of_rows, sum, parts);
        EACH(part, parts) {
            int offset = offset_of(t) * (parts == 2 ? sums[part] : sum_of(sums));
            V4 whole = v4_of_ints(offset_of(t) ? i4_sub(of_rows[part], i4_set1(offset)) : of_rows[part]);
            f = v4_fma(whole, of_block(scale[part], i), f);
            if (has_min(t)) f = v4_fma(of_block(min[part], i), v4_set1(sum_of_part(a, block, part, t)), f);
        }
    }
    return f;
}

/* A row of fewer than 8 blocks. */
INLINE float exact_short(float f, const Mat *w, int r, const Rows *a, size_t at, DType t) {
    for (int b = 0; b < a->blocks; b++, at++) {
        float min, d = block_scale(&min, w, r, b, t) * a->d[at];
        int sum = i8_sum(block_dot(i8_zero(), w, r, b, i8_load(a->q + at * QK), t));
        f = fmaf((float)(sum - offset_of(t) * sum_of(a->sum[at])), d, f);
        if (has_min(t)) f = fmaf(min, a->d_sum[at], f);
    }
    return f;
}

INLINE void exact_rows(float *y, const Mat *w, int r, int step, const Rows *a, size_t at, bool add, DType t) {
    float f[4] = {0};
    for (int j = 0; j < 4 && add; j++) f[j] = y[r + j * step];
    V4 sum = v4_load(f);
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) sum = exact_blocks(sum, w, r, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) sum = exact_blocks(sum, w, r, step, a->blocks - 8, b + 8 - a->blocks, a, at, t);
    v4_store(f, sum);
    EACH(j, 4) y[r + j * step] = f[j];
}

INLINE void exact_q(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add, DType t) {
    const size_t at = (size_t)row * (size_t)a->blocks;
    const bool few = !is_k(t) && a->blocks < 8;
    const int step = few ? 0 : (to - from) / 4;
    for (int r = from; r < from + step; r++) exact_rows(y, w, r, step, a, at, add, t);
    for (int r = from + 4 * step; r < to; r++) {
        if (few) y[r] = exact_short(add ? y[r] : 0, w, r, a, at, t);
        else exact_rows(y, w, r, 0, a, at, add, t);
    }
}

/* Two vectors of 8 rows: two accumulators hide the FMA latency. */
INLINE void exact_f(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add, DType t) {
    enum { ROWS = 16 };
    const float *x = a->x + (size_t)row * (size_t)a->dim;
    const size_t each = t == DTYPE_F32 ? 4 : 2;
    for (int r = from; r < to; r += ROWS) {
        const int rows = to - r < ROWS ? to - r : ROWS;
        const uint8_t *p[ROWS];
        float out[ROWS] = {0};
        for (int i = 0; i < ROWS; i++) p[i] = row_of(w, r + (i < rows ? i : rows - 1));
        if (add) memcpy(out, y + r, (size_t)rows * sizeof *y);
        V8 f[2] = {v8_load(out), v8_load(out + 8)};
        int c = 0;
        for (; c + 8 <= w->cols; c += 8)
            EACH(g, 2) {
                I8 v[8];
                EACH(i, 8) {
                    const uint8_t *q = p[8 * g + i] + (size_t)c * each;
                    if ((size_t)c * each % 64 == 0) __builtin_prefetch(q + AHEAD_BYTES);
                    v[i] = v8_bits(floats8(q, t));
                }
                transpose8(v);
                EACH(i, 8) f[g] = v8_fma(v8_of_bits(v[i]), v8_set1(x[c + i]), f[g]);
            }
        v8_store(out, f[0]);
        v8_store(out + 8, f[1]);
        for (; c < w->cols; c++)
            for (int i = 0; i < rows; i++) out[i] = fmaf(float_at(p[i] + (size_t)c * each, t), x[c], out[i]);
        memcpy(y + r, out, (size_t)rows * sizeof *y);
    }
}

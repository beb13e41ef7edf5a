/* simd_gemv_exact - decode with gemm's order of sums, for --deterministic: element after element, block after block,
 * with several weight rows side by side in a vector.
 * A part of simd_body.h. */
#pragma once

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
INLINE __m128 exact_blocks(__m128 f, const Mat *w, int r, int step, int b, int done, const Rows *a, size_t at,
                           DType t) {
    const int parts = has_halves(t) ? 2 : 1;
    __m256 of_part[2], min_of_part[2], scale[2][4], min[2][4], d = _mm256_loadu_ps(a->d + at + (size_t)b);
    for (int j = 0; j < 4; j++) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        prefetch_ahead(p, bytes_of_8(t));
        if (has_halves(t)) scales_of_16(of_part, min_of_part, p, t);
        else of_part[0] = block_scales(&min_of_part[0], w, r + j * step, b, t);
        for (int part = 0; part < parts; part++) {
            scale[part][j] = _mm256_mul_ps(of_part[part], d);
            if (has_min(t)) min[part][j] = min_of_part[part];
        }
    }
    for (int part = 0; part < parts; part++) {
        transpose4(scale[part]);
        if (has_min(t)) transpose4(min[part]);
    }
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
            if (has_min(t)) f = _mm_fmadd_ps(of_block(min[part], i), _mm_set1_ps(sum_of_part(a, block, part, t)), f);
        }
    }
    return f;
}

/* A row of fewer than 8 blocks. */
INLINE float exact_short(float f, const Mat *w, int r, const Rows *a, size_t at, DType t) {
    for (int b = 0; b < a->blocks; b++, at++) {
        float min, d = block_scale(&min, w, r, b, t) * a->d[at];
        __m256i sum = block_dot(_mm256_setzero_si256(), w, r, b, load32(a->q + at * QK), t);
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        s = _mm_hadd_epi32(s, s);
        s = _mm_hadd_epi32(s, s);
        f = fmaf((float)(_mm_cvtsi128_si32(s) - offset_of(t) * sum_of(a->sum[at])), d, f);
        if (has_min(t)) f = fmaf(min, a->d_sum[at], f);
    }
    return f;
}

INLINE void exact_rows(float *y, const Mat *w, int r, int step, const Rows *a, size_t at, bool add, DType t) {
    float f[4] = {0};
    for (int j = 0; j < 4 && add; j++) f[j] = y[r + j * step];
    __m128 sum = _mm_loadu_ps(f);
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) sum = exact_blocks(sum, w, r, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) sum = exact_blocks(sum, w, r, step, a->blocks - 8, b + 8 - a->blocks, a, at, t);
    _mm_storeu_ps(f, sum);
    for (int j = 0; j < 4; j++) y[r + j * step] = f[j];
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

/* simd_gemv - decode: a few weight rows times one row of activations.
 * A part of simd_body.h. */
#pragma once

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

/* gemv walks R rows `step` apart: R concurrent memory streams with software prefetch, which one core needs to saturate
 * the memory's bandwidth. */
enum { AHEAD_BYTES = 1024 };

INLINE void prefetch_ahead(const uint8_t *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + AHEAD_BYTES + i, _MM_HINT_T0);
}

/* The zero point of the stored integers, compensated by the block sums of the activations: the type's, or 128 where
 * signed bytes are made unsigned for VNNI. */
INLINE int offset_of(DType t) { return is_signed(t) ? (HAS_VNNI ? 128 : 0) : zero_of(t); }

/* d * sum of the activations of a block, or of one half of it for a type that has_halves: what a minimum multiplies. */
INLINE float sum_of_part(const Rows *a, size_t at, int part, DType t) {
    return has_halves(t) ? a->d[at] * (float)a->sum[at][part] : a->d_sum[at];
}

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
                       const Rows *a, size_t at, DType t) {
    at += (size_t)(b + i);
    __m256i q = load32(a->q + at * QK), start = _mm256_setzero_si256();
    if (is_signed(t) && HAS_VNNI) start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-offset_of(t) * sum_of(a->sum[at])));
    if (has_halves(t) && offset_of(t)) { /* for each half of the block, which has its own scale */
        start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-offset_of(t) * a->sum[at][0]));
        start = _mm256_insert_epi32(start, -offset_of(t) * a->sum[at][1], 4);
    }
    for (int j = 0; j < R; j++) {
        __m256i sum = block_dot(start, w, r + j * step, b + i, q, t);
        __m256 s = has_halves(t) ? _mm256_set_m128(_mm_set1_ps(scale[j][8 + i]), _mm_set1_ps(scale[j][i]))
                                 : _mm256_set1_ps(scale[j][i]);
        acc[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), s, acc[j]);
    }
}

/* Blocks [b + done, b + 8) of R rows, those before are done. What a type adds to every weight is multiplied with
 * the sum of the activations, eight blocks at a time. */
INLINE void gemv_blocks(__m256 *acc, const Mat *w, int r, int R, int step, int b, int done, const Rows *a, size_t at,
                        DType t) {
    static const int32_t mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    float scale[4][16];
    const __m256i left = load32(mask + 8 - done);
    __m256 d = _mm256_maskload_ps(a->d + at + (size_t)b, left);
    __m256 d_sum = _mm256_maskload_ps(a->d_sum + at + (size_t)b, left), sums[2];
    if (has_halves(t) && has_min(t)) { /* of the blocks' first halves, of their second */
        __m256i pairs = load32(a->sum + at + (size_t)b);
        sums[0] = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16));
        sums[1] = _mm256_cvtepi32_ps(_mm256_srai_epi32(pairs, 16));
    }
    for (int j = 0; j < R; j++) {
        const uint8_t *p = block_of(w, r + j * step, b, t);
        prefetch_ahead(p, bytes_of_8(t));
        if (has_halves(t)) {
            __m256 both[2], min[2];
            scales_of_16(both, min, p, t);
            for (int half = 0; half < 2; half++) {
                _mm256_storeu_ps(scale[j] + 8 * half, _mm256_mul_ps(both[half], d));
                if (has_min(t)) acc[j] = _mm256_fmadd_ps(min[half], _mm256_mul_ps(d, sums[half]), acc[j]);
            }
        } else {
            __m256 min, wd = block_scales(&min, w, r + j * step, b, t);
            _mm256_storeu_ps(scale[j], _mm256_mul_ps(wd, d));
            if (has_min(t) || zero_of(t)) acc[j] = _mm256_fmadd_ps(min, d_sum, acc[j]);
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
INLINE void gemv_rows_q(float *out, const Mat *w, int r, int R, int step, const Rows *a, size_t at, DType t) {
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int b = 0;
    for (; b + 8 <= a->blocks; b += 8) gemv_blocks(acc, w, r, R, step, b, 0, a, at, t);
    if (!is_k(t) && b < a->blocks) gemv_blocks(acc, w, r, R, step, a->blocks - 8, b - (a->blocks - 8), a, at, t);
    sums8(out, acc, R);
}

/* Rows of fewer than 8 blocks, which the K types do not have. */
INLINE float gemv_short_q(const Mat *w, int r, const Rows *a, size_t at, DType t) {
    __m256 acc = _mm256_setzero_ps();
    float rest = 0, scale[1][16];
    for (int b = 0; b < a->blocks; b++) {
        float min, d = block_scale(&min, w, r, b, t);
        scale[0][0] = d * a->d[at + (size_t)b];
        gemv_block(&acc, w, r, 1, 0, b, 0, scale, a, at, t);
        rest += (has_min(t) ? min : d * (float)-zero_of(t)) * a->d_sum[at + (size_t)b];
    }
    return sum8(acc) + rest;
}

INLINE void gemv_rows_f(float *out, const Mat *w, int r, int R, int step, const Rows *a, int row, DType t) {
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

/* simd_gemm - prefill: panels of weight rows, interleaved so that a vector holds one column of many rows.
 * A part of simd_body.h. */
#pragma once

enum { Q_BLOCKS = 64, F_COLS = 1024 }; /* of a panel: 2048 columns, 1024 columns */

typedef struct {
    _Alignas(64) uint8_t q[Q_BLOCKS * LANES * QK];            /* [blocks, 8 steps, LANES rows, 4 columns] */
    float d[2 * Q_BLOCKS * LANES], min[2 * Q_BLOCKS * LANES]; /* [blocks, 1, or 2 for a type that has_halves, LANES] */
} QPanel;

INLINE void panel_q(QPanel *panel, const Mat *w, int r0, int rows, int b0, int blocks, DType t) {
    const int parts = has_halves(t) ? 2 : 1;
    for (int b = 0; b < blocks; b++) {
        for (int g = 0; g < LANES; g += 8) {
            __m256i v[8];
            for (int i = 0; i < 8; i++) {
                float *d = panel->d + parts * b * LANES + g + i, *min = panel->min + parts * b * LANES + g + i;
                v[i] = _mm256_setzero_si256();
                for (int part = 0; part < parts; part++) d[part * LANES] = min[part * LANES] = 0;
                if (g + i >= rows) continue;
                const uint8_t *p = block_of(w, r0 + g + i, b0 + b, t);
                v[i] = block_ints(p, b, t);
                if (is_signed(t) && HAS_VNNI) v[i] = _mm256_xor_si256(v[i], _mm256_set1_epi8((char)0x80));
                for (int part = 0; part < parts; part++)
                    d[part * LANES] = has_halves(t) ? half_scale(min + part * LANES, p, b, part, t)
                                                    : block_scale(min, w, r0 + g + i, b0 + b, t);
            }
            transpose8(v);
            for (int s = 0; s < 8; s++)
                _mm256_store_si256((__m256i *)(void *)(panel->q + (b * 8 + s) * LANES * 4 + g * 4), v[s]);
        }
    }
}

/* c[QTILE_ROWS tokens][LANES rows] (+)= panel * activations. a_at: index of the first token's first block. The unsigned
 * form u = w + zero is compensated in the integers: the accumulator starts at -zero * sum(q). */
INLINE void tile_q(float *c, size_t c_stride, const QPanel *panel, int blocks, const Rows *a, size_t a_at, bool add,
                   DType t) {
    const int zero = offset_of(t);
    const int parts = has_halves(t) ? 2 : 1, steps = 8 / parts; /* of a block; each part has its scale */
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
            const int fit = bits_of(t) <= 4 ? 8 : bits_of(t) == 5 ? 4 : 2, most = fit < steps ? fit : steps;
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
            if (!has_min(t)) continue;
            V min = v_load(panel->min + (b * parts + part) * LANES);
            for (int i = 0; i < QTILE_ROWS; i++)
                f[i] = v_fma(min, v_set1(sum_of_part(a, a_at + (size_t)i, part, t)), f[i]);
        }
    }
    for (int i = 0; i < QTILE_ROWS; i++) v_store(c + (size_t)i * c_stride, f[i]);
}

INLINE void gemm_q(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add, DType t) {
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

INLINE void gemm_f(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add, DType t) {
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

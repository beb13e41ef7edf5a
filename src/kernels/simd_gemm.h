/* simd_gemm - two rows of activations or more: packed panels of weight rows times tiles of activations (the
 * micro-kernel and its packing as in Goto & van de Geijn, Anatomy of high-performance matrix multiplication). A part of
 * simd_body.h. */
#pragma once

/* The micro-kernel: c[m tokens][Q_ROWS] (+)= panel * activations. a_at: index of the first token's first block. The
 * unsigned form u = w + zero is compensated in the integers: the accumulator starts at -zero * sum(q). */
INLINE void tile_of_q(float *c, size_t c_stride, const QPanel *panel, int blocks, const Rows *a, size_t a_at, int m,
                      int zero, bool add, DType t) {
    const int parts = has_halves(t) ? 2 : 1, steps = 8 / parts; /* of a block; each part has its scale */
    const bool zeros = !has_min(t) && (HAS_DOT || !is_signed(t));
    int32_t start[2 * Q_BLOCKS][4];
    for (int b = 0; b < blocks && zeros; b++) {
        const uint32_t low = (uint32_t)-zero & 0xffff, high = low << 16; /* for the sums of its two halves */
        I4 sums = i4_load(a->sum + a_at + (size_t)(b * a->tile));
        EACH(part, parts) {
            I4 times = i4_set1((int)(parts == 1 ? low | high : part ? high : low));
            i4_store(start[b * parts + part], i4_madd16(sums, times));
        }
    }
    V f[QTILE_ROWS][Q_VECTORS];
    EACH(i, m)
        EACH(j, Q_VECTORS) f[i][j] = add ? v_load(c + (size_t)i * c_stride + j * LANES) : v_zero();
    const uint8_t *p = panel->q;
    const float *d = panel->d, *min = panel->min;
    for (int b = 0; b < blocks; b++, a_at += (size_t)a->tile) {
        const int8_t *q = a->q + a_at * QK;
#pragma GCC unroll 2
        for (int part = 0; part < parts; part++, d += Q_ROWS, min += Q_ROWS, p += steps * Q_ROWS * 4) {
            I acc[QTILE_ROWS][Q_VECTORS];
            EACH(i, m)
                EACH(j, Q_VECTORS) acc[i][j] = zeros ? i_set1(start[b * parts + part][i]) : i_zero();
#if !HAS_DOT
            /* 16 bits hold so many pair sums of a lane, each at most (2^bits - 1) * 127 * 2. */
            const int fit = bits_of(t) <= 4 ? 8 : bits_of(t) == 5 ? 4 : 2, most = fit < steps ? fit : steps;
            I pairs[QTILE_ROWS][Q_VECTORS];
            EACH(i, m)
                EACH(j, Q_VECTORS) pairs[i][j] = i_zero();
#endif
#pragma GCC unroll 8
            for (int s = 0; s < steps; s++) {
                I v[Q_VECTORS];
                EACH(j, Q_VECTORS) v[j] = i_load(p + (s * Q_VECTORS + j) * LANES * 4);
                EACH(i, m) {
                    const int8_t *x = q + i * QK;
                    EACH(j, Q_VECTORS) {
#if HAS_DOT
                        acc[i][j] = i_dot_four(acc[i][j], v[j], x, part * steps + s);
#else
                        const int four = dword(x + (part * steps + s) * 4);
                        if (is_signed(t)) {
                            acc[i][j] = dot32_s8s8(acc[i][j], v[j], i_set1(four));
                            IN_REGISTER(acc[i][j]);
                            continue;
                        }
                        pairs[i][j] = _mm256_add_epi16(pairs[i][j], _mm256_maddubs_epi16(v[j], i_set1(four)));
                        IN_REGISTER(pairs[i][j]);
                        if ((s + 1) % most) continue;
                        acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(pairs[i][j], _mm256_set1_epi16(1)));
                        pairs[i][j] = i_zero();
#endif
                    }
                }
            }
            EACH(i, m)
                EACH(j, Q_VECTORS) {
                    V scale = v_mul(v_load(d + j * LANES), v_set1(a->d[a_at + (size_t)i]));
                    f[i][j] = v_fma(v_of_ints(acc[i][j]), scale, f[i][j]);
                    if (!has_min(t)) continue;
                    V sum = v_set1(sum_of_part(a, a_at + (size_t)i, part, t));
                    f[i][j] = v_fma(v_load(min + j * LANES), sum, f[i][j]);
                }
        }
    }
    EACH(i, m)
        EACH(j, Q_VECTORS) v_store(c + (size_t)i * c_stride + j * LANES, f[i][j]);
}

/* A type whose micro-kernel is the same as t's: all that differs is in the panel. */
INLINE DType alike(DType t) {
    if (has_halves(t)) return t == DTYPE_Q3_K && HAS_DOT ? DTYPE_Q6_K : t;
    if (has_min(t)) return bits_of(t) == 5 && !HAS_DOT ? DTYPE_Q5_1 : DTYPE_Q4_1;
    return is_signed(t) ? DTYPE_Q8_0 : bits_of(t) == 5 && !HAS_DOT ? DTYPE_Q5_0 : HAS_DOT ? DTYPE_Q8_0 : DTYPE_Q4_0;
}

#define TILE_Q(m, t) tile_of_q(c, c_stride, panel, blocks, a, a_at, m, zero, add, t)
#define TILES(t)                                                                                                       \
    case t:                                                                                                            \
        if (m == 1) TILE_Q(1, t);                                                                                      \
        else if (m == 2) TILE_Q(2, t);                                                                                 \
        else if (QTILE_ROWS > 2 && m == 3) TILE_Q(3, t);                                                               \
        else TILE_Q(QTILE_ROWS, t);                                                                                    \
        return;

static void tile_q(float *c, size_t c_stride, const QPanel *panel, int blocks, const Rows *a, size_t a_at, int m,
                   int zero, bool add, DType t) {
    switch (t) { /* a constant m keeps the sums in registers */
        TILES(DTYPE_Q8_0)
        TILES(DTYPE_Q4_1)
        TILES(DTYPE_Q6_K)
        TILES(DTYPE_Q2_K)
#if !HAS_DOT
        TILES(DTYPE_Q4_0)
        TILES(DTYPE_Q5_0)
        TILES(DTYPE_Q5_1)
        TILES(DTYPE_Q3_K)
#endif
    default: return;
    }
}

INLINE void gemm_q(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add, DType t) {
    QPanel panel;
    float edge[QTILE_ROWS * Q_ROWS];
    for (int r = from; r < to; r += Q_ROWS) {
        int rows = to - r < Q_ROWS ? to - r : Q_ROWS;
        for (int b = 0; b < a->blocks; b += Q_BLOCKS) {
            int blocks = a->blocks - b < Q_BLOCKS ? a->blocks - b : Q_BLOCKS;
            bool more = add || b > 0, last = b + blocks == a->blocks;
            panel_q(&panel, w, r, rows, b, blocks, block_of(w, last ? r + Q_ROWS : r, last ? 0 : b + blocks, t), t);
            for (int i = 0; i < a->n; i += QTILE_ROWS) {
                size_t at = (size_t)(i / a->tile * a->tile) * (size_t)a->blocks + (size_t)(b * a->tile + i % a->tile);
                int m = a->n - i < QTILE_ROWS ? a->n - i : QTILE_ROWS;
                float *c = y + (size_t)i * y_stride + r;
                if (rows == Q_ROWS) {
                    tile_q(c, y_stride, &panel, blocks, a, at, m, offset_of(t), more, alike(t));
                    continue;
                }
                for (int j = 0; j < m && more; j++)
                    memcpy(edge + j * Q_ROWS, c + (size_t)j * y_stride, (size_t)rows * sizeof *edge);
                tile_q(edge, Q_ROWS, &panel, blocks, a, at, m, offset_of(t), more, alike(t));
                for (int j = 0; j < m; j++)
                    memcpy(c + (size_t)j * y_stride, edge + j * Q_ROWS, (size_t)rows * sizeof *edge);
            }
        }
    }
}

/* The scales of keys from the group on that row j is in. */
INLINE V keys_scale(const TileB *b, int col, int j) {
    const char *group = (const char *)b->data + (size_t)(j / QK) * KEYS_Q8_BYTES;
    return v_from_f16((const uint16_t *)(const void *)group + col);
}

/* LANES values of row j as f32. */
INLINE V tile_row(const TileB *b, int col, int j, V scale, TileForm form) {
    const char *row = (const char *)b->data + (size_t)j * b->stride;
    if (form == TILE_F16) return v_from_f16((const uint16_t *)(const void *)row + col);
    if (form == TILE_Q8_KEYS) {
        row = (const char *)b->data + (size_t)(j / QK) * KEYS_Q8_BYTES + (2 + j % QK) * KV_BLOCK;
        return v_mul(scale, v_from_s8((const int8_t *)row + col));
    }
    if (form == TILE_Q8_VALUES) {
        const BlockQ8_0 *block = (const BlockQ8_0 *)(const void *)row + col / QK;
        return v_mul(v_set1(half_to_float(block->d)), v_from_s8(block->q + col % QK));
    }
    return v_load((const float *)(const void *)row + col);
}

/* What comes from the KV cache is prefetched k rows ahead: the next block lies right behind this one. */
INLINE void tile_of(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add,
                    TileForm form) {
    V sum[TILE_ROWS][2], scale[2] = {v_zero(), v_zero()};
    EACH(i, m) {
        sum[i][0] = add ? v_load(c[i]) : v_zero();
        sum[i][1] = add ? v_load(c[i] + LANES) : v_zero();
    }
    const char *ahead = (const char *)b->data + (size_t)k * b->stride + (form == TILE_F16 ? 2 : 1) * col;
    for (int j = 0; j < k; j++, ahead += b->stride) {
        if (form != TILE_F32) __builtin_prefetch(ahead, 0, 2);
        if (form == TILE_Q8_KEYS && j % QK == 0)
            EACH(h, 2) scale[h] = keys_scale(b, col + h * LANES, j);
        V b0 = tile_row(b, col, j, scale[0], form), b1 = tile_row(b, col + LANES, j, scale[1], form);
        EACH(i, m) {
            V x = v_set1(a[i][j]);
            sum[i][0] = v_fma(x, b0, sum[i][0]);
            sum[i][1] = v_fma(x, b1, sum[i][1]);
        }
    }
    EACH(i, m) {
        v_store(c[i], sum[i][0]);
        v_store(c[i] + LANES, sum[i][1]);
    }
}

INLINE void tile_form(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add,
                      TileForm form) {
    switch (m) { /* a constant m keeps the sums in registers */
    case 1: tile_of(c, a, 1, b, col, k, add, form); return;
    case 2: tile_of(c, a, 2, b, col, k, add, form); return;
    case 3: tile_of(c, a, 3, b, col, k, add, form); return;
    case 4: tile_of(c, a, 4, b, col, k, add, form); return;
    case 5: tile_of(c, a, 5, b, col, k, add, form); return;
    case 6: tile_of(c, a, 6, b, col, k, add, form); return;
#ifdef LANES_16
    case 7: tile_of(c, a, 7, b, col, k, add, form); return;
    case 8: tile_of(c, a, 8, b, col, k, add, form); return;
#endif
    }
}

static void tile(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add) {
    switch (b->form) {
    case TILE_F32: tile_form(c, a, m, b, col, k, add, TILE_F32); return;
    case TILE_F16: tile_form(c, a, m, b, col, k, add, TILE_F16); return;
    case TILE_Q8_KEYS: tile_form(c, a, m, b, col, k, add, TILE_Q8_KEYS); return;
    case TILE_Q8_VALUES: tile_form(c, a, m, b, col, k, add, TILE_Q8_VALUES); return;
    }
}

enum { F_COLS = 1024, F_FEW_COLS = 128 }; /* of an f32 panel; few, so that the next columns are prefetched in time */

/* panel[k][TILE_COLS] = columns c0 .. c0 + cols of rows r0 .. r0 + rows, as f32. */
INLINE void panel_f(float *panel, const Mat *w, int r0, int rows, int c0, int cols, const uint8_t *next, DType t) {
    const size_t each = t == DTYPE_F32 ? 4 : 2;
    for (int g = 0; g < TILE_COLS; g += 8) {
        int c = 0;
        for (; c + 8 <= cols; c += 8) {
            const Next ahead = {next + (size_t)g * w->stride_bytes + (size_t)c * each, w->stride_bytes};
            I8 v[8];
            if ((size_t)c * each % 64 == 0) prefetch_rows(&ahead, 0, 8, 64);
            EACH(i, 8)
                v[i] = g + i < rows ? v8_bits(floats8(row_of(w, r0 + g + i) + (size_t)(c0 + c) * each, t)) : i8_zero();
            transpose8(v);
            EACH(i, 8) i8_store(panel + (c + i) * TILE_COLS + g, v[i]);
        }
        for (; c < cols; c++)
            EACH(i, 8)
                panel[c * TILE_COLS + g + i] =
                    g + i < rows ? float_at(row_of(w, r0 + g + i) + (size_t)(c0 + c) * each, t) : 0;
    }
}

INLINE void gemm_f(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add, DType t) {
    _Alignas(64) float panel[F_COLS * TILE_COLS];
    float edge[TILE_ROWS][TILE_COLS];
    const TileB b = {panel, TILE_COLS * sizeof *panel, TILE_F32};
    const int most = a->n <= ROWS_TILE ? F_FEW_COLS : F_COLS;
    const size_t each = t == DTYPE_F32 ? 4 : 2;
    for (int r = from; r < to; r += TILE_COLS) {
        int rows = to - r < TILE_COLS ? to - r : TILE_COLS;
        for (int k = 0; k < w->cols; k += most) {
            int cols = w->cols - k < most ? w->cols - k : most;
            bool more = add || k > 0, last = k + cols == w->cols;
            panel_f(panel, w, r, rows, k, cols,
                    row_of(w, last ? r + TILE_COLS : r) + (last ? 0 : (size_t)(k + cols) * each), t);
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
                tile(c, x, m, &b, 0, cols, more);
                for (int j = 0; j < m && rows < TILE_COLS; j++)
                    memcpy(y + (size_t)(i + j) * y_stride + r, edge[j], (size_t)rows * sizeof **c);
            }
        }
    }
}

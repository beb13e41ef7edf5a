/* simd_panel - packing: weight rows of any quantized type interleaved, so that a vector holds four columns of many
 * rows. A part of simd_body.h. */
#pragma once

/* The panel: Q_BLOCKS blocks of 32 columns of Q_ROWS weight rows, 16 KiB of integers. It stays in the L1 cache while
 * all rows of activations are multiplied with it. */
enum { Q_ROWS = Q_VECTORS * LANES, Q_BLOCKS = 512 / Q_ROWS };

typedef struct {
    _Alignas(64) uint8_t q[Q_BLOCKS * Q_ROWS * QK];                          /* [blocks, 8 steps, Q_ROWS, 4 columns] */
    _Alignas(64) float d[2 * Q_BLOCKS * Q_ROWS], min[2 * Q_BLOCKS * Q_ROWS]; /* [blocks, 1 or 2 parts, Q_ROWS] */
} QPanel;

/* v[s] = 4 bytes from p + 4 s of each of LANES rows, s < 4: 4 x 4 transposes within the 128-bit lanes. */
INLINE void columns4(I v[4], const uint8_t *p, size_t stride) {
    I x[4], y[4];
    for (int i = 0; i < 4; i++) x[i] = i_pieces(p + (size_t)i * stride, 4 * stride);
    for (int i = 0; i < 4; i += 2) {
        y[i] = i_unpacklo32(x[i], x[i + 1]);
        y[i + 1] = i_unpackhi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        v[2 * i] = i_unpacklo64(y[i], y[i + 2]);
        v[2 * i + 1] = i_unpackhi64(y[i], y[i + 2]);
    }
}

INLINE void columns8(I v[8], const uint8_t *p, size_t stride) {
    columns4(v, p, stride);
    columns4(v + 4, p + 16, stride);
}

/* x >> n in 16 bits; n a constant */
INLINE I i_right(I x, int n) { return n == 0 ? x : n == 2 ? i_srl16(x, 2) : n == 4 ? i_srl16(x, 4) : i_srl16(x, 6); }

/* Nibbles of a block of its own: the low ones of 16 bytes, then the high ones. */
INLINE bool in_16_bytes(DType t) { return is_iq4(t) || t == DTYPE_MXFP4 || (!is_k(t) && bits_of(t) != 8); }

/* How many blocks' low bits each 32 bytes of a K type hold. */
INLINE int blocks_sharing(DType t) {
    return t == DTYPE_Q2_K || t == DTYPE_Q3_K ? 4 : is_k(t) && t != DTYPE_IQ4_XS ? 2 : 1;
}

/* Bits of block i, and n of those that share its bytes: raw is them, interleaved; high is what has the bits above. */
INLINE void panel_block(uint8_t *q, const I raw[8], const I *high, int i, int n, DType t) {
    const int share = blocks_sharing(t);
#pragma GCC unroll 8
    for (int s = 0; s < 8; s++) {
        I v = raw[s];
        if (share > 1 || in_16_bytes(t)) v = i_and(i_right(v, 8 / share * n % 8), i_set8(share == 4 ? 3 : 15));
        if (is_iq4(t)) v = i_shuffle8(i_same16(codebook_iq4), v);
        if (t == DTYPE_MXFP4) v = i_shuffle8(i_same16(codebook_mxfp4), v);
        if (t == DTYPE_Q5_0 || t == DTYPE_Q5_1) {
            I same = i_shuffle8(high[0], i_each_dword(s / 2 * 0x01010101));
            v = i_or(v, i_where(same, i_set1(s % 2 ? (int)0x80402010 : 0x08040201), 16));
        }
        if (t == DTYPE_Q5_K) v = i_or(v, i_where(high[s], i_set8((char)(1 << i)), 16));
        if (t == DTYPE_Q3_K) v = i_or(v, i_where(high[s], i_set8((char)(1 << i)), 4));
        if (t == DTYPE_Q6_K) v = i_or(v, i_sll16(i_and(i_right(high[i / 4 * 8 + s], i % 4 * 2), i_set8(3)), 4));
        if (is_signed(t) && SIGN_OFFSET) v = i_xor(v, i_set8((char)SIGN_OFFSET));
        i_store(q + (i * 8 + s) * Q_ROWS * 4, v);
    }
}

/* The blocks that share the g-th bytes of low bits: rows are interleaved as the file has them, and only then the bits
 * of a byte are taken apart. */
INLINE void panel_group(uint8_t *q, const uint8_t *p, size_t stride, I *high, int g, DType t) {
    const int share = blocks_sharing(t);
    const size_t each = share > 1 ? QK : t == DTYPE_IQ4_XS ? QK / 2 : (size_t)(bytes_of_8(t) / 8);
    I raw[8];
    p += (size_t)g * each;
    if (t == DTYPE_Q5_0) high[0] = i_dwords(p + offsetof(BlockQ5_0, high), stride);
    if (t == DTYPE_Q5_1) high[0] = i_dwords(p + offsetof(BlockQ5_1, high), stride);
    columns4(raw, p + low_at(t), stride);
    if (!in_16_bytes(t)) columns4(raw + 4, p + low_at(t) + 16, stride);
    for (int s = 0; s < 4 && in_16_bytes(t); s++) raw[s + 4] = i_srl16(raw[s], 4);
#pragma GCC unroll 4
    for (int n = 0; n < share; n++)
        panel_block(q, raw, high, t == DTYPE_Q6_K ? g / 2 * 4 + g % 2 + 2 * n : g * share + n, n, t);
}

/* Where the same columns of LANES rows are in what is read next. Prefetched a few rows at a time: a core has few
 * buffers for lines on their way. */
typedef struct {
    const uint8_t *p;
    size_t stride;
} Next;

INLINE void prefetch_rows(const Next *next, int from, int n, int bytes) {
    for (int i = from; i < from + n; i++)
        for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next->p + (size_t)i * next->stride + line);
}

/* The integers of `blocks` blocks of LANES rows. */
INLINE void panel_ints(uint8_t *q, const uint8_t *p, size_t stride, int blocks, const Next *next, DType t) {
    const int groups = 8 / blocks_sharing(t);
    I high[16];
    if (t == DTYPE_Q5_K) columns8(high, p + offsetof(BlockQ5_K, high), stride);
    if (t == DTYPE_Q3_K) columns8(high, p + offsetof(BlockQ3_K, high), stride);
    for (int half = 0; half < 2 && t == DTYPE_Q6_K; half++)
        columns8(high + 8 * half, p + offsetof(BlockQ6_K, high) + half * QK, stride);
    if (groups == 8) {
        for (int g = 0; g < blocks; g++) {
            prefetch_rows(next, g * LANES / 8, LANES / 8, bytes_of_8(t));
            panel_group(q, p, stride, high, g, t);
        }
    } else {
#pragma GCC unroll 1 /* or the prefetches of all groups come together */
        for (int g = 0; g < groups; g++) {
            prefetch_rows(next, g * LANES / groups, LANES / groups, bytes_of_8(t));
            panel_group(q, p, stride, high, g, t);
        }
    }
}

INLINE I bits_from(I x, int at, int mask) { return i_and(i_srl32(x, at), i_set1(mask)); }

/* The scales of those blocks, and their minima. */
INLINE void panel_scales(float *d, float *min, const uint8_t *p, size_t stride, int blocks, DType t) {
    const size_t each = (size_t)(bytes_of_8(t) / 8);
    for (int i = 0; i < blocks; i++) {
        I x = i_dwords(p + (size_t)i * each, stride);
        V scale = v_of_f16(x);
        if (t == DTYPE_MXFP4) { /* scale_mxfp4 */
            I e = i_and(x, i_set1(255)), small = i_sll32(i_add(i_min(e, i_set1(1)), i_set1(1)), 21);
            scale = v_of_bits(i_max(i_sll32(i_add(e, i_set1(-1)), 23), small));
        }
        v_store(d + i * Q_ROWS, scale);
        if (has_min(t)) v_store(min + i * Q_ROWS, v_of_f16(i_srl32(x, 16)));
    }
}

INLINE void group_scales(float *d, const Mat *w, int r0, int g, int rows, int b, int blocks) {
    for (int i = 0; i < blocks; i++)
        for (int j = 0; j < LANES; j++) {
            int r = g + j < rows ? g + j : rows - 1;
            d[i * Q_ROWS + j] = group_scale(w, r0 + r, b + i);
        }
}

/* Those of the 8 blocks of a K type. */
INLINE void k_scales(float *d, float *min, const uint8_t *p, size_t stride, DType t) {
    I head[4], x;
    V scale, of_min = v_zero();
    switch (t) {
    case DTYPE_Q6_K:
        columns4(head, p + offsetof(BlockQ6_K, scales), stride);
        x = i_srl32(i_dwords(p + offsetof(BlockQ6_K, d) - 2, stride), 16);
        break;
    case DTYPE_Q3_K:
        columns4(head, p + offsetof(BlockQ3_K, scales) - 4, stride);
        x = i_srl32(i_dwords(p + offsetof(BlockQ3_K, d) - 2, stride), 16);
        break;
    case DTYPE_Q2_K:
        columns4(head, p + offsetof(BlockQ2_K, scales), stride);
        x = i_dwords(p + offsetof(BlockQ2_K, d), stride);
        break;
    default: columns4(head, p, stride); x = head[0];
    }
    scale = v_of_f16(x);
    if (has_min(t)) of_min = v_sub(v_zero(), v_of_f16(i_srl32(x, 16)));
    const int scales = has_halves(t) ? 16 : 8;
#pragma GCC unroll 16
    for (int j = 0; j < scales; j++) {
        I s, m = i_zero();
        const int at = 8 * (j % 4);
        switch (t) {
        case DTYPE_Q6_K: s = i_sra32(i_sll32(head[j / 4], 24 - at), 24); break;
        case DTYPE_Q2_K:
            s = bits_from(head[j / 4], at, 15);
            m = bits_from(head[j / 4], at + 4, 15);
            break;
        case DTYPE_Q3_K: /* scale_3k */
            s = bits_from(head[1 + j / 4 % 2], at + j / 8 * 4, 15);
            s = i_add(i_or(s, i_sll32(bits_from(head[3], at + j / 4 * 2, 3), 4)), i_set1(-32));
            break;
        case DTYPE_IQ4_XS:
            s = i_or(bits_from(head[1], 4 * j, 15), i_sll32(bits_from(head[0], 16 + 2 * j, 3), 4));
            s = i_add(s, i_set1(-32));
            break;
        default: /* scale_min_k */
            if (j < 4) {
                s = bits_from(head[1], at, 63);
                m = bits_from(head[2], at, 63);
            } else {
                s = i_or(bits_from(head[3], at, 15), i_sll32(bits_from(head[1], at + 6, 3), 4));
                m = i_or(bits_from(head[3], at + 4, 15), i_sll32(bits_from(head[2], at + 6, 3), 4));
            }
        }
        v_store(d + j * Q_ROWS, v_mul(scale, v_of_ints(s)));
        if (has_min(t)) v_store(min + j * Q_ROWS, v_mul(of_min, v_of_ints(m)));
    }
}

/* Rows [r0, r0 + rows), blocks [b0, b0 + blocks); next: those that follow. */
INLINE void panel_q(QPanel *panel, const Mat *w, int r0, int rows, int b0, int blocks, const uint8_t *next, DType t) {
    enum { MOST_BYTES = 8 * sizeof(BlockQ8_0) };
    uint8_t edge[LANES * MOST_BYTES];
    const int parts = has_halves(t) ? 2 : 1;
    for (int g = 0; g < Q_ROWS; g += LANES)
        for (int b = 0; b < blocks; b += 8) {
            const int n = blocks - b < 8 ? blocks - b : 8;
            const uint8_t *p = block_of(w, r0, b0 + b, t);
            const Next ahead = {next + (p - block_of(w, r0, b0, t)) + (size_t)g * w->stride_bytes, w->stride_bytes};
            size_t stride = w->stride_bytes;
            const bool part = g + LANES > rows; /* then the last row is in place of those that are not there */
            for (int i = 0; i < LANES && part; i++) {
                int r = g + i < rows ? g + i : rows - 1;
                memcpy(edge + i * MOST_BYTES, p + (size_t)r * stride, (size_t)(n * bytes_of_8(t) / 8));
            }
            p = part ? edge : p + (size_t)g * stride;
            stride = part ? MOST_BYTES : stride;
            panel_ints(panel->q + b * Q_ROWS * QK + g * 4, p, stride, n, &ahead, t);
            float *d = panel->d + parts * b * Q_ROWS + g, *min = panel->min + parts * b * Q_ROWS + g;
            if (t == DTYPE_Q8_GROUP) group_scales(d, w, r0, g, rows, b0 + b, n);
            else if (is_k(t)) k_scales(d, min, p, stride, t);
            else panel_scales(d, min, p, stride, n, t);
        }
}

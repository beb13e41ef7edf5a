/* simd_weights - a piece of a weight row of any type: its integers, its scales and minima, or its floats.
 * A part of simd_body.h. */
#pragma once

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
INLINE bool has_halves(DType t) { return t == DTYPE_Q2_K || t == DTYPE_Q3_K || t == DTYPE_Q6_K; } /* 16 under a scale */
INLINE bool is_k(DType t) { return has_halves(t) || t == DTYPE_Q4_K || t == DTYPE_Q5_K || t == DTYPE_IQ4_XS; }
INLINE bool is_iq4(DType t) { return t == DTYPE_IQ4_NL || t == DTYPE_IQ4_XS; }
INLINE bool is_signed(DType t) { /* bytes; else 0 .. 2^bits - 1 */
    return t == DTYPE_Q8_0 || t == DTYPE_Q8_GROUP || is_iq4(t) || t == DTYPE_MXFP4;
}
INLINE int bits_of(DType t) {
    if (t == DTYPE_Q2_K || t == DTYPE_Q3_K) return t == DTYPE_Q2_K ? 2 : 3;
    return t == DTYPE_Q5_0 || t == DTYPE_Q5_1 || t == DTYPE_Q5_K ? 5 : t == DTYPE_Q6_K ? 6 : is_signed(t) ? 8 : 4;
}
INLINE bool has_min(DType t) {
    return t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K || t == DTYPE_Q2_K;
}
/* The zero point of a type without a minimum. */
INLINE int zero_of(DType t) {
    return t == DTYPE_Q4_0 ? 8 : t == DTYPE_Q5_0 ? 16 : t == DTYPE_Q6_K ? 32 : t == DTYPE_Q3_K ? 4 : 0;
}

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
    case DTYPE_Q2_K: return (int)sizeof(BlockQ2_K);
    case DTYPE_Q3_K: return (int)sizeof(BlockQ3_K);
    case DTYPE_IQ4_NL: return 8 * (int)sizeof(BlockIQ4_NL);
    case DTYPE_IQ4_XS: return (int)sizeof(BlockIQ4_XS);
    case DTYPE_MXFP4: return 8 * (int)sizeof(BlockMXFP4);
    default: return 8 * QK;
    }
}

/* Where the integers' low bits are in a block. */
INLINE size_t low_at(DType t) {
    switch (t) {
    case DTYPE_Q8_0: return offsetof(BlockQ8_0, q);
    case DTYPE_Q4_0: return offsetof(BlockQ4_0, q);
    case DTYPE_Q4_1: return offsetof(BlockQ4_1, q);
    case DTYPE_Q5_0: return offsetof(BlockQ5_0, q);
    case DTYPE_Q5_1: return offsetof(BlockQ5_1, q);
    case DTYPE_Q4_K: return offsetof(BlockQ4_K, q);
    case DTYPE_Q5_K: return offsetof(BlockQ5_K, q);
    case DTYPE_Q2_K: return offsetof(BlockQ2_K, q);
    case DTYPE_Q3_K: return offsetof(BlockQ3_K, q);
    case DTYPE_IQ4_NL: return offsetof(BlockIQ4_NL, q);
    case DTYPE_IQ4_XS: return offsetof(BlockIQ4_XS, q);
    case DTYPE_MXFP4: return offsetof(BlockMXFP4, q);
    default: return 0;
    }
}

/* The 32 values of block b of row r: a block of their own, or part of one of 256. */
INLINE const uint8_t *block_of(const Mat *w, int r, int b, DType t) {
    return row_of(w, r) + (is_k(t) ? (size_t)(b / 8 * bytes_of_8(t)) : (size_t)b * (size_t)(bytes_of_8(t) / 8));
}

/* 0 .. 15 from 32 bytes: all low nibbles or all high ones. */
INLINE I8 nibbles_of_32(const uint8_t *p, bool high) { return i8_bits_from(i8_load(p), high ? 4 : 0, 15); }

/* 0 .. 3 from block i of eight whose 2-bit values are kept 128 at a time. */
INLINE I8 two_bits(const uint8_t *p, int i) { return i8_bits_from(i8_load(p + i / 4 * QK), i % 4 * 2, 3); }

/* The values of a codebook that 16 bytes of nibbles are numbers of. */
INLINE I8 of_codebook(const uint8_t *p, const int8_t codebook[16]) {
    return i8_shuffle8(i8_same16(codebook), i8_nibbles(p));
}

/* The 32 integers of block b of its row; p is block_of() it. */
INLINE I8 block_ints(const uint8_t *p, int b, DType t) {
    const int i = b % 8;
    switch (t) {
    case DTYPE_Q8_0: return i8_load(p + offsetof(BlockQ8_0, q));
    case DTYPE_Q4_0: return i8_nibbles(p + offsetof(BlockQ4_0, q));
    case DTYPE_Q4_1: return i8_nibbles(p + offsetof(BlockQ4_1, q));
    case DTYPE_Q5_0:
    case DTYPE_Q5_1: {
        p += t == DTYPE_Q5_0 ? offsetof(BlockQ5_0, high) : offsetof(BlockQ5_1, high);
        return i8_or(i8_nibbles(p + 4), i8_where_bit(u32_at(p), 16));
    }
    case DTYPE_Q4_K: return nibbles_of_32(p + offsetof(BlockQ4_K, q) + i / 2 * QK, i % 2);
    case DTYPE_Q5_K: {
        I8 high = i8_where(i8_load(p + offsetof(BlockQ5_K, high)), i8_set8((char)(1 << i)), 16);
        return i8_or(nibbles_of_32(p + offsetof(BlockQ5_K, q) + i / 2 * QK, i % 2), high);
    }
    case DTYPE_Q6_K: {
        const int half = i / 4, j = i % 4;
        I8 x = i8_load(p + offsetof(BlockQ6_K, high) + half * QK);
        x = j == 0 ? i8_sll16(x, 4) : j == 1 ? i8_sll16(x, 2) : j == 2 ? x : i8_srl16(x, 2);
        return i8_or(nibbles_of_32(p + half * 64 + j % 2 * QK, j / 2), i8_and(x, i8_set8(0x30)));
    }
    case DTYPE_Q2_K: return two_bits(p + offsetof(BlockQ2_K, q), i);
    case DTYPE_Q3_K: {
        I8 high = i8_where(i8_load(p), i8_set8((char)(1 << i)), 4);
        return i8_or(two_bits(p + offsetof(BlockQ3_K, q), i), high);
    }
    case DTYPE_IQ4_NL: return of_codebook(p + offsetof(BlockIQ4_NL, q), codebook_iq4);
    case DTYPE_IQ4_XS: return of_codebook(p + offsetof(BlockIQ4_XS, q) + i * (QK / 2), codebook_iq4);
    case DTYPE_MXFP4: return of_codebook(p + offsetof(BlockMXFP4, q), codebook_mxfp4);
    default: return i8_load(p);
    }
}

INLINE float group_scale(const Mat *w, int r, int b) {
    size_t at = ((size_t)r * (size_t)w->cols + (size_t)b * QK) / (size_t)w->group;
    float d;
    memcpy(&d, (const char *)w->scales + at * sizeof d, sizeof d);
    return d;
}

/* Where a type that has_halves keeps the scale of its scales. */
INLINE size_t scale_at(DType t) {
    return t == DTYPE_Q6_K ? offsetof(BlockQ6_K, d) : t == DTYPE_Q3_K ? offsetof(BlockQ3_K, d) : offsetof(BlockQ2_K, d);
}

INLINE int scale_iq4_xs(const uint8_t *p, int i) {
    int low = p[offsetof(BlockIQ4_XS, scales) + (size_t)(i / 2)] >> i % 2 * 4 & 15;
    return (low | (u16_at(p + offsetof(BlockIQ4_XS, scales_high)) >> 2 * i & 3) << 4) - 32;
}

/* Scale of block b of row r, and its minimum where the type has one. Not for types with two of them. */
INLINE float block_scale(float *min, const Mat *w, int r, int b, DType t) {
    const uint8_t *p = block_of(w, r, b, t);
    *min = 0;
    if (t == DTYPE_Q8_GROUP) return group_scale(w, r, b);
    if (t == DTYPE_MXFP4) return scale_mxfp4(*p);
    float d = half_to_float(u16_at(p));
    if (t == DTYPE_IQ4_XS) return d * (float)scale_iq4_xs(p, b % 8);
    if (!has_min(t)) return d;
    *min = half_to_float(u16_at(p + 2));
    if (!is_k(t)) return d;
    int scale, of_min;
    scale_min_k(&scale, &of_min, p + offsetof(BlockQ4_K, scales), b % 8);
    *min *= -(float)of_min;
    return d * (float)scale;
}

/* The 8 scales of an IQ4_XS block. */
INLINE V8 scales_iq4_xs(const uint8_t *p) {
    I8 low = i8_fields(u32_at(p + offsetof(BlockIQ4_XS, scales)), 4);
    I8 high = i8_fields(u16_at(p + offsetof(BlockIQ4_XS, scales_high)), 2);
    I8 scale = i8_add(i8_or(low, i8_sll32(high, 4)), i8_set1(-32));
    return v8_mul(v8_set1(half_to_float(u16_at(p))), v8_of_ints(scale));
}

/* Scales of the 8 blocks from block b of row r, and their minima. */
INLINE V8 block_scales(V8 *min, const Mat *w, int r, int b, DType t) {
    const int s = bytes_of_8(t) / 8;
    const uint8_t *p = block_of(w, r, b, t);
    if (t == DTYPE_Q8_GROUP) {
        float d[8];
        for (int i = 0; i < 8; i++) d[i] = group_scale(w, r, b + i);
        return v8_load(d);
    }
    if (t == DTYPE_IQ4_XS) return scales_iq4_xs(p);
    if (t == DTYPE_MXFP4) { /* scale_mxfp4 of all 8 */
        I8 e = i8_set(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s]);
        I8 small = i8_sll32(i8_add(i8_min(e, i8_set1(1)), i8_set1(1)), 21);
        return v8_of_bits(i8_max(i8_sll32(i8_add(e, i8_set1(-1)), 23), small));
    }
    if (is_k(t)) { /* scale_min_k of all 8 */
        const uint32_t two = 0x03030303, four = 0x0f0f0f0f, six = 0x3f3f3f3f;
        uint32_t x = (uint32_t)u32_at(p + 4), y = (uint32_t)u32_at(p + 8), z = (uint32_t)u32_at(p + 12);
        V8 scale = v8_of_8_bytes(x & six, (z & four) | (x >> 6 & two) << 4);
        V8 of_min = v8_of_8_bytes(y & six, (z >> 4 & four) | (y >> 6 & two) << 4);
        *min = v8_mul(v8_set1(-half_to_float(u16_at(p + 2))), of_min);
        return v8_mul(v8_set1(half_to_float(u16_at(p))), scale);
    }
    if (has_min(t)) return v8_of_f16_pairs(min, p, (size_t)s);
    V8 d = v8_of_f16_each(p, (size_t)s);
    *min = v8_mul(d, v8_set1((float)-zero_of(t)));
    return d;
}

/* The two scales of each of 8 blocks of a type that has_halves: those of their first halves, those of their second.
 * And their minima, where it has_min. */
INLINE void scales_of_16(V8 scale[2], V8 min[2], const uint8_t *p, DType t) {
    const size_t at = t == DTYPE_Q6_K ? offsetof(BlockQ6_K, scales) : offsetof(BlockQ2_K, scales);
    /* Of Q3_K the 16 bytes that end with the scales: 16 further on would leave the block. */
    I4 bytes = t == DTYPE_Q3_K ? i4_scales_3k(i4_load(p + offsetof(BlockQ3_K, scales) - 4)) : i4_load(p + at);
    V8 d = v8_set1(half_to_float(u16_at(p + scale_at(t))));
    bytes = i4_evens_odds(bytes);
    if (t == DTYPE_Q2_K) {
        I4 of_min = i4_nibbles(bytes, true);
        V8 m = v8_set1(-half_to_float(u16_at(p + offsetof(BlockQ2_K, m))));
        for (int half = 0; half < 2; half++) min[half] = v8_mul(m, v8_of_signed(of_min, half));
        bytes = i4_nibbles(bytes, false);
    }
    for (int half = 0; half < 2; half++) scale[half] = v8_mul(d, v8_of_signed(bytes, half));
}

/* 8 values of an unquantized type as f32. */
INLINE V8 floats8(const uint8_t *p, DType t) {
    if (t == DTYPE_F32) return v8_load((const float *)(const void *)p);
    return t == DTYPE_F16 ? v8_from_f16((const uint16_t *)(const void *)p) : v8_from_bf16(p);
}

INLINE float float_at(const uint8_t *p, DType t) {
    if (t == DTYPE_F16) return half_to_float(u16_at(p));
    uint32_t bits = t == DTYPE_BF16 ? (uint32_t)u16_at(p) << 16 : 0;
    float f;
    memcpy(&f, t == DTYPE_F32 ? (const void *)p : (const void *)&bits, sizeof f);
    return f;
}

/* v[j] = 8 values of row j becomes v[i] = value i of the 8 rows. */
INLINE void transpose8(I8 *v) {
    I8 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = i8_unpacklo32(v[i], v[i + 1]);
        t[i + 1] = i8_unpackhi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = i8_unpacklo64(t[i], t[i + 2]);
        u[i + 1] = i8_unpackhi64(t[i], t[i + 2]);
        u[i + 2] = i8_unpacklo64(t[i + 1], t[i + 3]);
        u[i + 3] = i8_unpackhi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = i8_low_halves(u[i], u[i + 4]);
        v[i + 4] = i8_high_halves(u[i], u[i + 4]);
    }
}

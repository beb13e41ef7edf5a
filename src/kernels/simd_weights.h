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

/* The 32 values of block b of row r: a block of their own, or part of one of 256. */
INLINE const uint8_t *block_of(const Mat *w, int r, int b, DType t) {
    return row_of(w, r) + (is_k(t) ? (size_t)(b / 8 * bytes_of_8(t)) : (size_t)b * (size_t)(bytes_of_8(t) / 8));
}

INLINE __m256i i256(int x) { return _mm256_set1_epi32(x); }
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

/* 0 .. 3 from block i of eight whose 2-bit values are kept 128 at a time. */
INLINE __m256i two_bits(const uint8_t *p, int i) {
    __m256i x = _mm256_srl_epi16(load32(p + i / 4 * QK), _mm_cvtsi32_si128(i % 4 * 2));
    return _mm256_and_si256(x, _mm256_set1_epi8(3));
}

/* The values of a codebook that 16 bytes of nibbles are numbers of. */
INLINE __m256i of_codebook(const uint8_t *p, const int8_t codebook[16]) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)codebook);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles(p));
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
    case DTYPE_Q2_K: return two_bits(p + offsetof(BlockQ2_K, q), i);
    case DTYPE_Q3_K: {
        __m256i mask = _mm256_set1_epi8((char)(1 << i)), x = _mm256_and_si256(load32(p), mask);
        __m256i high = _mm256_and_si256(_mm256_cmpeq_epi8(x, mask), _mm256_set1_epi8(4));
        return _mm256_or_si256(two_bits(p + offsetof(BlockQ3_K, q), i), high);
    }
    case DTYPE_IQ4_NL: return of_codebook(p + offsetof(BlockIQ4_NL, q), codebook_iq4);
    case DTYPE_IQ4_XS: return of_codebook(p + offsetof(BlockIQ4_XS, q) + i * (QK / 2), codebook_iq4);
    case DTYPE_MXFP4: return of_codebook(p + offsetof(BlockMXFP4, q), codebook_mxfp4);
    default: return load32(p);
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
    float d = _cvtsh_ss(u16_at(p));
    if (t == DTYPE_IQ4_XS) return d * (float)scale_iq4_xs(p, b % 8);
    if (!has_min(t)) return d;
    *min = _cvtsh_ss(u16_at(p + 2));
    if (!is_k(t)) return d;
    int scale, of_min;
    scale_min_k(&scale, &of_min, p + offsetof(BlockQ4_K, scales), b % 8);
    *min *= -(float)of_min;
    return d * (float)scale;
}

/* The 8 scales of an IQ4_XS block. */
INLINE __m256 scales_iq4_xs(const uint8_t *p) {
    __m256i low = _mm256_set1_epi32(u32_at(p + offsetof(BlockIQ4_XS, scales)));
    __m256i high = _mm256_set1_epi32(u16_at(p + offsetof(BlockIQ4_XS, scales_high)));
    low = _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)), i256(15));
    high = _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)), i256(3));
    __m256i scale = _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), i256(32));
    return _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(u16_at(p))), _mm256_cvtepi32_ps(scale));
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
    if (t == DTYPE_IQ4_XS) return scales_iq4_xs(p);
    if (t == DTYPE_MXFP4) { /* scale_mxfp4 of all 8 */
        __m256i e = _mm256_setr_epi32(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s]);
        __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, i256(1)), 23),
                small = _mm256_sllv_epi32(i256(0x200000), e);
        return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(i256(2), e)));
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

/* The two scales of each of 8 blocks of a type that has_halves: those of their first halves, those of their second.
 * And their minima, where it has_min. */
INLINE void scales_of_16(__m256 scale[2], __m256 min[2], const uint8_t *p, DType t) {
    const __m128i halves = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const size_t at = t == DTYPE_Q6_K ? offsetof(BlockQ6_K, scales)
                      : t == DTYPE_Q3_K
                          ? offsetof(BlockQ3_K, scales) - 4 /* 16 bytes further on would leave the block */
                          : offsetof(BlockQ2_K, scales);
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + at));
    if (t == DTYPE_Q3_K) bytes = _mm_srli_si128(bytes, 4);
    __m256 d = _mm256_set1_ps(_cvtsh_ss(u16_at(p + scale_at(t))));
    if (t == DTYPE_Q3_K) { /* scale_3k of all 16 */
        __m128i low = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4)), high = _mm_shuffle_epi32(bytes, 0xaa);
        high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
        bytes = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_slli_epi16(high, 4));
        bytes = _mm_sub_epi8(bytes, _mm_set1_epi8(32));
    }
    bytes = _mm_shuffle_epi8(bytes, halves);
    if (t == DTYPE_Q2_K) {
        __m128i of_min = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
        __m256 m = _mm256_set1_ps(-_cvtsh_ss(u16_at(p + offsetof(BlockQ2_K, m))));
        min[0] = _mm256_mul_ps(m, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(of_min)));
        min[1] = _mm256_mul_ps(m, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(of_min, 8))));
        bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    }
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

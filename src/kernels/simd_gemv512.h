/* simd_gemv512 - decode by vectors of 512 bits: two blocks of a weight row at once. A part of simd_body.h, for AVX-512;
 * where memory gives a core 20 GB/s and more, decode of 4 and 5 bits is bound by how many instructions a weight takes.
 */
#pragma once

/* 512 bits of two halves: the same bytes twice, or two numbers */
INLINE I pair_of(const uint8_t *p) { return _mm512_broadcast_i64x4(i8_load(p)); }
INLINE I pair_set16(int low, int high) { return i_pair(_mm256_set1_epi16((short)low), _mm256_set1_epi16((short)high)); }
INLINE I pair_set8(int low, int high) { return i_pair(i8_set8((char)low), i8_set8((char)high)); }

/* 0 .. 15 from the 16 bytes of each of two blocks: a block's low nibbles, then its high ones */
INLINE I pair_nibbles(const uint8_t *p, const uint8_t *next) {
    I x = _mm512_broadcast_i32x4(i4_load(p));
    x = _mm512_mask_broadcast_i32x4(x, 0xff00, i4_load(next));
    return i_and(_mm512_srlv_epi32(x, i_pair(i8_set(0, 0, 0, 0, 4, 4, 4, 4), i8_set(0, 0, 0, 0, 4, 4, 4, 4))),
                 i_set8(15));
}

/* x with value added where blocks i and i + 1 have their bits in the 32 bytes at p, which keep one of each of 8 blocks
 */
INLINE I pair_add(I x, const uint8_t *p, int i, char value) {
    return _mm512_mask_add_epi8(x, _mm512_test_epi8_mask(pair_of(p), pair_set8(1 << i, 2 << i)), x, i_set8(value));
}

/* The integers of blocks i and i + 1 of the 8 at p, as block_ints; i is even. */
INLINE I pair_ints(const uint8_t *p, int i, DType t) {
    const int s = bytes_of_8(t) / 8, from = i % 4 * 2;
    const uint8_t *first = is_k(t) ? p : p + i * s, *second = is_k(t) ? p : first + s;
    I x;
    switch (t) {
    case DTYPE_Q4_0:
    case DTYPE_Q4_1: return pair_nibbles(first + low_at(t), second + low_at(t));
    case DTYPE_Q5_0:
    case DTYPE_Q5_1: { /* the fifth bits stand before the others */
        __mmask64 high =
            (uint64_t)(uint32_t)u32_at(second + low_at(t) - 4) << 32 | (uint32_t)u32_at(first + low_at(t) - 4);
        x = pair_nibbles(first + low_at(t), second + low_at(t));
        return _mm512_mask_add_epi8(x, high, x, i_set8(16));
    }
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        x = i_and(_mm512_srlv_epi16(pair_of(p + low_at(t) + i / 2 * QK), pair_set16(0, 4)), i_set8(15));
        return t == DTYPE_Q4_K ? x : pair_add(x, p + offsetof(BlockQ5_K, high), i, 16);
    case DTYPE_Q6_K: {
        I high = pair_of(p + offsetof(BlockQ6_K, high) + i / 4 * QK);
        high = from ? _mm512_srlv_epi16(high, pair_set16(0, 2)) : _mm512_sllv_epi16(high, pair_set16(4, 2));
        x = i_load(p + i / 4 * 64);
        x = i_and(from ? i_srl16(x, 4) : x, i_set8(15));
        return i_or(x, i_and(high, i_set8(0x30)));
    }
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
        x = i_and(_mm512_srlv_epi16(pair_of(p + low_at(t) + i / 4 * QK), pair_set16(from, from + 2)), i_set8(3));
        return t == DTYPE_Q2_K ? x : pair_add(x, p + offsetof(BlockQ3_K, high), i, 4);
    default: return i_pair(block_ints(first, i, t), block_ints(second, i + 1, t));
    }
}

typedef V Sum;    /* of a row's products, in parts */
typedef V Scales; /* of 8 blocks, then of their second halves */

INLINE Sum sum_zero(void) { return v_zero(); }
INLINE Sum sum_fma(V8 a, V8 b, Sum c) { return v_fma(_mm512_zextps256_ps512(a), _mm512_zextps256_ps512(b), c); }
INLINE V8 sum_8(Sum x) { return v8_add(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); }
INLINE void scales_set(Scales *scale, const V8 *part, int parts) {
    *scale = _mm512_zextps256_ps512(part[0]);
    if (parts == 2) *scale = _mm512_insertf32x8(*scale, part[1], 1);
}

/* Products of blocks b + i and b + i + 1 of R rows with the activations, each block's integers times its scale. */
INLINE void gemv_some(Sum *acc, const Mat *w, int r, int R, int step, int b, int i, const Scales *scale, const Rows *a,
                      size_t at, DType t) {
    const int zero = is_signed(t) || has_halves(t) ? offset_of(t) : 0, second = has_halves(t) ? 8 : 0;
    const I lanes = _mm512_add_epi32(i_set1(i), _mm512_setr_epi32(0, 0, 0, 0, second, second, second, second, 1, 1, 1,
                                                                  1, 1 + second, 1 + second, 1 + second, 1 + second));
    at += (size_t)(b + i);
    I q = i_load(a->q + at * QK), start = i_zero();
    if (zero) { /* for each half of a block, in its first lane */
        I4 sums = _mm_mullo_epi32(_mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(a->sum + at))),
                                  i4_set1(-zero));
        start = _mm512_maskz_expand_epi32(0x1111, _mm512_castsi128_si512(sums));
    }
    EACH(j, R) {
        I x = pair_ints(block_of(w, r + j * step, b, t), i, t);
        if (is_signed(t)) x = i_xor(x, i_set8((char)SIGN_OFFSET));
        acc[j] = v_fma(v_of_ints(_mm512_dpbusd_epi32(start, x, q)), _mm512_permutexvar_ps(lanes, scale[j]), acc[j]);
    }
}

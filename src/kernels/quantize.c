#include "kernels/quantize.h"

#include <math.h>
#include <string.h>

bool is_finite_f16(uint16_t h) { return (h & 0x7c00) != 0x7c00; }

bool floats_finite(const float *x, size_t n) {
    bool finite = true;
    for (size_t i = 0; i < n; i++) finite &= isfinite(x[i]) != 0;
    return finite;
}

float largest_of(const float *x, int n) {
    float largest = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(largest)) largest = x[i];
    return largest;
}

static uint8_t clamp(float x, int most) { return (uint8_t)(x < 0 ? 0 : x < (float)most ? (int)x : most); }

/* 1 / d; 0 where d is 0, or so small that f16 has no scale for the block: then every value becomes 0. */
static float inverse_of(float d) {
    float inverse = d != 0 ? 1 / d : 0;
    return isfinite(inverse) ? inverse : 0;
}

static bool block_q8_0(void *out, const float *x) {
    BlockQ8_0 *b = out;
    float max = 0;
    for (int i = 0; i < QK; i++) max = fmaxf(max, fabsf(x[i]));
    float d = max / 127, inverse = inverse_of(d);
    b->d = f32_to_f16(d);
    for (int i = 0; i < QK; i++) b->q[i] = (int8_t)roundf(x[i] * inverse);
    return is_finite_f16(b->d);
}

/* Integers 0 to 2 half - 1 and the scale d with x ~ d * (q - half): the value that is largest in magnitude becomes
 * -half. */
static bool around_zero(uint8_t q[QK], uint16_t *d, const float *x, int half) {
    float scale = largest_of(x, QK) / (float)-half, inverse = inverse_of(scale), zero = (float)half + 0.5f;
    *d = f32_to_f16(scale);
    for (int i = 0; i < QK; i++) q[i] = clamp(x[i] * inverse + zero, 2 * half - 1);
    return is_finite_f16(*d);
}

/* Integers 0 to `most`, the scale d and the minimum m with x ~ d * q + m. */
static bool above_minimum(uint8_t q[QK], uint16_t *d, uint16_t *m, const float *x, int most) {
    float min = x[0], max = x[0];
    for (int i = 1; i < QK; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    float scale = (max - min) / (float)most, inverse = inverse_of(scale);
    *d = f32_to_f16(scale);
    *m = f32_to_f16(min);
    for (int i = 0; i < QK; i++) q[i] = clamp((x[i] - min) * inverse + 0.5f, most);
    return is_finite_f16(*d) && is_finite_f16(*m);
}

/* The low four bits of value i and of value i + 16 in byte i. */
static void pack_low(uint8_t packed[QK / 2], const uint8_t q[QK]) {
    for (int i = 0; i < QK / 2; i++) packed[i] = (uint8_t)((q[i] & 15) | (q[i + QK / 2] & 15) << 4);
}

/* Bit 4 of each value, in order. */
static void pack_high(uint8_t packed[QK / 8], const uint8_t q[QK]) {
    memset(packed, 0, QK / 8);
    for (int i = 0; i < QK; i++) packed[i / 8] |= (uint8_t)(q[i] >> 4 << i % 8);
}

static bool block_q4_0(void *out, const float *x) {
    BlockQ4_0 *b = out;
    uint8_t q[QK];
    bool fits = around_zero(q, &b->d, x, 8);
    pack_low(b->q, q);
    return fits;
}

static bool block_q4_1(void *out, const float *x) {
    BlockQ4_1 *b = out;
    uint8_t q[QK];
    bool fits = above_minimum(q, &b->d, &b->m, x, 15);
    pack_low(b->q, q);
    return fits;
}

static bool block_q5_0(void *out, const float *x) {
    BlockQ5_0 *b = out;
    uint8_t q[QK];
    bool fits = around_zero(q, &b->d, x, 16);
    pack_low(b->q, q);
    pack_high(b->high, q);
    return fits;
}

static bool block_q5_1(void *out, const float *x) {
    BlockQ5_1 *b = out;
    uint8_t q[QK];
    bool fits = above_minimum(q, &b->d, &b->m, x, 31);
    pack_low(b->q, q);
    pack_high(b->high, q);
    return fits;
}

static QuantizeBlock *const quantize_block[DTYPE_COUNT] = {
    [DTYPE_Q8_0] = block_q8_0,    [DTYPE_Q4_0] = block_q4_0,        [DTYPE_Q4_1] = block_q4_1,
    [DTYPE_Q5_0] = block_q5_0,    [DTYPE_Q5_1] = block_q5_1,        [DTYPE_Q2_K] = quantize_q2_k,
    [DTYPE_Q3_K] = quantize_q3_k, [DTYPE_Q4_K] = quantize_q4_k,     [DTYPE_Q5_K] = quantize_q5_k,
    [DTYPE_Q6_K] = quantize_q6_k, [DTYPE_IQ4_NL] = quantize_iq4_nl,
};

bool dtype_can_quantize(DType t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 || quantize_block[t]; }

bool dtype_quantize(void *out, const float *x, size_t n, DType t) {
    const DTypeInfo *type = &dtype_info[t];
    bool fits = true;
    if (type->block_values > 1 && !floats_finite(x, n)) return false; /* it has no integer */
    switch (t) {
    case DTYPE_F32: memcpy(out, x, n * sizeof *x); return true;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++) {
            uint16_t h = f32_to_f16(x[i]);
            memcpy((char *)out + 2 * i, &h, 2);
            fits &= is_finite_f16(h);
        }
        return fits;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++) {
            uint16_t h = f32_to_bf16(x[i]);
            memcpy((char *)out + 2 * i, &h, 2);
        }
        return true;
    default:
        if (!quantize_block[t]) return false;
        for (size_t i = 0; i < n / (size_t)type->block_values; i++)
            fits &= quantize_block[t]((char *)out + i * (size_t)type->block_bytes, x + i * (size_t)type->block_values);
        return fits;
    }
}

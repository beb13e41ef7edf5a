#include "kernels/quantize.h"

#include <math.h>
#include <string.h>

static bool is_infinite_f16(uint16_t h) { return (h & 0x7c00) == 0x7c00; }

bool floats_finite(const float *x, size_t n) {
    bool finite = true;
    for (size_t i = 0; i < n; i++) finite &= isfinite(x[i]) != 0;
    return finite;
}

static int8_t clamp15(float x) { return (int8_t)(x < 0 ? 0 : x < 15 ? (int)x : 15); }

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
    return !is_infinite_f16(b->d);
}

/* The value that is largest in magnitude becomes -8. */
static bool block_q4_0(void *out, const float *x) {
    BlockQ4_0 *b = out;
    float largest = 0;
    for (int i = 0; i < QK; i++)
        if (fabsf(x[i]) > fabsf(largest)) largest = x[i];
    float d = largest / -8, inverse = inverse_of(d);
    b->d = f32_to_f16(d);
    for (int i = 0; i < QK / 2; i++) {
        int low = clamp15(x[i] * inverse + 8.5f), high = clamp15(x[i + QK / 2] * inverse + 8.5f);
        b->q[i] = (uint8_t)(low | high << 4);
    }
    return !is_infinite_f16(b->d);
}

static bool block_q4_1(void *out, const float *x) {
    BlockQ4_1 *b = out;
    float min = x[0], max = x[0];
    for (int i = 1; i < QK; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    float d = (max - min) / 15, inverse = inverse_of(d);
    b->d = f32_to_f16(d);
    b->m = f32_to_f16(min);
    for (int i = 0; i < QK / 2; i++) {
        int low = clamp15((x[i] - min) * inverse + 0.5f), high = clamp15((x[i + QK / 2] - min) * inverse + 0.5f);
        b->q[i] = (uint8_t)(low | high << 4);
    }
    return !is_infinite_f16(b->d) && !is_infinite_f16(b->m);
}

/* Bit 4 of each value, in order. */
static void put_high(uint8_t high[4], int i, int value) { high[i / 8] |= (uint8_t)(value >> 4 << i % 8); }

static int clamp31(float x) { return x < 0 ? 0 : x < 31 ? (int)x : 31; }

/* The value that is largest in magnitude becomes -16. */
static bool block_q5_0(void *out, const float *x) {
    BlockQ5_0 *b = out;
    float largest = 0;
    for (int i = 0; i < QK; i++)
        if (fabsf(x[i]) > fabsf(largest)) largest = x[i];
    float d = largest / -16, inverse = inverse_of(d);
    b->d = f32_to_f16(d);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < QK / 2; i++) {
        int low = clamp31(x[i] * inverse + 16.5f), high = clamp31(x[i + QK / 2] * inverse + 16.5f);
        b->q[i] = (uint8_t)((low & 15) | (high & 15) << 4);
        put_high(b->high, i, low);
        put_high(b->high, i + QK / 2, high);
    }
    return !is_infinite_f16(b->d);
}

static bool block_q5_1(void *out, const float *x) {
    BlockQ5_1 *b = out;
    float min = x[0], max = x[0];
    for (int i = 1; i < QK; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    float d = (max - min) / 31, inverse = inverse_of(d);
    b->d = f32_to_f16(d);
    b->m = f32_to_f16(min);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < QK / 2; i++) {
        int low = clamp31((x[i] - min) * inverse + 0.5f), high = clamp31((x[i + QK / 2] - min) * inverse + 0.5f);
        b->q[i] = (uint8_t)((low & 15) | (high & 15) << 4);
        put_high(b->high, i, low);
        put_high(b->high, i + QK / 2, high);
    }
    return !is_infinite_f16(b->d) && !is_infinite_f16(b->m);
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
            fits &= !is_infinite_f16(h);
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

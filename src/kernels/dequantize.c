#include "kernels/dequantize.h"

#include <stddef.h>
#include <string.h>

uint16_t u16_of(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

float f16_of(const uint8_t *p) { return f16_to_f32(u16_of(p)); }

/* Nibble i of 32: the low ones of 16 bytes, then their high ones. */
static int nibble(const uint8_t *q, int i) { return i < QK / 2 ? q[i] & 15 : q[i - QK / 2] >> 4; }

static void q8_0(float *out, const uint8_t *p) {
    float d = f16_of(p);
    for (int i = 0; i < QK; i++) out[i] = d * (float)(int8_t)p[offsetof(BlockQ8_0, q) + (size_t)i];
}

static void q4_0(float *out, const uint8_t *p) {
    float d = f16_of(p);
    for (int i = 0; i < QK; i++) out[i] = d * (float)(nibble(p + offsetof(BlockQ4_0, q), i) - 8);
}

static void q4_1(float *out, const uint8_t *p) {
    float d = f16_of(p), m = f16_of(p + offsetof(BlockQ4_1, m));
    for (int i = 0; i < QK; i++) out[i] = d * (float)nibble(p + offsetof(BlockQ4_1, q), i) + m;
}

static void five_bits(float *out, float d, float m, const uint8_t *high, const uint8_t *q) {
    for (int i = 0; i < QK; i++) out[i] = d * (float)(nibble(q, i) | (high[i / 8] >> i % 8 & 1) << 4) + m;
}

static void q5_0(float *out, const uint8_t *p) {
    five_bits(out, f16_of(p), -16 * f16_of(p), p + offsetof(BlockQ5_0, high), p + offsetof(BlockQ5_0, q));
}

static void q5_1(float *out, const uint8_t *p) {
    five_bits(out, f16_of(p), f16_of(p + offsetof(BlockQ5_1, m)), p + offsetof(BlockQ5_1, high),
              p + offsetof(BlockQ5_1, q));
}

/* Q4_K and Q5_K; high: NULL, or the fifth bits. */
static void scales_and_minima(float *out, const uint8_t *p, const uint8_t *high, const uint8_t *q) {
    float d = f16_of(p), m = f16_of(p + offsetof(BlockQ4_K, m));
    for (int j = 0; j < QK_K / QK; j++) {
        int scale, min;
        scale_min_k(&scale, &min, p + offsetof(BlockQ4_K, scales), j);
        for (int i = 0; i < QK; i++) {
            int value = q[j / 2 * QK + i] >> j % 2 * 4 & 15;
            if (high) value |= (high[i] >> j & 1) << 4;
            *out++ = d * (float)scale * (float)value - m * (float)min;
        }
    }
}

static void q4_k(float *out, const uint8_t *p) { scales_and_minima(out, p, NULL, p + offsetof(BlockQ4_K, q)); }

static void q5_k(float *out, const uint8_t *p) {
    scales_and_minima(out, p, p + offsetof(BlockQ5_K, high), p + offsetof(BlockQ5_K, q));
}

static void q6_k(float *out, const uint8_t *p) {
    const uint8_t *high = p + offsetof(BlockQ6_K, high);
    const int8_t *scales = (const int8_t *)p + offsetof(BlockQ6_K, scales);
    float d = f16_of(p + offsetof(BlockQ6_K, d));
    for (int i = 0; i < QK_K; i++) {
        int group = i / 16, half = i / 128, j = i % 128 / 32; /* j: of the half */
        int low = p[half * 64 + i % 64] >> j / 2 * 4 & 15;
        int value = low | (high[half * 32 + i % 32] >> 2 * j & 3) << 4;
        out[i] = d * (float)scales[group] * (float)(value - 32);
    }
}

/* Value i of a block's 256 of 2 bits, 128 at a time. */
static int two_bits(const uint8_t *q, int i) { return q[i / 128 * QK + i % QK] >> i % 128 / QK * 2 & 3; }

static void q2_k(float *out, const uint8_t *p) {
    float d = f16_of(p + offsetof(BlockQ2_K, d)), m = f16_of(p + offsetof(BlockQ2_K, m));
    for (int i = 0; i < QK_K; i++) {
        uint8_t scale = p[offsetof(BlockQ2_K, scales) + (size_t)(i / 16)];
        float value = (float)two_bits(p + offsetof(BlockQ2_K, q), i);
        out[i] = d * (float)(scale & 15) * value - m * (float)(scale >> 4);
    }
}

static void q3_k(float *out, const uint8_t *p) {
    float d = f16_of(p + offsetof(BlockQ3_K, d));
    for (int i = 0; i < QK_K; i++) {
        int high = p[offsetof(BlockQ3_K, high) + (size_t)(i % QK)] >> i / QK & 1;
        int value = (two_bits(p + offsetof(BlockQ3_K, q), i) | high << 2) - 4;
        out[i] = d * (float)scale_3k(p + offsetof(BlockQ3_K, scales), i / 16) * (float)value;
    }
}

static void of_codebook(float *out, float d, const uint8_t *q, const int8_t codebook[16]) {
    for (int i = 0; i < QK; i++) out[i] = d * (float)codebook[nibble(q, i)];
}

static void iq4_nl(float *out, const uint8_t *p) {
    of_codebook(out, f16_of(p), p + offsetof(BlockIQ4_NL, q), codebook_iq4);
}

static void iq4_xs(float *out, const uint8_t *p) {
    int high = u16_of(p + offsetof(BlockIQ4_XS, scales_high));
    for (int j = 0; j < QK_K / QK; j++) {
        int low = p[offsetof(BlockIQ4_XS, scales) + (size_t)(j / 2)] >> j % 2 * 4 & 15;
        float d = f16_of(p) * (float)((low | (high >> 2 * j & 3) << 4) - 32);
        of_codebook(out + j * QK, d, p + offsetof(BlockIQ4_XS, q) + j * (QK / 2), codebook_iq4);
    }
}

static void mxfp4(float *out, const uint8_t *p) {
    of_codebook(out, scale_mxfp4(p[0]), p + offsetof(BlockMXFP4, q), codebook_mxfp4);
}

/* f32 scale, 256 int8, 16 sums that only products use. */
static void q8_k(float *out, const uint8_t *p) {
    float d;
    memcpy(&d, p, sizeof d);
    for (int i = 0; i < QK_K; i++) out[i] = d * (float)(int8_t)p[sizeof d + (size_t)i];
}

/* Five ternary digits in a byte, as the fraction of 3^5 that 256 holds: digit n is the integer part of 3 times what 3^n
 * leaves of it. 160 values of 32 bytes, digit after digit; 80 of 16 bytes; 16 of 4 bytes; then the f16 scale. */
static void tq1_0(float *out, const uint8_t *p) {
    static const struct { int bytes, digits; } part[] = {{32, 5}, {16, 5}, {4, 4}};
    float d = f16_of(p + 52);
    for (int k = 0; k < 3; p += part[k++].bytes)
        for (int n = 0, power = 1; n < part[k].digits; n++, power *= 3)
            for (int i = 0; i < part[k].bytes; i++) *out++ = d * (float)(((uint8_t)(p[i] * power) * 3 >> 8) - 1);
}

/* 64 bytes of four 2-bit values, then the f16 scale. */
static void tq2_0(float *out, const uint8_t *p) {
    float d = f16_of(p + QK_K / 4);
    for (int i = 0; i < QK_K; i++) out[i] = d * (float)(two_bits(p, i) - 1);
}

DequantizeBlock *const dequantize_block[DTYPE_COUNT] = {
    [DTYPE_Q8_0] = q8_0,
    [DTYPE_Q4_0] = q4_0,
    [DTYPE_Q4_1] = q4_1,
    [DTYPE_Q5_0] = q5_0,
    [DTYPE_Q5_1] = q5_1,
    [DTYPE_Q4_K] = q4_k,
    [DTYPE_Q5_K] = q5_k,
    [DTYPE_Q6_K] = q6_k,
    [DTYPE_Q2_K] = q2_k,
    [DTYPE_Q3_K] = q3_k,
    [DTYPE_IQ4_NL] = iq4_nl,
    [DTYPE_IQ4_XS] = iq4_xs,
    [DTYPE_MXFP4] = mxfp4,
    [DTYPE_Q8_K] = q8_k,
    [DTYPE_IQ2_XXS] = dequantize_iq2_xxs,
    [DTYPE_IQ2_XS] = dequantize_iq2_xs,
    [DTYPE_IQ2_S] = dequantize_iq2_s,
    [DTYPE_IQ3_XXS] = dequantize_iq3_xxs,
    [DTYPE_IQ3_S] = dequantize_iq3_s,
    [DTYPE_IQ1_S] = dequantize_iq1_s,
    [DTYPE_IQ1_M] = dequantize_iq1_m,
    [DTYPE_TQ1_0] = tq1_0,
    [DTYPE_TQ2_0] = tq2_0,
};

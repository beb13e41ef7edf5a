/* dequantize_iq - the types whose values are looked up in a grid in groups of 8 or 4. A block holds 256 values: its f16
 * scale first (but IQ1_M), then numbers of grid entries, their signs and the scales of 16 or 32 values. */
#include <string.h>

#include "kernels/dequantize.h"

static uint32_t u32_of(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The signs of 8 values from 7 bits: the eighth makes the number of minus signs even. */
static int signs_of(uint32_t seven) {
    int low = (int)(seven & 127);
    return low | __builtin_parity((unsigned)low) << 7;
}

/* 8 values of an entry with 2 bits each. */
static void group_of_8(float *out, float d, uint16_t entry, int signs) {
    static const float values[4] = {0x08, 0x19, 0x2b, 0};
    for (int i = 0; i < 8; i++) {
        float x = d * values[entry >> 2 * i & 3];
        out[i] = signs >> i & 1 ? -x : x;
    }
}

/* 4 values of an entry with 4 bits each. */
static void group_of_4(float *out, float d, const float values[8], uint16_t entry, int signs) {
    for (int i = 0; i < 4; i++) {
        float x = d * values[entry >> 4 * i & 7];
        out[i] = signs >> i & 1 ? -x : x;
    }
}

/* 8 values of -1, 0, 1, all moved by an eighth. */
static void group_of_ternary(float *out, float d, uint16_t entry, bool down) {
    for (int i = 0; i < 8; i++) out[i] = d * ((float)((entry >> 2 * i & 3) - 1) + (down ? -0.125f : 0.125f));
}

/* 32 values: four bytes of numbers; four times 7 bits of signs and 4 of scale. */
void dequantize_iq2_xxs(float *out, const uint8_t *p) {
    float d = f16_of(p);
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = p + 2 + 8 * j;
        uint32_t rest = u32_of(q + 4);
        float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++, out += 8) group_of_8(out, scale, grid_iq2_xxs[q[k]], signs_of(rest >> 7 * k));
    }
}

/* 8 values: 9 bits of number and 7 of signs; a nibble of scale for 16. */
void dequantize_iq2_xs(float *out, const uint8_t *p) {
    float d = f16_of(p);
    const uint8_t *q = p + 2, *scales = q + 64;
    for (int g = 0; g < 32; g++, out += 8) {
        uint16_t x = u16_of(q + 2 * g);
        float scale = d * (0.5f + (float)(scales[g / 4] >> g / 2 % 2 * 4 & 15)) * 0.25f;
        group_of_8(out, scale, grid_iq2_xs[x & 511], signs_of(x >> 9));
    }
}

/* 8 values: 8 bits of number, 2 more elsewhere, a byte of signs; a nibble of scale for 16. */
void dequantize_iq2_s(float *out, const uint8_t *p) {
    float d = f16_of(p);
    const uint8_t *q = p + 2, *signs = q + 32, *high = signs + 32, *scales = high + 8;
    for (int g = 0; g < 32; g++, out += 8) {
        int number = q[g] | (high[g / 4] >> g % 4 * 2 & 3) << 8;
        float scale = d * (0.5f + (float)(scales[g / 4] >> g / 2 % 2 * 4 & 15)) * 0.25f;
        group_of_8(out, scale, grid_iq2_s[number], signs[g]);
    }
}

/* 4 values: a byte of number; for 32, four times 7 bits of signs and 4 of scale. */
void dequantize_iq3_xxs(float *out, const uint8_t *p) {
    static const float values[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};
    float d = f16_of(p);
    const uint8_t *q = p + 2, *rests = q + 64;
    for (int g = 0; g < 64; g++, out += 4) {
        uint32_t rest = u32_of(rests + g / 8 * 4);
        float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        group_of_4(out, scale, values, grid_iq3_xxs[q[g]], signs_of(rest >> g % 8 / 2 * 7) >> g % 2 * 4);
    }
}

/* 4 values: 8 bits of number, a ninth elsewhere, 4 bits of signs; a nibble of scale for 32. */
void dequantize_iq3_s(float *out, const uint8_t *p) {
    static const float values[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = f16_of(p);
    const uint8_t *q = p + 2, *high = q + 64, *signs = high + 8, *scales = signs + 32;
    for (int g = 0; g < 64; g++, out += 4) {
        int number = q[g] | (high[g / 8] >> g % 8 & 1) << 8;
        float scale = d * (float)(1 + 2 * (scales[g / 16] >> g / 8 % 2 * 4 & 15));
        group_of_4(out, scale, values, grid_iq3_s[number], signs[g / 2] >> g % 2 * 4);
    }
}

/* 32 values: four bytes of numbers; four times 3 more bits of number, 3 of scale, the direction of the eighth. */
void dequantize_iq1_s(float *out, const uint8_t *p) {
    float d = f16_of(p);
    const uint8_t *q = p + 2, *rests = q + 32;
    for (int g = 0; g < 32; g++, out += 8) {
        int rest = u16_of(rests + g / 4 * 2), number = q[g] | (rest >> g % 4 * 3 & 7) << 8;
        group_of_ternary(out, d * (float)(2 * (rest >> 12 & 7) + 1), grid_iq1[number], rest & 0x8000);
    }
}

/* 8 values: 8 bits of number and a nibble, 3 more bits and the direction of the eighth; 3 bits of scale for 16, four in
 * a word of 16 bits whose upper 4 bits are one quarter of the f16 scale. */
void dequantize_iq1_m(float *out, const uint8_t *p) {
    const uint8_t *q = p, *rests = q + 32, *scales = rests + 16;
    int bits = 0;
    for (int i = 0; i < 4; i++) bits |= scales[2 * i + 1] >> 4 << 4 * i;
    float d = f16_to_f32((uint16_t)bits);
    for (int g = 0; g < 32; g++, out += 8) {
        int rest = rests[g / 2] >> g % 2 * 4 & 15, number = q[g] | (rest & 7) << 8;
        int scale = u16_of(scales + g / 8 * 2) >> g / 2 % 4 * 3 & 7;
        group_of_ternary(out, d * (float)(2 * scale + 1), grid_iq1[number], rest & 8);
    }
}

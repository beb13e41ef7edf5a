#include "kernels/quant.h"

#include <string.h>

const DTypeInfo dtype_info[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 0, 1, 4, false},
    [DTYPE_F16] = {"f16", 1, 1, 2, false},
    [DTYPE_BF16] = {"bf16", 30, 1, 2, false},
    [DTYPE_Q8_0] = {"q8_0", 8, QK, sizeof(BlockQ8_0), true},
    [DTYPE_Q4_0] = {"q4_0", 2, QK, sizeof(BlockQ4_0), true},
    [DTYPE_Q4_1] = {"q4_1", 3, QK, sizeof(BlockQ4_1), true},
    [DTYPE_Q5_0] = {"q5_0", 6, QK, sizeof(BlockQ5_0), true},
    [DTYPE_Q5_1] = {"q5_1", 7, QK, sizeof(BlockQ5_1), true},
    [DTYPE_Q4_K] = {"q4_k", 12, QK_K, sizeof(BlockQ4_K), true},
    [DTYPE_Q5_K] = {"q5_k", 13, QK_K, sizeof(BlockQ5_K), true},
    [DTYPE_Q6_K] = {"q6_k", 14, QK_K, sizeof(BlockQ6_K), true},
    [DTYPE_Q2_K] = {"q2_k", 10, QK_K, sizeof(BlockQ2_K), true},
    [DTYPE_Q3_K] = {"q3_k", 11, QK_K, sizeof(BlockQ3_K), true},
    [DTYPE_IQ4_NL] = {"iq4_nl", 20, QK, sizeof(BlockIQ4_NL), true},
    [DTYPE_IQ4_XS] = {"iq4_xs", 23, QK_K, sizeof(BlockIQ4_XS), true},
    [DTYPE_MXFP4] = {"mxfp4", 39, QK, sizeof(BlockMXFP4), true},
    [DTYPE_Q8_K] = {"q8_k", 15, QK_K, 292, false},
    [DTYPE_IQ2_XXS] = {"iq2_xxs", 16, QK_K, 66, false},
    [DTYPE_IQ2_XS] = {"iq2_xs", 17, QK_K, 74, false},
    [DTYPE_IQ2_S] = {"iq2_s", 22, QK_K, 82, false},
    [DTYPE_IQ3_XXS] = {"iq3_xxs", 18, QK_K, 98, false},
    [DTYPE_IQ3_S] = {"iq3_s", 21, QK_K, 110, false},
    [DTYPE_IQ1_S] = {"iq1_s", 19, QK_K, 50, false},
    [DTYPE_IQ1_M] = {"iq1_m", 29, QK_K, 56, false},
    [DTYPE_TQ1_0] = {"tq1_0", 34, QK_K, 54, false},
    [DTYPE_TQ2_0] = {"tq2_0", 35, QK_K, 66, false},
    [DTYPE_Q8_GROUP] = {"q8_group", -1, 1, 1, false}, /* by its groups: mat_is_quantized */
};

const int8_t codebook_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t codebook_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

size_t dtype_row_bytes(DType t, size_t n) {
    return n / (size_t)dtype_info[t].block_values * (size_t)dtype_info[t].block_bytes;
}

void scale_min_k(int *scale, int *min, const uint8_t scales[12], int j) {
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else { /* four bits each, and two more where the first ones left room */
        const uint8_t *low = scales + 8, *high = scales;
        j -= 4;
        *scale = (low[j] & 15) | high[j] >> 6 << 4;
        *min = low[j] >> 4 | high[j + 4] >> 6 << 4;
    }
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

int scale_3k(const uint8_t scales[12], int j) {
    int low = scales[j % 8] >> j / 8 * 4 & 15, high = scales[8 + j % 4] >> j / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

float scale_mxfp4(uint8_t exponent) {
    return float_of(exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23);
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13); /* infinity, NaN */
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float subnormal = (float)fraction * 0x1p-24f;
    return sign ? -subnormal : subnormal;
}

uint16_t f32_to_f16(float f) {
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* >= 65520 */
    if (magnitude < 0x38800000) {                                  /* subnormal, 0 */
        float shifted = float_of(magnitude) + 0.5f;                /* adding 0.5 rounds to multiples of 2^-24 */
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

float bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t f32_to_bf16(float f) {
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

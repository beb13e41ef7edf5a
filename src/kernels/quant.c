#include "kernels/quant.h"

#include <string.h>

const DTypeInfo dtype_info[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 0, 1, 4},
    [DTYPE_F16] = {"f16", 1, 1, 2},
    [DTYPE_BF16] = {"bf16", 30, 1, 2},
    [DTYPE_Q8_0] = {"q8_0", 8, QK, sizeof(BlockQ8_0)},
    [DTYPE_Q4_0] = {"q4_0", 2, QK, sizeof(BlockQ4_0)},
    [DTYPE_Q4_1] = {"q4_1", 3, QK, sizeof(BlockQ4_1)},
    [DTYPE_Q5_0] = {"q5_0", 6, QK, sizeof(BlockQ5_0)},
    [DTYPE_Q5_1] = {"q5_1", 7, QK, sizeof(BlockQ5_1)},
    [DTYPE_Q4_K] = {"q4_k", 12, QK_K, sizeof(BlockQ4_K)},
    [DTYPE_Q5_K] = {"q5_k", 13, QK_K, sizeof(BlockQ5_K)},
    [DTYPE_Q6_K] = {"q6_k", 14, QK_K, sizeof(BlockQ6_K)},
    [DTYPE_Q8_GROUP] = {"q8_group", -1, 1, 1},
};

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

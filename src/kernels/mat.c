#include "kernels/mat.h"

#include <stddef.h>
#include <string.h>

/* Data in a mapped file may be unaligned, so scalars are copied out before use. */
static uint16_t u16_at(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static float f32_at(const void *p) {
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

void mat_dequantize(float *out, const Mat *w, int r, int from, int n) {
    const DTypeInfo *type = &dtype_info[w->dtype];
    const uint8_t *row = (const uint8_t *)w->data + (size_t)r * w->stride_bytes +
                         (size_t)(from / type->block_values * type->block_bytes);
    switch (w->dtype) {
    case DTYPE_F32: memcpy(out, row, (size_t)n * sizeof *out); break;
    case DTYPE_F16:
        for (int i = 0; i < n; i++) out[i] = f16_to_f32(u16_at(row + 2 * i));
        break;
    case DTYPE_BF16:
        for (int i = 0; i < n; i++) out[i] = bf16_to_f32(u16_at(row + 2 * i));
        break;
    case DTYPE_Q8_0:
        for (int b = 0; b < n / QK; b++, row += sizeof(BlockQ8_0)) {
            float d = f16_to_f32(u16_at(row));
            for (int i = 0; i < QK; i++) out[b * QK + i] = d * (float)(int8_t)row[2 + i];
        }
        break;
    case DTYPE_Q4_0:
        for (int b = 0; b < n / QK; b++, row += sizeof(BlockQ4_0)) {
            float d = f16_to_f32(u16_at(row));
            for (int i = 0; i < QK / 2; i++) {
                out[b * QK + i] = d * (float)((row[2 + i] & 15) - 8);
                out[b * QK + i + QK / 2] = d * (float)((row[2 + i] >> 4) - 8);
            }
        }
        break;
    case DTYPE_Q4_1:
        for (int b = 0; b < n / QK; b++, row += sizeof(BlockQ4_1)) {
            float d = f16_to_f32(u16_at(row)), m = f16_to_f32(u16_at(row + 2));
            for (int i = 0; i < QK / 2; i++) {
                out[b * QK + i] = d * (float)(row[4 + i] & 15) + m;
                out[b * QK + i + QK / 2] = d * (float)(row[4 + i] >> 4) + m;
            }
        }
        break;
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
        for (int b = 0; b < n / QK; b++, row += type->block_bytes) {
            bool has_min = w->dtype == DTYPE_Q5_1;
            float d = f16_to_f32(u16_at(row)), m = has_min ? f16_to_f32(u16_at(row + 2)) : -16 * d;
            const uint8_t *high = row + (has_min ? 4 : 2), *q = high + 4;
            for (int i = 0; i < QK; i++) {
                int low = i < QK / 2 ? q[i] & 15 : q[i - QK / 2] >> 4;
                out[b * QK + i] = d * (float)(low | (high[i / 8] >> i % 8 & 1) << 4) + m;
            }
        }
        break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        for (int b = 0; b < n / QK_K; b++, row += type->block_bytes) {
            bool five = w->dtype == DTYPE_Q5_K;
            float d = f16_to_f32(u16_at(row)), m = f16_to_f32(u16_at(row + 2));
            const uint8_t *high = row + offsetof(BlockQ5_K, high);
            const uint8_t *q = row + (five ? offsetof(BlockQ5_K, q) : offsetof(BlockQ4_K, q));
            for (int j = 0; j < QK_K / QK; j++) {
                int scale, min;
                scale_min_k(&scale, &min, row + offsetof(BlockQ4_K, scales), j);
                for (int i = 0; i < QK; i++) {
                    int value = q[j / 2 * QK + i] >> j % 2 * 4 & 15;
                    if (five) value |= (high[i] >> j & 1) << 4;
                    out[b * QK_K + j * QK + i] = d * (float)scale * (float)value - m * (float)min;
                }
            }
        }
        break;
    case DTYPE_Q6_K:
        for (int b = 0; b < n / QK_K; b++, row += sizeof(BlockQ6_K)) {
            const uint8_t *high = row + offsetof(BlockQ6_K, high);
            const int8_t *scales = (const int8_t *)row + offsetof(BlockQ6_K, scales);
            float d = f16_to_f32(u16_at(row + offsetof(BlockQ6_K, d)));
            for (int i = 0; i < QK_K; i++) {
                int scale = scales[i / 16], half = i / 128, j = i % 128 / 32; /* j: of the half */
                int low = row[half * 64 + i % 64] >> j / 2 * 4 & 15;
                int value = low | (high[half * 32 + i % 32] >> 2 * j & 3) << 4;
                out[b * QK_K + i] = d * (float)scale * (float)(value - 32);
            }
        }
        break;
    case DTYPE_Q8_GROUP: {
        const char *scales = (const char *)w->scales; /* may be unaligned */
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)r * (size_t)w->cols + (size_t)(from + i);
            out[i] = f32_at(scales + at / (size_t)w->group * sizeof(float)) * (float)(int8_t)row[i];
        }
        break;
    }
    case DTYPE_COUNT: break;
    }
}

void mat_dequantize_row(float *out, const Mat *w, int r) { mat_dequantize(out, w, r, 0, w->cols); }

Mat mat_rows(const Mat *w, int from, int n) {
    Mat part = *w;
    part.rows = n;
    part.data = (const char *)w->data + (size_t)from * w->stride_bytes;
    if (w->scales) {
        size_t group = (size_t)from * (size_t)w->cols / (size_t)w->group;
        part.scales = (const float *)((const char *)w->scales + group * sizeof(float));
    }
    return part;
}

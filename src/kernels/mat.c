#include "kernels/mat.h"

#include <string.h>

#include "kernels/dequantize.h"

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
        for (int i = 0; i < n; i++) out[i] = f16_of(row + 2 * i);
        break;
    case DTYPE_BF16:
        for (int i = 0; i < n; i++) out[i] = bf16_to_f32(u16_of(row + 2 * i));
        break;
    case DTYPE_Q8_GROUP: {
        const char *scales = (const char *)w->scales; /* may be unaligned */
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)r * (size_t)w->cols + (size_t)(from + i);
            out[i] = f32_at(scales + at / (size_t)w->group * sizeof(float)) * (float)(int8_t)row[i];
        }
        break;
    }
    default:
        for (int i = 0; i < n; i += type->block_values, row += type->block_bytes)
            dequantize_block[w->dtype](out + i, row);
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

/* mat - a weight matrix that carries its own type. Only matmul and mat_row look inside. */
#pragma once
#include "quant.h"

typedef struct {
    DType dtype;
    int rows, cols;      /* y[rows] = W[rows, cols] x[cols] */
    size_t stride_bytes; /* from one row to the next */
    const void *data;    /* [rows, cols] values; may be unaligned; NULL: the matrix is absent */
    const float *scales; /* [rows * cols / group] for DTYPE_Q8_GROUP, else NULL; may be unaligned */
    int group;           /* values under one scale for DTYPE_Q8_GROUP, else 0 */
} Mat;

/* mat_dequantize - out[n] = values [from, from + n) of row r in f32; `from` and `n` are multiples of the
 * type's block_values. The specification of every type. */
void mat_dequantize(float *out, const Mat *w, int r, int from, int n);

/* mat_dequantize_row - out[cols] = row r. */
void mat_dequantize_row(float *out, const Mat *w, int r);

/* mat_rows - the sub-matrix of rows [from, from + n); shares the data. */
Mat mat_rows(const Mat *w, int from, int n);

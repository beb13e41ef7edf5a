/* simd_body - the kernels, compiled once for each instruction set by avx2.c, neon.c and so on, which define the vector
 * V of LANES floats, I of LANES int32, HAS_DOT, SIGN_OFFSET (added to signed weights, if dots want that), TABLE. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

#include "kernels/simd_math.h"
#include "kernels/simd_weights.h"
#include "kernels/simd_gemv.h"
#include "kernels/simd_gemv_exact.h"
#include "kernels/simd_panel.h"
#include "kernels/simd_gemm.h"

/* ---- The table ------------------------------------------------------------------------------------- */

INLINE void gemv_typed(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add, DType t) {
    if (a->exact) {
        if (is_quantized(t)) exact_q(y, w, from, to, a, row, add, t);
        else exact_f(y, w, from, to, a, row, add, t);
        return;
    }
    const size_t at = (size_t)row * (size_t)a->blocks;
    const bool few = is_quantized(t) && !is_k(t) && a->blocks < 8;
    const int step = few ? 0 : (to - from) / 4;
    float out[4];
    for (int r = from; r < from + step; r++) {
        if (is_quantized(t)) gemv_rows_q(out, w, r, 4, step, a, at, t);
        else gemv_rows_f(out, w, r, 4, step, a, row, t);
        for (int j = 0; j < 4; j++) y[r + j * step] = add ? y[r + j * step] + out[j] : out[j];
    }
    for (int r = from + 4 * step; r < to; r++) {
        if (!is_quantized(t)) gemv_rows_f(out, w, r, 1, 0, a, row, t);
        else if (few) out[0] = gemv_short_q(w, r, a, at, t);
        else gemv_rows_q(out, w, r, 1, 0, a, at, t);
        y[r] = add ? y[r] + out[0] : out[0];
    }
}

/* Calls f_typed(ARGS, type) with w's type as a constant; or the scalar kernel for groups that no block fits, and for
 * quantized weights with f32 activations (--precise). */
/* clang-format off */
#define CASE(f, t, ...) case t: f##_typed(__VA_ARGS__, t); return;
#define BY_TYPE(f, ...) { \
    if ((w->dtype == DTYPE_Q8_GROUP && !mat_is_quantized(w)) || (mat_is_quantized(w) && !a->blocks)) { \
        kernels_ref.f(__VA_ARGS__); \
        return; \
    } \
    switch (w->dtype) { \
        CASE(f, DTYPE_F32, __VA_ARGS__) CASE(f, DTYPE_F16, __VA_ARGS__) CASE(f, DTYPE_BF16, __VA_ARGS__) \
        CASE(f, DTYPE_Q8_0, __VA_ARGS__) CASE(f, DTYPE_Q8_GROUP, __VA_ARGS__) CASE(f, DTYPE_Q4_0, __VA_ARGS__) \
        CASE(f, DTYPE_Q4_1, __VA_ARGS__) CASE(f, DTYPE_Q5_0, __VA_ARGS__) CASE(f, DTYPE_Q5_1, __VA_ARGS__) \
        CASE(f, DTYPE_Q4_K, __VA_ARGS__) CASE(f, DTYPE_Q5_K, __VA_ARGS__) CASE(f, DTYPE_Q6_K, __VA_ARGS__) \
        CASE(f, DTYPE_Q2_K, __VA_ARGS__) CASE(f, DTYPE_Q3_K, __VA_ARGS__) CASE(f, DTYPE_IQ4_NL, __VA_ARGS__) \
        CASE(f, DTYPE_IQ4_XS, __VA_ARGS__) CASE(f, DTYPE_MXFP4, __VA_ARGS__) \
    default: return; \
    } }
/* clang-format on */

static void dequantized(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, int row, bool add);
static bool has_loops(DType t) { return dtype_info[t].int8 || dtype_info[t].block_values == 1; }

static void gemv(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add) {
    if (!has_loops(w->dtype)) dequantized(y, 0, w, from, to, a, row, add);
    else BY_TYPE(gemv, y, w, from, to, a, row, add)
}

INLINE void gemm_typed(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add, DType t) {
    if (is_quantized(t)) gemm_q(y, y_stride, w, from, to, a, add, t);
    else gemm_f(y, y_stride, w, from, to, a, add, t);
}

static void gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add) {
    if (!has_loops(w->dtype)) dequantized(y, y_stride, w, from, to, a, -1, add);
    else BY_TYPE(gemm, y, y_stride, w, from, to, a, add)
}

/* The types without loops: sixteen rows are dequantized in pieces and multiplied as f32, with one row of activations or
 * with all of them (row < 0). */
static void dequantized(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, int row, bool add) {
    enum { ROWS = 16, COLS = QK_K };
    float piece[ROWS * COLS];
    for (int r = from; r < to; r += ROWS) {
        const int rows = to - r < ROWS ? to - r : ROWS;
        for (int c = 0; c < w->cols; c += COLS) {
            for (int i = 0; i < rows; i++) mat_dequantize(piece + i * COLS, w, r + i, c, COLS);
            Mat part = {
                .dtype = DTYPE_F32, .rows = rows, .cols = COLS, .stride_bytes = COLS * sizeof *piece, .data = piece};
            Rows x = *a;
            x.x += c;
            if (row < 0) gemm(y + r, y_stride, &part, 0, rows, &x, add || c > 0);
            else gemv(y + r, &part, 0, rows, &x, row, add || c > 0);
        }
    }
}

const Kernels TABLE = {.name = TABLE_NAME,
                       .int8 = true,
                       .tile_rows = TILE_ROWS,
                       .tile_cols = TILE_COLS,
                       .quantize = quantize,
                       .gemv = gemv,
                       .gemm = gemm,
                       .tile = tile,
                       .softmax_step = softmax_step,
                       .exp = exps,
                       .sum_squares = sum_squares,
                       .swiglu = swiglu,
                       .gelu = gelu,
                       .from_f16 = from_f16,
                       .to_f16 = to_f16};

/* ref - the loops in plain C, for the levels that have no others. */
#pragma once
#include "kernels/kernels.h"

enum { REF_TILE_ROWS = 4, REF_TILE_COLS = 16 };
void ref_quantize(int8_t *q, float *d, int16_t (*sum)[2], float *d_sum, int step, const float *x, int blocks);
void ref_gemv(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add);
void ref_gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add);
void ref_tile(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add);
float ref_softmax_step(float *s, int valid, int n, float *max, float *denom);
void ref_exp(float *y, const float *x, size_t n);
void ref_from_f16(float *y, const uint16_t *x, size_t n);
void ref_to_f16(uint16_t *y, const float *x, size_t n);

/* All of a table but its name and gemm. */
#define REF_LOOPS                                                                                                      \
    .tile_rows = REF_TILE_ROWS, .tile_cols = REF_TILE_COLS, .quantize = ref_quantize, .gemv = ref_gemv,                \
    .tile = ref_tile, .softmax_step = ref_softmax_step, .exp = ref_exp, .from_f16 = ref_from_f16, .to_f16 = ref_to_f16

/* ops - products of activations and weights, shared out among the threads of a pass. */
#pragma once
#include "rows.h"

/* matmul - y[n, w.rows] = (add ? y : 0) + x[n, w.cols] w^T + bias, for any type of w and any n >= 1.
 *   y      row r starts at y + r * y_stride (floats)
 *   bias   [w.rows] or NULL
 * NO barrier at the end. */
void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const float *bias, const Rows *x, bool add);

/* matmul_columns - how many columns a piece of a product has, of `columns` in all. */
int matmul_columns(const Thread *t, int columns, const Rows *x);

/* matmul_next - the next piece [*from, *to) of `rows` columns of y for this thread; false: none is left.
 * matmul_piece - the product's columns [from, to) alone. For what is done with them while they are in the cache. */
bool matmul_next(const Thread *t, int rows, const Rows *x, int *from, int *to);
void matmul_piece(float *y, size_t y_stride, const Mat *w, const float *bias, const Rows *x, bool add, int from,
                  int to);

/* softcap - x[i] = cap * tanh(x[i] / cap). Source: Gemma 2, arXiv:2408.00118, section 2. */
void softcap(const Kernels *k, float *x, int n, float cap);

/* matmul_f32 - c[m, n] = (add ? c : 0) + a[m, k] b[k, n] in f32, on this thread alone; n is a multiple of the
 * kernels' tile_cols. For attention. */
void matmul_f32(const Kernels *kernels, float *c, size_t c_stride, const float *a, size_t a_stride, int m,
                const TileB *b, size_t n, int k, bool add);

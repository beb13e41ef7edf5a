/* ops - what the model's formulas are made of: matrix product, softmax, activations.
 *
 * Every op that takes a Thread is called by all threads of the team with the same arguments and does
 * this thread's share; it ends in a barrier where the comment says so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/team.h"
#include "kernels/kernels.h"

/* Up to so many rows are multiplied one by one, each weight being read once for each row out of the cache; more go
 * through panels of weights together, in tiles of ACT_TILE rows. */
enum { ACT_FEW = 3 };

/* act_bytes - memory for the 8-bit form of up to n rows of dim values. */
size_t act_bytes(size_t n, size_t dim);

/* act_open - an Act of the rows x [n, dim], which may be written later.
 *   memory     act_bytes(n, dim), 64-byte aligned
 *   quantized  an 8-bit form will be needed, if this machine's kernels have one
 *   exact      see Act */
void act_open(Act *a, float *x, int n, int dim, void *memory, bool quantized, bool exact);
float *act_row(const Act *a, int r);

/* act_fill - columns [from, to) of row r of x are written: makes their 8-bit form where one is needed. Both are
 * multiples of 32, else it does nothing. */
void act_fill(const Act *a, int r, int from, int to);

/* matmul - y[n, w.rows] = (add ? y : 0) + x[n, w.cols] w^T + bias, for any type of w and any n >= 1.
 *   y      row r starts at y + r * y_stride (floats)
 *   bias   [w.rows] or NULL
 *   a      a->dim == w->cols, filled by whoever wrote its rows, and a barrier since if that were other threads
 * The threads take pieces of the columns of y. NO barrier at the end: a caller may start several products on the same
 * Act, then one team_barrier. */
void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const float *bias, const Act *a, bool add);

/* matmul_next - the next piece [*from, *to) of `rows` columns of y for this thread; false: none is left.
 * matmul_piece - the product's columns [from, to) alone. For what is done with them while they are in the cache. */
bool matmul_next(const Thread *t, int rows, const Act *a, int *from, int *to);
void matmul_piece(float *y, size_t y_stride, const Mat *w, const float *bias, const Act *a, bool add, int from, int to);

/* softmax - in place, x[n]; subtracts the maximum first. */
void softmax(float *x, int n);
/* silu - z * sigmoid(z). gelu_tanh - GPT-2's approximation, Hendrycks & Gimpel arXiv:1606.08415 */
float silu(float z);
float gelu_tanh(float z);

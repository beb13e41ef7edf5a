/* ops - what the model's formulas are made of: matrix product, softmax, activations.
 *
 * Every op that takes a Thread is called by all threads of the team with the same arguments and does
 * this thread's share; it ends in a barrier where the comment says so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/team.h"
#include "kernels/kernels.h"

/* Preparing activations for a product (norm them, bring them into 8 bits) is cheaper than a barrier when there
 * are few rows: then every thread does all of it in memory of its own. Otherwise the rows are shared out. */
enum { ACT_OWN_ROWS = 3 };

/* act_bytes - memory for the prepared forms of up to n rows of dim values, for n_threads threads. */
size_t act_bytes(size_t n, size_t dim, size_t n_threads);

/* act_open - an Act of n rows, its memory taken out of `memory` (act_bytes(), 64-byte aligned; one Act at a time).
 *   x      [n, dim]: the rows, or NULL: the caller fills act_row() of the rows that act_mine() names
 *   room   [n, dim] where those are kept when all threads share them
 *   exact  see Act */
void act_open(Act *a, const Thread *t, void *memory, size_t memory_dim, float *x, float *room, int n, int dim,
              bool exact);
void act_mine(const Thread *t, const Act *a, int *from, int *to);
float *act_row(const Act *a, int r);

/* act_ready - makes the 8-bit form of this thread's rows if `quantized` weights will need it. Ends in a barrier if
 * the rows were shared out. */
void act_ready(const Thread *t, Act *a, bool quantized);

/* matmul - y[n, w.rows] = (add ? y : 0) + x[n, w.cols] w^T + bias, for any type of w and any n >= 1.
 *   y      row r starts at y + r * y_stride (floats)
 *   bias   [w.rows] or NULL
 *   a      a->dim == w->cols, ready
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

/* ops - what the model's formulas are made of: matrix product, softmax, activations.
 *
 * Every op that takes a Thread is called by all threads of the team with the same arguments and does
 * this thread's share; it ends in a barrier where the comment says so. */
#pragma once
#include <stddef.h>

#include "base/team.h"
#include "kernels/mat.h"

/* Act - n rows of activations about to be multiplied, prepared once and used by several products. */
typedef struct {
    const float *x;   /* [n, dim] f32 */
    int n, dim;
    void *q;          /* scratch for the prepared form: act_bytes(n, dim) bytes, 64-byte aligned */
    unsigned forms;   /* which prepared forms q holds */
} Act;

/* act_bytes - scratch bytes for n rows of dim values in every prepared form. */
size_t act_bytes(size_t n, size_t dim);

/* act_prepare - makes the form of a->x that products with w need (quantized blocks for quantized
 * weights; nothing for f32). Call once for matrices of one type. Ends in a barrier. */
void act_prepare(const Thread *t, Act *a, const Mat *w);

/* matmul - y[n, w.rows] = x[n, w.cols] w^T, for any type of w and any n >= 1.
 *   y      row r starts at y + r * y_stride (floats)
 *   a      a->dim == w->cols, prepared for w's type
 * Each thread fills its own columns of y. NO barrier at the end: a caller may start several products
 * on the same Act, then one team_barrier. */
void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const Act *a);

/* softmax - in place, x[n]; subtracts the maximum first. */
void softmax(float *x, int n);
/* silu - z * sigmoid(z). gelu_tanh - GPT-2's approximation, Hendrycks & Gimpel arXiv:1606.08415 */
float silu(float z);
float gelu_tanh(float z);

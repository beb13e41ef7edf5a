/* quantize - f32 to the storage types that files are written in. The types of 32 values bit for bit as the gguf Python
 * module (ggml's quantize_row_*_ref) writes them; the K types and IQ4_NL by a search of this program (quantize_k.c). */
#pragma once
#include "kernels/quant.h"

/* dtype_quantize - out = n values of x as type t; n is a multiple of its block. False for a type that is never
 * written, for a value that f16 cannot hold (the block's scale included), and for a block with a value that is
 * infinite or NaN. */
bool dtype_quantize(void *out, const float *x, size_t n, DType t);

/* dtype_can_quantize - whether dtype_quantize makes this type; the other ones are read and copied only. */
bool dtype_can_quantize(DType t);

bool floats_finite(const float *x, size_t n);

/* largest_of - the value that is largest in magnitude, with its sign; the first of equal ones, 0 where all are 0. */
float largest_of(const float *x, int n);

/* is_finite_f16 - whether the bits of an f16 are neither infinity nor NaN. */
bool is_finite_f16(uint16_t h);

/* One block from its values. False: f16 cannot hold its scale. */
typedef bool QuantizeBlock(void *out, const float *x);
QuantizeBlock quantize_q2_k, quantize_q3_k, quantize_q4_k, quantize_q5_k, quantize_q6_k, quantize_iq4_nl;

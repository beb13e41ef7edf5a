/* quantize - f32 to every storage type that a file can be written in. Bit for bit what the gguf Python
 * module (ggml's quantize_row_*_ref) makes. */
#pragma once
#include "kernels/quant.h"

/* dtype_quantize - out = n values of x as type t; n is a multiple of its block. False for a type that is never
 * written, for a value that f16 cannot hold (the block's scale included), and for a block with a value that is
 * infinite or no number. */
bool dtype_quantize(void *out, const float *x, size_t n, DType t);

bool floats_finite(const float *x, size_t n);

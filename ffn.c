#include "ffn.h"

#include "ops.h"

void swiglu(float *gate, const float *up, size_t n) { kernels_best()->swiglu(gate, up, n); }

void gelu(float *x, size_t n) { kernels_best()->gelu(x, n); }

#include "ffn.h"

#include "ops.h"

void swiglu(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) gate[i] = silu(gate[i]) * up[i];
}

void gelu(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = gelu_tanh(x[i]);
}

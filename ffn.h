/* ffn - swap 2: the GELU MLP of GPT-2 or the SwiGLU of LLaMA, between its matrix products. */
#pragma once
#include <stddef.h>

typedef enum { FFN_GELU, FFN_SWIGLU } FfnKind;

/* swiglu - gate[i] = silu(gate[i]) * up[i]. Source: Shazeer, arXiv:2002.05202, equation 5. */
void swiglu(float *gate, const float *up, size_t n);

/* gelu - x[i] = gelu_tanh(x[i]): GPT-2's activation ("gelu_new"), arXiv:1606.08415. */
void gelu(float *x, size_t n);

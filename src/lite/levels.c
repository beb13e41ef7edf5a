/* AVX2, or NEON without and with dot products, and C: each level more takes a compiler as long as all the rest. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
extern const Kernels kernels_avx2;
#elif defined(__aarch64__)
extern const Kernels kernels_neon, kernels_neondot;
#endif

const KernelLevel kernel_levels[] = {
#if defined(__x86_64__)
    {&kernels_avx2, HAS_AVX2},
#elif defined(__aarch64__)
    {&kernels_neondot, HAS_DOTPROD},
    {&kernels_neon, HAS_NEON},
#endif
    {&kernels_ref, 0},
    {NULL, 0},
};

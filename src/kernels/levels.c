#include "kernels/kernels.h"

extern const Kernels kernels_blas;
#if defined(__x86_64__)
extern const Kernels kernels_avx2, kernels_avxvnni, kernels_avx512;
#elif defined(__aarch64__)
extern const Kernels kernels_neon, kernels_neondot;
#endif

const KernelLevel kernel_levels[] = {
#if defined(__x86_64__)
    {&kernels_avx512, HAS_AVX512},
    {&kernels_avxvnni, HAS_AVXVNNI},
    {&kernels_avx2, HAS_AVX2},
#elif defined(__aarch64__)
    {&kernels_neondot, HAS_DOTPROD},
    {&kernels_neon, HAS_NEON},
#endif
    {&kernels_blas, 0},
    {&kernels_ref, 0},
    {NULL, 0},
};

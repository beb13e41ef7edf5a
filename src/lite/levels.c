/* AVX2 and C alone: each level more takes a compiler as long as all the rest. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
extern const Kernels kernels_avx2;
#endif

const KernelLevel kernel_levels[] = {
#if defined(__x86_64__)
    {&kernels_avx2, HAS_AVX2},
#endif
    {&kernels_ref, 0},
    {NULL, 0},
};

#include "kernels/kernels.h"

#if defined(__x86_64__)
extern const Kernels kernels_avx2, kernels_avxvnni, kernels_avx512;
#endif

const KernelLevel kernel_levels[] = {
#if defined(__x86_64__)
    {&kernels_avx512, HAS_AVX512},
    {&kernels_avxvnni, HAS_AVXVNNI},
    {&kernels_avx2, HAS_AVX2},
#endif
    {&kernels_ref, 0},
    {NULL, 0},
};

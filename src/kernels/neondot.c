/* neondot - the kernels for ARM with dot products of bytes (FEAT_DotProd). */
#include "kernels/neon.h"

#include "kernels/lanes8.h"

#define HAS_DOT     1
#define SIGN_OFFSET 0
#define TABLE       kernels_neondot
#define TABLE_NAME  "neondot"
#include "kernels/simd_body.h"

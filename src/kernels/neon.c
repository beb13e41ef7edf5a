/* neon - the kernels for any 64-bit ARM. */
#include "kernels/neon.h"

#include "kernels/lanes8.h"

#define HAS_DOT     1
#define SIGN_OFFSET 0
#define TABLE       kernels_neon
#define TABLE_NAME  "neon"
#include "kernels/simd_body.h"

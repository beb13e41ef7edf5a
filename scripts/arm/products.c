/* products LEVEL TYPE ROWS TIMES - so many products of one row (gemv) or of ROWS rows of activations (gemm) with a
 * matrix of 64 rows of 2048 weights: work whose instructions count.sh counts. */
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { OUT = 64, COLS = 2048, BLOCKS = COLS / QK, MOST = 64 };

int main(int argc, char **argv) {
    const Kernels *k = argc == 5 ? kernels_named(argv[1]) : NULL;
    int type = 0, n = argc == 5 ? atoi(argv[3]) : 0;
    while (argc == 5 && type < DTYPE_COUNT && strcmp(dtype_info[type].name, argv[2]) != 0) type++;
    if (!k || type == DTYPE_COUNT || n < 1 || n > MOST) return 1;
    Mat w = {.dtype = (DType)type, .rows = OUT, .cols = COLS, .stride_bytes = dtype_row_bytes((DType)type, COLS)};
    static float x[MOST * COLS], y[MOST * OUT], d[MOST * BLOCKS], d_sum[MOST * BLOCKS];
    static int8_t q[MOST * COLS];
    static int16_t sum[MOST * BLOCKS][2];
    w.data = calloc(OUT + 1, w.stride_bytes);
    Rows a = {k, x, n, COLS, n == 1 ? 1 : ROWS_TILE, false, BLOCKS, q, d, sum, d_sum};
    for (int i = 0; i < atoi(argv[4]); i++) {
        if (n == 1) k->gemv(y, &w, 0, OUT, &a, 0, false);
        else k->gemm(y, OUT, &w, 0, OUT, &a, false);
    }
    return 0;
}

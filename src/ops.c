#include "ops.h"

enum {
    GRAIN = 32,             /* columns of a piece: a multiple of it; whole panels of every instruction set */
    CHUNKS_PER_THREAD = 8,  /* for load balance, where reading the weights is what takes the time */
    MIN_COLUMNS = 64,       /* of such a chunk: below this the atomic costs more than the work */
    PIECES_PER_THREAD = 16, /* where multiplying is; within a piece the next panel is prefetched */
    MOST_TILE_ROWS = 8
};

int matmul_columns(const Thread *t, int columns, const Rows *x) {
    if (t->n == 1) return columns;
    bool few = x->n <= ROWS_TILE;
    int pieces = (few ? CHUNKS_PER_THREAD : PIECES_PER_THREAD) * t->n, least = few ? MIN_COLUMNS : GRAIN;
    int size = columns / pieces / GRAIN * GRAIN;
    return size < least ? least : size;
}

bool matmul_next(const Thread *t, int rows, const Rows *x, int *from, int *to) {
    int size = matmul_columns(t, rows, x), piece;
    if (!team_next(t, (rows + size - 1) / size, &piece)) return false;
    *from = piece * size;
    *to = rows - *from < size ? rows : *from + size;
    return true;
}

void matmul_piece(float *y, size_t y_stride, const Mat *w, const float *bias, const Rows *x, bool add, int from,
                  int to) {
    if (x->tile > 1) x->kernels->gemm(y, y_stride, w, from, to, x, add);
    else x->kernels->gemv(y, w, from, to, x, 0, add);
    for (int i = 0; i < x->n && bias; i++)
        for (int r = from; r < to; r++) y[(size_t)i * y_stride + (size_t)r] += bias[r];
}

void matmul(const Thread *t, float *y, size_t y_stride, const Mat *w, const float *bias, const Rows *x, bool add) {
    int from, to;
    while (matmul_next(t, w->rows, x, &from, &to)) matmul_piece(y, y_stride, w, bias, x, add, from, to);
}

void softcap(const Kernels *k, float *x, int n, float cap) {
    for (int i = 0; i < n; i++) x[i] *= 2 / cap;
    k->exp(x, x, (size_t)n);
    for (int i = 0; i < n; i++) x[i] = cap - 2 * cap / (x[i] + 1);
}

void matmul_f32(const Kernels *kernels, float *c, size_t c_stride, const float *a, size_t a_stride, int m,
                const TileB *b, size_t n, int k, bool add) {
    float *c_rows[MOST_TILE_ROWS];
    const float *a_rows[MOST_TILE_ROWS];
    for (int i = 0; i < m; i += kernels->tile_rows) {
        int rows = m - i < kernels->tile_rows ? m - i : kernels->tile_rows;
        for (size_t col = 0; col < n; col += (size_t)kernels->tile_cols) {
            for (int j = 0; j < rows; j++) {
                a_rows[j] = a + (size_t)(i + j) * a_stride;
                c_rows[j] = c + (size_t)(i + j) * c_stride + col;
            }
            kernels->tile(c_rows, a_rows, rows, b, (int)col, k, add);
        }
    }
}

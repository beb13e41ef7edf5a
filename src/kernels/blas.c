/* blas - products of many rows by OpenBLAS, for CPUs that it knows and we do not; decode and all else by ref.c. */
#include "kernels/blas.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/system.h"
#include "kernels/ref.h"

static Blas load(void) {
    Blas blas = {NULL, "none"};
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
        return blas; /* its constructor may loop */
    void *library = dlopen(LIBRARY("openblas", 0), RTLD_NOW | RTLD_LOCAL);
    if (!library) return blas;
    *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
    char *(*core)(void);
    void (*set_threads)(int);
    *(void **)&core = dlsym(library, "openblas_get_corename");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(1);
    if (core) blas.core = core();
    return blas;
}

static _Atomic(Sgemm *) sgemm; /* a constant of the machine once it is found */

Blas blas_load(void) {
    Blas blas = load();
    atomic_store_explicit(&sgemm, blas.sgemm, memory_order_relaxed);
    return blas;
}

static bool usable(void) { return atomic_load_explicit(&sgemm, memory_order_relaxed) || blas_load().sgemm; }

enum { ROOM = 1 << 15, BLOCK = 256 }; /* floats of a panel; whole blocks of every type */

/* y (+)= x w^T of columns [c, c + k), for as many weight rows as there are columns of y. */
static void product(float *y, size_t y_stride, const Rows *a, int c, int k, const float *w, size_t w_stride, int n,
                    bool add) {
    Sgemm *multiply = atomic_load_explicit(&sgemm, memory_order_relaxed);
    multiply(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, a->n, n, k, 1, a->x + c, a->dim, w, (int)w_stride, add, y,
             (int)y_stride);
}

/* Panels of weight rows are dequantized in pieces that stay in the L2 cache. sgemm adds up in another order for other
 * shapes: where the bits must not depend on them, and for rows so few that packing them costs more, ref.c's loop. */
static void gemm(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add) {
    float panel[ROOM];
    if (a->exact || a->n < ROWS_TILE) {
        ref_gemm(y, y_stride, w, from, to, a, add);
        return;
    }
    if (w->dtype == DTYPE_F32) {
        const char *rows = (const char *)w->data + (size_t)from * w->stride_bytes;
        product(y + from, y_stride, a, 0, w->cols, (const void *)rows, w->stride_bytes / sizeof(float), to - from, add);
        return;
    }
    for (int n; from < to; from += n) {
        n = to - from < ROOM / BLOCK ? to - from : ROOM / BLOCK;
        int most = ROOM / n / BLOCK * BLOCK;
        for (int c = 0; c < w->cols; c += most) {
            int k = w->cols - c < most ? w->cols - c : most;
            for (int r = 0; r < n; r++) mat_dequantize(panel + (size_t)r * (size_t)k, w, from + r, c, k);
            product(y + from, y_stride, a, c, k, panel, (size_t)k, n, add || c > 0);
        }
    }
}

const Kernels kernels_blas = {.name = "blas", .usable = usable, .gemm = gemm, REF_LOOPS};

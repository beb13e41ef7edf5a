/* blas - OpenBLAS, loaded where it is used and not before: its constructor takes memory and threads, and does not end
 * where there is too little address space. */
#pragma once

/* cblas_sgemm; its enumerations are C's ints. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void Sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc);

typedef struct {
    Sgemm *sgemm;     /* NULL: there is no OpenBLAS on this machine */
    const char *core; /* the CPU it takes this one for */
} Blas;

/* blas_load - on one thread a call: each thread of ours has its share. The library stays loaded: its threads cannot be
 * taken out of a running process. */
Blas blas_load(void);

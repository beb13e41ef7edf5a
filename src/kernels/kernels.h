/* kernels - the few loops that decide the speed, one table of them for each instruction set.
 *
 * ref.c is the specification in plain C; avx2.c, avxvnni.c, avx512.c, and for ARM neon.c and neondot.c, compile
 * the same body (simd_body.h) for their vectors. The table is chosen once, at run time, from what the CPU and the
 * system can do. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/mat.h"

enum { ROWS_TILE = 8 }; /* rows of activations interleaved for gemm */
enum { KV_BLOCK = 32 }; /* positions whose keys are transposed together in the KV cache */
enum { KEYS_Q8_BYTES = KV_BLOCK * sizeof(BlockQ8_0) }; /* 32 features of such a block in q8_0 */

typedef struct Kernels Kernels;

/* TileB - the right-hand matrix [k, columns] of `tile`, as it lies in memory: f32, f16, or the KV cache's q8_0. Row j
 * begins `stride` bytes after row j - 1; but of keys in q8_0 each 32 rows are { f16 scale[KV_BLOCK],
 * int8 [32, KV_BLOCK] }. A row of values in q8_0 is BlockQ8_0[]. */
typedef enum { TILE_F32, TILE_F16, TILE_Q8_KEYS, TILE_Q8_VALUES } TileForm;
typedef struct {
    const void *data;
    size_t stride;
    TileForm form;
} TileB;

/* Rows - n rows of activations about to be multiplied, prepared once and used by several products.
 * For quantized weights each block of 32 values x is quantized to int8, x = d * q, as in Q8_0. Block b of row r is
 * at index ((r / tile) * blocks + b) * tile + r % tile of q, d, sum and d_sum. */
typedef struct {
    const Kernels *kernels;
    float *x; /* [n, dim] f32 */
    int n, dim;
    int tile;          /* 1, or ROWS_TILE: there is room for a multiple of it */
    bool exact;        /* same bits for every n: gemv adds up in the order in which gemm does, at some cost */
    int blocks;        /* dim / 32; 0: no int8 form, because none is needed or dim is not a multiple */
    int8_t *q;         /* [padded rows * blocks, 32] in [-127, 127] */
    float *d;          /* [padded rows * blocks] */
    int16_t (*sum)[2]; /* sums of the block's first and second 16 q */
    float *d_sum;      /* d * sum(q): times a weight block's minimum or zero point, its correction (ggml's s) */
} Rows;

struct Kernels {
    const char *name;         /* "ref", "avx2", "neondot", ...: of its file */
    bool (*usable)(void);     /* NULL: wherever the CPU has what the level needs */
    bool int8;                /* quantized weights are multiplied with int8 activations */
    int tile_rows, tile_cols; /* of `tile` */

    /* quantize - the int8 form of `blocks` blocks of x; consecutive blocks of the row are `step` blocks apart
     * in the output. d = max |x| / 127, q = x / d to nearest. */
    void (*quantize)(int8_t *q, float *d, int16_t (*sum)[2], float *d_sum, int step, const float *x, int blocks);

    /* gemv - y[r] = (add ? y[r] : 0) + w[r] . a[row] for r in [from, to); a->tile is 1. */
    void (*gemv)(float *y, const Mat *w, int from, int to, const Rows *a, int row, bool add);

    /* gemm - the same for all rows of a, row i at y + i * y_stride; a->tile is ROWS_TILE. One order of sums for each
     * element, whatever n is (blas: with a->exact). */
    void (*gemm)(float *y, size_t y_stride, const Mat *w, int from, int to, const Rows *a, bool add);

    /* tile - c[i][0 .. tile_cols) = (add ? c[i] : 0) + sum over j < k of a[i][j] * b[j][col ..], for
     * i < m <= tile_rows; the sums in f32, in the order of j. */
    void (*tile)(float *const *c, const float *const *a, int m, const TileB *b, int col, int k, bool add);

    /* softmax_step - one chunk of an online softmax (arXiv:1805.02867): s[i] = exp(s[i] - max) for i < valid,
     * 0 from there to n; updates the running maximum and denominator.
     * Returns the rescale factor of earlier accumulators. */
    float (*softmax_step)(float *s, int valid, int n, float *max, float *denom);

    void (*exp)(float *y, const float *x, size_t n); /* within 2 ulp where e^x is a normal number */

    /* Faster versions of the loops in norm.c and ffn.c, which are the specification; NULL: those run. */
    float (*sum_squares)(const float *x, int n);
    void (*swiglu)(float *gate, const float *up, size_t n); /* gate = silu(gate) * up */
    void (*gelu)(float *x, size_t n);                       /* x = gelu_tanh(x) */

    void (*from_f16)(float *y, const uint16_t *x, size_t n);
    void (*to_f16)(uint16_t *y, const float *x, size_t n);
};

extern const Kernels kernels_ref;

/* KernelLevel - a table that is built in, and what the CPU must have for it; the fastest first, kernels_ref, which
 * needs nothing, and NULL last (levels.c; the small program has fewer, src/lite/levels.c). */
enum { HAS_AVX2 = 1, HAS_AVXVNNI = 2, HAS_AVX512 = 4, HAS_NEON = 8, HAS_DOTPROD = 16 };
typedef struct {
    const Kernels *kernels;
    unsigned needs;
} KernelLevel;
extern const KernelLevel kernel_levels[];

/* kernels_list - their names, the slowest first: "ref, avx2 or ...". */
enum { KERNELS_LIST = 80 };
void kernels_list(char out[KERNELS_LIST]);

/* cpu_level - what this CPU has of them. */
unsigned cpu_level(void);

/* kernels_best - the fastest table for this machine, or the one that env RUN_CPU names
 * (one that the machine lacks is not taken: the best below it is). Found once, then remembered. */
const Kernels *kernels_best(void);

/* kernels_named - the table of that name; NULL when this machine or this build does not have it. */
const Kernels *kernels_named(const char *name);

/* mat_is_quantized - whether the type's products take int8 activations. */
bool mat_is_quantized(const Mat *w);

/* rows - activations [n, dim] of one pass, with the int8 form that quantized matrices are multiplied with. */
#pragma once
#include "base/arena.h"
#include "kernels/kernels.h"
#include "pass.h"

/* Up to this many rows each thread norms and quantizes for itself, which costs less than a barrier. */
enum { OWN_MAX_ROWS = ROWS_TILE };

/* RowBuffer - memory for the Rows of any pass of at most n_batch rows. */
typedef struct {
    int dim;
    float *x;   /* [n_batch, dim] */
    void *int8; /* their int8 form */
    char *own;  /* [n_threads, own_bytes] or NULL: the same for OWN_MAX_ROWS rows of each thread */
    size_t own_bytes;
} RowBuffer;

void row_buffer_take(RowBuffer *b, Arena *a, int n_batch, int dim);
void row_buffer_take_own(RowBuffer *b, Arena *a, int n_threads);

/* row_buffer_take_tiles - memory for several Rows that each begin at a tile: n_tiles of ROWS_TILE rows in all.
 * rows_open_tiles - n rows in it, from tile `tile` on. */
void row_buffer_take_tiles(RowBuffer *b, Arena *a, int n_tiles, int dim);
Rows rows_open_tiles(const RowBuffer *b, const Pass *p, int tile, int n);

/* rows_open - the pass's rows in the buffer; rows_open_own - in this thread's part of it, for p->n <= OWN_MAX_ROWS. */
Rows rows_open(const RowBuffer *b, const Pass *p);
Rows rows_open_own(const RowBuffer *b, const Pass *p);
float *rows_at(const Rows *a, int r);

/* rows_some - rows [from, from + n) of a; from is a multiple of a->tile. Shares the memory. */
Rows rows_some(const Rows *a, int from, int n);

/* rows_quantize - columns [from, to) of row r are written: quantizes them where an int8 form is needed. Both are
 * multiples of 32, else it does nothing and rows_quantize_all, after a barrier, quantizes whole rows; it ends in a
 * barrier. */
void rows_quantize(const Rows *a, int r, int from, int to);
void rows_quantize_all(const Pass *p, const Rows *a);

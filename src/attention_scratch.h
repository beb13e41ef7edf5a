/* attention_scratch - the memory that attention works in. */
#pragma once
#include <stddef.h>

#include "kernels/kernels.h"

enum {
    WORK_ROWS = 32,            /* query rows of a task */
    WORK_CHUNK = 4 * KV_BLOCK, /* positions between two steps of the online softmax */
    WORK_PAD = 32              /* an accumulator's row holds whole tiles: a multiple of every tile_cols */
};

/* Work - of one thread. */
typedef struct {
    float *q;      /* [WORK_ROWS, d] queries / sqrt(d) */
    float *score;  /* [WORK_ROWS, WORK_CHUNK] */
    float *keys;   /* [d, KV_BLOCK] */
    float *values; /* [KV_BLOCK, stride] */
    float *acc;    /* [WORK_ROWS, stride] */
    size_t stride;
    float max[WORK_ROWS], denom[WORK_ROWS];
} Work;

/* attention_scratch_bytes - the Work of n_threads and, behind it, room for what work_partial() says. */
size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads);
Work work_at(void *scratch, int thread, int head_dim);

/* work_partial - [n_threads, n_heads, stride + 2]: accumulator, maximum and denominator of each part of a long cache
 * and each query head. There are at most as many parts as threads. */
float *work_partial(void *scratch, int n_threads, int head_dim);

/* work_put - row's result so far to to[stride + 2], as work_partial() has it. */
void work_put(const Work *w, int row, float *to, int d);

/* work_merge - o[d] = softmax-weighted values of all parts of one query head, the first part at `from`, one every
 * `next` floats: each is rescaled to the largest maximum. Source: FlashAttention, arXiv:2205.14135, section 3.1. */
void work_merge(float *o, const float *from, int parts, size_t next, size_t stride, int d);

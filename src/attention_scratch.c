#include "attention_scratch.h"

#include <math.h>
#include <string.h>

static size_t acc_stride(size_t d) { return (d + WORK_PAD - 1) / WORK_PAD * WORK_PAD; }

static size_t work_floats(size_t d) {
    return WORK_ROWS * d + WORK_ROWS * WORK_CHUNK + (d + 15) / 16 * 16 * KV_BLOCK +
           (KV_BLOCK + WORK_ROWS) * acc_stride(d);
}

size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads) {
    size_t n = (size_t)n_threads, partial = (size_t)n_heads * (acc_stride((size_t)head_dim) + 2);
    return n * (work_floats((size_t)head_dim) + partial) * sizeof(float);
}

Work work_at(void *scratch, int thread, int head_dim) {
    size_t d = (size_t)head_dim;
    Work w = {.q = (float *)scratch + (size_t)thread * work_floats(d), .stride = acc_stride(d)};
    w.acc = w.q + WORK_ROWS * d;
    w.values = w.acc + WORK_ROWS * w.stride;
    w.keys = w.values + KV_BLOCK * w.stride;
    w.score = w.keys + (d + 15) / 16 * 16 * KV_BLOCK;
    return w;
}

float *work_partial(void *scratch, int n_threads, int head_dim) {
    return (float *)scratch + (size_t)n_threads * work_floats((size_t)head_dim);
}

void work_put(const Work *w, int row, float *to, int d) {
    memcpy(to, w->acc + (size_t)row * w->stride, (size_t)d * sizeof *to);
    to[w->stride] = w->max[row];
    to[w->stride + 1] = w->denom[row];
}

void work_merge(float *o, const float *from, int parts, size_t next, size_t stride, int d) {
    float max = from[stride], denom = 0;
    for (int part = 1; part < parts; part++) max = fmaxf(max, from[(size_t)part * next + stride]);
    memset(o, 0, (size_t)d * sizeof *o);
    for (int part = 0; part < parts; part++, from += next) {
        float rescale = expf(from[stride] - max);
        denom += rescale * from[stride + 1];
        for (int j = 0; j < d; j++) o[j] += rescale * from[j];
    }
    for (int j = 0; j < d; j++) o[j] /= denom;
}

#include "attention.h"

#include <math.h>
#include <string.h>

#include "kernels/quant.h"

static size_t kv_row_bytes(KvType type, size_t n) {
    static const DType dtype[] = {
        [KV_F32] = DTYPE_F32, [KV_F16] = DTYPE_F16, [KV_Q8_0] = DTYPE_Q8_0};
    return dtype_row_bytes(dtype[type], n);
}

size_t kv_bytes_per_token(KvType type, int n_layers, int n_kv_heads, int head_dim) {
    return 2 * (size_t)n_layers * (size_t)n_kv_heads * kv_row_bytes(type, (size_t)head_dim);
}

void kv_cache_take(KvCache *c, Arena *a) {
    c->row_bytes = kv_row_bytes(c->type, (size_t)c->head_dim);
    size_t rows;
    if (!size_mul(&rows, (size_t)c->n_layers * (size_t)c->n_kv_heads, (size_t)c->n_ctx))
        a->overflow = true;
    c->k = arena_take(a, rows, c->row_bytes);
    c->v = arena_take(a, rows, c->row_bytes);
}

/* Where position pos of a layer's KV head begins, in bytes from the start of k or v. */
static size_t kv_at(const KvCache *c, int layer, int head, int pos) {
    size_t row = ((size_t)layer * (size_t)c->n_kv_heads + (size_t)head) * (size_t)c->n_ctx;
    return (row + (size_t)pos) * c->row_bytes;
}

static void kv_store(unsigned char *out, const float *x, KvType type, int n) {
    if (type == KV_F32) {
        memcpy(out, x, (size_t)n * sizeof *x);
    } else if (type == KV_F16) {
        uint16_t *h = (uint16_t *)(void *)out;
        for (int i = 0; i < n; i++) h[i] = f32_to_f16(x[i]);
    } else {
        BlockQ8_0 *block = (BlockQ8_0 *)(void *)out;
        for (int b = 0; b < n / QK; b++, x += QK) {
            float max = 0;
            for (int i = 0; i < QK; i++) max = fmaxf(max, fabsf(x[i]));
            float d = max / 127, inverse = d > 0 ? 1 / d : 0;
            block[b].d = f32_to_f16(d);
            for (int i = 0; i < QK; i++) block[b].q[i] = (int8_t)roundf(x[i] * inverse);
        }
    }
}

static void kv_load(float *out, const unsigned char *in, KvType type, int n) {
    if (type == KV_F32) {
        memcpy(out, in, (size_t)n * sizeof *out);
    } else if (type == KV_F16) {
        const uint16_t *h = (const uint16_t *)(const void *)in;
        for (int i = 0; i < n; i++) out[i] = f16_to_f32(h[i]);
    } else {
        const BlockQ8_0 *block = (const BlockQ8_0 *)(const void *)in;
        for (int i = 0; i < n; i++) out[i] = f16_to_f32(block[i / QK].d) * block[i / QK].q[i % QK];
    }
}

void kv_cache_write(const Thread *t, KvCache *c, int layer, int pos, int n_tok, const float *k,
                    const float *v, size_t stride) {
    for (int h = t->id; h < c->n_kv_heads; h += t->n) {
        for (int r = 0; r < n_tok; r++) {
            size_t from = (size_t)r * stride + (size_t)h * (size_t)c->head_dim;
            size_t at = kv_at(c, layer, h, pos + r);
            kv_store(c->k + at, k + from, c->type, c->head_dim);
            kv_store(c->v + at, v + from, c->type, c->head_dim);
        }
    }
}

void kv_cache_key(float *out, const KvCache *c, int layer, int head, int pos) {
    kv_load(out, c->k + kv_at(c, layer, head, pos), c->type, c->head_dim);
}

void kv_cache_value(float *out, const KvCache *c, int layer, int head, int pos) {
    kv_load(out, c->v + kv_at(c, layer, head, pos), c->type, c->head_dim);
}

size_t attention_scratch_bytes(int n_heads, int head_dim, int n_batch, int n_threads) {
    (void)n_heads, (void)n_batch;
    return (size_t)n_threads * (size_t)head_dim * sizeof(float);
}

void attention(const Thread *t, float *out, const float *q, int n_tok, int n_heads,
               const KvCache *cache, int layer, int pos, void *scratch) {
    int d = cache->head_dim, group = n_heads / cache->n_kv_heads;
    float scale = 1 / sqrtf((float)d);
    float *row = (float *)scratch + (size_t)t->id * (size_t)d; /* one key or value */
    for (int task = t->id; task < n_tok * n_heads; task += t->n) {
        int r = task / n_heads, h = task % n_heads;
        size_t at = ((size_t)r * (size_t)n_heads + (size_t)h) * (size_t)d;
        const float *query = q + at;
        float *sum = out + at;

        /* Online softmax: the running maximum, the running sum of weights, and their average of v.
         */
        float max = -INFINITY, total = 0;
        memset(sum, 0, (size_t)d * sizeof *sum);
        for (int p = 0; p <= pos + r; p++) {
            kv_cache_key(row, cache, layer, h / group, p);
            float score = 0;
#pragma omp simd reduction(+ : score)
            for (int i = 0; i < d; i++) score += query[i] * row[i];
            score *= scale;
            float larger = fmaxf(max, score);
            float keep = expf(max - larger), weight = expf(score - larger);
            kv_cache_value(row, cache, layer, h / group, p);
            for (int i = 0; i < d; i++) sum[i] = sum[i] * keep + weight * row[i];
            total = total * keep + weight;
            max = larger;
        }
        for (int i = 0; i < d; i++) sum[i] /= total;
    }
}

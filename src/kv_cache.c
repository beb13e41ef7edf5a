#include "kv_cache.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/quant.h"

static size_t kv_row_bytes(KvType type, size_t n) {
    static const DType dtype[] = {[KV_F32] = DTYPE_F32, [KV_F16] = DTYPE_F16, [KV_Q8_0] = DTYPE_Q8_0};
    return dtype_row_bytes(dtype[type], n);
}

int kv_type_check(KvType type, int head_dim, const char *what, Error *e) {
    if (type != KV_Q8_0 || head_dim % QK == 0) return 0;
    return fail(e, "%s: --kv-type: expected head_dim to be a multiple of %d for q8_0, found %d", what, QK, head_dim);
}

size_t kv_bytes_per_token(KvType type, int n_layers, int n_kv_heads, int head_dim) {
    return 2 * (size_t)n_layers * (size_t)n_kv_heads * kv_row_bytes(type, (size_t)head_dim);
}

static int whole_blocks(int n) { return (int)(((size_t)n + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK); }

KvLayer kv_cache_layer(const KvCache *c, int layer) {
    KvLayer l = {.rows = whole_blocks(c->n_ctx)};
    if (c->windows) l.window = *(const int *)(const void *)((const char *)c->windows + (size_t)layer * c->window_step);
    if (l.window && c->n_batch && l.window < l.rows - c->n_batch) l.rows = whole_blocks(l.window + c->n_batch - 1);
    return l;
}

void kv_cache_take(KvCache *c, Arena *a) {
    size_t rows = 0, more;
    c->row_bytes = kv_row_bytes(c->type, (size_t)c->head_dim);
    c->layers = arena_take(a, (size_t)c->n_layers, sizeof *c->layers);
    c->held = arena_take(a, 1, sizeof *c->held);
    for (int i = 0; i < c->n_layers; i++) {
        KvLayer l = kv_cache_layer(c, i);
        l.first = rows;
        if (c->layers) c->layers[i] = l;
        if (!size_mul(&more, (size_t)c->n_kv_heads, (size_t)l.rows) || rows > SIZE_MAX - more) a->overflow = true;
        rows += more;
    }
    c->k = arena_take(a, rows, c->row_bytes);
    c->v = arena_take(a, rows, c->row_bytes);
    c->overflow = arena_take(a, 1, sizeof *c->overflow);
}

/* ---- What is there of a text ------------------------------------------------------------------ */

int kv_cache_from(const KvCache *c, int layer, int n) {
    int window = c->layers[layer].window;
    return window && n > window ? (n - window) / KV_BLOCK * KV_BLOCK : 0;
}

/* The first position that a layer still has. */
static int lowest(const KvCache *c, int layer) {
    int copied = kv_cache_from(c, layer, c->held->start), left = c->held->end - c->layers[layer].rows;
    return left > copied ? left : copied;
}

void kv_cache_reach(const KvCache *c, int pos, int n) {
    if (pos == 0) *c->held = (KvHeld){0};
    if (c->held->end < pos + n) c->held->end = pos + n;
}

void kv_cache_copied(const KvCache *c, int n) { *c->held = (KvHeld){n, n}; }

int kv_cache_kept(const KvCache *c, int n) {
    for (int i = 0; i < c->n_layers; i++) {
        int window = c->layers[i].window, seen = n >= window ? n - window + 1 : 0;
        if (window && lowest(c, i) > seen) return 0;
    }
    return n;
}

bool kv_cache_wrapped(const KvCache *c) {
    for (int i = 0; i < c->n_layers; i++)
        if (c->layers[i].window && lowest(c, i) > 0) return true;
    return false;
}

/* Bytes from the start of v to a position's row; for the first position of a block, from the start of k too. */
static size_t kv_at(const KvCache *c, int layer, int head, int pos) {
    const KvLayer *l = &c->layers[layer];
    size_t row = l->first + (size_t)head * (size_t)l->rows;
    return (row + (size_t)(pos < l->rows ? pos : pos % l->rows)) * c->row_bytes;
}

void kv_cache_move_values(KvCache *c, int layer, int head, int to, int from, int n) {
    memmove(c->v + kv_at(c, layer, head, to), c->v + kv_at(c, layer, head, from), (size_t)n * c->row_bytes);
}

KvRows kv_cache_block(const KvCache *c, int layer, int head, int pos, int n) {
    size_t at = kv_at(c, layer, head, pos), values = (size_t)(n - pos < KV_BLOCK ? n - pos : KV_BLOCK);
    return (KvRows){c->k + at, c->v + at, KV_BLOCK * c->row_bytes, values * c->row_bytes};
}

double kv_largest(KvType type) { return type == KV_F32 ? (double)FLT_MAX : type == KV_F16 ? 65504 : 127 * 65504.0; }

bool kv_cache_overflowed(const KvCache *c) { return __atomic_load_n(c->overflow, __ATOMIC_RELAXED); }

/* A NaN or an infinity is not the cache's fault, and shows in the logits. */
static void note_overflow(const KvCache *c, const float *x) {
    float max = 0;
#pragma omp simd reduction(max : max)
    for (int i = 0; i < c->head_dim; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    if ((double)max > kv_largest(c->type) && max < INFINITY) __atomic_store_n(c->overflow, true, __ATOMIC_RELAXED);
}

/* 32 values in q8_0; returns their scale. */
static float quantize_block(const KvCache *c, int8_t q[QK], const float *x) {
    float scale, unused;
    int16_t sum[1][2];
    c->kernels->quantize(q, &scale, sum, &unused, 1, x, 1);
    return scale;
}

void kv_cache_write_key(KvCache *c, int layer, int head, int pos, const float *k) {
    int d = c->head_dim, lane = pos % KV_BLOCK;
    unsigned char *key = c->k + kv_at(c, layer, head, pos - lane);
    if (c->type != KV_F32) note_overflow(c, k);
    if (c->type == KV_F32) {
        float *column = (float *)(void *)key + lane;
        for (int i = 0; i < d; i++) column[i * KV_BLOCK] = k[i];
    } else if (c->type == KV_F16) {
        uint16_t *column = (uint16_t *)(void *)key + lane, half[32];
        for (int i = 0; i < d; i += 32) {
            int n = d - i < 32 ? d - i : 32;
            c->kernels->to_f16(half, k + i, (size_t)n);
            for (int j = 0; j < n; j++) column[(i + j) * KV_BLOCK] = half[j];
        }
    } else {
        for (int i = 0; i < d; i += QK, key += KEYS_Q8_BYTES) {
            int8_t q[QK];
            ((uint16_t *)(void *)key)[lane] = f32_to_f16(quantize_block(c, q, k + i));
            for (int j = 0; j < QK; j++) ((int8_t *)key)[(2 + j) * KV_BLOCK + lane] = q[j];
        }
    }
}

void kv_cache_write_value(KvCache *c, int layer, int head, int pos, const float *v) {
    size_t d = (size_t)c->head_dim;
    unsigned char *value = c->v + kv_at(c, layer, head, pos);
    if (c->type != KV_F32) note_overflow(c, v);
    if (c->type == KV_F32) memcpy(value, v, d * sizeof *v);
    else if (c->type == KV_F16) c->kernels->to_f16((uint16_t *)(void *)value, v, d);
    else
        for (size_t i = 0; i < d; i += QK) {
            BlockQ8_0 *block = (BlockQ8_0 *)(void *)value + i / QK;
            block->d = f32_to_f16(quantize_block(c, block->q, v + i));
        }
}

/* Converts n f16 values to f32 and prefetches the next block, which starts `next` bytes after this one. */
static void f16_to_floats(const KvCache *c, float *out, const unsigned char *in, size_t n, size_t next) {
    enum { SLICE = 256 };
    for (size_t i = 0; i < n; i += SLICE) {
        size_t m = n - i < SLICE ? n - i : SLICE;
        for (size_t j = 0; j < 2 * m; j += 64) __builtin_prefetch(in + next + 2 * i + j, 0, 2);
        c->kernels->from_f16(out + i, (const uint16_t *)(const void *)in + i, m);
    }
}

TileB kv_keys(float *room, bool unpack, const KvCache *c, int layer, int head, int pos) {
    static const TileB as_it_is[] = {[KV_F32] = {NULL, KV_BLOCK * sizeof(float), TILE_F32},
                                     [KV_F16] = {NULL, KV_BLOCK * sizeof(uint16_t), TILE_F16},
                                     [KV_Q8_0] = {NULL, KV_BLOCK + 2 * KV_BLOCK / QK, TILE_Q8_KEYS}};
    const unsigned char *in = c->k + kv_at(c, layer, head, pos);
    size_t d = (size_t)c->head_dim;
    TileB keys = as_it_is[unpack ? KV_F32 : c->type];
    keys.data = unpack && c->type != KV_F32 ? (const void *)room : in;
    if (keys.data == in) return keys;
    if (c->type == KV_F16) {
        f16_to_floats(c, room, in, d * KV_BLOCK, KV_BLOCK * c->row_bytes);
        return keys;
    }
    for (size_t i = 0; i < d; i += QK, in += KEYS_Q8_BYTES) {
        float scale[KV_BLOCK];
        c->kernels->from_f16(scale, (const uint16_t *)(const void *)in, KV_BLOCK);
        const int8_t *q = (const int8_t *)in + 2 * KV_BLOCK;
        for (size_t j = 0; j < QK * KV_BLOCK; j++) room[i * KV_BLOCK + j] = scale[j % KV_BLOCK] * (float)q[j];
    }
    return keys;
}

TileB kv_values(float *room, bool unpack, size_t stride, const KvCache *c, int layer, int head, int pos, int n) {
    static const TileForm form[] = {[KV_F32] = TILE_F32, [KV_F16] = TILE_F16, [KV_Q8_0] = TILE_Q8_VALUES};
    const TileB unpacked = {room, stride * sizeof *room, TILE_F32};
    const unsigned char *in = c->v + kv_at(c, layer, head, pos);
    size_t d = (size_t)c->head_dim;
    if (stride == d && (!unpack || c->type == KV_F32)) return (TileB){in, c->row_bytes, form[c->type]};
    if (stride == d && c->type == KV_F16) {
        f16_to_floats(c, room, in, d * (size_t)n, KV_BLOCK * c->row_bytes);
        return unpacked;
    }
    for (int p = 0; p < n; p++, in += c->row_bytes) {
        float *out = room + (size_t)p * stride;
        const BlockQ8_0 *block = (const BlockQ8_0 *)(const void *)in;
        if (c->type == KV_F32) memcpy(out, in, d * sizeof *out);
        else if (c->type == KV_F16) c->kernels->from_f16(out, (const uint16_t *)(const void *)in, d);
        else
            for (size_t b = 0; b < d / QK; b++) {
                float scale = f16_to_f32(block[b].d);
                for (size_t i = 0; i < QK; i++) out[b * QK + i] = scale * (float)block[b].q[i];
            }
    }
    return unpacked;
}

void kv_cache_key(float *out, const KvCache *c, int layer, int head, int pos) {
    int lane = pos % KV_BLOCK;
    const unsigned char *block = c->k + kv_at(c, layer, head, pos - lane);
    for (int i = 0; i < c->head_dim; i++) {
        int at = i * KV_BLOCK + lane;
        const unsigned char *group = block + i / QK * KEYS_Q8_BYTES;
        if (c->type == KV_F32) out[i] = ((const float *)(const void *)block)[at];
        else if (c->type == KV_F16) out[i] = f16_to_f32(((const uint16_t *)(const void *)block)[at]);
        else
            out[i] = f16_to_f32(((const uint16_t *)(const void *)group)[lane]) *
                     (float)((const int8_t *)group)[(2 + i % QK) * KV_BLOCK + lane];
    }
}

void kv_cache_value(float *out, const KvCache *c, int layer, int head, int pos) {
    const void *value = kv_values(out, true, (size_t)c->head_dim, c, layer, head, pos, 1).data;
    if (value != out) memcpy(out, value, (size_t)c->head_dim * sizeof *out);
}

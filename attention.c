#include "attention.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/quant.h"

/* ---- KV cache ---------------------------------------------------------------------------------- */

static size_t kv_row_bytes(KvType type, size_t n) {
    static const DType dtype[] = {
        [KV_F32] = DTYPE_F32, [KV_F16] = DTYPE_F16, [KV_Q8_0] = DTYPE_Q8_0};
    return dtype_row_bytes(dtype[type], n);
}

size_t kv_bytes_per_token(KvType type, int n_layers, int n_kv_heads, int head_dim) {
    return 2 * (size_t)n_layers * (size_t)n_kv_heads * kv_row_bytes(type, (size_t)head_dim);
}

static size_t padded_ctx(const KvCache *c) {
    return ((size_t)c->n_ctx + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK;
}

void kv_cache_take(KvCache *c, Arena *a) {
    c->kernels = kernels_best();
    c->row_bytes = kv_row_bytes(c->type, (size_t)c->head_dim);
    size_t rows;
    if (!size_mul(&rows, (size_t)c->n_layers * (size_t)c->n_kv_heads, padded_ctx(c)))
        a->overflow = true;
    c->k = arena_take(a, rows, c->row_bytes);
    c->v = arena_take(a, rows, c->row_bytes);
}

/* Bytes from the start of v to a position's row; for the first position of a block, from the start of k too. */
static size_t kv_at(const KvCache *c, int layer, int head, int pos) {
    size_t row = ((size_t)layer * (size_t)c->n_kv_heads + (size_t)head) * padded_ctx(c);
    return (row + (size_t)pos) * c->row_bytes;
}

enum { Q8_GROUP_BYTES = KV_BLOCK * sizeof(BlockQ8_0) }; /* 32 features of a block of keys in q8_0 */

double kv_largest(KvType type) { return type == KV_F32 ? (double)FLT_MAX : type == KV_F16 ? 65504 : 127 * 65504.0; }

bool kv_cache_overflowed(const KvCache *c) { return __atomic_load_n(&c->overflow, __ATOMIC_RELAXED); }

/* A NaN or an infinity is not the cache's fault, and shows in the logits. */
static void note_overflow(KvCache *c, const float *x) {
    float max = 0;
#pragma omp simd reduction(max : max)
    for (int i = 0; i < c->head_dim; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    if ((double)max > kv_largest(c->type) && max < INFINITY) __atomic_store_n(&c->overflow, true, __ATOMIC_RELAXED);
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
        for (int i = 0; i < d; i += QK, key += Q8_GROUP_BYTES) {
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

/* n halves to f32; on the way the lines of the block that will be read next are asked for, which lies `next` bytes behind. */
static void halves_to_floats(const KvCache *c, float *out, const unsigned char *in, size_t n, size_t next) {
    enum { SLICE = 256 };
    for (size_t i = 0; i < n; i += SLICE) {
        size_t m = n - i < SLICE ? n - i : SLICE;
        for (size_t j = 0; j < 2 * m; j += 64) __builtin_prefetch(in + next + 2 * i + j, 0, 2);
        c->kernels->from_f16(out + i, (const uint16_t *)(const void *)in + i, m);
    }
}

/* A block of keys as f32 [head_dim, KV_BLOCK], where it lies or unpacked into room. */
static const float *kv_keys(float *room, const KvCache *c, int layer, int head, int pos) {
    const unsigned char *in = c->k + kv_at(c, layer, head, pos);
    size_t d = (size_t)c->head_dim;
    if (c->type == KV_F32) return (const float *)(const void *)in;
    if (c->type == KV_F16) {
        halves_to_floats(c, room, in, d * KV_BLOCK, KV_BLOCK * c->row_bytes);
        return room;
    }
    for (size_t i = 0; i < d; i += QK, in += Q8_GROUP_BYTES) {
        float scale[KV_BLOCK];
        c->kernels->from_f16(scale, (const uint16_t *)(const void *)in, KV_BLOCK);
        const int8_t *q = (const int8_t *)in + 2 * KV_BLOCK;
        for (size_t j = 0; j < QK * KV_BLOCK; j++)
            room[i * KV_BLOCK + j] = scale[j % KV_BLOCK] * (float)q[j];
    }
    return room;
}

/* n values from a position on as f32 [n, stride]; stride >= head_dim. */
static const float *kv_values(float *room, size_t stride, const KvCache *c, int layer, int head, int pos, int n) {
    const unsigned char *in = c->v + kv_at(c, layer, head, pos);
    size_t d = (size_t)c->head_dim;
    if (c->type == KV_F32 && stride == d) return (const float *)(const void *)in;
    if (c->type == KV_F16 && stride == d) {
        halves_to_floats(c, room, in, d * (size_t)n, KV_BLOCK * c->row_bytes);
        return room;
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
    return room;
}

void kv_cache_key(float *out, const KvCache *c, int layer, int head, int pos) {
    int lane = pos % KV_BLOCK;
    const unsigned char *block = c->k + kv_at(c, layer, head, pos - lane);
    for (int i = 0; i < c->head_dim; i++) {
        int at = i * KV_BLOCK + lane;
        const unsigned char *group = block + i / QK * Q8_GROUP_BYTES;
        if (c->type == KV_F32) out[i] = ((const float *)(const void *)block)[at];
        else if (c->type == KV_F16) out[i] = f16_to_f32(((const uint16_t *)(const void *)block)[at]);
        else
            out[i] = f16_to_f32(((const uint16_t *)(const void *)group)[lane]) *
                     (float)((const int8_t *)group)[(2 + i % QK) * KV_BLOCK + lane];
    }
}

void kv_cache_value(float *out, const KvCache *c, int layer, int head, int pos) {
    const float *value = kv_values(out, (size_t)c->head_dim, c, layer, head, pos, 1);
    if (value != out) memcpy(out, value, (size_t)c->head_dim * sizeof *out);
}

/* ---- Attention --------------------------------------------------------------------------------- */

enum {
    ROWS = 32,             /* query rows of a task */
    CHUNK = 4 * KV_BLOCK,  /* positions between two steps of the online softmax */
    SPLIT = 256,           /* a part of the cache has at least so many positions */
    PAD = 32               /* a sum's row holds whole tiles: a multiple of every tile_cols */
};

/* Scratch of one thread. */
typedef struct {
    float *q;      /* [ROWS, d] queries / sqrt(d) */
    float *score;  /* [ROWS, CHUNK] */
    float *keys;   /* [d, KV_BLOCK] */
    float *values; /* [KV_BLOCK, stride] */
    float *sum;    /* [ROWS, stride] */
    float max[ROWS], total[ROWS];
} Work;

static size_t sum_stride(size_t d) { return (d + PAD - 1) / PAD * PAD; }

static size_t work_floats(size_t d) {
    return ROWS * d + ROWS * CHUNK + (d + 15) / 16 * 16 * KV_BLOCK + (KV_BLOCK + ROWS) * sum_stride(d);
}

/* Parts of the cache in which a single token's attention is cut: as many as threads. Of each part and query head a
 * sum, its maximum and its total are kept. */
size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads) {
    size_t n = (size_t)n_threads, partial = (size_t)n_heads * (sum_stride((size_t)head_dim) + 2);
    return n * (work_floats((size_t)head_dim) + partial) * sizeof(float);
}

/* One task: query rows [row, row + n) of a KV head (row = token * group + head of the group) over the positions
 * [from, to). Leaves sum, max and total in w. */
static void attend(Work *w, const float *q, int row, int n, int n_heads, const KvCache *c, int layer, int head,
                   int pos, int from, int to) {
    const Kernels *k = c->kernels;
    int d = c->head_dim, group = n_heads / c->n_kv_heads;
    size_t stride = sum_stride((size_t)d);
    float scale = 1 / sqrtf((float)d);
    for (int i = 0; i < n; i++) {
        int token = (row + i) / group, h = head * group + (row + i) % group;
        const float *in = q + ((size_t)token * (size_t)n_heads + (size_t)h) * (size_t)d;
        for (int j = 0; j < d; j++) w->q[i * d + j] = in[j] * scale;
        w->max[i] = -3e38f;
        w->total[i] = 0;
    }
    memset(w->sum, 0, (size_t)n * stride * sizeof *w->sum);

    for (int p = from; p < to; p += CHUNK) {
        int chunk = to - p < CHUNK ? to - p : CHUNK;
        int blocks = (chunk + KV_BLOCK - 1) / KV_BLOCK;
        float *c_rows[8];
        const float *a_rows[8];
        for (int b = 0; b < blocks; b++) { /* scores = q k^T */
            const float *keys = kv_keys(w->keys, c, layer, head, p + b * KV_BLOCK);
            for (int i = 0; i < n; i += k->tile_rows) {
                int m = n - i < k->tile_rows ? n - i : k->tile_rows;
                for (int col = 0; col < KV_BLOCK; col += k->tile_cols) {
                    for (int j = 0; j < m; j++) {
                        a_rows[j] = w->q + (i + j) * d;
                        c_rows[j] = w->score + (i + j) * CHUNK + b * KV_BLOCK + col;
                    }
                    k->tile(c_rows, a_rows, m, keys + col, KV_BLOCK, d, false);
                }
            }
        }
        for (int i = 0; i < n; i++) { /* causal: row i sees positions up to its own */
            int valid = pos + (row + i) / group + 1 - p;
            valid = valid < 0 ? 0 : valid < chunk ? valid : chunk;
            float keep = 1;
            if (valid)
                keep = k->softmax_step(w->score + i * CHUNK, valid, blocks * KV_BLOCK, &w->max[i], &w->total[i]);
            else memset(w->score + i * CHUNK, 0, CHUNK * sizeof *w->score);
            float *sum = w->sum + (size_t)i * stride;
            for (size_t j = 0; j < stride && keep != 1; j++) sum[j] *= keep;
        }
        for (int b = 0; b < blocks; b++) { /* sum += weights v */
            int m_pos = chunk - b * KV_BLOCK < KV_BLOCK ? chunk - b * KV_BLOCK : KV_BLOCK;
            const float *values = kv_values(w->values, stride, c, layer, head, p + b * KV_BLOCK, m_pos);
            for (int i = 0; i < n; i += k->tile_rows) {
                int m = n - i < k->tile_rows ? n - i : k->tile_rows;
                for (size_t col = 0; col < stride; col += (size_t)k->tile_cols) {
                    for (int j = 0; j < m; j++) {
                        a_rows[j] = w->score + (i + j) * CHUNK + b * KV_BLOCK;
                        c_rows[j] = w->sum + (size_t)(i + j) * stride + col;
                    }
                    k->tile(c_rows, a_rows, m, values + col, stride, m_pos, true);
                }
            }
        }
    }
}

/* The queries of this KV head, its keys and its values are there. */
static void await_head(const Thread *t, const HeadsMade *made, int head) {
    if (made) team_await(t, &made->kv_head[head], made->wanted);
}

void attention(const Thread *t, const Act *out, const float *q, int n_heads, const KvCache *cache, int layer, int pos,
               const HeadsMade *made, void *scratch) {
    int n_tok = out->n;
    int d = cache->head_dim, kv_heads = cache->n_kv_heads, group = n_heads / kv_heads, rows = n_tok * group;
    int n_threads = team_size(t->team); /* not t->n: the sums are the same when one thread does all */
    size_t stride = sum_stride((size_t)d);
    float *mine = (float *)scratch + (size_t)t->id * work_floats((size_t)d);
    Work w = {.q = mine};
    w.sum = w.q + ROWS * d;
    w.values = w.sum + ROWS * stride;
    w.keys = w.values + KV_BLOCK * stride;
    w.score = w.keys + (size_t)(d + 15) / 16 * 16 * KV_BLOCK;

    int parts = 1, length = pos + n_tok, task;
    if (n_tok == 1 && group <= ROWS && !cache->exact && kv_heads % n_threads && length >= 2 * SPLIT)
        parts = length / SPLIT < n_threads ? length / SPLIT : n_threads;
    if (parts == 1) {
        int tiles = (rows + ROWS - 1) / ROWS;
        while (team_next(t, kv_heads * tiles, &task)) { /* the last rows, which see most, first */
            int head = task % kv_heads, row = (tiles - 1 - task / kv_heads) * ROWS;
            int n = rows - row < ROWS ? rows - row : ROWS;
            await_head(t, made, head);
            attend(&w, q, row, n, n_heads, cache, layer, head, pos, 0, pos + (row + n - 1) / group + 1);
            for (int i = 0; i < n; i++) {
                int token = (row + i) / group, h = head * group + (row + i) % group;
                float *o = act_row(out, token) + h * d;
                for (int j = 0; j < d; j++) o[j] = w.sum[(size_t)i * stride + (size_t)j] / w.total[i];
                act_fill(out, token, h * d, (h + 1) * d);
            }
        }
        return;
    }

    float *partial = (float *)scratch + (size_t)n_threads * work_floats((size_t)d); /* [parts, n_heads, stride + 2] */
    int each = (length / parts + CHUNK - 1) / CHUNK * CHUNK;
    while (team_next(t, kv_heads * parts, &task)) {
        int head = task / parts, part = task % parts, from = part * each;
        int to = part == parts - 1 || from + each > length ? length : from + each;
        await_head(t, made, head);
        attend(&w, q, 0, group, n_heads, cache, layer, head, pos, from, to);
        for (int i = 0; i < group; i++) {
            float *p = partial + ((size_t)part * (size_t)n_heads + (size_t)(head * group + i)) * (stride + 2);
            memcpy(p, w.sum + (size_t)i * stride, (size_t)d * sizeof *p);
            p[stride] = w.max[i];
            p[stride + 1] = w.total[i];
        }
    }
    team_barrier(t);
    for (int h = t->id; h < n_heads; h += t->n) {
        float *o = act_row(out, 0) + h * d, max = -3e38f, total = 0;
        const float *p = partial + (size_t)h * (stride + 2);
        size_t next = (size_t)n_heads * (stride + 2);
        for (int part = 0; part < parts; part++) max = fmaxf(max, p[(size_t)part * next + stride]);
        memset(o, 0, (size_t)d * sizeof *o);
        for (int part = 0; part < parts; part++, p += next) {
            float keep = expf(p[stride] - max);
            total += keep * p[stride + 1];
            for (int j = 0; j < d; j++) o[j] += keep * p[j];
        }
        for (int j = 0; j < d; j++) o[j] /= total;
        act_fill(out, 0, h * d, (h + 1) * d);
    }
}

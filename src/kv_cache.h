/* kv_cache - keys and values of every layer and position, in f32, f16 or q8_0. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "kernels/kernels.h"

typedef enum { KV_F32, KV_F16, KV_Q8_0 } KvType;

/* KvLayer - where a layer's rows lie. A layer with a sliding window is a ring: position p is in row p % rows. */
typedef struct {
    int window;   /* 0: none */
    int rows;     /* of each head: n_ctx, or fewer: the window and a batch, so that no row of a pass overwrites what an
                     earlier one of it still sees; whole blocks of KV_BLOCK */
    size_t first; /* row of the first head */
} KvLayer;

/* KvHeld - what of the text is in the cache. Of the first `start` tokens, which were copied there, layers with a window
 * have their window alone; positions up to `end` have been written. */
typedef struct {
    int start, end;
} KvHeld;

/* KvCache - keys (already rotated) and values of every layer and position.
 * Values are stored as they are read, position by position: [n_layers, n_kv_heads, rows, head_dim]. Keys are
 * transposed in blocks of KV_BLOCK positions, [n_layers, n_kv_heads, rows / KV_BLOCK, head_dim, KV_BLOCK], so that a
 * vector holds one feature of many positions and a score is a sum without horizontal adds. For q8_0 a block is
 * [head_dim / 32] times { f16 scale[KV_BLOCK], int8 [32, KV_BLOCK] }. */
typedef struct {
    KvType type;
    int n_layers, n_ctx, n_kv_heads, head_dim;
    int n_batch;        /* rows of one pass at most */
    const int *windows; /* of the first layer; the next one's is window_step bytes on. NULL: no layer has one */
    size_t window_step;
    KvLayer *layers; /* [n_layers] */
    KvHeld *held;
    size_t row_bytes; /* one token, one layer, one head, keys or values */
    unsigned char *k, *v;
    const Kernels *kernels;
    bool *overflow; /* a finite key or value was larger than the type holds; sticky */
    bool exact;     /* do not split the cache over threads: the same bits for any number of them */
} KvCache;

/* kv_type_check - fails for q8_0 when head_dim is not a multiple of its 32; `what` starts the message. */
int kv_type_check(KvType type, int head_dim, const char *what, Error *e);

/* kv_cache_take - lays the cache out in the arena (counting pass allowed). kv_cache_layer - where a layer will be, but
 * for `first`. */
void kv_cache_take(KvCache *c, Arena *a);
KvLayer kv_cache_layer(const KvCache *c, int layer);
size_t kv_bytes_per_token(KvType type, int n_layers, int n_kv_heads, int head_dim);

/* kv_cache_write_key, _value - stores k or v [head_dim] of one KV head at one position of a layer. */
void kv_cache_write_key(KvCache *c, int layer, int head, int pos, const float *k);
void kv_cache_write_value(KvCache *c, int layer, int head, int pos, const float *v);

/* kv_cache_reach - a pass writes positions [pos, pos + n); pos 0 begins another text. kv_cache_kept - can a text go on
 * after its first n tokens? Returns n, or 0 where a layer with a window no longer has what position n sees: then it is
 * read anew. kv_cache_wrapped - has a layer lost the beginning of the text? */
void kv_cache_reach(const KvCache *c, int pos, int n);
int kv_cache_kept(const KvCache *c, int n);
bool kv_cache_wrapped(const KvCache *c);

/* kv_cache_move_values - the values of n positions from `from` on, byte for byte to `to`; not after the
 * cache has wrapped. */
void kv_cache_move_values(KvCache *c, int layer, int head, int to, int from, int n);

/* What a text of n tokens needs of a layer and head to go on: whole blocks of keys and the values of the same
 * positions, from kv_cache_from on. kv_cache_block - those of the block that position pos begins, of n tokens.
 * kv_cache_copied - the first n tokens have been put there so. */
typedef struct {
    unsigned char *k, *v;
    size_t k_bytes, v_bytes;
} KvRows;
int kv_cache_from(const KvCache *c, int layer, int n);
KvRows kv_cache_block(const KvCache *c, int layer, int head, int pos, int n);
void kv_cache_copied(const KvCache *c, int n);

/* kv_cache_overflowed - was a finite key or value too large for the type? What attention made of it is wrong then.
 * kv_largest - the largest that the type holds. */
bool kv_cache_overflowed(const KvCache *c);
double kv_largest(KvType type);

/* kv_cache_key, kv_cache_value - one position's [head_dim] values back as f32 (tests, verify). */
void kv_cache_key(float *out, const KvCache *c, int layer, int head, int pos);
void kv_cache_value(float *out, const KvCache *c, int layer, int head, int pos);

/* kv_keys - a block of keys, [head_dim, KV_BLOCK]: as the cache has it, or unpacked into room as f32, for a matrix that
 * is read several times. kv_values - n values from a position on, likewise; in room as [n, stride], and always where
 * stride > head_dim. */
TileB kv_keys(float *room, bool unpack, const KvCache *c, int layer, int head, int pos);
TileB kv_values(float *room, bool unpack, size_t stride, const KvCache *c, int layer, int head, int pos, int n);

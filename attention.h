/* attention - swap 4: causal attention over a KV cache, multi-head or grouped-query. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/team.h"
#include "kernels/kernels.h"
#include "ops.h"

typedef enum { KV_F32, KV_F16, KV_Q8_0 } KvType;

/* KvCache - keys (already rotated) and values of every layer and position.
 * Values lie as they are read, one position after the other: [n_layers, n_kv_heads, n_ctx, head_dim]. Keys lie
 * transposed in blocks of KV_BLOCK positions, [n_layers, n_kv_heads, n_ctx / KV_BLOCK, head_dim, KV_BLOCK], so that a
 * vector holds one feature of many positions and a score is a sum without horizontal adds. For q8_0 a block is
 * [head_dim / 32] times { f16 scale[KV_BLOCK], int8 [32, KV_BLOCK] }. n_ctx is rounded up to whole blocks. */
typedef struct {
    KvType type;
    int n_layers, n_ctx, n_kv_heads, head_dim;
    size_t row_bytes;    /* one token, one layer, one head, keys or values */
    unsigned char *k, *v;
    const Kernels *kernels; /* set by kv_cache_take */
    bool overflow;       /* a finite key or value was larger than the type holds; never taken back */
    bool exact;          /* do not split the cache over threads: the same bits for any number of them */
} KvCache;

/* kv_cache_take - lays the cache out in the arena (counting pass allowed). */
void kv_cache_take(KvCache *c, Arena *a);
size_t kv_bytes_per_token(KvType type, int n_layers, int n_kv_heads, int head_dim);

/* kv_cache_write_key, _value - stores k or v [head_dim] of one KV head at one position of a layer. */
void kv_cache_write_key(KvCache *c, int layer, int head, int pos, const float *k);
void kv_cache_write_value(KvCache *c, int layer, int head, int pos, const float *v);

/* kv_cache_overflowed - was a finite key or value too large for the type? What attention made of it is wrong then.
 * kv_largest - the largest that the type holds. */
bool kv_cache_overflowed(const KvCache *c);
double kv_largest(KvType type);

/* kv_cache_key, kv_cache_value - one position's [head_dim] values back as f32 (tests, verify). */
void kv_cache_key(float *out, const KvCache *c, int layer, int head, int pos);
void kv_cache_value(float *out, const KvCache *c, int layer, int head, int pos);

/* HeadsMade - how far those are that still make the heads of q, k and v: attention of a KV head and of the query heads
 * that share it waits until so many pieces of it are made. */
typedef struct {
    Tally *kv_head; /* [n_kv_heads] */
    unsigned wanted;
} HeadsMade;

/* attention - out[n_tok, n_heads, head_dim] = softmax(q k^T / sqrt(head_dim)) v, causal.
 *   out    n_tok rows of n_heads * head_dim; each head is filled in (act_fill) when it is done
 *   q      [n_tok, n_heads, head_dim] f32 rotated queries; row r is position pos + r
 *   cache  holds positions [0, pos + n_tok) of this layer
 *   made   which heads may be read; NULL: all of them
 * Query head h reads KV head h / (n_heads / n_kv_heads): grouped-query attention, arXiv:2305.13245;
 * n_kv_heads == n_heads is multi-head attention, arXiv:1706.03762, section 3.2. Online softmax
 * (arXiv:1805.02867): no [n_tok, n_ctx] score matrix is kept.
 *   scratch attention_scratch_bytes() bytes shared by the team
 *
 * One task is one KV head with up to 32 query rows (tokens x heads of the group): each key and value is loaded
 * once for all of them. When a single token looks back over a long cache, its tasks are cut into parts of the
 * cache, whose results are put together after a barrier.
 * All threads call it; a barrier must come after. */
void attention(const Thread *t, const Act *out, const float *q, int n_heads, const KvCache *cache, int layer, int pos,
               const HeadsMade *made, void *scratch);
size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads);

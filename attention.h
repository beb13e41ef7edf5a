/* attention - swap 4: causal attention over a KV cache, multi-head or grouped-query; swap 3, RoPE, is in the middle of
 * it. */
#pragma once
#include "attention_scratch.h"
#include "kv_cache.h"
#include "residual.h"
#include "rope.h"

/* Which table of angles a layer's q and k are rotated by. */
typedef enum { ROPE_MAIN, ROPE_LOCAL, ROPE_NONE } RopeUse;

/* QkNorm - q and k are normed: each head by weights [head_dim] before RoPE (Qwen3, Gemma 3) or after it (Hunyuan), by
 * weights of each head [heads, head_dim] (Cohere), or all heads at once, [heads * head_dim] (OLMo 2). */
typedef enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_AFTER_ROPE, QK_NORM_EACH_HEAD, QK_NORM_WHOLE } QkNorm;

typedef struct {
    Mat wq;                                 /* [n_heads * head_dim, dim] */
    Mat wk, wv;                             /* [n_kv_heads * head_dim, dim] */
    Mat wo;                                 /* [dim, n_heads * head_dim] */
    const float *bq, *bk, *bv, *bo;         /* [rows of wq, wk, wv, wo]; NULL: none */
    const float *q_norm, *k_norm;           /* what QkNorm says */
    const float *q_norm_bias, *k_norm_bias; /* [head_dim] of a LayerNorm (Phi); NULL: none */
    const float *sinks; /* [n_heads] a score that takes weight and has no value (gpt-oss); NULL: none */
    RopeUse rope;       /* of this layer */
    int window;         /* a position sees itself and window - 1 before it; 0: all. arXiv:2004.05150 */
} AttentionWeights;

/* What all layers have in common; 0 is LLaMA's. */
typedef struct {
    float scale;   /* of the scores; 0: 1 / sqrt(head_dim) */
    float softcap; /* of the scores (Gemma 2): cap * tanh(score / cap); 0: none */
    float clamp;   /* q, k and v are cut to [-clamp, clamp] (OLMo's clip_qkv); 0: none */
    QkNorm qk_norm;
    float temperature; /* q *= 1 + temperature * ln(1 + floor(pos / temperature_ctx)) (Ministral 3); 0: none */
    int temperature_ctx;
    bool
        see_ahead; /* no mask: a position sees all that is computed with it; set by checkpoint/mistake.c alone, as is */
    bool unscaled; /* the scores are not divided by sqrt(head_dim) */
    bool interleaved; /* query head h reads KV head h % n_kv_heads */
} AttentionConfig;

/* What is rotated; ROTATE_K_LOCAL: k by the angles of ROPE_LOCAL, whatever q is rotated by. */
enum { ROTATE_Q = 1, ROTATE_K = 2, ROTATE_V = 4, ROTATE_K_LOCAL = 8 };

typedef struct {
    AttentionConfig config;
    Norm norm; /* kind, eps and offset of q_norm and k_norm */
    int n_heads;
    int all_heads, all_kv_heads; /* of all ranks */
    int kv_sharers;              /* ranks that have the same KV head */
    KvCache cache;
    RopeTable rope[2]; /* ROPE_MAIN, ROPE_LOCAL */
    unsigned char
        *rotate;      /* [n_layers] which of q, k and v RoPE rotates: ROTATE_Q | ROTATE_K, 0 with learned positions */
    float *q, *k, *v; /* [n_batch, heads, head_dim] */
    RowBuffer heads;  /* [n_batch, n_heads, head_dim] softmax(q k^T / sqrt(d)) v */
    Tally *ready; /* [n_kv_heads] per KV head, how many of its group's q, k and v heads are computed, over all layers so
                     far */
    void *scratch; /* [attention_scratch_bytes] */
} AttentionState;

/* Sequence - what is remembered of one text: its keys and values, and the angles of its positions. */
typedef struct {
    KvCache cache;
    RopeTable rope[2];
} Sequence;

/* Span - rows [row, row + n) of a pass over several texts: tokens of one, from position pos on; the text has seq_len
 * tokens when all of it is read. */
typedef struct Span {
    Sequence *sequence;
    int row, n, pos, seq_len;
} Span;

/* attention - x[n, dim] += wo softmax(q k^T / sqrt(head_dim)) v, causal, of the normed rows xn; k and v go into the
 * cache. Query head h reads KV head h / (n_heads / n_kv_heads): grouped-query attention, arXiv:2305.13245; n_kv_heads
 * == n_heads is multi-head attention, arXiv:1706.03762, section 3.2.
 * Rows of several texts (p->spans) are projected together; then each text has a view of the pass, with its own cache
 * and positions, in which nothing is seen of the others. */
void attention(const Pass *p, float *x, const Rows *xn, const AttentionWeights *w, AttentionState *s,
               const Residual *r);

/* attention_remember - only k and v of the rows go into the cache, the same bits as by attention(). Ends in a barrier.
 */
void attention_remember(const Pass *p, const Rows *xn, const AttentionWeights *w, AttentionState *s);

/* attend - out[n, n_heads, head_dim] = softmax(q k^T / sqrt(head_dim)) v: the part of it between the matrices.
 *   s->q      [n, n_heads, head_dim] rotated queries; row p->row + r is position p->pos + r
 *   s->cache  holds positions [0, pos + n) of this layer
 *   s->ready  NULL, or a KV head is read once the heads of q, k and v of its group are ready
 * One task is one KV head with up to 32 query rows (tokens x heads of the group): each key and value is loaded once for
 * all of them. Online softmax (arXiv:1805.02867): no [n, n_ctx] score matrix is kept. When a single token looks back
 * over a long cache, its tasks are cut into parts of the cache, whose results are merged after a barrier. No barrier at
 * the end. */
void attend(const Pass *p, const Rows *out, const AttentionWeights *w, const AttentionState *s);

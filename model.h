/* model - the transformer: what a checkpoint holds, and one forward pass for prefill and decode. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "attention.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/team.h"
#include "ffn.h"
#include "kernels/mat.h"
#include "norm.h"
#include "ops.h"
#include "rope.h"

typedef enum { POS_LEARNED, POS_ROPE } PosKind;

/* Mistake - a known way to get a swap wrong, made on purpose (--break): an exercise of docs/ladder.md. Those below the
 * line are made when the weights are bound (checkpoint/mistake.h), the others where model.c names them. */
typedef enum {
    MISTAKE_NONE,
    MISTAKE_V_ROTATED,
    MISTAKE_ROPE_LAYER0,
    MISTAKE_KEYS_UNROTATED,
    MISTAKE_DECODE_OFF_BY_ONE,
    /* ---- */
    MISTAKE_WRONG_PAIRING,
    MISTAKE_K_PERMUTED,
    MISTAKE_CONV1D,
    MISTAKE_WPE_PAST_END,
    MISTAKE_COUNT
} Mistake;

typedef struct {
    int dim;         /* width of the residual stream */
    int hidden_dim;  /* width of the FFN */
    int n_layers;
    int n_heads, n_kv_heads; /* n_heads is a multiple of n_kv_heads */
    int head_dim;    /* need not be dim / n_heads */
    int vocab_size;
    int n_ctx;       /* longest sequence the model was made for */
    NormKind norm;   /* swap 1 */
    FfnKind ffn;     /* swap 2 */
    PosKind pos;     /* swap 3 */
    RopeConfig rope; /* used when pos is POS_ROPE */
    float norm_eps;
    bool tied;       /* lm_head is tok_emb */
    Mistake mistake; /* MISTAKE_NONE, except in an exercise */
} Config;

/* Weights only borrow: the Checkpoint owns the memory. Vectors of a bias that the model does not have
 * are NULL, so are matrices' data. */
typedef struct {
    const float *attn_norm, *attn_norm_bias; /* [dim] */
    Mat wq;                                  /* [n_heads * head_dim, dim] */
    Mat wk, wv;                              /* [n_kv_heads * head_dim, dim] */
    Mat wo;                                  /* [dim, n_heads * head_dim] */
    const float *bq, *bk, *bv, *bo;          /* [rows of wq, wk, wv, wo] */
    const float *ffn_norm, *ffn_norm_bias;   /* [dim] */
    Mat w_gate, w_up;                        /* [hidden_dim, dim]; w_gate only for SwiGLU */
    Mat w_down;                              /* [dim, hidden_dim] */
    const float *b_gate, *b_up, *b_down;     /* [rows of w_gate, w_up, w_down] */
} Layer;

typedef struct {
    Mat tok_emb;     /* [vocab_size, dim] */
    Mat pos_emb;     /* [n_ctx, dim], POS_LEARNED only */
    Layer *layers;   /* [n_layers] */
    const float *final_norm, *final_norm_bias; /* [dim] */
    Mat lm_head;     /* [vocab_size, dim]; equals tok_emb when tied */
} Weights;

/* Model - immutable, shared by any number of States. */
typedef struct {
    Config config;
    Weights weights;
} Model;

/* Tap - sees every intermediate of a forward pass: verify, probe, --check.
 *   name   "embed", "attn_norm", "q", "k", "v", "q_rot", "k_rot", "attn_out", "ffn_norm", "ffn_out",
 *          "out", "final_norm", "logits"; layer is -1 outside of the layers
 *   x      [rows, cols] f32, row r at x + r * stride, of the positions pos .. pos + rows
 * Called by one thread while the others wait. */
typedef void Tap(void *arg, const char *name, int layer, const float *x, int rows, int cols,
                 size_t stride, int pos);

typedef struct {
    int n_ctx;     /* positions the cache holds */
    int n_batch;   /* rows of one model_forward at most */
    int n_threads;
    KvType kv_type;
    bool deterministic; /* same bits for every thread count and every split of the prefill */
} StateOptions;

/* State - one conversation: its KV cache, its position, its scratch memory (one arena). */
typedef struct {
    StateOptions options;
    Arena arena;
    Team *team;
    KvCache cache;
    RopeTable rope;
    int rope_seq_len; /* the sequence length that rope was filled for */
    int pos;          /* position of row 0 of the last forward pass */
    float *x;         /* [n_batch, dim] residual stream */
    float *xn;        /* [n_batch, dim] normed */
    float *q;         /* [n_batch, n_heads * head_dim] */
    float *k, *v;     /* [n_batch, n_kv_heads * head_dim] */
    float *att;       /* [n_batch, n_heads * head_dim] */
    float *gate, *up; /* [n_batch, hidden_dim] */
    float *logits;    /* [vocab_size] */
    void *act_normed, *act_made; /* the 8-bit form of xn; of att, gate or up */
    char *own;        /* [n_threads, own_bytes] a few normed rows of each thread */
    size_t own_bytes;
    Tally *heads_made; /* [n_kv_heads] heads of q, k and v that are made, in all layers so far: see HeadsMade */
    void *attn_scratch;
    Tap *tap;         /* NULL: nobody watches */
    void *tap_arg;
} State;

void model_init(Model *m, const Config *config, const Weights *weights);

/* model_default_threads - team_default_size(), or 1 for a model so small that a layer is done before a second
 * thread could be met at a barrier. */
int model_default_threads(const Model *m);

/* state_bytes - what state_init will allocate. state_fits - fails when there is not that much memory, with both sizes
 * and the flags that lower it; `what` begins the message. */
size_t state_bytes(const Model *m, const StateOptions *options);
int state_fits(const Model *m, const StateOptions *options, const char *what, Error *e);
int state_init(State *s, const Model *m, const StateOptions *options, Error *e);
void state_close(State *s);

/* model_forward - runs n_tok tokens through every layer, appending to the cache.
 *   tokens  [n_tok], each in [0, vocab_size)
 *   pos     position of tokens[0] = rows already in the cache
 * 1 <= n_tok <= n_batch and pos + n_tok <= n_ctx. Cannot fail, allocates nothing.
 * Leaves the residual stream of the n_tok rows in s->x. */
void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos);

/* model_logits - logits[vocab_size] of row `row` of the last forward; in s->logits. */
const float *model_logits(const Model *m, State *s, int row);

/* model_prefill - model_forward over any number of tokens in batches of n_batch. `progress` (may be
 * NULL) is called after each batch; it returns false to stop early. Returns the tokens processed. */
int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos,
                  bool (*progress)(void *arg, int done, int total), void *arg);

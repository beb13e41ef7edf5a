/* model - the transformer: what a checkpoint holds, and one forward pass for prefill and decode. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "attention.h"
#include "base/error.h"
#include "ffn.h"
#include "norm.h"

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
    int dim;        /* width of the residual stream */
    int hidden_dim; /* width of the FFN */
    int n_layers;
    int n_heads, n_kv_heads; /* n_heads is a multiple of n_kv_heads */
    int head_dim;            /* need not be dim / n_heads */
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
    AttentionWeights attn;
    const float *ffn_norm, *ffn_norm_bias; /* [dim] */
    FfnWeights ffn;
} Layer;

typedef struct {
    Mat tok_emb;                               /* [vocab_size, dim] */
    Mat pos_emb;                               /* [n_ctx, dim], POS_LEARNED only */
    Layer *layers;                             /* [n_layers] */
    const float *final_norm, *final_norm_bias; /* [dim] */
    Mat lm_head;                               /* [vocab_size, dim]; equals tok_emb when tied */
} Weights;

/* Model - immutable, shared by any number of States. */
typedef struct {
    Config config;
    Weights weights;
    bool int8; /* some matrix wants int8 activations */
} Model;

typedef struct {
    int n_ctx;   /* positions the cache holds */
    int n_batch; /* rows of one model_forward at most */
    int n_threads;
    KvType kv_type;
    bool deterministic;     /* same bits for every thread count and every split of the prefill */
    const Kernels *kernels; /* NULL: kernels_best() */
} StateOptions;

/* State - one conversation: its KV cache, its position, its scratch memory (one arena). */
typedef struct {
    StateOptions options;
    Arena arena;
    Team *team;
    AttentionState attn;
    FfnState ffn;
    int rope_seq_len; /* the sequence length that the RoPE table was filled for */
    int pos;          /* position of row 0 of the last forward pass */
    float *x;         /* [n_batch, dim] residual stream */
    RowBuffer xn;     /* [n_batch, dim] normed */
    float *logits;    /* [vocab_size] */
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

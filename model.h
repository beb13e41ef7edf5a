/* model - the transformer: what a checkpoint holds, and one forward pass for prefill and decode. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "attention.h"
#include "base/error.h"
#include "ffn.h"
#include "io/file.h"
#include "moe.h"
#include "norm.h"

typedef enum { POS_LEARNED, POS_ROPE } PosKind;

/* Config - what a checkpoint says of its model. A setting below the line is 0 unless a family has it; with those of a
 * Layer they are all that sets the families apart:
 *   Config        embedding_scale, residual_scale, logit_scale, logit_softcap, norm_offset, no_pre_norm, parallel,
 * rope_local Config.attn   scale, softcap, clamp, qk_norm, temperature, temperature_ctx Layer         attn_post_norm,
 * ffn_post_norm Layer.attn    q_norm, k_norm, sinks, rope, window Layer.ffn     xielu Weights       lm_head_bias A
 * norm's weight or bias that is NULL is left out. */
typedef struct {
    int dim;        /* width of the residual stream */
    int hidden_dim; /* width of the FFN, or of each expert */
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
    bool tied; /* lm_head is tok_emb */
    /* ---- */
    float embedding_scale; /* of the token embedding (Gemma sqrt(dim), Granite, MiniCPM); 0: 1 */
    float residual_scale;  /* of what each block adds (Granite, MiniCPM); 0: 1 */
    float logit_scale;     /* of the logits (Cohere; 1 / logits_scaling of Granite); 0: 1 */
    float logit_softcap;   /* cap * tanh(logit / cap) (Gemma 2); 0: none */
    float norm_offset;     /* added to every norm's weight: 1 for Gemma and Nemotron from HF (GGUF has it folded in) */
    bool no_pre_norm;      /* no norm before attention and FFN (OLMo 2, EXAONE 4) */
    bool parallel;         /* x += attention(norm(x)) + ffn(norm(x)); ffn_norm NULL: both read the same norm */
    RopeConfig rope_local; /* of layers with rope ROPE_LOCAL (Gemma 3, OLMo 3); rotary_dim 0: none */
    AttentionConfig attn;
    MoeConfig moe; /* n_experts 0: one FFN */
    /* ---- set by checkpoint/mistake.c alone */
    const unsigned char *rotate; /* [n_layers] what RoPE rotates instead of q and k (ROTATE_ masks); NULL */
    int decode_shift;            /* added to the position of a token that is decoded alone */
} Config;

/* Weights only borrow: the Checkpoint owns the memory. Vectors of a bias that the model does not have
 * are NULL, so are matrices' data. */
typedef struct {
    const float *attn_norm, *attn_norm_bias; /* [dim] */
    AttentionWeights attn;
    const float *ffn_norm, *ffn_norm_bias; /* [dim] */
    FfnWeights ffn;                        /* or, where experts is not NULL, */
    MoeWeights moe;
    const float *attn_post_norm, *ffn_post_norm; /* [dim] of what a block adds, before it is added; NULL: none */
} Layer;

typedef struct {
    Mat tok_emb;                               /* [vocab_size, dim] */
    Mat pos_emb;                               /* [n_ctx, dim], POS_LEARNED only */
    Layer *layers;                             /* [n_layers] */
    const float *final_norm, *final_norm_bias; /* [dim] */
    Mat lm_head;                               /* [vocab_size, dim]; equals tok_emb when tied */
    const float *lm_head_bias;                 /* [vocab_size] (Phi); NULL: none */
} Weights;

/* Slice - the part of the model that the weights hold: all of it, or a rank's share (src/shard.h). */
typedef struct {
    int head, n_heads;       /* query heads [head, head + n_heads) */
    int kv_head, n_kv_heads; /* the KV heads that they read */
    int kv_sharers;          /* ranks that have the same KV head: 1, or more where there are more ranks than KV heads */
    int hidden, n_hidden;    /* features of the FFN, where a layer has one */
    int shared, n_shared;    /* features of the shared expert */
    int expert, n_experts;   /* of each layer */
    int token, n_tokens;     /* rows of lm_head */
} Slice;

/* Model - immutable, shared by any number of States. */
typedef struct {
    Config config;
    Weights weights;
    bool int8; /* some matrix wants int8 activations */
    Slice slice;
    Comm *comm;        /* the ranks that have the other slices; NULL: there are none */
    const File *files; /* [n_files] that a rank's weights are mapped from; NULL: there are no ranks */
    int n_files;
} Model;

typedef struct {
    int n_ctx;    /* positions the cache holds */
    int n_batch;  /* rows of one model_forward at most */
    int n_logits; /* rows of one model_logits_span or model_logits_rows at most; 0: 1 */
    int n_texts;  /* of one model_pass_spans at most; 0: 1 */
    int n_threads;
    KvType kv_type;
    bool deterministic;     /* same bits for every thread count and every split of the prefill */
    const Kernels *kernels; /* NULL: kernels_best() */
} StateOptions;

enum { LARGEST_MOST = 256 }; /* beyond this all logits come */

/* State - one conversation: its KV cache, its position, its scratch memory (one arena). */
typedef struct {
    StateOptions options;
    Arena arena;
    Team *team;
    AttentionState attn;
    Sequence *texts; /* [n_texts] for model_pass_spans; the first has the cache that all other passes use */
    FfnState ffn;
    MoeState moe;
    int pos;       /* position of row 0 of the last forward pass */
    float *x;      /* [n_batch, dim] residual stream */
    RowBuffer xn;  /* [n_batch, dim] normed */
    RowBuffer fn;  /* the same for the FFN of a parallel block */
    float *spare;  /* [n_batch, dim] what a block adds, before it is added; position embeddings */
    float *logits; /* [n_logits, vocab_size], and one more for gather_row */
    int largest;   /* from ranks: so many of the largest logits are enough, -FLT_MAX for others; 0: all */
    Tap *tap;      /* NULL: nobody watches */
    void *tap_arg;
    LayerDone *layer_done; /* NULL: nobody waits */
    void *layer_arg;
    atomic_int until; /* layers of the pass that runs: fewer than the model has where layer_done ends it */
    Comm *comm;       /* as the model's */
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

/* sequence_copy - the keys and values of the first n tokens of another text of the State, which kv_cache_kept says are
 * there. */
void sequence_copy(Sequence *to, const Sequence *from, int n);

/* pass_forward - the textbook's forward pass over the rows of p, run by every thread of the team: embeds `tokens`, then
 * all layers; the last one computes only the last `wanted` rows. pass_logits - of rows x[n, dim] after it, into
 * s->logits. Called by src/passes.c; everybody else calls model_forward and model_logits. */
void pass_forward(Pass *p, const Model *m, State *s, const int *tokens, int wanted);
void pass_logits(const Pass *p, const Model *m, State *s, const float *x);

/* model_forward - runs n_tok tokens through every layer, appending to the cache.
 *   tokens  [n_tok], each in [0, vocab_size)
 *   pos     position of tokens[0] = rows already in the cache
 * 1 <= n_tok <= n_batch and pos + n_tok <= n_ctx. Cannot fail, allocates nothing.
 * Leaves the residual stream of the n_tok rows in s->x. */
void model_forward(const Model *m, State *s, const int *tokens, int n_tok, int pos);

/* model_pass - model_forward of a part of a text that is seq_len tokens long when all of it is read: dynamic NTK and
 * LongRoPE rotate by its length. Only the last `wanted` rows have logits: the last layer computes no other row, but all
 * keys and values. While a tap is set it computes all rows. */
void model_pass(const Model *m, State *s, const int *tokens, int n_tok, int pos, int seq_len, int wanted);

/* model_logits - logits[vocab_size] of row `row` of the last forward; in s->logits. model_logits_span - logits [n,
 * vocab_size] of n <= n_logits rows from there on. */
const float *model_logits(const Model *m, State *s, int row);
const float *model_logits_span(const Model *m, State *s, int row, int n);

/* model_pass_spans - one pass over tokens of several texts, each with its Sequence of s->texts; span by span in tokens.
 * 1 <= rows of all spans <= n_batch. Every row is computed; with StateOptions.deterministic to the same bits as in a
 * pass of its text alone. The model is not cut among ranks. model_logits_rows - logits [n, vocab_size] of n <= n_logits
 * of its rows. */
void model_pass_spans(const Model *m, State *s, const int *tokens, const Span *spans, int n_spans);
const float *model_logits_rows(const Model *m, State *s, const int *rows, int n);

/* model_prefill - model_forward over any number of tokens in batches of n_batch; wanted: logits of the last token
 * alone, or of every row of a batch. `progress` (may be NULL) is called after each batch; it returns false to stop
 * early. So does layer_done, and the batch it ends does not count. Returns the tokens processed. */
typedef enum { WANTED_LAST, WANTED_ALL } Wanted;
int model_prefill(const Model *m, State *s, const int *tokens, int n_tok, int pos, Wanted wanted,
                  bool (*progress)(void *arg, int done, int total), void *arg);

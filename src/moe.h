/* moe - a mixture of experts in the place of swap 2: many FFNs, of which a router chooses a few for each token.
 * Source: Shazeer et al., arXiv:1701.06538, section 2; Mixtral, arXiv:2401.04088, section 2.1. Test: tests/test_moe.c
 */
#pragma once
#include "ffn.h"

enum { MOE_MOST_EXPERTS = 1024 }; /* of a layer */

/* MoeConfig - n_experts 0: the FFN is one and every token goes through it. */
typedef struct {
    int n_experts, n_used; /* experts of a layer; those that a token goes through */
    int shared_dim;        /* width of the expert that every token goes through besides; 0: none */
    int dense_dim;         /* width of the one FFN of the layers that have no experts; 0: every layer has them */
    bool renormalize;      /* the weights of the chosen experts add up to 1, else all experts' do (Qwen, OLMoE) */
    float alpha, limit;    /* of every expert's FFN_SWIGLU_OSS */
} MoeConfig;

typedef struct {
    Mat router;               /* [n_experts, dim] */
    const float *router_bias; /* [n_experts]; NULL: none */
    FfnWeights *experts;      /* [n_experts]; on a rank (src/shard.h) those of its slice alone */
    FfnWeights shared;        /* where shared_dim is not 0 */
    Mat shared_gate;          /* [1, dim]: shared is multiplied by sigmoid(shared_gate x); no data: by 1 */
} MoeWeights;

typedef struct {
    MoeConfig config;
    int first, n;      /* experts [first, first + n) are on this rank */
    FfnState shared;   /* of the shared expert */
    float *scores;     /* [n_batch, n_experts] the router's, then the weights of the experts */
    float *gate;       /* [n_batch] of the shared expert */
    int *chosen;       /* [n_batch, n_used] experts */
    float *weight;     /* [n_batch, n_used] */
    int *place;        /* [n_batch, n_used] row of `rows` and `hidden`; -1: the expert is on another rank */
    int *tile, *count; /* [n_experts] where an expert's rows begin, and how many it has */
    int *active;       /* [n_experts] the experts that have rows */
    int *n_active;     /* [1] */
    int *source;       /* [rows of `rows`] the row that was copied there */
    RowBuffer rows;    /* [n_tiles * ROWS_TILE, dim] each expert's rows side by side; then what it makes of them */
    RowBuffer hidden;  /* [n_tiles * ROWS_TILE, hidden_dim] */
    float *up;         /* the same */
} MoeState;

/* moe_take - scratch memory; `first` and `n` say which experts are here, shared_dim how much of the shared one. */
void moe_take(MoeState *s, Arena *a, const MoeConfig *c, int n_batch, int dim, int hidden_dim, int shared_dim);

/* moe - x[n, dim] += sum over the chosen experts of weight * expert(xn), and the shared expert; r says how it is added.
 * With one row only the chosen experts' weights are read; with more, each expert's rows are one product. */
void moe(const Pass *p, float *x, const Rows *xn, FfnKind kind, const MoeWeights *w, const MoeState *s,
         const Residual *r);

/* moe_choose - the n_used largest of scores [n_experts], the largest first, and their weights: softmax over all of them
 * or, with renormalize, over the chosen ones: the same as dividing by the sum of those. `scores` becomes the weight of
 * every expert, 0 of those not chosen. A NaN makes every weight NaN, so that it is not lost. */
void moe_choose(const MoeConfig *c, float *scores, int *chosen, float *weight);

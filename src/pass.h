/* pass - what every step of one forward pass is told. Run by all threads of the team (SPMD): a step does this thread's
 * share. */
#pragma once
#include <stdbool.h>

#include "base/team.h"
#include "dist/comm.h"
#include "kernels/kernels.h"

/* Tap - sees every intermediate of a forward pass: verify, probe, --check.
 *   name   "embed", "attn_norm", "q", "k", "v", "q_rot", "k_rot", "attn_out", "ffn_norm", "router", "router_weights",
 * "ffn_out", "out", "final_norm", "logits"; layer is -1 outside of the layers x      [rows, cols] f32, of the positions
 * pos .. pos + rows. Columns [from, to) of it are there: q, k and v come one head at a time, everything else whole
 * While a tap is set the pass runs on one thread, which calls it. */
typedef void Tap(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to, int pos);

/* LayerDone - called by the first thread after each layer, on the way to a progress bar: a long prompt on a slow model
 * takes seconds a pass. false ends the pass after the next layer. */
typedef bool LayerDone(void *arg, int layer);

typedef struct {
    const Thread *t;
    const Kernels *kernels;
    int row;                  /* of the pass's rows, the first of this view: 0, unless it is a view of one Span */
    int n, pos;               /* rows; position of row 0, which is the number of rows in the cache before */
    int rope_pos;             /* the position that RoPE is told: pos */
    int layer;                /* -1: of no layer */
    bool int8;                /* some matrix of the model wants int8 activations */
    bool exact;               /* the same bits for every n and every number of threads */
    float *spare;             /* [n, dim] a block's result before it is added to the residual stream */
    Comm *comm;               /* the ranks that share the model; NULL: one has all of it */
    int n_texts;              /* 1, or several: */
    const struct Span *spans; /* [n_texts] whose rows they are (attention.h); NULL: all of one */
    Tap *tap;                 /* NULL: nobody watches */
    void *tap_arg;
    LayerDone *layer_done; /* NULL: nobody waits */
    void *layer_arg;
} Pass;

/* watch - shows x [n, cols] to the tap, if there is one; watch_columns - columns [from, to) of it. */
void watch(const Pass *p, const char *name, const float *x, int cols);
void watch_columns(const Pass *p, const char *name, const float *x, int cols, int from, int to);

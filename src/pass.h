/* pass - what every step of one forward pass is told. Run by all threads of the team (SPMD): a step does this thread's
 * share. */
#pragma once
#include "base/team.h"

/* Tap - sees every intermediate of a forward pass: verify, probe, --check.
 *   name   "embed", "attn_norm", "q", "k", "v", "q_rot", "k_rot", "attn_out", "ffn_norm", "ffn_out",
 *          "out", "final_norm", "logits"; layer is -1 outside of the layers
 *   x      [rows, cols] f32, row r at x + r * stride, of the positions pos .. pos + rows
 * Called by one thread while the others wait. */
typedef void Tap(void *arg, const char *name, int layer, const float *x, int rows, int cols, size_t stride, int pos);

typedef struct {
    const Thread *t;
    int n, pos;   /* rows; position of row 0, which is the number of rows in the cache before */
    int rope_pos; /* the position that RoPE is told: pos */
    int layer;    /* -1: of no layer */
    bool int8;    /* some matrix of the model wants int8 activations */
    bool exact;   /* the same bits for every n and every number of threads */
    float *spare; /* [n, dim] with a tap: a product before it is added */
    Tap *tap;     /* NULL: nobody watches */
    void *tap_arg;
} Pass;

/* watch - shows x [n, cols] to the tap, if there is one. Then also a barrier. */
void watch(const Pass *p, const char *name, const float *x, int cols);

/* trace - every intermediate of one forward pass: read from a reference file (scripts/hf_reference.py) or recorded from
 * a run of the model. Test: tests/test_verify.c */
#pragma once
#include "model.h"

typedef enum {
    STEP_EMBED,
    STEP_ATTN_NORM, /* from here: one for each layer, in the order they are computed */
    STEP_Q,
    STEP_K,
    STEP_V,
    STEP_Q_ROT,
    STEP_K_ROT,
    STEP_ATTN_OUT,
    STEP_FFN_NORM,
    STEP_ROUTER,         /* of a mixture of experts: each one's score */
    STEP_ROUTER_WEIGHTS, /* ... and its weight, 0 where the token does not go through it */
    STEP_FFN_OUT,
    STEP_OUT,
    STEP_FINAL_NORM, /* outside of the layers again */
    STEP_LOGITS,
    STEP_COUNT
} Step;

/* Trace - the intermediates of one text. */
typedef struct {
    int n;         /* tokens */
    int n_prefill; /* of them in one batch; the rest one at a time */
    int n_slots;   /* tensors: 3 + 12 * n_layers */
    int n_layers;
    int *tokens; /* [n] */
    float **x;   /* [n_slots] of [n, cols]; NULL: absent */
    int *cols;   /* [n_slots] */
} Trace;

enum { TRACE_NAME = 48 };

int trace_slot(int layer, Step step, int n_layers); /* layer is ignored for steps outside of the layers */

/* trace_name - "layers.3.q_rot"; *layer is -1 outside of the layers. */
void trace_name(char out[TRACE_NAME], int slot, int n_layers, int *layer, Step *step);

/* trace_cols - features of a step's tensor in this model. */
int trace_cols(const Config *c, Step step);

/* trace_read - the reference file. Fails on a tensor whose type or shape is not this model's; `logits` must be there.
 */
int trace_read(Trace *t, const char *path, const Config *c, Error *e);

/* trace_run - runs the model over `tokens` [n]: a prefill, then the last VERIFY_DECODED ones one at a time, so that
 * both ways are seen. f32 KV cache; kernels NULL: kernels_best(). progress, unless NULL, is called with what is done of
 * what there is to do. */
enum { VERIFY_DECODED = 4 };
int trace_run(Trace *t, const Model *m, const int *tokens, int n, int n_threads, const Kernels *kernels,
              void (*progress)(void *arg, int done, int total), void *arg, Error *e);

void trace_close(Trace *t);

/* verify - every intermediate of a forward pass against a reference's (scripts/hf_reference.py), and why the first
 * one that differs does: each likely cause is recomputed from the reference's own tensors and must really fit. */
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
    STEP_FFN_OUT,
    STEP_OUT,
    STEP_FINAL_NORM, /* of no layer again */
    STEP_LOGITS,
    STEP_COUNT
} Step;

/* Trace - the intermediates of one text. */
typedef struct {
    int n;         /* tokens */
    int n_prefill; /* of them in one batch; the rest one at a time */
    int n_slots;   /* 3 + 10 * n_layers */
    int n_layers;
    int *tokens; /* [n] */
    float **x;   /* [n_slots] of [n, cols]; NULL: not there */
    int *cols;   /* [n_slots] */
} Trace;

int trace_slot(int layer, Step step, int n_layers); /* layer is ignored for steps of no layer */
void trace_close(Trace *t);

/* trace_read - the reference file, every shape checked against the model. */
int trace_read(Trace *t, const char *path, const Config *c, Error *e);
/* trace_run - runs the model over `tokens` [n]: a prefill, then the last ones as decode does, so that both are seen.
 * f32 KV cache. */
enum { VERIFY_DECODED = 4 };
int trace_run(Trace *t, const Model *m, const int *tokens, int n, int n_threads, Error *e);

typedef struct {
    char name[48];    /* "layers.3.q_rot" */
    double max_abs;   /* largest error */
    double max_rel;   /* the same over the largest value of the reference tensor */
    double tolerance; /* of max_abs */
    int worst_pos;    /* where it is, in tokens */
} VerifyRow;

typedef struct {
    int n;
    VerifyRow *rows; /* [n] in the order of computation */
    int first_bad;   /* index into rows, -1: all within tolerance */
    char cause[400]; /* of the first that is over; "" when all is well */
} Verify;

/* verify_compare - `ours` is changed: q and k are put into the reference's half-split order. */
int verify_compare(Verify *v, const Model *m, Trace *ours, const Trace *ref, Error *e);
void verify_close(Verify *v);

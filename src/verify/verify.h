/* verify - every intermediate of a forward pass against a reference's (scripts/hf_reference.py): how far each tensor is
 * off, which is the first over its tolerance, and why. Test: tests/test_verify.c */
#pragma once
#include "verify/trace.h"

typedef struct {
    char name[TRACE_NAME]; /* "layers.3.q_rot" */
    bool finite;      /* no NaN and no infinity on either side; else max_abs and max_rel are of the finite values */
    double max_abs;   /* largest error */
    double max_rel;   /* the same over the largest value of the reference tensor */
    double tolerance; /* of max_abs; finite */
    bool ok;          /* finite and within tolerance */
    int worst_pos;    /* where it is, in tokens; the first that is not finite, if one is not */
} VerifyRow;

enum { VERIFY_CAUSE = 400 };

typedef struct {
    int n;
    VerifyRow *rows;          /* [n] in the order of computation */
    int first_bad;            /* index into rows, -1: all within tolerance */
    char cause[VERIFY_CAUSE]; /* of the first that is over; "" when all is well */
} Verify;

/* verify_tolerance - the error that float32 sums in another order may leave in a tensor whose largest value is `size`:
 * 1e-4 of it, 1e-3 for logits, and never less than that of 1. */
double verify_tolerance(Step step, double size);

/* verify_compare - `ours` is changed: q and k are put into the reference's half-split order. Fails for lack of memory
 * only. */
int verify_compare(Verify *v, const Model *m, Trace *ours, const Trace *ref, Error *e);
void verify_close(Verify *v);

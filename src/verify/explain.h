/* explain - why the first tensor over its tolerance differs.
 *
 * First question, for every step: do the model's formula (formula.h) and the weights, given the reference's input, give
 * the reference's output? Then the reference is right, and the mistake is in this run: the known mistakes are compared
 * with what the run computed ("here: ..."). Otherwise the reference follows another formula, setting or weight: the
 * known differences are compared with the reference. A hypothesis counts when it reproduces the tensor and does so much
 * better than the unchanged formula. */
#pragma once
#include "verify/formula.h"
#include "verify/trace.h"
#include "verify/verify.h"

typedef struct {
    const Model *m;
    const Trace *ours, *ref; /* q and k of both in half-split order */
    bool stored_in_pairs;    /* the order of q and k in this run, whatever the config claims */
    int layer;
    Step step;
    const char *name; /* of the tensor */
    char *cause;      /* [VERIFY_CAUSE] */
    float *scratch;   /* [n, widest tensor] for a hypothesis */
    float *line;      /* [widest tensor] */
    int *position;    /* [n] */
    bool no_memory;   /* a hypothesis could not be tried */

    /* Set by explain_judge: */
    bool here;           /* the mistake is in this run */
    const float *target; /* the side that is wrong: ours or the reference's */
    double plain_error;  /* how far the unchanged formula is from it */
} Case;

/* explain - writes c->cause; c->layer, step and name say which tensor. */
void explain(Case *c);

/* Distances: infinite when a value is NaN. fits: a hypothesis reproduces the tensor. */
double explain_largest(const float *x, size_t n);
double explain_distance(const float *a, const float *b, size_t n);
bool explain_fits(const float *a, const float *b, size_t n);

/* explain_reorder - features of q or k between the two pairings' orders: `heads` heads of cols / heads features, of
 * which the first `rotary` are paired. to_half: (2i, 2i + 1) -> (i, i + rotary/2); else back. line is [rotary]. */
void explain_reorder(float *x, int n, int cols, int heads, int rotary, bool to_half, float *line);

/* ---- Between the files of explain ---- */

static inline const float *explain_of(const Trace *t, int layer, Step step) {
    return t->x[trace_slot(layer, step, t->n_layers)];
}
static inline size_t explain_size(const Case *c, Step step) {
    return (size_t)c->ref->n * (size_t)trace_cols(&c->m->config, step);
}

/* explain_say - the cause is found. Returns true. */
bool explain_say(Case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* explain_judge - plain is what the formula makes of the reference's input, NULL: that input is absent. Sets here,
 * target and plain_error. */
void explain_judge(Case *c, const float *plain);
/* explain_by - does hypothesis x reproduce the target? */
bool explain_by(const Case *c, const float *x);
/* explain_side - "here" or "in the reference". */
const char *explain_side(const Case *c);

/* explain_multiply - formula_multiply that notes a lack of memory. */
void explain_multiply(Case *c, float *y, const Mat *w, const float *bias, const float *x);
/* explain_arithmetic - the formula is right, and no known mistake fits what this run computed. */
bool explain_arithmetic(Case *c, const char *what);
/* explain_transposed - the parts [out, in] of one matrix whose bytes are [in, out], as GPT-2's Conv1D keeps them. The
 * data is malloc'ed; NULL: no memory. */
Mat explain_transposed(Case *c, const Mat *const *parts, int n);
#define NOT_TRANSPOSED                                                                                                 \
    "Conv1D not transposed: the bytes of %s, taken as [in, out], give the reference's output; here they are read as "  \
    "[out, in]"

/* explain_decoded_at - first token that went through the model alone, after the prefill; 0: none did. */
int explain_decoded_at(const Case *c);
#define DECODE_OFFSET                                                                                                  \
    "position off by one in decode: from token %d on, which go through the model one at a time, token t %s position "  \
    "t%+d"

/* explain_rope - the RoPE of this layer. explain_clamp - cuts x to the model's clamp, where it has one. */
const RopeConfig *explain_rope(const Case *c);
void explain_clamp(const Case *c, float *x, size_t n);

void explain_projection(Case *c);
void explain_rotation(Case *c);

/* explain_router, explain_router_weights, explain_experts - the steps of a mixture of experts. */
bool explain_router(Case *c);
bool explain_router_weights(Case *c);
bool explain_experts(Case *c);
void explain_attention(Case *c);

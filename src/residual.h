/* residual - how the result of attention and of the FFN comes into the residual stream. */
#pragma once
#include "norm.h"
#include "ops.h"

/* residual_sum_floats - the longest vector that a pass of n_batch rows sums over the ranks, in values. */
size_t residual_sum_floats(int dim, int n_batch);

typedef struct {
    Norm norm;   /* of the result, before it is added (Gemma 2, OLMo 2); NORM_NONE: none */
    float scale; /* of the result (Granite's residual_multiplier); 1: none */
} Residual;

/* add_spare - x += scale * norm(p->spare), the sum over the ranks of what each has there. Between barriers. The tap
 * sees that sum under `name`. */
void add_spare(const Pass *p, float *x, int dim, const Residual *r, const char *name);

/* add_product - x += scale * norm(a w^T + bias). Ends in a barrier. The tap sees the product under `name`. */
void add_product(const Pass *p, float *x, const Mat *w, const float *bias, const Rows *a, const Residual *r,
                 const char *name);

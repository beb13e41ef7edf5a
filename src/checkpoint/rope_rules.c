#include <stddef.h>

#include "checkpoint/arch.h"

#define NUMBER(field, needed)                                                                                          \
    { #field, offsetof(RopeConfig, field), needed }

/* Source: modeling_rope_utils.py, ROPE_INIT_FUNCTIONS and the keys that each rule requires there. */
const RopeRule rope_rules[ROPE_RULES] = {
    [ROPE_SCALING_NONE] = {.name = "default"},
    [ROPE_SCALING_LINEAR] = {"linear", {NUMBER(factor, true)}},
    [ROPE_SCALING_DYNAMIC] = {"dynamic", {NUMBER(factor, true)}},
    [ROPE_SCALING_YARN] = {"yarn",
                           {NUMBER(factor, false), NUMBER(attention_factor, false), NUMBER(beta_fast, false),
                            NUMBER(beta_slow, false), NUMBER(mscale, false), NUMBER(mscale_all_dim, false)}},
    [ROPE_SCALING_LLAMA3] = {"llama3",
                             {NUMBER(factor, true), NUMBER(low_freq_factor, true), NUMBER(high_freq_factor, true)}},
    [ROPE_SCALING_LONGROPE] = {"longrope", {NUMBER(factor, false), NUMBER(attention_factor, false)}},
};

RopeConfig rope_defaults(const Config *c, RopePairing pairing) {
    return (RopeConfig){.theta = 10000,
                        .rotary_dim = c->head_dim,
                        .pairing = pairing,
                        .factor = 1,
                        .beta_fast = 32,
                        .beta_slow = 1,
                        .truncate = true,
                        .original_ctx = c->n_ctx};
}

/* mistake - the known ways to get the swaps wrong, made on purpose: --break NAME, the exercises of docs/ladder.md. */
#pragma once
#include "checkpoint/checkpoint.h"

typedef enum {
    MISTAKE_NONE,
    /* data that the forward pass reads: Config.rotate, decode_shift, rope, rope_local, attn */
    MISTAKE_V_ROTATED,
    MISTAKE_ROPE_LAYER0,
    MISTAKE_KEYS_UNROTATED,
    MISTAKE_DECODE_OFF_BY_ONE,
    MISTAKE_WRONG_PAIRING,
    MISTAKE_NO_ROPE,
    MISTAKE_ONE_FREQUENCY,
    MISTAKE_FLIPPED_FREQUENCIES,
    MISTAKE_REVERSED,
    MISTAKE_REVERSED_KEY,
    MISTAKE_SCORE_SCALE,
    MISTAKE_NO_MASK,
    MISTAKE_GQA_MODULO,
    /* wrong copies of weights */
    MISTAKE_K_PERMUTED,
    MISTAKE_CONV1D,
    MISTAKE_WPE_PAST_END,
    MISTAKE_COUNT
} Mistake;

typedef struct {
    const char *name, *help;
} MistakeInfo;
extern const MistakeInfo mistakes[MISTAKE_COUNT]; /* from 1 on; MISTAKE_NONE has no name */

/* mistake_make - breaks a bound model by what it is made of: its Config, or wrong copies of weights. ck owns the
 * memory. n_ctx  context that is asked for (0: none), for MISTAKE_WPE_PAST_END Fails when the model has not what the
 * mistake is made with. */
int mistake_make(Checkpoint *ck, Config *config, Weights *weights, Mistake mistake, int n_ctx, Error *e);

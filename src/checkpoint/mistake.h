/* mistake - the known ways to get the swaps wrong, made on purpose: --break NAME, the exercises of docs/ladder.md. */
#pragma once
#include "checkpoint/checkpoint.h"

typedef struct {
    const char *name, *help;
} MistakeInfo;
extern const MistakeInfo mistakes[MISTAKE_COUNT]; /* from 1 on; MISTAKE_NONE has no name */

/* mistake_make - breaks a bound model: sets config->mistake and, where the mistake is one of reading weights, puts
 * wrong copies in their place, which ck owns.
 *   n_ctx  context that is asked for (0: none), for MISTAKE_WPE_PAST_END
 * Fails when the model has not what the mistake is made with. */
int mistake_make(Checkpoint *ck, Config *config, Weights *weights, Mistake mistake, int n_ctx, Error *e);

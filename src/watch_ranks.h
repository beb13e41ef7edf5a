/* watch_ranks - a tap over ranks: each has some heads of q, k and v, and rank 0's tap sees all of them. */
#pragma once
#include "pass.h"

typedef struct {
    Tap *tap; /* rank 0's */
    void *arg;
    Comm *comm;
    int q_from, q_cols; /* this rank's first column of q, and the columns of all ranks */
    int k_from, k_cols;
    unsigned char *records; /* of this pass, one after the other */
    size_t used, room;
} WatchRanks;

/* watch_ranks_tap - the tap of a pass: keeps heads, shows everything else to rank 0's tap. watch_ranks_end - after the
 * pass, on every rank: rank 0's tap sees the heads that were kept, of all ranks. */
Tap watch_ranks_tap;
void watch_ranks_end(WatchRanks *w);

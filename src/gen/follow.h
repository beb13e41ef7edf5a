/* follow - what every rank but the first does: the orders of rank 0, on its slice of the model. */
#pragma once
#include "gen/session.h"

/* session_ranks - cuts the session's model among the ranks; does nothing for one. Every rank opens the checkpoint by
 * itself, and rank 0 fails when one cannot or has another file. */
int session_ranks(Session *s, const Options *o, Error *e);

/* follow - obeys until rank 0 ends. Returns the exit code. */
int follow(const Options *o, Error *e);

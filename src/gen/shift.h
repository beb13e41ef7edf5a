/* shift - moves keys and values of the cache to other positions, for when the context is full.
 *
 * A key is cached rotated by its position, R(a) k. Rotations compose, R(b) R(a) = R(a + b), so a key that moves by d
 * positions is rotated once more by d * inv_freq: no projection is computed again. That is exact (up to rounding) for
 * every rule whose frequencies do not depend on the length. What a key and a value hold of the tokens before them, they
 * hold also when those are gone: the first layer equals a fresh prefill, the others come close (docs/rope.md).
 * Sources: RoFormer, arXiv:2104.09864, equation 16; StreamingLLM, arXiv:2309.17453. Test: tests/test_shift.c */
#pragma once
#include "model.h"

/* cache_shift_refused - why this model's cached keys cannot be moved; NULL when they can. */
const char *cache_shift_refused(const Model *m);

/* cache_shift - the n tokens cached from position `from` on move to `to` < from, in every layer. What was at [to, to +
 * n) is lost; the model must not be refused. */
void cache_shift(const Model *m, State *s, int to, int from, int n);

/* same_angles - are keys rotated by the same angles in a text of n tokens as in one of m? */
bool same_angles(const Config *c, int n, int m);

/* Exercise 4: the rotation. 20 minutes. Reading: docs/rope.md, sections 2 and 3; `./run -m rope --head-dim 4 --pos 3`.
 *
 * Hints
 *   1. (a, b) becomes (a cos t - b sin t, a sin t + b cos t) with t = pos * freq[i].
 *   2. The second line needs the a from before the first.
 *   3. cos and sin take a double. */
#include <math.h>

#include "exercise.h"

void my_rotate(float *x, int head_dim, int pos, const double *freq) {
    (void)x, (void)head_dim, (void)pos, (void)freq; /* your code here */
}

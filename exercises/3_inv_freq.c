/* Exercise 3: the frequencies of RoPE. 10 minutes. Reading: docs/rope.md, section 3.
 *
 * Hints
 *   1. There are head_dim / 2 of them, and the first is 1.
 *   2. For head_dim 4 and theta 10000 they are 1 and 0.01.
 *   3. In C, 2 * i / head_dim of two ints is an int. */
#include <math.h>

#include "exercise.h"

void my_inv_freq(double *freq, int head_dim, double theta) {
    (void)freq, (void)head_dim, (void)theta; /* your code here */
}

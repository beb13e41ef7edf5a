/* Exercise 8: a longer context. 20 minutes. Reading: docs/rope.md, section 5; `./run -m rope --rope-scaling ntk
 * --rope-factor 2`.
 *
 * Hints
 *   1. Look for a base b with b^(-2i / d) = theta^(-2i / d) / factor at the last pair, i = d / 2 - 1.
 *   2. So (b / theta)^(-(d - 2) / d) = 1 / factor: solve it for b.
 *   3. The rest is exercise 3, and my_inv_freq is there to be called. */
#include <math.h>

#include "exercise.h"

void my_ntk_freq(double *freq, int head_dim, double theta, double factor) {
    (void)freq, (void)head_dim, (void)theta, (void)factor; /* your code here */
}

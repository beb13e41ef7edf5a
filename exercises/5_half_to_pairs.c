/* Exercise 5: which two features make a pair. 20 minutes. Reading: docs/rope.md, section 4.
 *
 * Hints
 *   1. Row 2i of a head comes from row i, row 2i + 1 from row i + head_dim / 2.
 *   2. Every head is reordered in itself: a row never leaves its head.
 *   3. A row has cols numbers. */
#include "exercise.h"

void my_half_to_pairs(float *out, const float *w, int n_heads, int head_dim, int cols) {
    (void)out, (void)w, (void)n_heads, (void)head_dim, (void)cols; /* your code here */
}

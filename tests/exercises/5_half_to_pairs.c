/* expected: all heads were reordered as if they were one */
#include <string.h>

#include "exercise.h"

void my_half_to_pairs(float *out, const float *w, int n_heads, int head_dim, int cols) {
    int rows = n_heads * head_dim;
    for (int r = 0; r < rows; r++)
        memcpy(out + r * cols, w + (r / 2 + r % 2 * rows / 2) * cols, (unsigned)cols * sizeof *out);
}

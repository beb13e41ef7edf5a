/* expected: overwritten before the second */
#include <math.h>

#include "exercise.h"

void my_rotate(float *x, int head_dim, int pos, const double *freq) {
    for (int i = 0; i < head_dim; i += 2) {
        float cosine = (float)cos(pos * freq[i / 2]), sine = (float)sin(pos * freq[i / 2]);
        x[i] = x[i] * cosine - x[i + 1] * sine;
        x[i + 1] = x[i] * sine + x[i + 1] * cosine;
    }
}

#include <math.h>

#include "exercise.h"

void my_rotate(float *x, int head_dim, int pos, const double *freq) {
    for (int i = 0; i < head_dim / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        float cosine = (float)cos(pos * freq[i]), sine = (float)sin(pos * freq[i]);
        x[2 * i] = a * cosine - b * sine;
        x[2 * i + 1] = a * sine + b * cosine;
    }
}

#include <math.h>

#include "exercise.h"

void my_inv_freq(double *freq, int head_dim, double theta) {
    for (int i = 0; i < head_dim / 2; i++) freq[i] = pow(theta, -2.0 * i / head_dim);
}

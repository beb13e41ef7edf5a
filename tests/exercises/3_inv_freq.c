/* expected: the 2 is missing */
#include <math.h>

#include "exercise.h"

void my_inv_freq(double *freq, int head_dim, double theta) {
    for (int i = 0; i < head_dim / 2; i++) freq[i] = pow(theta, -(double)i / head_dim);
}

/* expected: the exponent d / (d - 2) is missing */
#include "exercise.h"

void my_ntk_freq(double *freq, int head_dim, double theta, double factor) {
    my_inv_freq(freq, head_dim, theta * factor);
}

#include <math.h>

#include "exercise.h"

void my_ntk_freq(double *freq, int head_dim, double theta, double factor) {
    my_inv_freq(freq, head_dim, theta * pow(factor, head_dim / (head_dim - 2.0)));
}

/* expected: the root is missing */
#include <math.h>

#include "exercise.h"

void my_rmsnorm(float *y, const float *x, const float *weight, int dim, float eps) {
    float sum = 0;
    for (int i = 0; i < dim; i++) sum += x[i] * x[i];
    for (int i = 0; i < dim; i++) y[i] = x[i] / (sum / (float)dim + eps) * weight[i];
}

#include <math.h>

#include "exercise.h"

void my_swiglu(float *y, const float *gate, const float *up, int n) {
    for (int i = 0; i < n; i++) y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

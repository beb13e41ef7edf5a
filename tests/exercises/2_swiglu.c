/* expected: gate and up are exchanged */
#include <math.h>

#include "exercise.h"

void my_swiglu(float *y, const float *gate, const float *up, int n) {
    for (int i = 0; i < n; i++) y[i] = up[i] / (1 + expf(-up[i])) * gate[i];
}

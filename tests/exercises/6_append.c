/* expected: the position is one too large */
#include <string.h>

#include "exercise.h"

int my_append(float *keys, float *values, int n_cached, float *q, int n_heads, const float *k, const float *v,
              int n_kv_heads, int head_dim, const double *freq) {
    int row = n_kv_heads * head_dim;
    memcpy(keys + n_cached * row, k, (unsigned)row * sizeof *keys);
    memcpy(values + n_cached * row, v, (unsigned)row * sizeof *values);
    n_cached++;
    for (int h = 0; h < n_heads; h++) my_rotate(q + h * head_dim, head_dim, n_cached, freq);
    for (int h = 0; h < n_kv_heads; h++)
        my_rotate(keys + (n_cached - 1) * row + h * head_dim, head_dim, n_cached, freq);
    return n_cached;
}

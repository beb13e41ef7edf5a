/* Exercise 6: the KV cache and the position of a new token. 30 minutes. Reading: rotate_and_store in attention.c;
 * docs/rope.md, section 3; docs/ladder.md, "decode-off-by-one" and "keys-unrotated".
 *
 * Hints
 *   1. The new token's position is the number of rows that are in the cache before it.
 *   2. my_rotate of exercise 4 is there to be called, once for each head.
 *   3. Copy the key into its row first, then rotate it there: k is const.
 *   4. Row r of the cache begins at r * n_kv_heads * head_dim. */
#include <string.h>

#include "exercise.h"

int my_append(float *keys, float *values, int n_cached, float *q, int n_heads, const float *k, const float *v,
              int n_kv_heads, int head_dim, const double *freq) {
    (void)keys, (void)values, (void)q, (void)n_heads, (void)k, (void)v, (void)n_kv_heads, (void)head_dim, (void)freq;
    return n_cached; /* your code here */
}

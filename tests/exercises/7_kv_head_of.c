/* expected: modulo: neighbouring query heads share */
#include "exercise.h"

int my_kv_head_of(int query_head, int n_heads, int n_kv_heads) {
    (void)n_heads;
    return query_head % n_kv_heads;
}

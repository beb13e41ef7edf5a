/* random - the same numbers in every run of a test. */
#pragma once
#include <stdint.h>

static uint64_t seed = 1;
static float random_unit(void) { /* uniform in [-1, 1), splitmix64 */
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)(int32_t)(z >> 32) * 0x1p-31f;
}

#include "base/hash.h"

#include <string.h>
#include <time.h>

#include "system.h"

HashKey hash_key(void) {
    HashKey key;
    if (system_random(&key, sizeof key)) return key;
    struct timespec t; /* a system that has none */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (HashKey){{(uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u, (uint64_t)(uintptr_t)&key}};
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void rounds(uint64_t v[4], int n) {
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t m) {
    v[3] ^= m;
    rounds(v, 2);
    v[0] ^= m;
}

uint64_t hash_bytes(HashKey key, const char *s, size_t n) {
    uint64_t v[4] = {key.k[0] ^ 0x736f6d6570736575u, key.k[1] ^ 0x646f72616e646f6du, key.k[0] ^ 0x6c7967656e657261u,
                     key.k[1] ^ 0x7465646279746573u};
    uint64_t m, last = (uint64_t)n << 56;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        memcpy(&m, s + i, 8);
        absorb(v, m);
    }
    for (int shift = 0; i < n; i++, shift += 8) last |= (uint64_t)(unsigned char)s[i] << shift;
    absorb(v, last);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

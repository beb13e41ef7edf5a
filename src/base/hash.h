/* hash - keyed hashing: who writes the keys of a table must not know where they go, or they all go to one place.
 * Test: tests/test_hash.c */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t k[2];
} HashKey;

/* hash_key - a new key from the system's random numbers. */
HashKey hash_key(void);

/* hash_bytes - SipHash-2-4 of s[0, n). Source: Aumasson and Bernstein, SipHash, INDOCRYPT 2012. */
uint64_t hash_bytes(HashKey key, const char *s, size_t n);

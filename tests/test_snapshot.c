/* Tests of src/gen/snapshot.c: a conversation comes back from its file, and no file that is damaged, cut or another
 * model's does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/snapshot.h"
#include "io/file.h"
#include "talk.h"

#include <cmocka.h> /* last: it makes a macro of fail */

enum { N = 21 };

static void read_tokens(Talk *x) {
    Error e = {""};
    int ids[N];
    for (int i = 0; i < N; i++) ids[i] = (5 * i + 1) % x->s.model.config.vocab_size;
    assert_int_equal(generator_prompt(&x->g, ids, N, &e), 0);
}

static char *temporary(void) {
    static char name[] = "/tmp/test_snapshotXXXXXX";
    strcpy(name + strlen(name) - 6, "XXXXXX");
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    return name;
}

static void test_round_trip(void **state) {
    (void)state;
    for (KvType type = KV_F32; type <= KV_F16; type++) {
        Talk a, b;
        Turns turns = {0}, back = {0};
        Error e = {""};
        char *path = temporary();
        talk_open(&a, "tests/fixtures/base.gguf", type, 8, 64, false);
        talk_open(&b, "tests/fixtures/base.gguf", type, 8, 64, false);
        read_tokens(&a);
        char *with_nul = memcpy(malloc(4), "a\0b", 4);
        assert_int_equal(turns_add(&turns, ROLE_USER, with_nul, 3, &e), 0);
        assert_int_equal(turns_add(&turns, ROLE_ASSISTANT, strdup(""), 0, &e), 0);
        assert_int_equal(snapshot_write(path, &a.g, &turns, &e), 0);
        assert_int_equal(snapshot_read(path, &b.g, &back, &e), 0);
        assert_int_equal(back.n, 2);
        assert_int_equal(back.list[1].role, ROLE_ASSISTANT);
        assert_int_equal(b.g.n_cached, N);
        assert_memory_equal(a.g.cached, b.g.cached, N * sizeof(int));
        int first = a.g.next;
        read_tokens(&b); /* all is in the cache: one token is read again */
        assert_int_equal(b.g.n_prefill, 1);
        assert_int_equal(b.g.next, first);
        turns_close(&turns);
        turns_close(&back);
        talk_close(&a);
        talk_close(&b);
        unlink(path);
    }
}

/* The file with one byte changed, or cut, is refused, and the messages stay. */
static void test_damaged(void **state) {
    (void)state;
    Talk a;
    Turns turns = {0};
    Error e = {""};
    char *path = temporary(), *bytes;
    size_t size;
    talk_open(&a, "tests/fixtures/base.gguf", KV_F32, 8, 64, false);
    read_tokens(&a);
    assert_int_equal(turns_add(&turns, ROLE_USER, strdup("Hello"), 5, &e), 0);
    assert_int_equal(snapshot_write(path, &a.g, &turns, &e), 0);
    assert_int_equal(file_read(&bytes, &size, path, &e), 0);
    for (int kind = 0; kind < 2; kind++)
        for (size_t at = 0; at < size; at += at < 300 ? 1 : 997) {
            FILE *file = fopen(path, "wb");
            bytes[at] ^= kind ? 0 : 0x40;
            fwrite(bytes, 1, kind ? at : size, file);
            fclose(file);
            bytes[at] ^= kind ? 0 : 0x40;
            Error why = {""};
            if (snapshot_read(path, &a.g, &turns, &why) == 0) fail_msg("byte %zu of %zu: read all the same", at, size);
            assert_non_null(strstr(why.text, path));
            assert_int_equal(turns.n, 1);
        }
    free(bytes);
    turns_close(&turns);
    talk_close(&a);
    unlink(path);
}

static void test_another_model(void **state) {
    (void)state;
    static const struct {
        const char *model;
        KvType type;
        const char *why;
    } row[] = {{"tests/fixtures/base_q8_0.gguf", KV_F32, "another model's"},
               {"tests/fixtures/mha_tied.gguf", KV_F32, "another model's"},
               {"tests/fixtures/base.gguf", KV_F16, "KV type"}};
    Talk a;
    Error e = {""};
    char *path = temporary();
    talk_open(&a, "tests/fixtures/base.gguf", KV_F32, 8, 64, false);
    read_tokens(&a);
    assert_int_equal(snapshot_write(path, &a.g, NULL, &e), 0);
    talk_close(&a);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Talk b;
        Error why = {""};
        talk_open(&b, row[i].model, row[i].type, 8, 64, false);
        assert_int_equal(snapshot_read(path, &b.g, NULL, &why), -1);
        if (!strstr(why.text, row[i].why)) fail_msg("%s: %s", row[i].model, why.text);
        talk_close(&b);
    }
    Error none = {""};
    talk_open(&a, "tests/fixtures/base.gguf", KV_F32, 8, 64, false);
    assert_int_equal(snapshot_read("/nowhere/at/all", &a.g, NULL, &none), -1);
    assert_int_equal(snapshot_write("/nowhere/at/all", &a.g, NULL, &none), -1);
    talk_close(&a);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_another_model),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}

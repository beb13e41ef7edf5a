/* Model files that end early or are not what they were: a file of every format is cut at every
 * byte, and every byte of its header is turned over. It must be refused with one line that names
 * the file, or read and run without harm. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "model.h"

#include <cmocka.h> /* last: it makes fail a macro */

static char dir[64];

static void write_bytes(const char *path, const unsigned char *data, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    close(fd);
}

/* Opens, binds and, when that works, runs two tokens. 1: refused properly; 0: ran. */
static int try_model(const char *path, const char *named) {
    Checkpoint ck;
    Config config;
    Weights weights;
    Error e = {0};
    int status = checkpoint_open(&ck, path, &e);
    if (status == 0 && checkpoint_bind(&ck, &config, &weights, &e) == 0) {
        Model m;
        State s;
        StateOptions options = {.n_ctx = 4, .n_batch = 2, .n_threads = 1, .kv_type = KV_F32};
        const int tokens[2] = {0, config.vocab_size - 1};
        model_init(&m, &config, &weights);
        if (state_bytes(&m, &options) < 1 << 28 && state_init(&s, &m, &options, &e) == 0) {
            model_forward(&m, &s, tokens, 2, 0);
            model_logits(&m, &s, 1);
            state_close(&s);
        }
        checkpoint_close(&ck);
        return 0;
    }
    if (status == 0) checkpoint_close(&ck);
    if (!strstr(e.text, named) || !strstr(e.text, "expected") || !strstr(e.text, "found"))
        fail_msg("message without file, expectation or finding: '%s'", e.text);
    return 1;
}

static void sweep(const char *fixture, const char *name, const char *open_as, size_t header,
                  bool every_cut_fails) {
    char source[300], target[300], opened[300];
    File f;
    Error e = {0};
    snprintf(source, sizeof source, "tests/fixtures/%s", fixture);
    snprintf(target, sizeof target, "%s/%s", dir, name);
    snprintf(opened, sizeof opened, "%s%s", dir, open_as);
    if (file_map(&f, source, &e)) fail_msg("%s", e.text);
    unsigned char *copy = malloc(f.size);
    memcpy(copy, f.data, f.size);
    size_t ran = 0;
    write_bytes(target, copy, f.size);
    assert_int_equal(try_model(opened, dir), 0);
    /* every byte of the header, then steps through the data: nothing there is looked at but its
     * length */
    for (size_t n = 0; n < f.size; n += n < header ? 1 : 97) {
        write_bytes(target, copy, n);
        ran += try_model(opened, dir) == 0;
    }
    write_bytes(target, copy, f.size - 1);
    ran += try_model(opened, dir) == 0;
    if (every_cut_fails) assert_int_equal(ran, 0);
    if (header > f.size) header = f.size;
    for (size_t i = 0; i < header; i++) {
        static const unsigned char turn[] = {0xff, 0x01, 0x80};
        for (size_t k = 0; k < sizeof turn; k++) {
            copy[i] ^= turn[k];
            write_bytes(target, copy, f.size);
            try_model(opened, dir);
            copy[i] ^= turn[k];
        }
    }
    write_bytes(target, copy, f.size);
    free(copy);
    file_close(&f);
}

static void llama2c(void **state) {
    (void)state;
    sweep("base_v0.bin", "m.bin", "/m.bin", 64, true);
    sweep("base_v1.bin", "m.bin", "/m.bin", 256, true);
    sweep("base_v2.bin", "m.bin", "/m.bin", 256, true);
}

static void gguf(void **state) {
    (void)state;
    sweep("base_q4_0.gguf", "m.gguf", "/m.gguf", 2600, true);
    sweep("rope_llama3.gguf", "m.gguf", "/m.gguf", 700, true);
}

static void safetensors(void **state) {
    (void)state;
    char path[300];
    File f;
    Error e = {0};
    if (file_map(&f, "tests/fixtures/mha_tied_hf/config.json", &e)) fail_msg("%s", e.text);
    snprintf(path, sizeof path, "%s/config.json", dir);
    write_bytes(path, f.data, f.size);
    sweep("mha_tied_hf/model.safetensors", "model.safetensors", "", 1700, true);
    sweep("mha_tied_hf/config.json", "config.json", "", 1 << 20, false);
    file_close(&f);
}

static void not_models(void **state) {
    (void)state;
    static const struct {
        const char *content, *says;
    } cases[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"},
        {"<!DOCTYPE html><html><body>404</body></html>", "HTML"},
        {"PK\x03\x04 archive/data.pkl", "PyTorch"},
        {"just some words in a file, long enough to be one\n", "text"},
        {"GGUF", "truncated"},
        {"FUGG\x03\x00\x00\x00", "big-endian"},
    };
    char path[300];
    snprintf(path, sizeof path, "%s/thing", dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(path, (const unsigned char *)cases[i].content, strlen(cases[i].content));
        Checkpoint ck;
        Error e = {0};
        assert_int_equal(checkpoint_open(&ck, path, &e), -1);
        if (!strstr(e.text, cases[i].says)) fail_msg("'%s' does not say %s", e.text, cases[i].says);
    }
    unlink(path);
}

static int setup(void **state) {
    (void)state;
    strcpy(dir, "/tmp/test_checkpoint.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    static const char *const names[] = {"m.bin", "m.gguf", "config.json", "model.safetensors"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama2c),
        cmocka_unit_test(gguf),
        cmocka_unit_test(safetensors),
        cmocka_unit_test(not_models),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* The readers against good files, what they say alike, and files that are no model. */
#include "base/system.h"
#include "model_files.h"

static void each_format_says_the_same(void **state) {
    (void)state;
    static const struct {
        const char *path;
        CheckpointFormat format;
        RopePairing pairing;
        DType dtype;
    } base[] = {
        {"base_hf", FORMAT_HF_DIR, ROPE_HALF, DTYPE_F32},
        {"base_hf/model.safetensors", FORMAT_SAFETENSORS, ROPE_HALF, DTYPE_F32},
        {"base.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_F32},
        {"base_f16.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_F16},
        {"base_bf16.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_BF16},
        {"base_q8_0.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_Q8_0},
        {"base_q4_0.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_Q4_0},
        {"base_q4_1.gguf", FORMAT_GGUF, ROPE_PAIRS, DTYPE_Q4_1},
        {"base_v0.bin", FORMAT_LLAMA2C, ROPE_PAIRS, DTYPE_F32},
        {"base_v1.bin", FORMAT_LLAMA2C, ROPE_PAIRS, DTYPE_F32},
        {"base_v2.bin", FORMAT_LLAMA2C, ROPE_PAIRS, DTYPE_Q8_GROUP},
    };
    size_t params = 0;
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
        char path[256];
        Error e = {0};
        Checkpoint ck;
        Config c;
        Weights w;
        snprintf(path, sizeof path, FIXTURES "%s", base[i].path);
        if (checkpoint_open(&ck, path, &e) || checkpoint_bind(&ck, &c, &w, &e)) fail_msg("%s", e.text);
        assert_int_equal(ck.format, base[i].format);
        assert_string_equal(ck.arch, "llama");
        const int found[] = {
            c.dim,   c.hidden_dim, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim,        c.vocab_size,
            c.n_ctx, c.norm,       c.ffn,      c.pos,     c.tied,       c.rope.rotary_dim, (int)c.rope.scaling};
        const int expected[] = {32, 32,           2,          4,        2, 8, 64,
                                64, NORM_RMSNORM, FFN_SWIGLU, POS_ROPE, 0, 8, ROPE_SCALING_NONE};
        for (size_t k = 0; k < sizeof found / sizeof *found; k++)
            if (found[k] != expected[k]) fail_msg("%s: config field %zu is %d", path, k, found[k]);
        assert_int_equal(c.rope.pairing, base[i].pairing);
        assert_true(c.rope.theta == 10000 && c.norm_eps == 1e-5f);
        assert_int_equal(w.layers[1].ffn.w_down.dtype, base[i].dtype);
        if (i == 0) params = ck.params;
        assert_int_equal(ck.params, params);
        checkpoint_close(&ck);
    }
}

/* Weights are read where the file is mapped; only what had to be converted is a copy. */
static void nothing_is_copied(void **state) {
    (void)state;
    static const char *const path[] = {FIXTURES "base_hf", FIXTURES "base.gguf", FIXTURES "base_v0.bin",
                                       FIXTURES "base_q4_1.gguf"};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        Error e = {0};
        Checkpoint ck;
        Config c;
        Weights w;
        if (checkpoint_open(&ck, path[i], &e) || checkpoint_bind(&ck, &c, &w, &e)) fail_msg("%s", e.text);
        const unsigned char *from = ck.files[0].data, *to = from + ck.files[0].size;
        const void *p[] = {w.tok_emb.data, w.layers[1].attn.wq.data, w.layers[0].ffn.w_down.data, w.final_norm};
        for (size_t k = 0; k < sizeof p / sizeof *p; k++)
            assert_true((const unsigned char *)p[k] >= from && (const unsigned char *)p[k] < to);
        assert_int_equal(ck.n_owned, 0);
        checkpoint_close(&ck);
    }
}

static void rope_rules_are_read_alike(void **state) {
    (void)state;
    static const struct {
        const char *hf, *gguf;
        RopeScaling scaling;
    } rule[] = {{"rope_linear_hf", "rope_linear.gguf", ROPE_SCALING_LINEAR},
                {"rope_yarn_hf", "rope_yarn.gguf", ROPE_SCALING_YARN},
                {"rope_dynamic_hf", NULL, ROPE_SCALING_DYNAMIC},
                {"rope_longrope_hf", NULL, ROPE_SCALING_LONGROPE},
                {"rope_llama3_hf", NULL, ROPE_SCALING_LLAMA3}};
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
        char path[256];
        Error e = {0};
        Checkpoint hf, gguf;
        snprintf(path, sizeof path, FIXTURES "%s", rule[i].hf);
        if (checkpoint_open(&hf, path, &e)) fail_msg("%s", e.text);
        assert_int_equal(hf.config.rope.scaling, rule[i].scaling);
        if (rule[i].gguf) {
            snprintf(path, sizeof path, FIXTURES "%s", rule[i].gguf);
            if (checkpoint_open(&gguf, path, &e)) fail_msg("%s", e.text);
            int n = gguf.config.n_ctx;
            double a[ROPE_MAX_PAIRS], b[ROPE_MAX_PAIRS], factor_a, factor_b;
            rope_inv_freq(a, &factor_a, &hf.config.rope, n);
            rope_inv_freq(b, &factor_b, &gguf.config.rope, n);
            assert_true(fabs(factor_a - factor_b) < 1e-6);
            for (int k = 0; k < hf.config.rope.rotary_dim / 2; k++) assert_true(fabs(a[k] / b[k] - 1) < 1e-6);
            checkpoint_close(&gguf);
        }
        checkpoint_close(&hf);
    }
}

static void cut_files_say_how_much_is_missing(void **state) {
    (void)state;
    static const char *const path[] = {FIXTURES "base_q4_1.gguf", FIXTURES "tied_v0.bin", FIXTURES "base_v2.bin",
                                       FIXTURES "ladder/gpt2/model.safetensors"};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        Bytes whole = load(path[i]);
        const size_t missing[] = {1, 7, 100, whole.n / 2};
        for (size_t k = 0; k < 4; k++) {
            char text[64];
            Error e = try_bytes(strrchr(path[i], '/') + 1, whole.data, whole.n - missing[k]);
            snprintf(text, sizeof text, "truncated by %zu bytes", missing[k]);
            assert_int_equal(expect(path[i], &e, text), 0);
        }
        free(whole.data);
    }
}

/* Only the end of a name says what a file is: a directory may be called anything. */
static void a_directory_does_not_name_the_format(void **state) {
    (void)state;
    static const char *const name[] = {"a.gguf.d", "a.safetensors.d"};
    for (int i = 0; i < 2; i++) {
        char path[256], file[300];
        Error e = {0};
        Checkpoint ck;
        assert_int_equal(mkdir(in_dir(path, name[i]), 0700), 0);
        Bytes b = load(FIXTURES "base_v0.bin");
        snprintf(file, sizeof file, "%s/base_v0.bin", path);
        save(file, b.data, b.n);
        free(b.data);
        if (checkpoint_open(&ck, file, &e)) fail_msg("%s", e.text);
        assert_int_equal(ck.format, FORMAT_LLAMA2C);
        checkpoint_close(&ck);
        unlink(file);
        rmdir(path);
    }
}

/* Which file a page is from: the message of one that shrinks while it is mapped. */
static void a_page_names_its_file(void **state) {
    (void)state;
    char path[FILE_PATH], real[FILE_PATH], *text;
    size_t n;
    File f;
    Error e = {0};
    assert_int_equal(file_map(&f, FIXTURES "base.gguf", &e), 0);
    assert_non_null(realpath(FIXTURES "base.gguf", real));
    assert_true(system_mapped_at(path, sizeof path, f.data + f.size - 1));
    assert_string_equal(path, real);
    file_close(&f);
    assert_false(system_mapped_at(path, sizeof path, path)); /* the stack is no file's */
    assert_int_equal(file_read(&text, &n, FIXTURES, &e), -1);
    assert_int_equal(expect("a directory", &e, FIXTURES ": file: expected a regular file, found a directory"), 0);
}

static void llama2c_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int at;
        int32_t value;
        const char *message;
    } edit[] = {
        {"base_v0.bin", 0, 0, "dim: expected a positive number, found 0"},
        {"base_v0.bin", 0, -32, "dim: expected a positive number, found -32"},
        {"base_v0.bin", 8, INT32_MAX, "n_layers: expected 1 to"},
        {"base_v0.bin", 12, 3, "n_heads: expected a divisor"},
        {"base_v0.bin", 12, 32, "head_dim: expected an even number"},
        {"base_v0.bin", 16, 0, "n_kv_heads"},
        {"base_v0.bin", 20, INT32_MIN, "vocab_size"},
        {"base_v0.bin", 20, 64, "too many"}, /* the sign says tied, yet a head follows */
        {"base_v0.bin", 24, INT32_MAX, "n_ctx: expected 1 to"},
        {"base_v0.bin", 24, 65, "truncated by 32 bytes"},
        {"tied_v0.bin", 20, -64, "truncated by"},
        {"base_v1.bin", 4, 99, "version: expected 1 or 2, found 99"},
        {"base_v1.bin", 36, 7, "shared_classifier: expected 0 or 1, found 7"},
        {"base_v2.bin", 37, 0, "group_size: expected 1 to"},
        {"base_v2.bin", 37, -4, "group_size: expected 1 to"},
        {"base_v2.bin", 37, 7, "multiple of the group size 7"},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        char path[256];
        snprintf(path, sizeof path, FIXTURES "%s", edit[i].file);
        Bytes b = load(path);
        memcpy(b.data + edit[i].at, &edit[i].value, sizeof edit[i].value);
        Error e = try_bytes(edit[i].file, b.data, b.n);
        bad += expect(edit[i].message, &e, edit[i].message);
        free(b.data);
    }
    assert_int_equal(bad, 0);
}

/* What is no model at all is called by its name. */
static void other_files_are_recognised(void **state) {
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t n;
        const char *message;
    } file[] = {
        {"m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 56, "Git LFS pointer"},
        {"m.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 56, "Git LFS pointer"},
        {"m.bin", "<!DOCTYPE html><html><body>404</body></html>", 44, "HTML page"},
        {"m.bin", "PK\x03\x04 and what follows in an archive", 35, "PyTorch pickle"},
        {"m.bin", "\x80\x02}q\x00 and what follows in a pickle.....", 38, "PyTorch pickle"},
        {"m.bin", "Once upon a time there was a text file.\n", 40, "a text file"},
        {"m.gguf", "FUGG\x03\0\0\0 and what follows of it", 31, "big-endian GGUF"},
        {"m.gguf", "GGUF", 4, "truncated"},
        {"m.bin", "\x01\0\0\0", 4, "header: expected 28 bytes, found 4"},
        {"m.bin", "", 0, "found an empty file"},
    };
    char path[256];
    int bad = 0;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        save(in_dir(path, file[i].name), file[i].bytes, file[i].n);
        Error e = try(path);
        bad += expect(file[i].message, &e, file[i].message);
        unlink(path);
    }
    Error e = try(in_dir(path, "not there"));
    bad += expect("missing", &e, "not there: file: expected to open it, found No such file");
    e = try("/dev/null");
    bad += expect("device", &e, "expected a regular file");
    copy_fixture(FIXTURES "base_hf/config.json", "config.json");
    unlink(in_dir(path, "model.safetensors"));
    e = try(dir);
    bad += expect("no weights", &e, "expected model.safetensors or its index, found neither");
    save(in_dir(path, "pytorch_model.bin"), "PK\x03\x04", 4);
    e = try(dir);
    bad += expect("pickle", &e, "found a PyTorch pickle (convert it");
    unlink(path);
    assert_int_equal(bad, 0);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_says_the_same),
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(rope_rules_are_read_alike),
        cmocka_unit_test(cut_files_say_how_much_is_missing),
        cmocka_unit_test_setup_teardown(a_directory_does_not_name_the_format, make_dir, remove_dir),
        cmocka_unit_test(a_page_names_its_file),
        cmocka_unit_test(llama2c_is_refused_by_name),
        cmocka_unit_test_setup_teardown(other_files_are_recognised, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

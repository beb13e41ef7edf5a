/* GGUF: parts of a split file, and one edit for each thing that must be refused by name. */
#include "model_files.h"

/* base_q4_1_split-0000N-of-00003.gguf: opened by any part, refused when one is missing or another model's. */
static void parts_of_a_gguf_are_opened_together(void **state) {
    (void)state;
#define PART(n) "base_q4_1_split-0000" #n "-of-00003.gguf"
    static const char *const part[] = {PART(1), PART(2), PART(3)};
    char path[256], from[256];
    Error e;
    for (int i = 0; i < 3; i++) {
        snprintf(from, sizeof from, FIXTURES "%s", part[i]);
        copy_fixture(from, part[i]);
    }
    for (int i = 0; i < 3; i++) {
        e = try(in_dir(path, part[i]));
        assert_int_equal(expect(part[i], &e, ""), 0);
    }
    rename(in_dir(path, part[1]), in_dir(from, "alone.gguf"));
    e = try(in_dir(path, part[0]));
    assert_int_equal(expect("a part is missing", &e, "found no part 2 of 3 ("), 0);
    e = try(from);
    assert_int_equal(expect("another name", &e, "expected a name that ends in -00002-of-00003.gguf"), 0);
    copy_fixture(FIXTURES PART(3), part[1]);
    e = try(in_dir(path, part[0]));
    assert_int_equal(expect("twice", &e, PART(2) ": split.no: expected part 2 of 3, found part 3 of 3"), 0);
    Bytes b = load(FIXTURES PART(2));
    save(in_dir(path, part[1]), b.data, b.n - 40);
    e = try(in_dir(path, part[0]));
    assert_int_equal(expect("cut", &e, PART(2) ": data: expected"), 0);
    free(b.data);
}

/* find - the place after `text` in a file that holds it. */
static char *after(Bytes b, const char *text) {
    char *at = memmem(b.data, b.n, text, strlen(text));
    assert_non_null(at);
    return at + strlen(text);
}

/* A GGUF fixture with some bytes changed: at an offset from the end of a name. */
static void gguf_is_refused_by_name(void **state) {
    (void)state;
    /* After a tensor's name: dimensions (4), each dimension (8), type (4), offset (8). */
    enum { DIMS = 0, DIM0 = 4, DIM1 = 12, TYPE = 20, OFFSET = 24 };
    static const char q[] = "blk.0.attn_q.weight";
    static const struct {
        const char *name;
        int at;
        const void *bytes;
        size_t n;
        const char *message;
    } edit[] = {
        {q, 0, "", 0, ""},
        {"GGUF", -4, "GGML", 4, "magic"},
        {"GGUF", 0, "\x01\0\0\0", 4, "version: expected 2 or 3, found 1"},
        {"GGUF", 0, "\0\0\0\x03", 4, "big-endian"},
        {"GGUF", 4, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "tensor count"},
        {"GGUF", 12, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "key count"},
        {"blk.0.attn_norm.weight", DIM1, "\x1a\0\0\0", 4,
         "blk.0.attn_norm.weight: type: expected F32, F16, BF16 or a quantized type this program knows, found I32"},
        {"output_norm.weight", DIM1, "\x18\0\0\0", 4, "found I8"},
        {"output_norm.weight", DIM1, "\x09\0\0\0", 4, "found Q8_1"},
        {q, TYPE, "\x0c\0\0\0", 4, "expected a multiple of 256 for Q4_K"},
        {q, TYPE, "\x28\0\0\0", 4, "expected a multiple of 64 for NVFP4"},
        {q, TYPE, "\x29\0\0\0", 4, "expected a multiple of 128 for Q1_0"},
        {q, TYPE, "\x04\0\0\0", 4, "type: expected one that ggml still has, found Q4_2: get the model as Q4_0"},
        {q, TYPE, "\x1f\0\0\0", 4, "found Q4_0_4_4: get the model as Q4_0, or quantize the original again"},
        {q, TYPE, "\x21\0\0\0", 4, "found Q4_0_8_8: get the model as Q4_0"},
        {q, TYPE, "\x26\0\0\0", 4, "found IQ4_NL_8_8: get the model as IQ4_NL"},
        {q, TYPE, "\x2b\0\0\0", 4, "blk.0.attn_q.weight: type: expected a ggml type, found 43"},
        {q, DIMS, "\x05\0\0\0", 4, "blk.0.attn_q.weight: dimensions: expected 1 to 4, found 5"},
        {q, DIM0, "\0\0\0\0\0\0\0\0", 8, "blk.0.attn_q.weight: dimension 0"},
        {q, DIM1, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "blk.0.attn_q.weight: dimension 1"},
        {q, DIM1, "\x08\0\0\0\0\0\0\0", 8, "blk.0.attn_q.weight: shape: expected [32, 32], found [8, 32]"},
        {q, OFFSET, "\x01", 1, "blk.0.attn_q.weight: offset: expected a multiple of 32"},
        {q, OFFSET, "\0\0\0\0\0\0\0\0", 8, "overlap"},
        {q, OFFSET, "\0\0\0\0\0\0\0\x80", 8, "blk.0.attn_q.weight: offset"},
        {q, OFFSET, "\0\0\x10\0\0\0\0\0", 8, "truncated by"},
        {q, -8, "k", 1, "expected once, found twice"}, /* attn_q -> attn_k */
        {q, -8, "z", 1, "blk.0.attn_z.weight: expected a tensor this program knows"},
        {q, -8, "\xff", 1, "UTF-8"},
        {q, -19, "blk.7", 5, "found layer 7"},
        {"llama.rope.freq_base", -1, "f", 1, "llama.rope.freq_basf: expected a key this program knows"},
        {"llama.rope.freq_base", 4, "\0\0\xc0\x7f", 4, "llama.rope.freq_base: expected a finite number"},
        {"llama.rope.freq_base", 0, "\x63", 1, "value type"},
        {"llama.block_count", 4, "\0\0\0\0", 4, "llama.block_count: expected 1 to"},
        {"llama.block_count", 4, "\xff\xff\xff\x7f", 4, "llama.block_count: expected 1 to 4096"},
        {"llama.attention.head_count", 4, "\x03\0\0\0", 4,
         "llama.attention.head_count: expected a divisor of llama.embedding_length 32, found 3"},
        {"llama.attention.head_count_kv", 4, "\x03\0\0\0", 4, "n_kv_heads: expected a divisor"},
        {"general.architecture", 12, "mamba", 5, "starcoder, found mamba"},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        Bytes b = load(FIXTURES "base_q4_1.gguf");
        char *at = after(b, edit[i].name) + edit[i].at;
        memcpy(at, edit[i].bytes, edit[i].n);
        Error e = try_bytes("x.gguf", b.data, b.n);
        char what[64];
        snprintf(what, sizeof what, "edit %zu (%s)", i, edit[i].name);
        bad += expect(what, &e, edit[i].message);
        free(b.data);
    }
    assert_int_equal(bad, 0);
}

/* A key more than the fixture has: what it changes and is not built is refused, what says nothing new is taken. */
static void gguf_keys_are_refused_by_name(void **state) {
    (void)state;
#define U32(x) (const uint32_t[]){x}, 4
#define F32(x) (const float[]){x}, 4
#define STR(x) "\0\0\0\0\0\0\0" x
    const struct {
        const char *key;
        uint32_t type;
        const void *value;
        size_t n;
        const char *message;
    } add[] = {
        {"llama.attention.sliding_window", GGUF_U32, U32(1), "sliding_window: expected none for a llama, found 1"},
        {"llama.attention.sliding_window", GGUF_U32, U32(64), ""}, /* as long as the context: no window */
        {"llama.attention.causal", GGUF_BOOL, "", 1, "llama.attention.causal: expected true, found false"},
        {"llama.attention.causal", GGUF_BOOL, "\2", 1, "boolean at byte"},
        {"llama.attention.causal", GGUF_U8, "\1", 1, "llama.attention.causal: expected a boolean, found u8"},
        {"llama.attention.value_length", GGUF_U32, U32(4), "value_length: expected the key length 8, found 4"},
        {"llama.vocab_size", GGUF_U32, U32(65), "vocab_size: expected 64, the rows of the embedding, found 65"},
        {"llama.vocab_size", GGUF_U8, "\100", 1, ""},
        {"llama.vocab_size", GGUF_I8, "\100", 1, ""},
        {"llama.vocab_size", GGUF_I8, "\377", 1, "vocab_size: expected 1 to 16777216, found -1"},
        {"llama.vocab_size", GGUF_U16, "\100", 2, ""},
        {"llama.vocab_size", GGUF_I16, "\100", 2, ""},
        {"llama.vocab_size", GGUF_U64, "\100\0\0\0\0\0\0", 8, ""},
        {"llama.vocab_size", GGUF_I64, "\100\0\0\0\0\0\0", 8, ""},
        {"llama.vocab_size", GGUF_U64, "\100\0\0\0\0\0\0\200", 8, "vocab_size: expected 1 to"},
        {"llama.vocab_size", GGUF_F32, F32(64), "vocab_size: expected an integer, found f32"},
        {"llama.logit_scale", GGUF_F32, F32(2), "logit_scale: expected 1, found 2, which is not supported"},
        {"llama.logit_scale", GGUF_F64, (const double[]){1}, 8, ""},
        {"llama.logit_scale", GGUF_U32, U32(1), ""},
        {"llama.attention.scale", GGUF_F32, F32(0), ""},
        {"llama.attention.scale", GGUF_F32, F32(0.35355338f), ""}, /* 1 / sqrt(8) as files keep it */
        {"llama.attention.scale", GGUF_F32, F32(0.5), "llama.attention.scale: expected 0.353553, found 0.5"},
        {"llama.rope.scaling.attn_factor", GGUF_F32, F32(2), ""},
        {"llama.rope.scaling.attn_factor", GGUF_F32, F32(-2), "attn_factor: expected a positive number, found -2"},
        {"llama.embedding_scale", GGUF_U64, "\0\0\0\0\0\0\0\200", 8, "embedding_scale: expected 1, found 9.22337e+18"},
        {"split.count", GGUF_U16, "\3", 2, "split.count: expected a name that ends in -00001-of-00003.gguf"},
        {"llama.logit_scale", GGUF_STRING,
         "\1\0\0\0\0\0\0\0"
         "1",
         9, "logit_scale: expected a number, found string"},
        {"llama.expert_count", GGUF_U32, U32(8),
         "llama.expert_used_count: expected 1 to the 8 experts there are, found 0"},
        {"llama.rope.scale_linear", GGUF_F32, F32(2), ""},
        {"llama.rope.scaling.type", GGUF_STRING, "\6" STR("linear"), 14,
         "rope.scaling.factor: expected the key, found none"},
        {"llama.rope.scaling.type", GGUF_STRING, "\4" STR("yarn"), 12,
         "rope.scaling.factor: expected the key, found none"},
        {"llama.rope.scaling.type", GGUF_STRING, "\6" STR("spiral"), 14,
         "expected none, linear, yarn or longrope, found spiral"},
        {"llama.rope.scaling.type", GGUF_U32, U32(1), "rope.scaling.type: expected a string, found u32"},
        {"llama.rope.scaling.factor", GGUF_F32, F32(2),
         "rope.scaling.type: expected a type for the factor 2, found none"},
        {"llama.block_count", GGUF_U32, U32(2), "key llama.block_count: expected once, found twice"},
        {"general.alignment", GGUF_U32, U32(12), "general.alignment: expected a multiple of 8, found 12"},
        {"general.alignment", GGUF_U32, U32(0), "general.alignment: expected 1 to"},
        {"any", GGUF_ARRAY,
         "\143\0\0\0\1\0\0\0\0\0\0\0"
         "0",
         13, "array type at byte"},
        {"any", GGUF_ARRAY, "\4\0\0\0\377\377\377\377\377\377\377\377", 12, "array length at byte"},
        {"any", GGUF_ARRAY, "\7\0\0\0\1\0\0\0\0\0\0\0\5", 13, "boolean at byte"},
        {"", GGUF_U32, U32(1), "key at byte 32: expected a name"},
        {"tokenizer.ggml.tokens", GGUF_ARRAY, "\4\0\0\0\0\0\0\0\0\0\0\0", 12, "tokens: expected an array of strings"},
        {"tokenizer.ggml.tokens", GGUF_ARRAY,
         "\10\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
         "a",
         21, "tokens: expected 64, the rows of the embedding, found 1"},
        {"tokenizer.ggml.eos_token_id", GGUF_U32, U32(64), "tokenizer.ggml.eos_token_id: expected 0 to 63, found 64"},
    };
    int bad = 0;
    Bytes b = load(FIXTURES "base_q4_1.gguf");
    for (size_t i = 0; i < sizeof add / sizeof *add; i++) {
        size_t n;
        char what[80], *bytes = gguf_with_key(b.data, b.n, add[i].key, add[i].type, add[i].value, add[i].n, &n);
        Error e = try_bytes("x.gguf", bytes, n);
        snprintf(what, sizeof what, "key %zu (%s)", i, add[i].key);
        bad += expect(what, &e, add[i].message);
        free(bytes);
    }
    free(b.data);
    assert_int_equal(bad, 0);
}

/* Arrays in arrays end before the stack does. */
static void gguf_nesting_has_a_limit(void **state) {
    (void)state;
    enum { LEVELS = 5000, HEAD = 24, KEY = 8 + 1 + 4, LEVEL = 12 };
    size_t n = HEAD + KEY + LEVELS * LEVEL + 64;
    unsigned char *bytes = calloc(n, 1), *p = bytes;
    assert_non_null(bytes);
    memcpy(p, "GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", HEAD);
    memcpy(p + HEAD, "\x01\0\0\0\0\0\0\0k\x09\0\0\0", KEY);
    p += HEAD + KEY;
    for (int i = 0; i < LEVELS; i++, p += LEVEL) memcpy(p, "\x09\0\0\0\x01\0\0\0\0\0\0\0", LEVEL);
    File f = {.data = bytes, .size = n, .path = "x.gguf"};
    Gguf g;
    Error e = {0};
    assert_int_equal(gguf_open(&g, &f, &e), -1);
    assert_int_equal(expect("nesting", &e, "nested arrays"), 0);
    free(bytes);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_of_a_gguf_are_opened_together, make_dir, remove_dir),
        cmocka_unit_test(gguf_is_refused_by_name),
        cmocka_unit_test(gguf_keys_are_refused_by_name),
        cmocka_unit_test(gguf_nesting_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

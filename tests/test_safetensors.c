/* Tensors of a Hugging Face model: families, heads, shards, and one edit for each thing that must be refused by name.
 */
#include "model_files.h"

/* A family is a row: this one is in no table, with names and defaults of its own. */
static void a_family_is_a_row(void **state) {
    (void)state;
    static const KeyName keys[] = {{KEY_DIM, "width", NAN},
                                   {KEY_N_CTX, NULL, 77},
                                   {KEY_N_KV_HEADS, "groups", 2},
                                   {KEY_NORM_EPS, "tiny", 0.25},
                                   {KEY_COUNT, NULL, 0}};
    static const TensorName tensors[] = {{FIELD_TOK_EMB, "words"},
                                         {FIELD_WQ, NULL},
                                         {FIELD_WK, NULL},
                                         {FIELD_WV, NULL},
                                         {FIELD_QKV, "model.layers.#.mixed"},
                                         {FIELD_END, NULL}};
    static const Arch madeup = {.name = "madeup",
                                .class_name = "MadeUpForCausalLM",
                                .norm = NORM_RMSNORM,
                                .ffn = FFN_SWIGLU,
                                .pos = POS_ROPE,
                                .hf_pairing = ROPE_PAIRS,
                                .keys = keys,
                                .tensors = tensors};
    static const char config[] = "{\"model_type\": \"madeup\", \"width\": 4, \"intermediate_size\": 2, "
                                 "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 3, "
                                 "\"tie_word_embeddings\": true}";
    static const struct {
        const char *name;
        int rows, cols;
    } shape[] = {{"words", 3, 4},
                 {"model.norm.weight", 0, 4},
                 {"model.layers.0.input_layernorm.weight", 0, 4},
                 {"model.layers.0.mixed", 12, 4},
                 {"model.layers.0.self_attn.o_proj.weight", 4, 4},
                 {"model.layers.0.post_attention_layernorm.weight", 0, 4},
                 {"model.layers.0.mlp.gate_proj.weight", 2, 4},
                 {"model.layers.0.mlp.up_proj.weight", 2, 4},
                 {"model.layers.0.mlp.down_proj.weight", 4, 2}};
    char header[2048] = "{";
    float values[256];
    size_t n = 1, at = 0;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        int count = (shape[i].rows ? shape[i].rows : 1) * shape[i].cols;
        n += (size_t)snprintf(header + n, sizeof header - n, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", i ? "," : "",
                              shape[i].name);
        if (shape[i].rows) n += (size_t)snprintf(header + n, sizeof header - n, "%d,", shape[i].rows);
        n += (size_t)snprintf(header + n, sizeof header - n, "%d],\"data_offsets\":[%zu,%zu]}", shape[i].cols, 4 * at,
                              4 * (at + (size_t)count));
        at += (size_t)count;
    }
    header[n++] = '}';
    while (n % 8) header[n++] = ' ';
    for (size_t i = 0; i < at; i++) values[i] = (float)i;
    char file[4096];
    uint64_t length = n;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, values, 4 * at);
    memory_clear();
    memory_put("config.json", config, sizeof config - 1);
    memory_put("model.safetensors", file, 8 + n + 4 * at);
    Error e = {0};
    Checkpoint ck;
    Config c;
    Weights w;
    assert_int_equal(checkpoint_open(&ck, MEMORY "/model.safetensors", &e), -1);
    assert_int_equal(expect("by its name", &e, "model_type: expected one of llama, mistral, "), 0);
    e.text[0] = 0;
    if (checkpoint_open_as(&ck, MEMORY "/model.safetensors", &madeup, &e) || checkpoint_bind(&ck, &c, &w, &e))
        fail_msg("%s", e.text);
    assert_string_equal(ck.arch, "madeup");
    assert_true(c.dim == 4 && c.n_ctx == 77 && c.n_kv_heads == 2 && c.norm_eps == 0.25f && c.head_dim == 2);
    assert_int_equal(c.rope.pairing, ROPE_PAIRS);
    const Mat *parts[] = {&w.layers[0].attn.wq, &w.layers[0].attn.wk, &w.layers[0].attn.wv};
    for (int i = 0; i < 3; i++) { /* q, k and v are rows of one tensor, which begins with value 20 */
        assert_int_equal(parts[i]->rows, 4);
        float row[4];
        mat_dequantize_row(row, parts[i], 1);
        assert_true(row[3] == (float)(20 + 4 * (4 * i + 1) + 3));
    }
    checkpoint_close(&ck);
    memory_clear();
}

/* A file that says its head is the embedding, and has another head: transformers 5 keeps both. */
static void another_head_is_not_tied(void **state) {
    (void)state;
    Bytes config = load(FIXTURES "base_hf/config.json"), weights = load(FIXTURES "base_hf/model.safetensors");
    char *tie = strstr(config.data, "\"tie_word_embeddings\": false");
    memcpy(tie, "\"tie_word_embeddings\": true ", strlen("\"tie_word_embeddings\": false"));
    Error e = {0};
    for (int same = 0; same < 2; same++) {
        Checkpoint ck;
        Config c;
        Weights w;
        memory_clear();
        memory_put("config.json", config.data, config.n);
        memory_put("model.safetensors", weights.data, weights.n);
        if (checkpoint_open(&ck, MEMORY "/model.safetensors", &e)) fail_msg("%s", e.text);
        Tensor *emb = NULL;
        for (size_t i = 0; i < ck.n_tensors; i++)
            if (ck.tensors[i].field == FIELD_TOK_EMB) emb = &ck.tensors[i];
        for (size_t i = 0; i < ck.n_tensors && same; i++)
            if (ck.tensors[i].field == FIELD_LM_HEAD) ck.tensors[i].mat = emb->mat;
        if (checkpoint_bind(&ck, &c, &w, &e)) fail_msg("%s", e.text);
        assert_int_equal(c.tied, same);
        assert_int_equal(w.lm_head.data == w.tok_emb.data, same);
        checkpoint_close(&ck);
    }
    memory_clear();
    free(config.data);
    free(weights.data);
}

/* A whole file goes before an index that lies beside it, as in transformers. */
static void a_stale_index_is_not_read(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\": {\"lm_head.weight\": \"model-00001-of-00002.safetensors\"}}";
    char path[256];
    copy_fixture(FIXTURES "base_hf/config.json", "config.json");
    copy_fixture(FIXTURES "base_hf/model.safetensors", "model.safetensors");
    save(in_dir(path, "model.safetensors.index.json"), index, sizeof index - 1);
    Error e = try(dir);
    assert_int_equal(expect("whole", &e, ""), 0);
    unlink(in_dir(path, "model.safetensors"));
    e = try(dir);
    assert_int_equal(expect("index", &e, "model-00001-of-00002.safetensors: file: expected to open it"), 0);
}

static void safetensors_are_refused_by_name(void **state) {
    (void)state;
#define ONE "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } file[] = {
        {ONE "}", 8, ""},
        {ONE "}", 7, "truncated by 1 bytes"},
        {ONE "}", 9, "1 more bytes"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "overlap"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16, "hole"},
        {ONE ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "found twice"},
        {ONE ",\"b\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "b: dtype"},
        {ONE ",\"b\":{\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "b: dtype"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,12]}}", 12, "expected 8 bytes"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[8,12]}}", 12, "b: shape"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[8,12]}}", 12, "b: shape"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[8,12]}}", 12, "b: shape"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,8]}}", 12, "b: data_offsets"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8]}}", 12, "b: data_offsets"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8.5,12.5]}}", 12, "b: data_offsets"},
        {ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551624,18446744073709551628]}}",
         12, "b: data_offsets"},
        {ONE ",\"b\":7}", 8, "b: dtype"},
        {ONE ",\"__metadata__\":{\"format\":\"pt\"}}", 8, ""},
        {ONE ",\"__metadata__\":[1]}", 8, "__metadata__"},
        {ONE, 8, "JSON"},
        {"[]", 8, "expected an object"},
        {"{}", 0, "tensors: expected some"},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        uint64_t header = strlen(file[i].header);
        size_t n = sizeof header + (size_t)header + file[i].data;
        unsigned char *bytes = calloc(n, 1);
        assert_non_null(bytes);
        memcpy(bytes, &header, sizeof header);
        memcpy(bytes + sizeof header, file[i].header, (size_t)header);
        File f = {.data = bytes, .size = n, .path = "x.safetensors"};
        SafeTensors st;
        Error e = {0};
        if (safetensors_open(&st, &f, &e) == 0) safetensors_close(&st);
        bad += expect(file[i].header, &e, file[i].message);
        header = n; /* longer than the file */
        memcpy(bytes, &header, sizeof header);
        e = (Error){0};
        assert_int_equal(safetensors_open(&st, &f, &e), -1);
        bad += expect("long header", &e, "header length");
        free(bytes);
    }
    assert_int_equal(bad, 0);
}

static void shards_stay_in_their_directory(void **state) {
    (void)state;
#define SECOND "model-00002-of-00002.safetensors"
    static const struct {
        const char *from, *to, *message;
    } edit[] = {
        {"", "", ""},
        {SECOND, "../" SECOND, "expected a file in the same directory"},
        {SECOND, "/etc/passwd", "expected a file in the same directory"},
        {SECOND, "", "expected a file in the same directory"},
        {SECOND, "missing.safetensors", "missing.safetensors: file: expected to open it"},
        {SECOND, "model-00001-of-00002.safetensors", "missing"}, /* the index puts a tensor where it is not */
        {"\"model.norm.weight\"", "\"model.norm.bias\"", "model.norm.weight: expected the index to map it here"},
        {"\"weight_map\"", "\"weight_plan\"", "weight_map: expected an object with tensors, found none"},
        {"\"" SECOND "\"", "17", "expected a file name"},
    };
    char path[256], text[8192];
    int bad = 0;
    copy_fixture(FIXTURES "mqa_head_dim_hf/config.json", "config.json");
    copy_fixture(FIXTURES "mqa_head_dim_hf/model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors");
    copy_fixture(FIXTURES "mqa_head_dim_hf/" SECOND, SECOND);
    Bytes b = load(FIXTURES "mqa_head_dim_hf/model.safetensors.index.json");
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        const char *at = strstr(b.data, edit[i].from);
        assert_non_null(at);
        int n =
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - b.data), b.data, edit[i].to, at + strlen(edit[i].from));
        save(in_dir(path, "model.safetensors.index.json"), text, (size_t)n);
        Error e = try(dir);
        bad += expect(edit[i].to, &e, edit[i].message);
    }
    unlink(path);
    free(b.data);
    assert_int_equal(bad, 0);
}

/* The first `from` of a safetensors header replaced; the file grows or shrinks with it. */
static Bytes with_header(const char *path, const char *from, const char *to) {
    Bytes b = load(path), out = {malloc(b.n + strlen(to)), 0};
    char *at = memmem(b.data, b.n, from, strlen(from));
    assert_true(at && out.data);
    size_t before = (size_t)(at - b.data), n_from = strlen(from), n_to = strlen(to);
    uint64_t header;
    memcpy(&header, b.data, sizeof header);
    header = header + n_to - n_from;
    memcpy(out.data, b.data, before);
    memcpy(out.data, &header, sizeof header);
    memcpy(out.data + before, to, n_to);
    memcpy(out.data + before + n_to, at + n_from, b.n - before - n_from);
    out.n = b.n + n_to - n_from;
    free(b.data);
    return out;
}

static void hf_tensors_are_refused_by_name(void **state) {
    (void)state;
#define BASE FIXTURES "base_hf/"
#define Q    "model.layers.0.self_attn.q_proj.weight"
#define QKV  "h.0.attn.c_attn"
    static const struct {
        const char *dir, *from, *to, *message;
    } edit[] = {
        {BASE, "", "", ""},
        {BASE, Q "\":{\"dtype\":\"F32\"", Q "\":{\"dtype\":\"I32\"", Q ": dtype: expected F32, F16 or BF16, found I32"},
        {BASE, Q "\":{\"dtype\":\"F32\",\"shape\":[32,32]", Q "\":{\"dtype\":\"F32\",\"shape\":[1,32,32]",
         "expected 1 or 2 dimensions, found 3"},
        {BASE, Q, "model.layers.0.self_attn.q_proj.bias", "expected no bias (attention_bias is false), found one"},
        {BASE, Q, "model.layers.0.self_attn.qkv_proj.weight", "qkv_proj.weight: expected a tensor this program knows"},
        {BASE, Q, "score.weight", "wq of layer 0: expected the tensor, found none"}, /* a head of another task */
        {BASE, Q, "model.layers.00.self_attn.q_proj.weight", "expected a tensor this program knows"},
        {BASE, "model.norm.weight", "model.norm.bias", "model.norm.bias: expected no such tensor with this config"},
        {BASE, "model.norm.weight", "model.embed_positions.weight", "expected no such tensor with this config"},
        {BASE, "{\"format\":\"pt\"}", "{\"format\":1}", "__metadata__: expected strings"},
        {BASE, "\"lm_head.weight\":",
         "\"nothing\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"lm_head.weight\":", ""},
        {BASE, "\"lm_head.weight\":",
         "\"model.norm.x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"lm_head.weight\":",
         "model.norm.x: expected a tensor this program knows"},
        {GPT2, "", "", ""},
        {GPT2, QKV ".weight\":{\"dtype\":\"F32\",\"shape\":[16,48]",
         QKV ".weight\":{\"dtype\":\"F32\",\"shape\":[48,16]", "shape: expected 48 outputs, found 16"},
        {GPT2, QKV ".bias\":{\"dtype\":\"F32\",\"shape\":[48]", QKV ".bias\":{\"dtype\":\"F32\",\"shape\":[3,16]",
         "shape: expected 48 outputs, found"},
        {GPT2, "transformer." QKV ".bias", QKV ".bias", ""},
        {GPT2, "transformer.h.1.ln_1.bias", "transformer.h.0.ln_1.x", "expected a tensor this program knows"},
        {GPT2, "transformer." QKV ".bias", "score.bias", "as in layer 0"},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        char path[128];
        snprintf(path, sizeof path, "%smodel.safetensors", edit[i].dir);
        Bytes weights = with_header(path, edit[i].from, edit[i].to);
        snprintf(path, sizeof path, "%sconfig.json", edit[i].dir);
        Bytes config = load(path);
        memory_clear();
        memory_put("model.safetensors", weights.data, weights.n);
        memory_put("config.json", config.data, config.n);
        Error e = try(MEMORY);
        bad += expect(edit[i].to, &e, edit[i].message);
        free(weights.data);
        free(config.data);
    }
    memory_clear();
    assert_int_equal(bad, 0);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_a_row),
        cmocka_unit_test(another_head_is_not_tied),
        cmocka_unit_test_setup_teardown(a_stale_index_is_not_read, make_dir, remove_dir),
        cmocka_unit_test(safetensors_are_refused_by_name),
        cmocka_unit_test_setup_teardown(shards_stay_in_their_directory, make_dir, remove_dir),
        cmocka_unit_test(hf_tensors_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

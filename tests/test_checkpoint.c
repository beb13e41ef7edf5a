/* The readers against good files, and one small file for each thing that must be refused by name. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/hf.h"
#include "io/safetensors.h"
#include "model.h"
#include "untrusted.h"

#include <cmocka.h> /* last: it makes fail a macro */

#define FIXTURES "tests/fixtures/"

typedef struct {
    char *data;
    size_t n;
} Bytes;

static Bytes load(const char *path) {
    Error e = {0};
    Bytes b;
    if (file_read(&b.data, &b.n, path, &e)) fail_msg("%s", e.text);
    return b;
}

static void save(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int expect(const char *what, const Error *e, const char *part) {
    if (*part ? strstr(e->text, part) != NULL : e->text[0] == 0) return 0;
    print_error("%s: expected a message with '%s', found '%s'\n", what, part, e->text);
    return 1;
}

/* The bytes as a file of that name, used as a model; why it was refused, or "". */
static Error try_bytes(const char *name, const void *data, size_t n) {
    char path[128];
    memory_clear();
    memory_put(name, data, n);
    snprintf(path, sizeof path, MEMORY "/%s", name);
    use_model(path);
    memory_clear();
    return outcome;
}

/* ---- Good files --------------------------------------------------------------------------------------- */

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

/* ---- Cut files (tests/fuzz/replay.c cuts small ones of every format at every byte) ------------------------ */

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

/* ---- A directory of its own for files that are opened by name ---------------------------------------- */

static char dir[64];

static const char *in_dir(char out[256], const char *name) {
    snprintf(out, 256, "%s/%s", dir, name);
    return out;
}

static int make_dir(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/checkpoint-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char path[600];
    DIR *d = opendir(dir);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    return rmdir(dir);
}

static Error try(const char *path) {
    use_model(path);
    return outcome;
}

static void copy_fixture(const char *from, const char *name) {
    char path[256];
    Bytes b = load(from);
    save(in_dir(path, name), b.data, b.n);
    free(b.data);
}

/* config.json with one piece of text replaced. */
static void config_json_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message; /* message "": accepted */
    } edit[] = {
        {"", "", ""},
        {"\"silu\"", "\"gelu\"", ""},
        {"\"silu\"", "7", "hidden_act: expected silu, found no string"},
        {"\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true"},
        {"\"attention_bias\": false", "\"attention_bias\": true", "attention_bias is true"},
        {"\"mlp_bias\": false", "\"sliding_window\": 16", "sliding_window"},
        {"\"mlp_bias\": false", "\"sliding_window\": null", ""},
        {"\"mlp_bias\": false", "\"sliding_window\": 4096", ""},
        {"\"mlp_bias\": false", "\"attn_logit_softcapping\": 30.0", "attn_logit_softcapping"},
        {"\"mlp_bias\": false", "\"logit_scale\": 0.5", "logit_scale"},
        {"\"mlp_bias\": false", "\"num_local_experts\": 8", "num_local_experts"},
        /* false and null are values like others: only keys that are known to change nothing pass */
        {"\"mlp_bias\": false", "\"is_causal\": false", "is_causal: expected true, found false"},
        {"\"mlp_bias\": false", "\"is_causal\": true", ""},
        {"\"mlp_bias\": false", "\"use_rope\": false", "use_rope: expected a key this program knows"},
        {"\"mlp_bias\": false", "\"norm_topk_prob\": false", "norm_topk_prob: expected a key this program knows"},
        {"\"mlp_bias\": false", "\"rope_kind\": null", "rope_kind: expected a key this program knows"},
        {"\"mlp_bias\": false", "\"quantization_config\": null", ""},
        {"\"mlp_bias\": false", "\"quantization_config\": {}", "quantization_config: expected null"},
        {"\"mlp_bias\": false", "\"pruned_heads\": {}", ""},
        {"\"mlp_bias\": false", "\"pruned_heads\": {\"0\": [1]}", "pruned_heads: expected null"},
        {"\"mlp_bias\": false", "\"attn_logit_softcapping\": null", ""},
        {"\"mlp_bias\": false", "\"use_mrope\": false, \"tie_encoder_decoder\": false", ""},
        {"\"mlp_bias\": false", "\"multi_query\": true", "multi_query: expected 0, found 1"},
        /* what transformers 4.30 to 4.51 write */
        {"\"mlp_bias\": false",
         "\"_attn_implementation_autoset\": true, \"pretraining_tp\": 1, \"cross_attention_hidden_size\": null, "
         "\"is_encoder_decoder\": false, \"torchscript\": false, \"tf_legacy_loss\": false, \"_flash_attn_2_enabled\": "
         "true, \"output_scores\": false, \"typical_p\": 1.0, \"cache_implementation\": \"hybrid\"",
         ""},
        {"\"bos_token_id\": 1", "\"bos_token_id\": 50256", ""}, /* outside the vocabulary: none */
        {"\"bos_token_id\": 1", "\"bos_token_id\": 1.5", "bos_token_id: expected an integer"},
        {"\"mlp_bias\": false", "\"rope_interleaved\": true", ""},     /* transformers does not read it */
        {"\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5", ""}, /* nor this, with the default rule */
        {"\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2, \"partial_rotary_factor\": 0.5",
         "partial_rotary_factor: expected 1 for llama with a RoPE rule, found 0.5"},
        {"\"mlp_bias\": false", "\"head_dim\": 8", "\"head_dim\": expected once, found twice"},
        {"\"mlp_bias\": false", "\"mlp_bias\": \"no\"", "mlp_bias: expected true or false"},
        {"\"vocab_size\": 64", "\"vocab_size\": 65", "shape: expected [65, 32], found [64, 32]"},
        {"\"vocab_size\": 64", "\"vocab_size\": 64.5", "vocab_size: expected an integer"},
        {"\"vocab_size\": 64", "\"vocab_size\": 1e300", "vocab_size: expected an integer"},
        {"\"hidden_size\": 32", "\"hidden_size\": 0", "hidden_size"},
        {"\"hidden_size\": 32", "\"hidden_size\": -32", "hidden_size"},
        {"\"hidden_size\": 32,", "", "hidden_size: expected the key, found none"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "of layer 2: expected the tensor, found none"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "expected layers 0 to 0, found layer 1"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "n_kv_heads: expected a divisor"},
        {"\"head_dim\": 8", "\"head_dim\": 7", "head_dim: expected an even number"},
        {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", ""},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"spiral\"", "found spiral"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"linear\"", "expected factor, found none"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 0.5", "factor"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2", ""},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"twist\": 2", "rope_parameters.twist"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": -1", "rope_theta: expected a positive number"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": 1e999", "rope_theta"},
        {"\"model_type\": \"llama\"", "\"model_type\": \"rwkv\"", "llama_swap, found rwkv"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": -1", "norm eps"},
        {"\"silu\"", "\"\xff\"", "expected UTF-8, found byte 0xff"},
        {"\"eos_token_id\": 2\n}", "\"eos_token_id\": 2\n} more", "expected its end"},
        {"\"eos_token_id\": 2", "\"eos_token_id\": \"</s>\"", "eos_token_id"},
        {"\"eos_token_id\": 2", "\"eos_token_id\": -1", ""}, /* none */
        {"\"rope_type\": \"default\"", "\"rope_type\": 7", "rope_parameters.rope_type: expected a string"},
        {"\"rope_type\": \"default\"", "\"type\": 7", "rope_parameters.type: expected a string"},
        {"\"rope_type\": \"default\"", "\"factor\": 2", "rope_parameters: expected rope_type, found none"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"llama3\", \"factor\": 2",
         "expected original_max_position_embeddings, found none"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "expected factor, found none"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"yarn\", \"original_max_position_embeddings\": 16", ""},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"longrope\", \"short_factor\": [1]",
         "short_factor: expected a list of 4 numbers"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"longrope\", \"short_factor\": [1, 0, 1, 1]",
         "short_factor[1]: expected a positive number"},
        {"\"rope_type\": \"default\"", "\"partial_rotary_factor\": 1.5",
         "partial_rotary_factor: expected above 0 and at most 1"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": \"big\"", "rope_theta: expected a number"},
        {"\"rope_parameters\": {\n  \"rope_theta\": 10000.0,\n  \"rope_type\": \"default\"\n }",
         "\"rope_scaling\": [2]", "rope_scaling: expected an object, found something else"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 1048576",
         "num_attention_heads: expected an integer from 1 to 65536"},
        {"\"model_type\": \"llama\"", "\"model_type\": \"llama_swap\"",
         "norm: expected layernorm or rmsnorm, found none"},
        {"\"mlp_bias\": false", "\"mlp_bias\": false, \"use_sliding_window\": \"no\"",
         "use_sliding_window: expected true or false"},
    };
    int bad = 0;
    char path[256], text[4096];
    copy_fixture(FIXTURES "base_hf/model.safetensors", "model.safetensors");
    Bytes b = load(FIXTURES "base_hf/config.json");
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        const char *at = strstr(b.data, edit[i].from);
        assert_non_null(at);
        int n =
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - b.data), b.data, edit[i].to, at + strlen(edit[i].from));
        save(in_dir(path, "config.json"), text, (size_t)n);
        Error e = try(dir);
        bad += expect(edit[i].to, &e, edit[i].message);
    }
    static char deep[20001];
    memset(deep, '[', sizeof deep - 1);
    save(path, deep, sizeof deep - 1);
    Error e = try(dir);
    bad += expect("20000 brackets", &e, "JSON");
    save(path, "[]", 2);
    e = try(dir);
    bad += expect("an array", &e, "expected an object");
    unlink(path);
    e = try(dir);
    bad += expect("no config.json", &e, "config.json: file: expected to open it");
    free(b.data);
    assert_int_equal(bad, 0);
}

/* What config.json leaves out is what transformers' MistralConfig has then. Its window is the first layer's. */
static void mistral_has_its_own_defaults(void **state) {
    (void)state;
    static const struct {
        const char *more, *message;
        int window, n_ctx;
    } config[] = {
        {"\"num_key_value_heads\": 2, \"max_position_embeddings\": 4096", "", 4096, 4096},
        {"\"num_key_value_heads\": 2", "", 4096, 131072},
        {"\"num_key_value_heads\": 2, \"sliding_window\": null", "", 0, 131072},
        {"\"num_key_value_heads\": 2, \"sliding_window\": 8, \"use_sliding_window\": false", "", 8, 131072},
        {"\"sliding_window\": null", "n_kv_heads: expected a divisor of the 4 heads, found 8", 0, 0},
        {"\"num_key_value_heads\": null, \"sliding_window\": -1", "sliding_window: expected an integer from 0", 0, 0},
    };
    int bad = 0;
    Bytes b = load(FIXTURES "base_hf/model.safetensors");
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        char text[512];
        int n = snprintf(
            text, sizeof text,
            "{\"model_type\": \"mistral\", \"hidden_size\": 32, \"intermediate_size\": 32, \"num_hidden_layers\": 2, "
            "\"num_attention_heads\": 4, \"vocab_size\": 64, %s}",
            config[i].more);
        memory_clear();
        memory_put("config.json", text, (size_t)n);
        memory_put("model.safetensors", b.data, b.n);
        Error e = {0};
        Checkpoint ck;
        Config c;
        Weights w;
        if (checkpoint_open(&ck, MEMORY "/model.safetensors", &e) == 0) {
            if (checkpoint_bind(&ck, &c, &w, &e)) fail_msg("%s", e.text);
            assert_int_equal(w.layers[1].attn.window, config[i].window);
            assert_int_equal(c.n_ctx, config[i].n_ctx);
            checkpoint_close(&ck);
        }
        bad += expect(config[i].more, &e, config[i].message);
    }
    memory_clear();
    free(b.data);
    assert_int_equal(bad, 0);
}

/* The reader's rope with a piece of config.json replaced. */
static RopeConfig rope_with(const char *from, const char *to) {
    Bytes b = load(FIXTURES "base_hf/config.json"), weights = load(FIXTURES "base_hf/model.safetensors");
    char text[4096];
    const char *at = strstr(b.data, from);
    assert_non_null(at);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - b.data), b.data, to, at + strlen(from));
    Error e = {0};
    Checkpoint ck;
    memory_clear();
    memory_put("config.json", text, (size_t)n);
    memory_put("model.safetensors", weights.data, weights.n);
    if (checkpoint_open(&ck, MEMORY "/model.safetensors", &e)) fail_msg("%s: %s", to, e.text);
    RopeConfig rope = ck.config.rope;
    checkpoint_close(&ck);
    memory_clear();
    free(b.data);
    free(weights.data);
    return rope;
}

/* Which of two keys counts, as RotaryEmbeddingConfigMixin of transformers 5 has it. */
static void rope_keys_have_an_order(void **state) {
    (void)state;
#define DEFAULT "\"rope_parameters\": {\n  \"rope_theta\": 10000.0,\n  \"rope_type\": \"default\"\n }"
    RopeConfig r = rope_with(DEFAULT, DEFAULT ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}");
    assert_int_equal(r.scaling, ROPE_SCALING_LINEAR); /* rope_scaling before rope_parameters */
    r = rope_with(DEFAULT, DEFAULT ", \"rope_scaling\": {}");
    assert_int_equal(r.scaling, ROPE_SCALING_NONE);
    r = rope_with(DEFAULT,
                  "\"original_max_position_embeddings\": 16, \"rope_scaling\": {\"type\": \"yarn\", \"rope_theta\": "
                  "500.0, \"factor\": 4, \"beta_fast\": 0, \"truncate\": false, \"attention_factor\": 1.5, "
                  "\"original_max_position_embeddings\": 32}, \"rope_theta\": 1000.0");
    assert_int_equal(r.scaling, ROPE_SCALING_YARN);
    assert_int_equal(r.original_ctx, 16); /* the key outside before the one inside */
    assert_true(r.theta == 500 && r.beta_fast == 32 && r.beta_slow == 1 && !r.truncate && r.attention_factor == 1.5);
    r = rope_with("\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5, \"rope_interleaved\": true");
    assert_int_equal(r.rotary_dim, 8); /* Llama's default rule rotates everything, in halves */
    assert_int_equal(r.pairing, ROPE_HALF);
}

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

/* What a config.json may leave out is what the family's class in transformers has: families/defaults.tsv. */
static void every_family_has_its_defaults(void **state) {
    (void)state;
    FILE *f = fopen(FIXTURES "families/defaults.tsv", "r");
    assert_non_null(f);
    char line[512], kind[64], rule[64], windows[64], text[512];
    int n = 0, bad = 0;
    while (fgets(line, sizeof line, f)) {
        int n_ctx, kv, head_dim, rotary_dim, tied;
        double eps, theta;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%63s %d %d %d %lf %lf %63s %d %d %63s", kind, &n_ctx, &kv, &head_dim, &eps,
                                &theta, rule, &rotary_dim, &tied, windows),
                         10);
        int size =
            snprintf(text, sizeof text,
                     "{\"model_type\": \"%s\", \"vocab_size\": 48, \"hidden_size\": 1280, \"intermediate_size\": "
                     "64, \"num_hidden_layers\": 4, \"num_attention_heads\": 160}",
                     kind);
        memory_clear();
        memory_put("config.json", text, (size_t)size);
        Error e = {0};
        HfConfig hf;
        Checkpoint ck = {.path = strdup(MEMORY)};
        if (hf_config_read(&ck, MEMORY "/config.json", &hf, &e)) fail_msg("%s: %s", kind, e.text);
        const Config *c = &ck.config;
        char found[64] = "";
        for (int i = 0; i < 4; i++)
            sprintf(found + strlen(found), "%s%d", i ? "," : "",
                    ck.layer_kinds[i].windowed ? ck.layer_kinds[i].window : 0);
        if (c->n_ctx != n_ctx || c->n_kv_heads != kv || c->head_dim != head_dim || c->norm_eps != (float)eps ||
            c->rope.theta != theta || strcmp(rope_rules[c->rope.scaling].name, rule) ||
            c->rope.rotary_dim != rotary_dim || c->tied != tied || strcmp(found, windows)) {
            print_error("%s: %d %d %d %g %g %s %d %d %s\n", kind, c->n_ctx, c->n_kv_heads, c->head_dim,
                        (double)c->norm_eps, c->rope.theta, rope_rules[c->rope.scaling].name, c->rope.rotary_dim,
                        c->tied, found);
            bad++;
        }
        n++;
        checkpoint_close(&ck);
    }
    fclose(f);
    memory_clear();
    assert_true(n >= 30);
    assert_int_equal(bad, 0);
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

/* All end tokens count: those of config.json and those of generation_config.json, each once. */
static void end_tokens_are_merged(void **state) {
    (void)state;
    char path[256];
    Error e = {0};
    Checkpoint ck;
    static const char generation[] = "{\"eos_token_id\": [2, 7, 9], \"temperature\": 0.6}";
    copy_fixture(FIXTURES "base_hf/config.json", "config.json");
    copy_fixture(FIXTURES "base_hf/model.safetensors", "model.safetensors");
    save(in_dir(path, "generation_config.json"), generation, sizeof generation - 1);
    if (checkpoint_open(&ck, dir, &e)) fail_msg("%s", e.text);
    assert_int_equal(ck.bos, 1);
    assert_int_equal(ck.n_eos, 3);
    assert_true(ck.eos[0] == 2 && ck.eos[1] == 7 && ck.eos[2] == 9);
    checkpoint_close(&ck);
    unlink(path);
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
        {q, TYPE, "\x14\0\0\0", 4,
         "blk.0.attn_q.weight: type: expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K, found "
         "IQ4_NL"},
        {q, TYPE, "\x0c\0\0\0", 4, "expected a multiple of 256 for Q4_K"},
        {q, TYPE, "\x04\0\0\0", 4, "blk.0.attn_q.weight: type: expected a ggml type, found 4"},
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
        {"llama.expert_count", GGUF_U32, U32(8), "expert_count: expected 0, found 8"},
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
#define GPT2 FIXTURES "ladder/gpt2/"
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

static void gpt2_config_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } edit[] = {
        {"\"n_head\": 4", "\"n_head\": 3", "n_head: expected a divisor of n_embd 16, found 3"},
        {"\"n_embd\": 16", "\"n_embd\": 2097152", "n_embd: expected an integer from 1 to 1048576"},
        {"\"n_embd\": 16", "\"n_embed\": 16", "n_embed: expected a key this program knows"},
        {"\"n_embd\": 16", "\"n_special\": 0, \"predict_special_tokens\": true, \"output_past\": true, \"n_embd\": 16",
         ""},
        {"\"n_embd\": 16", "\"_num_labels\": 1, \"id2label\": {}, \"task_specific_params\": {}, \"n_embd\": 16", ""},
        {"\"n_embd\": 16", "\"multi_query\": true, \"n_embd\": 16", "multi_query: expected 0, found 1"},
        {"\"gelu_new\"", "\"relu\"", "activation_function: expected gelu_new, found relu"},
        {"\"scale_attn_weights\": true", "\"scale_attn_weights\": false",
         "scale_attn_weights: expected true, found false"},
        {"\"add_cross_attention\": false", "\"add_cross_attention\": true",
         "add_cross_attention: expected false, found true"},
        {"\"n_inner\": 12", "\"n_inner\": 13", "shape: expected"},
        {"\"n_inner\": 12", "\"n_inner\": 0", "n_inner: expected an integer from 1"},
        {"\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": []", "layer_norm_epsilon: expected a number"},
    };
    int bad = 0;
    Bytes config = load(GPT2 "config.json"), weights = load(GPT2 "model.safetensors");
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        char text[4096];
        const char *at = strstr(config.data, edit[i].from);
        assert_non_null(at);
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config.data), config.data, edit[i].to,
                         at + strlen(edit[i].from));
        memory_clear();
        memory_put("config.json", text, (size_t)n);
        memory_put("model.safetensors", weights.data, weights.n);
        Error e = try(MEMORY);
        bad += expect(edit[i].to, &e, edit[i].message);
    }
    memory_clear();
    free(config.data);
    free(weights.data);
    assert_int_equal(bad, 0);
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
    assert_true(file_mapped_at(path, f.data + f.size - 1));
    assert_string_equal(path, real);
    file_close(&f);
    assert_false(file_mapped_at(path, path)); /* the stack is no file's */
    assert_int_equal(file_read(&text, &n, FIXTURES, &e), -1);
    assert_int_equal(expect("a directory", &e, FIXTURES ": file: expected a regular file, found a directory"), 0);
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
        cmocka_unit_test_setup_teardown(config_json_is_refused_by_name, make_dir, remove_dir),
        cmocka_unit_test(mistral_has_its_own_defaults),
        cmocka_unit_test(rope_keys_have_an_order),
        cmocka_unit_test(a_family_is_a_row),
        cmocka_unit_test(every_family_has_its_defaults),
        cmocka_unit_test(another_head_is_not_tied),
        cmocka_unit_test_setup_teardown(a_directory_does_not_name_the_format, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_stale_index_is_not_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(parts_of_a_gguf_are_opened_together, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(end_tokens_are_merged, make_dir, remove_dir),
        cmocka_unit_test(safetensors_are_refused_by_name),
        cmocka_unit_test_setup_teardown(shards_stay_in_their_directory, make_dir, remove_dir),
        cmocka_unit_test(gguf_is_refused_by_name),
        cmocka_unit_test(gguf_keys_are_refused_by_name),
        cmocka_unit_test(hf_tensors_are_refused_by_name),
        cmocka_unit_test(gpt2_config_is_refused_by_name),
        cmocka_unit_test(a_page_names_its_file),
        cmocka_unit_test(gguf_nesting_has_a_limit),
        cmocka_unit_test(llama2c_is_refused_by_name),
        cmocka_unit_test_setup_teardown(other_files_are_recognised, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* config.json: what it may leave out, which of two keys counts, and one edit for each thing that must be refused by
 * name. */
#include "model_files.h"

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
        {"\"mlp_bias\": false", "\"topk_group\": 1", "topk_group: expected a key this program knows"},
        {"\"mlp_bias\": false", "\"rope_kind\": null", "rope_kind: expected a key this program knows"},
        {"\"mlp_bias\": false", "\"quantization_config\": null", ""},
        {"\"mlp_bias\": false", "\"quantization_config\": {}",
         "quantization_config: expected null, found the method none"},
        {"\"mlp_bias\": false", "\"quantization_config\": {\"quant_method\": \"mxfp4\"}",
         "quantization_config: expected null, found the method mxfp4"},
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

/* Keys that a family's class does not read, and sizes that it computes. */
static void what_the_class_makes_of_a_config(void **state) {
    (void)state;
#define SIZES "\"vocab_size\": 48, \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
    static const struct {
        const char *text;
        double theta;
        int hidden_dim;
        float softcap;
    } config[] = {
        /* a rope_theta beside the class's own rule is not its theta */
        {"{\"model_type\": \"ministral3\", " SIZES "\"intermediate_size\": 96, \"rope_theta\": 5000}", 1e6, 96, 0},
        {"{\"model_type\": \"apertus\", " SIZES "\"intermediate_size\": 96, \"rope_theta\": 5000}", 1.2e7, 96, 0},
        {"{\"model_type\": \"qwen2\", " SIZES "\"intermediate_size\": 96, \"num_key_value_heads\": 8, \"rope_theta\": "
         "5000}",
         5000, 96, 0},
        {"{\"model_type\": \"falcon\", " SIZES "\"bias\": false}", 10000, 256, 0},
        /* Gemma 3's attention has no soft cap, whatever its config says; Gemma 2's has */
        {"{\"model_type\": \"gemma3_text\", " SIZES "\"intermediate_size\": 96, \"attn_logit_softcapping\": 2.0}", 1e6,
         96, 0},
        {"{\"model_type\": \"gemma2\", " SIZES "\"intermediate_size\": 96, \"attn_logit_softcapping\": 2.0}", 1e4, 96,
         2},
    };
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        memory_clear();
        memory_put("config.json", config[i].text, strlen(config[i].text));
        Error e = {0};
        HfConfig hf;
        Checkpoint ck = {.path = strdup(MEMORY)};
        if (hf_config_read(&ck, MEMORY "/config.json", &hf, &e)) fail_msg("%s: %s", config[i].text, e.text);
        if (ck.config.rope.theta != config[i].theta || ck.config.hidden_dim != config[i].hidden_dim ||
            ck.config.attn.softcap != config[i].softcap)
            fail_msg("%s: theta %g, hidden_dim %d, soft cap %g", config[i].text, ck.config.rope.theta,
                     ck.config.hidden_dim, (double)ck.config.attn.softcap);
        checkpoint_close(&ck);
    }
    memory_clear();
}

/* Scales that a family's config.json gives are numbers that can be computed with. */
static void scales_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *family, *from, *to, *message;
    } edit[] = {
        {"gemma2", "", "", ""},
        {"gemma2", "\"query_pre_attn_scalar\": 16", "\"query_pre_attn_scalar\": 0",
         "scale of the scores: expected a number"},
        {"gemma2", "\"query_pre_attn_scalar\": 16", "\"query_pre_attn_scalar\": -4",
         "scale of the scores: expected a number"},
        {"gemma2", "\"attn_logit_softcapping\": 50.0", "\"attn_logit_softcapping\": -50.0", "soft cap of the scores"},
        {"gemma2", "\"attn_logit_softcapping\": 50.0", "\"attn_logit_softcapping\": \"no\"",
         "attn_logit_softcapping: expected a number"},
        {"gemma2", "\"full_attention\"", "\"chunked_attention\"", "found chunked_attention"},
        {"granite", "\"logits_scaling\": 2.0", "\"logits_scaling\": 0", "logit scale: expected a number"},
        {"granite", "\"embedding_multiplier\": 12.0", "\"embedding_multiplier\": 1e300", "embedding scale"},
        {"smollm3", "\"no_rope_layers\": [", "\"no_rope_layers\": [1,", "no_rope_layers: expected a list of 4"},
        {"hunyuan_alpha", "\"alpha\": 50.0", "\"alpha\": 0", "rope factor"},
        {"phi", "\"qk_layernorm\": false", "\"qk_layernorm\": true",
         "q_norm of layer 0: expected the tensor, found none"},
        {"stablelm_qk_norm", "\"num_attention_heads\": 4", "\"num_attention_heads\": 2, \"head_dim\": 8",
         "q_layernorm.norms.2.weight: shape: expected [8] of each of 2 heads"},
        {"granitemoehybrid", "\"full_attention\"", "\"mamba\"",
         "layer_types: expected attention in every layer, found mamba"},
        {"granitemoehybrid", "\"full_attention\"", "\"attention\"", ""},
        {"granitemoehybrid", "\"full_attention\"", "\"attention\", \"attention\"",
         "layer_types: expected a list of 2, one a layer, found another"},
        {"granite", "\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1",
         "llama_4_scaling_beta: expected none for a granite, found 0.1"},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        char path[256], text[8192];
        snprintf(path, sizeof path, FIXTURES "families/%s/config.json", edit[i].family);
        Bytes config = load(path);
        snprintf(path, sizeof path, FIXTURES "families/%s/model.safetensors", edit[i].family);
        Bytes weights = load(path);
        const char *at = strstr(config.data, edit[i].from);
        assert_non_null(at);
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config.data), config.data, edit[i].to,
                         at + strlen(edit[i].from));
        memory_clear();
        memory_put("config.json", text, (size_t)n);
        memory_put("model.safetensors", weights.data, weights.n);
        Error e = try(MEMORY);
        bad += expect(edit[i].to, &e, edit[i].message);
        free(config.data);
        free(weights.data);
    }
    memory_clear();
    assert_int_equal(bad, 0);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(config_json_is_refused_by_name, make_dir, remove_dir),
        cmocka_unit_test(mistral_has_its_own_defaults),
        cmocka_unit_test(rope_keys_have_an_order),
        cmocka_unit_test(scales_are_refused_by_name),
        cmocka_unit_test(what_the_class_makes_of_a_config),
        cmocka_unit_test(every_family_has_its_defaults),
        cmocka_unit_test_setup_teardown(end_tokens_are_merged, make_dir, remove_dir),
        cmocka_unit_test(gpt2_config_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

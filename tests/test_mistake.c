/* The mistakes that --break makes of weights: each leaves exactly the weights that its description says, and a model
 * that cannot have it is refused. (Those of the forward pass: test_ladder.sh and test_verify.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/mistake.h"
#include "io/safetensors.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#define F "tests/fixtures/"

typedef struct {
    Checkpoint ck;
    Config config;
    Weights weights;
} Bound;

static void bind(Bound *b, const char *path) {
    Error e = {0};
    if (checkpoint_open(&b->ck, path, &e) || checkpoint_bind(&b->ck, &b->config, &b->weights, &e))
        fail_msg("%s", e.text);
}

/* The matrix in f32, malloc'ed: [rows, cols]. */
static float *values(const Mat *m) {
    float *x = malloc((size_t)m->rows * (size_t)m->cols * sizeof *x);
    assert_non_null(x);
    for (int r = 0; r < m->rows; r++) mat_dequantize_row(x + (size_t)r * (size_t)m->cols, m, r);
    return x;
}

/* As the converters write it: x.reshape(n_heads, 2, rows / n_heads / 2, cols).swapaxes(1, 2). */
static float *reordered(const float *x, int rows, int cols, int n_heads) {
    int half = rows / n_heads / 2;
    float *y = malloc((size_t)rows * (size_t)cols * sizeof *y), *to = y;
    assert_non_null(y);
    for (int h = 0; h < n_heads; h++)
        for (int j = 0; j < half; j++)
            for (int i = 0; i < 2; i++, to += cols)
                memcpy(to, x + (size_t)((h * 2 + i) * half + j) * (size_t)cols, (size_t)cols * sizeof *to);
    return y;
}

/* With half-split features the broken wk is one that a right converter makes the wrong GGUF of: what a wrong one makes
 * of the sound wk. */
static void k_permuted_of_half_split_features(void **state) {
    (void)state;
    Bound sound, broken;
    Error e = {0};
    bind(&sound, F "biases_hf");
    bind(&broken, F "biases_hf");
    const Config *c = &sound.config;
    assert_int_equal(mistake_make(&broken.ck, &broken.config, &broken.weights, MISTAKE_K_PERMUTED, 0, &e), 0);
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *s = &sound.weights.layers[l], *b = &broken.weights.layers[l];
        int rows = s->attn.wk.rows, cols = s->attn.wk.cols;
        float *x = values(&s->attn.wk), *y = values(&b->attn.wk);
        float *want = reordered(x, rows, cols, c->n_heads), *found = reordered(y, rows, cols, c->n_kv_heads);
        assert_memory_equal(found, want, (size_t)rows * (size_t)cols * sizeof *want);
        assert_memory_not_equal(x, y, (size_t)rows * (size_t)cols * sizeof *want);
        float *want_bias = reordered(s->attn.bk, rows, 1, c->n_heads),
              *found_bias = reordered(b->attn.bk, rows, 1, c->n_kv_heads);
        assert_memory_equal(found_bias, want_bias, (size_t)rows * sizeof *want_bias);
        free(x), free(y), free(want), free(found), free(want_bias), free(found_bias);
    }
    checkpoint_close(&sound.ck);
    checkpoint_close(&broken.ck);
}

/* A GGUF has adjacent pairs already; base.gguf was made of base_hf. */
static void k_permuted_of_adjacent_pairs(void **state) {
    (void)state;
    Bound before, broken;
    Error e = {0};
    bind(&before, F "base_hf");
    bind(&broken, F "base.gguf");
    assert_int_equal(mistake_make(&broken.ck, &broken.config, &broken.weights, MISTAKE_K_PERMUTED, 0, &e), 0);
    for (int l = 0; l < before.config.n_layers; l++) {
        const Mat *m = &before.weights.layers[l].attn.wk;
        float *x = values(m), *found = values(&broken.weights.layers[l].attn.wk);
        float *want = reordered(x, m->rows, m->cols, before.config.n_heads);
        assert_memory_equal(found, want, (size_t)m->rows * (size_t)m->cols * sizeof *want);
        free(x), free(found), free(want);
    }
    checkpoint_close(&before.ck);
    checkpoint_close(&broken.ck);
}

/* GPT-2's matrices are the bytes of the file, which are [in, out], taken for [out, in]. */
static void conv1d(void **state) {
    (void)state;
    Bound b;
    Error e = {0};
    File file;
    SafeTensors st;
    bind(&b, F "gpt2_hf");
    assert_int_equal(mistake_make(&b.ck, &b.config, &b.weights, MISTAKE_CONV1D, 0, &e), 0);
    assert_int_equal(file_map(&file, F "gpt2_hf/model.safetensors", &e), 0);
    assert_int_equal(safetensors_open(&st, &file, &e), 0);
    for (int l = 0; l < b.config.n_layers; l++) {
        const Layer *y = &b.weights.layers[l];
        const struct {
            const char *name;
            const Mat *parts[3];
        } tensors[] = {{"attn.c_attn", {&y->attn.wq, &y->attn.wk, &y->attn.wv}},
                       {"attn.c_proj", {&y->attn.wo}},
                       {"mlp.c_fc", {&y->ffn.w_up}},
                       {"mlp.c_proj", {&y->ffn.w_down}}};
        for (int i = 0; i < 4; i++) {
            char name[80];
            snprintf(name, sizeof name, "transformer.h.%d.%s.weight", l, tensors[i].name);
            const SafeTensor *t = safetensors_find(&st, name);
            if (!t) t = safetensors_find(&st, name + strlen("transformer."));
            assert_non_null(t);
            assert_string_equal(t->dtype, "F32");
            size_t at = 0;
            for (int k = 0; k < 3 && tensors[i].parts[k]; k++) {
                const Mat *m = tensors[i].parts[k];
                size_t bytes = (size_t)m->rows * m->stride_bytes;
                assert_true(m->dtype == DTYPE_F32 && at + bytes <= t->bytes);
                assert_memory_equal(m->data, t->data + at, bytes);
                at += bytes;
            }
            assert_int_equal(at, t->bytes);
        }
    }
    safetensors_close(&st);
    file_close(&file);
    checkpoint_close(&b.ck);
}

static void wpe_past_end(void **state) {
    (void)state;
    Bound b;
    Error e = {0};
    bind(&b, F "gpt2_hf");
    int n = b.config.n_ctx, dim = b.config.dim;
    float *before = values(&b.weights.pos_emb);
    assert_int_equal(mistake_make(&b.ck, &b.config, &b.weights, MISTAKE_WPE_PAST_END, n + 3, &e), 0);
    assert_int_equal(b.config.n_ctx, n + 3);
    assert_int_equal(b.weights.pos_emb.rows, n + 3);
    float *after = values(&b.weights.pos_emb);
    assert_memory_equal(after, before, (size_t)n * (size_t)dim * sizeof *after);
    for (int r = n; r < n + 3; r++)
        assert_memory_equal(after + r * dim, before + (n - 1) * dim, (size_t)dim * sizeof *after);
    free(before);
    free(after);
    checkpoint_close(&b.ck);
}

static void wrong_pairing(void **state) {
    (void)state;
    static const char *const files[] = {F "base_hf", F "base.gguf"};
    for (int i = 0; i < 2; i++) {
        Bound b;
        Error e = {0};
        bind(&b, files[i]);
        RopePairing before = b.config.rope.pairing;
        assert_int_equal(mistake_make(&b.ck, &b.config, &b.weights, MISTAKE_NONE, 0, &e), 0);
        assert_int_equal(b.config.rope.pairing, before);
        assert_int_equal(mistake_make(&b.ck, &b.config, &b.weights, MISTAKE_WRONG_PAIRING, 0, &e), 0);
        assert_int_equal(b.config.rope.pairing, before == ROPE_HALF ? ROPE_PAIRS : ROPE_HALF);
        checkpoint_close(&b.ck);
    }
}

static void a_model_that_cannot_have_it_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *file;
        Mistake mistake;
        int n_ctx, n_layers, head_dim; /* 0: as the file says */
        const char *why;
    } cases[] = {
        {F "gpt2_hf", MISTAKE_WRONG_PAIRING, 0, 0, 0,
         "gpt2_hf: --break wrong-pairing: expected a model with RoPE, found one with learned positions"},
        {F "gpt2_hf", MISTAKE_V_ROTATED, 0, 0, 0, "--break v-rotated: expected a model with RoPE"},
        {F "gpt2_hf", MISTAKE_KEYS_UNROTATED, 0, 0, 0, "--break keys-unrotated: expected a model with RoPE"},
        {F "gpt2_hf", MISTAKE_K_PERMUTED, 0, 0, 0, "--break k-permuted: expected a model with RoPE"},
        {F "base_hf", MISTAKE_ROPE_LAYER0, 0, 1, 0, "--break rope-layer0: expected more than one layer, found one"},
        {F "gpt2_hf", MISTAKE_NO_ROPE, 0, 0, 0, "--break no-rope: expected a model with RoPE"},
        {F "gpt2_hf", MISTAKE_REVERSED, 0, 0, 0, "--break reversed: expected a model with RoPE"},
        {F "gpt2_hf", MISTAKE_REVERSED_KEY, 0, 0, 0, "--break reversed-key: expected a model with RoPE"},
        {F "gpt2_hf", MISTAKE_ONE_FREQUENCY, 0, 0, 0, "--break one-frequency: expected a model with RoPE"},
        {F "mha_tied_hf", MISTAKE_GQA_MODULO, 0, 0, 0, "expected groups of heads, found 4 heads and 4 KV heads"},
        {F "mha_tied_hf", MISTAKE_K_PERMUTED, 0, 0, 0,
         "--break k-permuted: expected fewer KV heads than heads, found 4 of each"},
        {F "mqa_head_dim_hf", MISTAKE_K_PERMUTED, 0, 0, 4,
         "expected an even number of rows of wk for each of 4 heads, found 4 rows"},
        {F "base_hf", MISTAKE_CONV1D, 0, 0, 0,
         "--break conv1d: expected a GPT-2 as Hugging Face writes it, found llama"},
        {F "gpt2.gguf", MISTAKE_CONV1D, 0, 0, 0, "found a GGUF, whose matrices are transposed already"},
        {F "base_hf", MISTAKE_WPE_PAST_END, 128, 0, 0,
         "--break wpe-past-end: expected a model with learned positions, found RoPE"},
        {F "gpt2_hf", MISTAKE_WPE_PAST_END, 0, 0, 0, "expected -c above the model's 32 positions, found 32"},
        {F "gpt2_hf", MISTAKE_WPE_PAST_END, 16, 0, 0, "expected -c above the model's 32 positions, found 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bound b;
        Error e = {0};
        bind(&b, cases[i].file);
        if (cases[i].n_layers) b.config.n_layers = cases[i].n_layers;
        if (cases[i].head_dim) b.config.head_dim = cases[i].head_dim;
        assert_int_equal(mistake_make(&b.ck, &b.config, &b.weights, cases[i].mistake, cases[i].n_ctx, &e), -1);
        if (!strstr(e.text, cases[i].why)) fail_msg("expected \"%s\" in \"%s\"", cases[i].why, e.text);
        assert_true(!b.config.rotate && b.config.decode_shift == 0);
        checkpoint_close(&b.ck);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_permuted_of_half_split_features),
        cmocka_unit_test(k_permuted_of_adjacent_pairs),
        cmocka_unit_test(conv1d),
        cmocka_unit_test(wpe_past_end),
        cmocka_unit_test(wrong_pairing),
        cmocka_unit_test(a_model_that_cannot_have_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The types of a written model's tensors: those that llama-quantize would choose (llama-quant.cpp). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "convert/mix.h"

#include <cmocka.h>

/* How many layers of a model of 32 get each type for a field, as "q6_k 16 q4_k 16". */
static const char *counts(const char *mix, Field f, int cols, const Config *c) {
    static char text[128];
    int n[DTYPE_COUNT] = {0}, at = 0;
    for (int i = 0; i < c->n_layers; i++) n[mix_type(mix_named(mix), f, i, cols, c)]++;
    text[0] = 0;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (n[t])
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%s %d", at ? " " : "", dtype_info[t].name, n[t]);
    return text;
}

static void layers_that_get_more_bits(void **state) {
    (void)state;
    const Config c = {.n_layers = 32, .n_heads = 32, .n_kv_heads = 8};
    static const struct {
        const char *mix, *wq, *wv, *w_down, *wo;
    } rows[] = {{"q2_k", "q2_k 32", "q4_k 32", "q3_k 32", "q3_k 32"},
                {"q2_k_s", "q2_k 32", "q4_k 32", "q4_k 4 q2_k 28", "q2_k 32"},
                {"q3_k_s", "q3_k 32", "q3_k 32", "q3_k 32", "q3_k 32"},
                {"q3_k_m", "q3_k 32", "q4_k 30 q5_k 2", "q4_k 30 q5_k 2", "q4_k 32"},
                {"q3_k_l", "q3_k 32", "q5_k 32", "q5_k 32", "q5_k 32"},
                {"q4_k_s", "q4_k 32", "q4_k 28 q5_k 4", "q4_k 28 q5_k 4", "q4_k 32"},
                {"q4_k_m", "q4_k 32", "q4_k 16 q6_k 16", "q4_k 16 q6_k 16", "q4_k 32"},
                {"q5_k_m", "q5_k 32", "q5_k 16 q6_k 16", "q5_k 16 q6_k 16", "q5_k 32"},
                {"q6_k", "q6_k 32", "q6_k 32", "q6_k 32", "q6_k 32"},
                {"iq4_nl", "iq4_nl 32", "q5_k 32", "q5_k 4 iq4_nl 28", "iq4_nl 32"},
                {"q4_0", "q4_0 32", "q4_0 32", "q4_0 32", "q4_0 32"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(counts(rows[i].mix, FIELD_WQ, 4096, &c), rows[i].wq);
        assert_string_equal(counts(rows[i].mix, FIELD_WV, 4096, &c), rows[i].wv);
        assert_string_equal(counts(rows[i].mix, FIELD_W_DOWN, 14336, &c), rows[i].w_down);
        assert_string_equal(counts(rows[i].mix, FIELD_WO, 4096, &c), rows[i].wo);
    }
    assert_int_equal(mix_type(mix_named("q4_k_m"), FIELD_WV, 3, 4096, &c), DTYPE_Q6_K); /* 0 to 3, 6, 9, ... */
    assert_int_equal(mix_type(mix_named("q4_k_m"), FIELD_WV, 4, 4096, &c), DTYPE_Q4_K);
    const Config mha = {.n_layers = 32, .n_heads = 32, .n_kv_heads = 32};
    assert_string_equal(counts("q2_k", FIELD_WV, 4096, &mha), "q3_k 32");
    assert_string_equal(counts("iq4_nl", FIELD_WV, 4096, &mha), "iq4_nl 32");
    const Config mixtral = {.n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .moe = {.n_experts = 8}};
    assert_string_equal(counts("q4_k_m", FIELD_WV, 4096, &mixtral), "q8_0 32");
    assert_string_equal(counts("q4_k_m", FIELD_WK, 4096, &mixtral), "q8_0 32");
    assert_string_equal(counts("q4_k_m", FIELD_WO, 4096, &mixtral), "q5_k 32");
    assert_string_equal(counts("q4_k_m", FIELD_EXPERT_DOWN, 14336, &mixtral), "q4_k 16 q6_k 16");
    const Config of_70b = {.n_layers = 80, .n_heads = 64, .n_kv_heads = 8};
    assert_string_equal(counts("q4_k_s", FIELD_WV, 8192, &of_70b), "q5_k 80");
}

static void head_and_embedding(void **state) {
    (void)state;
    const Config apart = {.n_layers = 32, .n_heads = 32, .n_kv_heads = 8};
    const Config tied = {.n_layers = 30, .n_heads = 9, .n_kv_heads = 3, .tied = true};
    const Mix *m = mix_named("Q4_K_M");
    assert_ptr_equal(m, mix_named("q4_k"));
    assert_null(mix_named("q9_9"));
    assert_int_equal(mix_type(m, FIELD_TOK_EMB, -1, 4096, &apart), DTYPE_Q4_K);
    assert_int_equal(mix_type(m, FIELD_LM_HEAD, -1, 4096, &apart), DTYPE_Q6_K);
    assert_int_equal(mix_type(m, FIELD_TOK_EMB, -1, 2048, &tied), DTYPE_Q6_K);
    assert_int_equal(mix_type(m, FIELD_TOK_EMB, -1, 576, &tied), DTYPE_Q8_0);
}

static void rows_that_no_block_of_256_fits(void **state) {
    (void)state;
    const Config c = {.n_layers = 30, .n_heads = 9, .n_kv_heads = 3}; /* SmolLM2-135M: rows of 576 */
    assert_string_equal(counts("q4_k_m", FIELD_WQ, 576, &c), "q5_0 30");
    assert_string_equal(counts("q4_k_m", FIELD_WV, 576, &c), "q8_0 14 q5_0 16");
    assert_string_equal(counts("q5_k_s", FIELD_WQ, 576, &c), "q5_1 30");
    assert_string_equal(counts("q6_k", FIELD_WQ, 576, &c), "q8_0 30");
    assert_string_equal(counts("q2_k", FIELD_WQ, 576, &c), "q4_0 30");
    assert_string_equal(counts("q3_k_m", FIELD_WQ, 576, &c), "q4_0 30");
    assert_string_equal(counts("iq4_nl", FIELD_WQ, 576, &c), "iq4_nl 30");
    assert_string_equal(counts("q4_k_m", FIELD_WQ, 45, &c), "f16 30");
    assert_string_equal(counts("q8_0", FIELD_WQ, 45, &c), "f32 30");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_get_more_bits),
        cmocka_unit_test(head_and_embedding),
        cmocka_unit_test(rows_that_no_block_of_256_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

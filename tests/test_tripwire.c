/* --check: a NaN or an infinity in any weight is traced to the operation, the row and the operand it came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "verify/tripwire.h"

#include <cmocka.h> /* last: it makes fail a macro */

#define FIXTURES "tests/fixtures/"

typedef enum {
    NOTHING,
    TOK_EMB,
    WQ,
    WK,
    WV,
    WO,
    W_GATE,
    W_DOWN,
    LM_HEAD,
    ROUTER,
    SHARED_UP,
    SHARED_GATE,
    EXPERT_DOWN,
    ATTN_NORM, /* from here on vectors */
    FFN_NORM,
    FINAL_NORM,
    FINAL_NORM_BIAS,
    FFN_NORM_BIAS,
    ROUTER_BIAS,
    Q_NORM,
    K_NORM,
    SINKS,
    ATTN_POST_NORM,
    FFN_POST_NORM,
    LM_HEAD_BIAS,
    XIELU,
    N_PLACES
} Place;

/* Runs a model with one value of the weights replaced: of a matrix in row 5 and column 3, of a vector [n] the last.
 * `expected` must be in what the tripwire says. */
static void check(const char *path, Place which, int n, float value, const char *expected) {
    Checkpoint ck;
    Config config;
    Weights weights;
    Layer layers[6];
    FfnWeights experts[8] = {{.limit = 0}};
    Model m;
    State s;
    Tripwire wire;
    Error e = {0};
    static const int tokens[3] = {1, 5, 9};
    if (checkpoint_open(&ck, path, &e) || checkpoint_bind(&ck, &config, &weights, &e)) fail_msg("%s", e.text);
    assert_in_range(config.n_layers, 2, 6);
    memcpy(layers, weights.layers, (size_t)config.n_layers * sizeof *layers);
    weights.layers = layers;
    Layer *l = &layers[1];
    if (l->moe.experts) {
        assert_in_range(config.moe.n_experts, 3, 8);
        memcpy(experts, l->moe.experts, (size_t)config.moe.n_experts * sizeof *experts);
        l->moe.experts = experts;
    }
    Mat *mats[N_PLACES] = {[TOK_EMB] = &weights.tok_emb,
                           [WQ] = &layers[0].attn.wq,
                           [WK] = &l->attn.wk,
                           [WV] = &l->attn.wv,
                           [WO] = &layers[0].attn.wo,
                           [W_GATE] = &l->ffn.w_gate,
                           [W_DOWN] = &layers[0].ffn.w_down,
                           [LM_HEAD] = &weights.lm_head,
                           [ROUTER] = &l->moe.router,
                           [SHARED_UP] = &l->moe.shared.w_up,
                           [SHARED_GATE] = &l->moe.shared_gate,
                           [EXPERT_DOWN] = &experts[2].w_down};
    const float **vectors[N_PLACES] = {[ATTN_NORM] = &l->attn_norm,
                                       [FFN_NORM] = &layers[0].ffn_norm,
                                       [FINAL_NORM] = &weights.final_norm,
                                       [FINAL_NORM_BIAS] = &weights.final_norm_bias,
                                       [FFN_NORM_BIAS] = &l->ffn_norm_bias,
                                       [ROUTER_BIAS] = &l->moe.router_bias,
                                       [Q_NORM] = &l->attn.q_norm,
                                       [K_NORM] = &l->attn.k_norm,
                                       [SINKS] = &l->attn.sinks,
                                       [ATTN_POST_NORM] = &l->attn_post_norm,
                                       [FFN_POST_NORM] = &l->ffn_post_norm,
                                       [LM_HEAD_BIAS] = &weights.lm_head_bias};
    float *copy = NULL;
    if (mats[which]) {
        Mat *w = mats[which];
        copy = malloc((size_t)w->rows * (size_t)w->cols * sizeof *copy);
        for (int r = 0; r < w->rows; r++) mat_dequantize_row(copy + (size_t)r * (size_t)w->cols, w, r);
        copy[(w->rows > 5 ? 5 : 0) * w->cols + 3] = value;
        *w = (Mat){DTYPE_F32, w->rows, w->cols, (size_t)w->cols * sizeof *copy, copy, NULL, 0};
    } else if (vectors[which]) {
        copy = malloc((size_t)n * sizeof *copy);
        memcpy(copy, *vectors[which], (size_t)n * sizeof *copy);
        copy[n - 1] = value;
        *vectors[which] = copy;
    } else if (which == XIELU) {
        l->ffn.xielu.beta = value;
    }
    model_init(&m, &config, &weights);
    StateOptions options = {.n_ctx = 8, .n_batch = 8, .n_threads = 1, .kv_type = KV_F32};
    assert_int_equal(state_init(&s, &m, &options, &e), 0);
    tripwire_set(&wire, &s, &m, "MODEL");
    model_forward(&m, &s, tokens, 3, 0);
    model_logits(&m, &s, 2);
    if (tripwire_check(&wire, &e) != (*expected ? -1 : 0)) fail_msg("%s: found no '%s'", path, expected);
    if (!strstr(e.text, expected)) fail_msg("expected '%s', found '%s'", expected, e.text);
    state_close(&s);
    checkpoint_close(&ck);
    free(copy);
}

static void every_operand_is_named(void **state) {
    (void)state;
    static const struct {
        const char *model;
        Place place;
        int n;
        float value;
        const char *expected;
    } row[] = {
        {"base_hf", TOK_EMB, 0, NAN,
         "MODEL: embed, row 1 (position 1), value 3: expected a finite number, found nan; operand tok_emb, row 5, "
         "column 3, is nan"},
        {"base_hf", WQ, 0, INFINITY, "operand wq, row 5, column 3, is inf"},
        {"base_hf", WQ, 0, NAN, "MODEL: layer 0, q, row 0 (position 0), value 5"},
        {"base_hf", WK, 0, NAN,
         "layer 1, k, row 0 (position 0), value 5: expected a finite number, found nan; operand wk, row 5, column 3, "
         "is nan"},
        {"base_hf", WV, 0, NAN, "layer 1, v, row 0"},
        {"base_hf", WO, 0, NAN,
         "layer 0, attn_out, row 0 (position 0), value 5: expected a finite number, found nan; operand wo, row 5"},
        {"base_hf", W_GATE, 0, NAN, "operand w_gate, row 5, column 3, is nan"},
        {"base_hf", W_DOWN, 0, -INFINITY, "operand w_down, row 5, column 3, is -inf"},
        {"base_hf", LM_HEAD, 0, NAN,
         "logits, row 0 (position 2), value 5: expected a finite number, found nan; operand lm_head, row 5"},
        {"base_hf", ATTN_NORM, 32, NAN,
         "layer 1, attn_norm, row 0 (position 0), value 31: expected a finite number, found nan; operand attn_norm, "
         "value 31, is nan"},
        {"base_hf", FFN_NORM, 32, NAN, "operand ffn_norm, value 31, is nan"},
        {"base_hf", FINAL_NORM, 32, NAN, "operand final_norm, value 31, is nan"},
        {"gpt2_hf", FINAL_NORM_BIAS, 32, NAN, "found nan; operand final_norm_bias, value 31, is nan"},
        {"gpt2_hf", FFN_NORM_BIAS, 32, INFINITY, "found inf; operand ffn_norm_bias, value 31, is inf"},
        {"families/gpt_oss", ROUTER_BIAS, 5, NAN,
         "layer 1, router, row 0 (position 0), value 4: expected a finite number, found nan; operand router_bias, "
         "value 4, is nan"},
        {"families/gpt_oss", SINKS, 2, NAN, "expected a finite number, found nan; operand sinks, value 1, is nan"},
        {"families/qwen2_moe", ROUTER, 0, NAN, "layer 1, router, row 0 (position 0)"},
        {"families/qwen2_moe", ROUTER, 0, NAN, "operand router, row 0, column 3, is nan"},
        {"families/qwen2_moe", SHARED_UP, 0, NAN, "layer 1, ffn_out, row 0 (position 0)"},
        {"families/qwen2_moe", SHARED_UP, 0, NAN, "operand w_up, row 5, column 3, is nan"},
        {"families/qwen2_moe", SHARED_GATE, 0, NAN, "operand shared_gate, row 0, column 3, is nan"},
        {"families/qwen2_moe", EXPERT_DOWN, 0, NAN, "operand w_down, row 5, column 3, is nan"},
        {"families/qwen3", Q_NORM, 16, NAN, "layer 1, q_rot, row 0 (position 0)"},
        {"families/qwen3", Q_NORM, 16, NAN, "operand q_norm, value 15, is nan"},
        {"families/olmo2", Q_NORM, 16, NAN, "operand q_norm, value 15, is nan"},
        {"families/qwen3", K_NORM, 16, NAN, "operand k_norm, value 15, is nan"},
        {"families/gemma2", ATTN_POST_NORM, 16, NAN, "operand attn_post_norm, value 15, is nan"},
        {"families/gemma2", FFN_POST_NORM, 16, NAN, "operand ffn_post_norm, value 15, is nan"},
        {"families/phi", LM_HEAD_BIAS, 48, NAN, "operand lm_head_bias, value 47, is nan"},
        {"families/apertus", XIELU, 0, NAN, "operand xielu, value 2, is nan"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char path[128];
        snprintf(path, sizeof path, FIXTURES "%s", row[i].model);
        check(path, row[i].place, row[i].n, row[i].value, row[i].expected);
    }
}

static void overflow_is_told_from_a_bad_weight(void **state) {
    (void)state;
    /* a norm weight that is huge, not infinite */
    check(FIXTURES "base_hf", ATTN_NORM, 32, 3e38f, "every operand was finite: the result overflowed");
}

static void a_sound_model_trips_nothing(void **state) {
    (void)state;
    check(FIXTURES "base_hf", NOTHING, 0, 0, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operand_is_named),
        cmocka_unit_test(overflow_is_told_from_a_bad_weight),
        cmocka_unit_test(a_sound_model_trips_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

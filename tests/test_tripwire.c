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

/* Runs the model with one value of the weights replaced; `expected` must be in what the tripwire says. */
static void check(int which, float value, const char *expected) {
    Checkpoint ck;
    Config config;
    Weights weights;
    Layer layers[4];
    Model m;
    State s;
    Tripwire wire;
    Error e = {0};
    static const int tokens[3] = {1, 5, 9};
    if (checkpoint_open(&ck, "tests/fixtures/base_hf", &e) || checkpoint_bind(&ck, &config, &weights, &e))
        fail_msg("%s", e.text);
    memcpy(layers, weights.layers, (size_t)config.n_layers * sizeof *layers);
    weights.layers = layers;
    Mat *mats[] = {&weights.tok_emb,   &layers[0].attn.wq,    &layers[1].attn.wk,    &layers[1].attn.wv,
                   &layers[0].attn.wo, &layers[1].ffn.w_gate, &layers[0].ffn.w_down, &weights.lm_head};
    const float **vectors[] = {&layers[1].attn_norm, &layers[0].ffn_norm, &weights.final_norm};
    float *copy = NULL;
    if (which >= 0 && which < 8) {
        Mat *w = mats[which];
        copy = malloc((size_t)w->rows * (size_t)w->cols * sizeof *copy);
        for (int r = 0; r < w->rows; r++) mat_dequantize_row(copy + (size_t)r * (size_t)w->cols, w, r);
        copy[5 * w->cols + 3] = value;
        *w = (Mat){DTYPE_F32, w->rows, w->cols, (size_t)w->cols * sizeof *copy, copy, NULL, 0};
    } else if (which >= 8) {
        copy = malloc((size_t)config.dim * sizeof *copy);
        memcpy(copy, *vectors[which - 8], (size_t)config.dim * sizeof *copy);
        copy[3] = value;
        *vectors[which - 8] = copy;
    }
    model_init(&m, &config, &weights);
    StateOptions options = {.n_ctx = 8, .n_batch = 8, .n_threads = 1, .kv_type = KV_F32};
    assert_int_equal(state_init(&s, &m, &options, &e), 0);
    tripwire_set(&wire, &s, &m, "MODEL");
    model_forward(&m, &s, tokens, 3, 0);
    model_logits(&m, &s, 2);
    assert_int_equal(tripwire_check(&wire, &e), *expected ? -1 : 0);
    if (!strstr(e.text, expected)) fail_msg("expected '%s', found '%s'", expected, e.text);
    state_close(&s);
    checkpoint_close(&ck);
    free(copy);
}

static void every_operand_is_named(void **state) {
    (void)state;
    check(0, NAN,
          "MODEL: embed, row 1 (position 1), value 3: expected a finite number, found nan; operand tok_emb, row 5, "
          "column 3, is nan");
    check(1, INFINITY, "operand wq, row 5, column 3, is inf");
    check(1, NAN, "MODEL: layer 0, q, row 0 (position 0), value 5");
    check(2, NAN,
          "layer 1, k, row 0 (position 0), value 5: expected a finite number, found nan; operand wk, row 5, column 3, "
          "is nan");
    check(3, NAN, "layer 1, v, row 0");
    check(4, NAN,
          "layer 0, attn_out, row 0 (position 0), value 5: expected a finite number, found nan; operand wo, row 5");
    check(5, NAN, "operand w_gate, row 5, column 3, is nan");
    check(6, -INFINITY, "operand w_down, row 5, column 3, is -inf");
    check(7, NAN, "logits, row 0 (position 2), value 5: expected a finite number, found nan; operand lm_head, row 5");
    check(8, NAN,
          "layer 1, attn_norm, row 0 (position 0), value 3: expected a finite number, found nan; operand attn_norm, "
          "value 3, is nan");
    check(9, NAN, "operand ffn_norm, value 3, is nan");
    check(10, NAN, "operand final_norm, value 3, is nan");
}

static void overflow_is_told_from_a_bad_weight(void **state) {
    (void)state;
    check(8, 3e38f, "every operand was finite: the result overflowed"); /* a norm weight that is huge, not infinite */
}

static void a_sound_model_trips_nothing(void **state) {
    (void)state;
    check(-1, 0, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operand_is_named),
        cmocka_unit_test(overflow_is_told_from_a_bad_weight),
        cmocka_unit_test(a_sound_model_trips_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

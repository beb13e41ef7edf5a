/* Tests of src/gen/shift.c: cached keys that move are rotated once more, and equal keys that are computed anew. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "gen/shift.h"

#include <cmocka.h> /* last: it makes a macro of fail */

enum { KEPT = 4, DROPPED = 7, TAIL = 20, ALL = KEPT + DROPPED + TAIL, LEFT = KEPT + TAIL };
#define FIXTURES "tests/fixtures/"

typedef struct {
    Checkpoint ck;
    Config config;
    Weights weights;
    Model model;
} Opened;

static void open_model(Opened *o, const char *path) {
    Error e = {""};
    if (checkpoint_open(&o->ck, path, &e) || checkpoint_bind(&o->ck, &o->config, &o->weights, &e))
        fail_msg("%s: %s", path, e.text);
    model_init(&o->model, &o->config, &o->weights);
}

static void prefill(State *s, const Model *m, const StateOptions *options, const int *tokens, int n) {
    Error e = {""};
    assert_int_equal(state_init(s, m, options, &e), 0);
    assert_int_equal(model_prefill(m, s, tokens, n, 0, WANTED_LAST, NULL, NULL), n);
}

/* The largest difference between the keys or values of two caches, and the largest of them all. */
static double difference(const State *a, const State *b, const Config *c, int layer, bool keys, double *largest) {
    float *x = malloc((size_t)c->head_dim * sizeof *x), *y = malloc((size_t)c->head_dim * sizeof *y);
    double worst = 0;
    *largest = 0;
    for (int head = 0; head < c->n_kv_heads; head++)
        for (int pos = 0; pos < LEFT; pos++) {
            (keys ? kv_cache_key : kv_cache_value)(x, &a->attn.cache, layer, head, pos);
            (keys ? kv_cache_key : kv_cache_value)(y, &b->attn.cache, layer, head, pos);
            for (int i = 0; i < c->head_dim; i++) {
                worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
                *largest = fmax(*largest, fabs((double)y[i]));
            }
        }
    free(x);
    free(y);
    return worst;
}

/* One layer: the keys, the values and the logits after a shift are those of a fresh prefill of what is kept. */
static void check_shift(const char *path, KvType type, double tolerance) {
    Opened o;
    State moved, fresh;
    int tokens[ALL], left[LEFT];
    double largest;
    open_model(&o, path);
    o.model.config.n_layers = 1;
    assert_null(cache_shift_refused(&o.model));
    for (int i = 0; i < ALL; i++) tokens[i] = (7 * i + 3) % o.config.vocab_size;
    for (int i = 0; i < LEFT; i++) left[i] = tokens[i < KEPT ? i : i + DROPPED];
    StateOptions options = {.n_ctx = 64, .n_batch = 8, .n_threads = 1, .kv_type = type, .deterministic = true};
    prefill(&moved, &o.model, &options, tokens, ALL);
    prefill(&fresh, &o.model, &options, left, LEFT);
    cache_shift(&o.model, &moved, KEPT, KEPT + DROPPED, TAIL);
    double keys = difference(&moved, &fresh, &o.config, 0, true, &largest);
    if (!(keys <= tolerance * largest)) fail_msg("%s: keys differ by %g of %g", path, keys, largest);
    double values = difference(&moved, &fresh, &o.config, 0, false, &largest);
    if (!(values <= tolerance * largest)) fail_msg("%s: values differ by %g of %g", path, values, largest);
    model_forward(&o.model, &moved, (int[]){5}, 1, LEFT);
    model_forward(&o.model, &fresh, (int[]){5}, 1, LEFT);
    const float *x = model_logits(&o.model, &moved, 0), *y = model_logits(&o.model, &fresh, 0);
    for (int i = 0; i < o.config.vocab_size; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= 20 * tolerance))
            fail_msg("%s: logit %d is %g, expected %g", path, i, (double)x[i], (double)y[i]);
    state_close(&moved);
    state_close(&fresh);
    checkpoint_close(&o.ck);
}

static void test_one_layer(void **state) {
    (void)state;
    static const char *const models[] = {"base.gguf",      "base_hf",         "rope_linear_hf", "rope_yarn_hf",
                                         "rope_llama3_hf", "mqa_head_dim_hf", "biases_hf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[200];
        snprintf(path, sizeof path, FIXTURES "%s", models[i]);
        check_shift(path, KV_F32, 1e-6);
        check_shift(path, KV_F16, 2e-3);
    }
    check_shift("weights/shakespeare.gguf", KV_Q8_0, 2e-2);
}

/* Through all layers the cache still holds something of the tokens that are gone: close, and not the same. */
static void test_all_layers(void **state) {
    (void)state;
    Opened o;
    State moved, fresh;
    int tokens[ALL], left[LEFT];
    double largest;
    open_model(&o, FIXTURES "base.gguf");
    for (int i = 0; i < ALL; i++) tokens[i] = (7 * i + 3) % o.config.vocab_size;
    for (int i = 0; i < LEFT; i++) left[i] = tokens[i < KEPT ? i : i + DROPPED];
    StateOptions options = {.n_ctx = 64, .n_batch = 8, .n_threads = 1, .kv_type = KV_F32};
    prefill(&moved, &o.model, &options, tokens, ALL);
    prefill(&fresh, &o.model, &options, left, LEFT);
    cache_shift(&o.model, &moved, KEPT, KEPT + DROPPED, TAIL);
    double keys = difference(&moved, &fresh, &o.config, o.config.n_layers - 1, true, &largest);
    assert_true(keys > 1e-4 && keys < largest);
    state_close(&moved);
    state_close(&fresh);
    checkpoint_close(&o.ck);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *path, *why;
    } row[] = {{"rope_dynamic_hf", "dynamic NTK"}, {"rope_longrope_hf", "LongRoPE"}, {"gpt2_hf", "learned"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char path[200];
        Opened o;
        snprintf(path, sizeof path, FIXTURES "%s", row[i].path);
        open_model(&o, path);
        const char *why = cache_shift_refused(&o.model);
        assert_non_null(why);
        assert_non_null(strstr(why, row[i].why));
        checkpoint_close(&o.ck);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_layer),
        cmocka_unit_test(test_all_layers),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("shift", tests, NULL, NULL);
}

/* RoPE: the numbers of the worked examples, the properties that make it work, under every scaling rule
 * and both pairings, and transformers' own frequencies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"
#include "io/json.h"
#include "rope.h"

#include "tests/random.h"

#include <cmocka.h> /* last: it makes fail a macro */

#include "tests/skip.h"

static void fill_random(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = random_unit();
}

static RopeTable table_make(const RopeConfig *c, int head_dim, int n_ctx, int seq_len) {
    RopeTable t = {.n_ctx = n_ctx, .head_dim = head_dim, .rotary_dim = c->rotary_dim, .pairing = c->pairing};
    size_t values = (size_t)n_ctx * (size_t)(c->rotary_dim / 2);
    t.cos = malloc(values * sizeof(float));
    t.sin = malloc(values * sizeof(float));
    assert_true(t.cos && t.sin);
    rope_table_fill(&t, c, seq_len);
    return t;
}

static void table_free(RopeTable *t) {
    free(t->cos);
    free(t->sin);
}

static double dot(const float *a, const float *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void assert_near(double found, double expected, double tolerance) {
    if (!(fabs(found - expected) <= tolerance)) {
        print_error("expected %.9g, found %.9g, tolerance %.3g\n", expected, found, tolerance);
        fail();
    }
}

/* ---- Every rule at a small size: context 32 stretched to 128 ------------------------------------ */

enum { HEAD_DIM = 16, CTX = 128, ORIGINAL = 32 };
static const float short_factors[8] = {1, 1.05f, 1.1f, 1.2f, 1.4f, 1.7f, 2, 2.5f};
static const float long_factors[8] = {1, 1.3f, 1.8f, 2.5f, 3, 3.5f, 4, 4};
static const float baked[8] = {1, 1, 1.5f, 2, 3, 4, 8, 8};

enum { RULES = 10 };
static RopeConfig rule(int which, RopePairing pairing) {
    RopeConfig c = {.theta = 500,
                    .rotary_dim = HEAD_DIM,
                    .pairing = pairing,
                    .factor = 4,
                    .original_ctx = ORIGINAL,
                    .low_freq_factor = 1,
                    .high_freq_factor = 4,
                    .beta_fast = 32,
                    .beta_slow = 1,
                    .truncate = true};
    switch (which) {
    case 0: break;
    case 1: c.scaling = ROPE_SCALING_LINEAR; break;
    case 2: c.scaling = ROPE_SCALING_DYNAMIC; break;
    case 3: c.scaling = ROPE_SCALING_YARN; break;
    case 4: c.scaling = ROPE_SCALING_YARN, c.truncate = false, c.mscale = 1, c.mscale_all_dim = 0.5; break;
    case 5: c.scaling = ROPE_SCALING_LLAMA3; break;
    case 6: c.scaling = ROPE_SCALING_LONGROPE, c.short_factor = short_factors, c.long_factor = long_factors; break;
    case 7: c.freq_factors = baked; break;
    case 9: c.scaling = ROPE_SCALING_NTK, c.original_ctx = 0; break;
    case 8: c.rotary_dim = HEAD_DIM / 2; break; /* partial rotary */
    default: break;
    }
    Error e = {0};
    assert_int_equal(rope_check(&c, HEAD_DIM, "test", &e), 0);
    return c;
}

/* Runs `check` for every rule, both pairings, and a sequence below and above the original context. */
typedef void Check(const RopeConfig *c, const RopeTable *t, double scale);
static void for_all(Check *check) {
    for (int which = 0; which < RULES; which++) {
        for (int pairing = ROPE_HALF; pairing <= ROPE_PAIRS; pairing++) {
            for (int seq_len = ORIGINAL; seq_len <= CTX; seq_len += CTX - ORIGINAL) {
                RopeConfig c = rule(which, (RopePairing)pairing);
                RopeTable t = table_make(&c, HEAD_DIM, CTX, seq_len);
                double inv_freq[ROPE_MAX_PAIRS], scale;
                rope_inv_freq(inv_freq, &scale, &c, seq_len);
                check(&c, &t, scale);
                table_free(&t);
            }
        }
    }
}

/* ---- Worked examples ---------------------------------------------------------------------------- */

static void quarter_turns(void **state) {
    (void)state;
    const float eighth = (float)(4 / M_PI); /* the one pair of a 2-D head turns pi/4 a token */
    RopeConfig c = {.theta = 10000, .rotary_dim = 2, .pairing = ROPE_PAIRS, .freq_factors = &eighth};
    RopeTable t = table_make(&c, 2, 3, 3);
    const double expected[3][2] = {{1, 0}, {0.7071, 0.7071}, {0, 1}};
    for (int pos = 0; pos < 3; pos++) {
        float x[2] = {1, 0};
        rope_apply(x, 1, 1, 2, &t, pos);
        for (int i = 0; i < 2; i++) assert_near((double)x[i], expected[pos][i], 5.1e-5); /* four decimals are given */
    }
    table_free(&t);
}

static void three_tokens_by_hand(void **state) {
    (void)state;
    RopeConfig c = {.theta = 10000, .rotary_dim = 4, .pairing = ROPE_PAIRS};
    RopeTable t = table_make(&c, 4, 3, 3);
    double inv_freq[2], scale;
    rope_inv_freq(inv_freq, &scale, &c, 3);
    assert_near(inv_freq[0], 1, 1e-12);
    assert_near(inv_freq[1], 0.01, 1e-12);
    assert_near(scale, 1, 0);
    const double expected[3][4] = {{1, 0, 1, 0}, {0.5403, 0.8415, 1.0000, 0.0100}, {-0.4161, 0.9093, 0.9998, 0.0200}};
    float x[3][4];
    for (int pos = 0; pos < 3; pos++) {
        memcpy(x[pos], (float[]){1, 0, 1, 0}, sizeof x[pos]);
        rope_apply(x[pos], 1, 1, 4, &t, pos);
        for (int i = 0; i < 4; i++)
            assert_near((double)x[pos][i], expected[pos][i], 5.1e-5); /* four decimals are given */
    }
    assert_near(dot(x[1], x[0], 4), 1.5403, 5e-5);
    assert_near(dot(x[2], x[1], 4), 1.5403, 5e-5);
    assert_near(dot(x[2], x[0], 4), 0.5837, 6e-5); /* cos 2 + cos 0.02 = 0.58365 */
    table_free(&t);
}

/* NTK-aware scaling: the first pair stays, the last one turns 1 / factor as fast, at any length. */
static void static_ntk_by_hand(void **state) {
    (void)state;
    RopeConfig c = {.theta = 10000, .rotary_dim = 16, .scaling = ROPE_SCALING_NTK, .factor = 2};
    for (int seq_len = 1; seq_len < 100000; seq_len *= 10) {
        double inv_freq[8], scale;
        rope_inv_freq(inv_freq, &scale, &c, seq_len);
        assert_near(scale, 1, 0);
        assert_near(inv_freq[0], 1, 0);
        assert_near(inv_freq[1], pow(22081.79, -2.0 / 16), 1e-6); /* 10000 * 2^(16 / 14) */
        assert_near(inv_freq[7], pow(10000, -14.0 / 16) / 2, 1e-12);
    }
}

/* ---- Properties --------------------------------------------------------------------------------- */

static void check_norm(const RopeConfig *c, const RopeTable *t, double scale) {
    float x[HEAD_DIM], y[HEAD_DIM];
    for (int pos = 0; pos < CTX; pos++) {
        fill_random(x, HEAD_DIM);
        memcpy(y, x, sizeof x);
        rope_apply(y, 1, 1, HEAD_DIM, t, pos);
        double before = dot(x, x, c->rotary_dim), after = dot(y, y, c->rotary_dim);
        assert_near(after, scale * scale * before, 1e-5);
        for (int i = c->rotary_dim; i < HEAD_DIM; i++) assert_true(y[i] == x[i]);
    }
}
static void norms_are_kept(void **state) {
    (void)state;
    for_all(check_norm);
}

static void check_distance(const RopeConfig *c, const RopeTable *t, double scale) {
    (void)c, (void)scale;
    float q[HEAD_DIM], k[HEAD_DIM], qm[HEAD_DIM], kn[HEAD_DIM];
    fill_random(q, HEAD_DIM);
    fill_random(k, HEAD_DIM);
    for (int distance = -20; distance <= 20; distance += 5) {
        double first = NAN;
        for (int n = 20; n + 20 < CTX; n += 17) {
            memcpy(qm, q, sizeof q);
            memcpy(kn, k, sizeof k);
            rope_apply(qm, 1, 1, HEAD_DIM, t, n + distance);
            rope_apply(kn, 1, 1, HEAD_DIM, t, n);
            double score = dot(qm, kn, HEAD_DIM);
            if (isnan(first)) first = score;
            assert_near(score, first, 1e-5);
        }
    }
}
static void scores_depend_on_the_distance_alone(void **state) {
    (void)state;
    for_all(check_distance);
    /* Also far out, where a table in f32 angles would have lost it: (1, 0) and (1001, 1000). */
    RopeConfig c = {.theta = 10000, .rotary_dim = 4, .pairing = ROPE_PAIRS};
    RopeTable t = table_make(&c, 4, 1002, 1002);
    float a[4] = {1, 0, 1, 0}, b[4] = {1, 0, 1, 0};
    rope_apply(a, 1, 1, 4, &t, 1001);
    rope_apply(b, 1, 1, 4, &t, 1000);
    assert_near(dot(a, b, 4), cos(1) + cos(0.01), 1e-6);
    table_free(&t);
}

/* The pair as a complex number times exp(i angle), in double, is the specification. */
static void check_complex(const RopeConfig *c, const RopeTable *t, double scale) {
    double inv_freq[ROPE_MAX_PAIRS], same_scale;
    float x[HEAD_DIM], y[HEAD_DIM];
    for (int seq_len = ORIGINAL; seq_len <= CTX; seq_len += CTX - ORIGINAL) { /* which one was t filled for? */
        rope_inv_freq(inv_freq, &same_scale, c, seq_len);
        if (fabs((double)t->cos[c->rotary_dim / 2 * 9 + 3] - scale * cos(9 * inv_freq[3])) < 1e-6) break;
    }
    for (int pos = 0; pos < CTX; pos++) {
        fill_random(x, HEAD_DIM);
        memcpy(y, x, sizeof x);
        rope_apply(y, 1, 1, HEAD_DIM, t, pos);
        for (int i = 0; i < c->rotary_dim / 2; i++) {
            int a = c->pairing == ROPE_HALF ? i : 2 * i;
            int b = c->pairing == ROPE_HALF ? i + c->rotary_dim / 2 : 2 * i + 1;
            double complex z = ((double)x[a] + I * (double)x[b]) * scale * cexp(I * (pos * inv_freq[i]));
            assert_near((double)y[a], creal(z), 1e-6);
            assert_near((double)y[b], cimag(z), 1e-6);
        }
    }
}
static void matrix_form_is_complex_form(void **state) {
    (void)state;
    for_all(check_complex);
}

static void half_split_is_permuted_pairs(void **state) {
    (void)state;
    for (int which = 0; which < RULES; which++) {
        RopeConfig half = rule(which, ROPE_HALF), pairs = rule(which, ROPE_PAIRS);
        RopeTable th = table_make(&half, HEAD_DIM, CTX, CTX), tp = table_make(&pairs, HEAD_DIM, CTX, CTX);
        int d = half.rotary_dim;
        float x[HEAD_DIM], xp[HEAD_DIM];
        for (int pos = 0; pos < CTX; pos += 7) {
            fill_random(x, HEAD_DIM);
            memcpy(xp, x, sizeof x);
            for (int i = 0; i < d / 2; i++) xp[2 * i] = x[i], xp[2 * i + 1] = x[i + d / 2];
            rope_apply(x, 1, 1, HEAD_DIM, &th, pos);
            rope_apply(xp, 1, 1, HEAD_DIM, &tp, pos);
            for (int i = 0; i < d / 2; i++) {
                assert_true(xp[2 * i] == x[i]);
                assert_true(xp[2 * i + 1] == x[i + d / 2]);
            }
        }
        table_free(&th);
        table_free(&tp);
    }
}

/* Many rows and heads in one call, in any cut, are the same as one head of one row at a time. */
static void check_rows(const RopeConfig *c, const RopeTable *t, double scale) {
    (void)c, (void)scale;
    enum { ROWS = 11, HEADS = 3, STRIDE = HEADS * HEAD_DIM + 5, POS = 40 };
    static float x[ROWS * STRIDE], whole[ROWS * STRIDE], cut[ROWS * STRIDE], single[ROWS * STRIDE];
    fill_random(x, ROWS * STRIDE);
    memcpy(whole, x, sizeof x);
    memcpy(cut, x, sizeof x);
    memcpy(single, x, sizeof x);
    rope_apply(whole, ROWS, HEADS, STRIDE, t, POS);
    rope_apply(cut, 4, HEADS, STRIDE, t, POS);
    rope_apply(cut + 4 * STRIDE, ROWS - 4, HEADS, STRIDE, t, POS + 4);
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HEADS; h++) rope_apply(single + r * STRIDE + h * HEAD_DIM, 1, 1, HEAD_DIM, t, POS + r);
    assert_memory_equal(whole, cut, sizeof x);
    assert_memory_equal(whole, single, sizeof x);
    for (int r = 0; r < ROWS; r++) /* what lies between the rows is nobody's */
        assert_memory_equal(whole + r * STRIDE + HEADS * HEAD_DIM, x + r * STRIDE + HEADS * HEAD_DIM, 5 * sizeof *x);
}
static void any_cut_of_the_rows_is_the_same(void **state) {
    (void)state;
    for_all(check_rows);
}

/* ---- Accuracy ----------------------------------------------------------------------------------- */

static void accurate_to_position_1048576(void **state) {
    (void)state;
    enum { D = 8, LAST = 1048576 };
    RopeConfig c = {.theta = 10000, .rotary_dim = D, .pairing = ROPE_HALF};
    RopeTable t = table_make(&c, D, LAST + 1, LAST + 1);
    for (long pos = LAST - 5000; pos <= LAST; pos++) {
        for (int i = 0; i < D / 2; i++) {
            long double angle = (long double)pos * powl(10000.0L, -2.0L * i / D);
            assert_near((double)t.cos[pos * (D / 2) + i], (double)cosl(angle), 3.1e-8); /* half an ulp below 1 */
            assert_near((double)t.sin[pos * (D / 2) + i], (double)sinl(angle), 3.1e-8);
        }
    }
    table_free(&t);
}

/* ---- Against transformers ------------------------------------------------------------------------
 * Each entry's config goes through the real reader of config.json, so keys and defaults are tested too. */

static void read_config(Checkpoint *ck, const cJSON *config) {
    char path[] = "/tmp/rope-config-XXXXXX";
    cJSON *full = cJSON_Duplicate(config, 1);
    /* Llama reads no partial_rotary_factor; the mix of the swaps that is a LLaMA does. */
    bool partial = cJSON_HasObjectItem(full, "partial_rotary_factor");
    if (!cJSON_HasObjectItem(full, "model_type"))
        cJSON_AddStringToObject(full, "model_type", partial ? "llama_swap" : "llama");
    static const char *const swap[][2] = {{"norm", "rmsnorm"}, {"ffn", "swiglu"}, {"positions", "rope"}};
    for (int i = 0; i < 3; i++) cJSON_AddStringToObject(full, swap[i][0], swap[i][1]);
    static const struct {
        const char *key;
        double value;
    } needed[] = {
        {"intermediate_size", 64},
        {"num_hidden_layers", 1},
        {"vocab_size", 32},
        {"rms_norm_eps", 1e-5},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!cJSON_HasObjectItem(full, needed[i].key)) cJSON_AddNumberToObject(full, needed[i].key, needed[i].value);
    char *text = cJSON_Print(full);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    Error e = {0};
    HfConfig hf = {0};
    *ck = (Checkpoint){0};
    ck->path = strdup(path);
    int status = hf_config_read(ck, path, &hf, &e);
    unlink(path);
    if (status) fail_msg("%s\n%s", e.text, text);
    free(text);
    cJSON_Delete(full);
}

/* Returns the number of tables compared. */
static int compare_tables(const char *path, double tolerance) {
    Error e = {0};
    cJSON *root = json_read(path, &e), *table;
    if (!root) fail_msg("%s", e.text);
    int n = 0;
    cJSON_ArrayForEach(table, cJSON_GetObjectItem(root, "tables")) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(table, "name"));
        const cJSON *expected = cJSON_GetObjectItem(table, "inv_freq");
        double seq_len = cJSON_GetNumberValue(cJSON_GetObjectItem(table, "seq_len"));
        double inv_freq[ROPE_MAX_PAIRS], scale, worst = 0;
        Checkpoint ck;
        read_config(&ck, cJSON_GetObjectItem(table, "config"));
        if (rope_check(&ck.config.rope, ck.config.head_dim, name, &e)) fail_msg("%s", e.text);
        rope_inv_freq(inv_freq, &scale, &ck.config.rope, isnan(seq_len) ? 1 : (int)seq_len);
        assert_int_equal(ck.config.rope.rotary_dim / 2, cJSON_GetArraySize(expected));
        int i = 0;
        const cJSON *item;
        cJSON_ArrayForEach(item, expected) {
            worst = fmax(worst, fabs(inv_freq[i] - item->valuedouble) / item->valuedouble);
            i++;
        }
        double factor = cJSON_GetNumberValue(cJSON_GetObjectItem(table, "attention_scaling"));
        worst = fmax(worst, fabs(scale - factor) / factor);
        if (!(worst <= tolerance)) fail_msg("%s: relative error %.3g over %.3g", name, worst, tolerance);
        checkpoint_close(&ck);
        n++;
    }
    cJSON_Delete(root);
    return n;
}

static void grid_equals_transformers(void **state) {
    (void)state;
    assert_true(compare_tables("tests/fixtures/rope_grid.json", 1e-6) >= 100);
}

static void real_models_equal_transformers(void **state) {
    (void)state;
    if (access("../shared/cases/rope_tables.json", R_OK)) SKIP(NO_BANK);
    assert_true(compare_tables("../shared/cases/rope_tables.json", 1e-6) > 0);
}

/* ---- What makes no sense is refused --------------------------------------------------------------- */

static void nonsense_is_refused_by_name(void **state) {
    (void)state;
    const struct {
        int head_dim;
        RopeConfig c;
        const char *thing;
    } bad[] = {
        {7, {.theta = 1e4, .rotary_dim = 6}, "head_dim"},
        {8, {.theta = 1e4, .rotary_dim = 3}, "rotary dimension"},
        {8, {.theta = 1e4, .rotary_dim = 0}, "rotary dimension"},
        {8, {.theta = 1e4, .rotary_dim = 10}, "rotary dimension"},
        {4098, {.theta = 1e4, .rotary_dim = 4098}, "rotary dimension"},
        {8, {.theta = 0, .rotary_dim = 8}, "rope_theta"},
        {8, {.theta = -1e4, .rotary_dim = 8}, "rope_theta"},
        {8, {.theta = NAN, .rotary_dim = 8}, "rope_theta"},
        {8, {.theta = INFINITY, .rotary_dim = 8}, "rope_theta"},
        {8, {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_LINEAR, .factor = 0.5}, "factor"},
        {8, {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_LINEAR, .factor = NAN}, "factor"},
        {8, {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_DYNAMIC, .factor = 2}, "original context"},
        {8, {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_LLAMA3, .factor = 8, .original_ctx = 64}, "llama3"},
        {8, {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_YARN, .factor = 8, .original_ctx = 64}, "yarn"},
        {8,
         {.theta = 1e4, .rotary_dim = 8, .scaling = ROPE_SCALING_LONGROPE, .factor = 8, .original_ctx = 64},
         "longrope"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Error e = {0};
        assert_int_equal(rope_check(&bad[i].c, bad[i].head_dim, "FILE", &e), -1);
        assert_non_null(strstr(e.text, "FILE: "));
        assert_non_null(strstr(e.text, bad[i].thing));
        assert_non_null(strstr(e.text, "expected"));
    }
}

/* ---- Inside the model ----------------------------------------------------------------------------- */

typedef struct {
    float k[2][12 * 8], v[2][12 * 8]; /* [layer][token, n_kv_heads * head_dim] as the cache must hold them */
} Seen;

static void keep(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                 int pos) {
    Seen *s = arg;
    float *values = strcmp(name, "k_rot") == 0 ? s->k[layer] : strcmp(name, "v") == 0 ? s->v[layer] : NULL;
    for (int r = 0; values && r < rows; r++)
        memcpy(values + (pos + r) * cols + from, x + r * cols + from, (size_t)(to - from) * sizeof *x);
}

static void cache_holds_rotated_keys_and_plain_values(void **state) {
    (void)state;
    enum { N = 12 };
    Checkpoint ck;
    Config config;
    Weights weights;
    Model m;
    State s;
    Seen seen;
    Error e = {0};
    assert_int_equal(checkpoint_open(&ck, "tests/fixtures/ladder/rms_swiglu_rope_gqa", &e), 0);
    assert_int_equal(checkpoint_bind(&ck, &config, &weights, &e), 0);
    assert_int_equal(config.n_kv_heads * config.head_dim, 8);
    assert_int_equal(config.n_layers, 2);
    model_init(&m, &config, &weights);
    StateOptions options = {.n_ctx = 16, .n_batch = 5, .n_threads = 2, .kv_type = KV_F32};
    assert_int_equal(state_init(&s, &m, &options, &e), 0);
    s.tap = keep;
    s.tap_arg = &seen;
    int tokens[N] = {1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45};
    model_prefill(&m, &s, tokens, N - 2, 0, WANTED_LAST, NULL, NULL); /* two batches, then two decodes */
    for (int i = N - 2; i < N; i++) model_forward(&m, &s, tokens + i, 1, i);
    for (int layer = 0; layer < 2; layer++) {
        for (int pos = 0; pos < N; pos++) {
            for (int h = 0; h < config.n_kv_heads; h++) {
                float k[4], v[4];
                kv_cache_key(k, &s.attn.cache, layer, h, pos);
                kv_cache_value(v, &s.attn.cache, layer, h, pos);
                assert_memory_equal(k, seen.k[layer] + pos * 8 + h * 4, sizeof k);
                assert_memory_equal(v, seen.v[layer] + pos * 8 + h * 4, sizeof v);
            }
        }
    }
    state_close(&s);
    checkpoint_close(&ck);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quarter_turns),
        cmocka_unit_test(three_tokens_by_hand),
        cmocka_unit_test(norms_are_kept),
        cmocka_unit_test(scores_depend_on_the_distance_alone),
        cmocka_unit_test(matrix_form_is_complex_form),
        cmocka_unit_test(half_split_is_permuted_pairs),
        cmocka_unit_test(any_cut_of_the_rows_is_the_same),
        cmocka_unit_test(accurate_to_position_1048576),
        cmocka_unit_test(grid_equals_transformers),
        cmocka_unit_test(real_models_equal_transformers),
        cmocka_unit_test(static_ntk_by_hand),
        cmocka_unit_test(nonsense_is_refused_by_name),
        cmocka_unit_test(cache_holds_rotated_keys_and_plain_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

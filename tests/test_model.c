/* The forward pass against itself: however a text is cut into batches and over threads, and
 * whichever of the four switches are thrown, the same text gives the same logits. (Against
 * transformers: test_fixtures.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quantize.h"
#include "model.h"

#include "tests/random.h"

#include <cmocka.h> /* last: it makes fail a macro */

enum { DIM = 32, HIDDEN = 96, LAYERS = 4, HEADS = 4, HEAD_DIM = 8, VOCAB = 50, CTX = 40, TOKENS = 33 };

static float *vector(int n, float mean, float spread) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = mean + spread * random_unit();
    return x;
}

/* What the next model's matrices and heads are. ROUNDED: the values that Q8_0 can hold, in f32. */
static enum { EXACT, ROUNDED, QUANTIZED } kind;
static int head_dim = HEAD_DIM;

static Mat matrix(int rows, int cols) {
    float *data = vector(rows * cols, 0, 2 / sqrtf((float)cols));
    Mat m = {DTYPE_F32, rows, cols, (size_t)cols * sizeof *data, data, NULL, 0};
    if (kind == EXACT) return m;
    size_t bytes = dtype_row_bytes(DTYPE_Q8_0, (size_t)cols);
    Mat q = {DTYPE_Q8_0, rows, cols, bytes, malloc(bytes * (size_t)rows), NULL, 0};
    assert_true(dtype_quantize((void *)(uintptr_t)q.data, data, (size_t)(rows * cols), DTYPE_Q8_0));
    for (int r = 0; r < rows; r++) mat_dequantize_row(data + r * cols, &q, r);
    free((void *)(uintptr_t)(kind == ROUNDED ? q.data : m.data));
    return kind == ROUNDED ? m : q;
}

typedef struct {
    Config config;
    Weights weights;
    Model model;
} Fixture;

static void model_make(Fixture *f, int switches, int n_kv_heads) {
    seed = 1 + (uint64_t)switches;
    Config *c = &f->config;
    *c = (Config){.dim = DIM,
                  .hidden_dim = HIDDEN,
                  .n_layers = LAYERS,
                  .n_heads = HEADS,
                  .n_kv_heads = n_kv_heads,
                  .head_dim = head_dim,
                  .vocab_size = VOCAB,
                  .n_ctx = CTX,
                  .norm = switches & 1 ? NORM_RMSNORM : NORM_LAYERNORM,
                  .ffn = switches & 2 ? FFN_SWIGLU : FFN_GELU,
                  .pos = switches & 4 ? POS_ROPE : POS_LEARNED,
                  .rope = {.theta = 10000, .rotary_dim = head_dim, .pairing = ROPE_HALF, .factor = 1},
                  .norm_eps = 1e-5f};
    Weights *w = &f->weights;
    *w = (Weights){.tok_emb = matrix(VOCAB, DIM),
                   .pos_emb = matrix(CTX, DIM),
                   .lm_head = matrix(VOCAB, DIM),
                   .final_norm = vector(DIM, 1, 0.3f),
                   .final_norm_bias = vector(DIM, 0, 0.3f),
                   .layers = calloc(LAYERS, sizeof(Layer))};
    int q_dim = HEADS * head_dim, kv_dim = n_kv_heads * head_dim;
    for (int i = 0; i < LAYERS; i++)
        w->layers[i] = (Layer){.attn_norm = vector(DIM, 1, 0.3f),
                               .attn_norm_bias = vector(DIM, 0, 0.3f),
                               .attn.wq = matrix(q_dim, DIM),
                               .attn.wk = matrix(kv_dim, DIM),
                               .attn.wv = matrix(kv_dim, DIM),
                               .attn.wo = matrix(DIM, q_dim),
                               .attn.bq = vector(q_dim, 0, 0.3f),
                               .attn.bk = vector(kv_dim, 0, 0.3f),
                               .attn.bv = vector(kv_dim, 0, 0.3f),
                               .attn.bo = vector(DIM, 0, 0.3f),
                               .ffn_norm = vector(DIM, 1, 0.3f),
                               .ffn_norm_bias = vector(DIM, 0, 0.3f),
                               .ffn.w_gate = matrix(HIDDEN, DIM),
                               .ffn.w_up = matrix(HIDDEN, DIM),
                               .ffn.w_down = matrix(DIM, HIDDEN),
                               .ffn.b_gate = vector(HIDDEN, 0, 0.3f),
                               .ffn.b_up = vector(HIDDEN, 0, 0.3f),
                               .ffn.b_down = vector(DIM, 0, 0.3f)};
    model_init(&f->model, c, w);
}

static void model_free(Fixture *f) {
    const void *all[] = {f->weights.tok_emb.data, f->weights.pos_emb.data, f->weights.lm_head.data,
                         f->weights.final_norm, f->weights.final_norm_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free((void *)(uintptr_t)all[i]);
    for (int i = 0; i < LAYERS; i++) {
        const Layer *l = &f->weights.layers[i];
        const void *of_layer[] = {l->attn_norm,       l->attn_norm_bias, l->attn.wq.data,    l->attn.wk.data,
                                  l->attn.wv.data,    l->attn.wo.data,   l->attn.bq,         l->attn.bk,
                                  l->attn.bv,         l->attn.bo,        l->ffn_norm,        l->ffn_norm_bias,
                                  l->ffn.w_gate.data, l->ffn.w_up.data,  l->ffn.w_down.data, l->ffn.b_gate,
                                  l->ffn.b_up,        l->ffn.b_down};
        for (size_t j = 0; j < sizeof of_layer / sizeof *of_layer; j++) free((void *)(uintptr_t)of_layer[j]);
    }
    free(f->weights.layers);
}

/* Runs the text in pieces of `piece` tokens and keeps every position's logits. */
static void run(float *logits, const Fixture *f, StateOptions options, int piece) {
    State s;
    Error e = {0};
    assert_int_equal(state_init(&s, &f->model, &options, &e), 0);
    int tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) tokens[i] = (i * 7 + 3) % VOCAB;
    for (int pos = 0; pos < TOKENS; pos += piece) {
        int n = TOKENS - pos < piece ? TOKENS - pos : piece;
        model_forward(&f->model, &s, tokens + pos, n, pos);
        for (int r = 0; r < n; r++) {
            const float *row = model_logits(&f->model, &s, r);
            memcpy(logits + (pos + r) * VOCAB, row, VOCAB * sizeof *row);
        }
    }
    state_close(&s);
}

static float distance(const float *a, const float *b) {
    float max = 0;
    for (int i = 0; i < TOKENS * VOCAB; i++) max = fmaxf(max, isfinite(a[i]) ? fabsf(a[i] - b[i]) : INFINITY);
    return max;
}

static void pieces_and_threads_do_not_matter(void **state) {
    (void)state;
    static float whole[TOKENS * VOCAB], other[TOKENS * VOCAB];
    for (int switches = 0; switches < 8; switches++) {
        for (int n_kv_heads = 1; n_kv_heads <= HEADS; n_kv_heads *= 2) {
            Fixture f;
            model_make(&f, switches, n_kv_heads);
            StateOptions options = {.n_ctx = CTX, .n_batch = TOKENS, .n_threads = 1, .kv_type = KV_F32};
            run(whole, &f, options, TOKENS);
            run(other, &f, options, 1);
            assert_true(distance(whole, other) < 1e-4f);
            run(other, &f, options, 7);
            assert_true(distance(whole, other) < 1e-4f);
            options.n_threads = 3;
            run(other, &f, options, TOKENS);
            assert_true(distance(whole, other) < 1e-4f);
            run(other, &f, options, 1);
            assert_true(distance(whole, other) < 1e-4f);
            options.kv_type = KV_F16;
            run(other, &f, options, 5);
            assert_true(distance(whole, other) < 2e-2f); /* 11 bits of mantissa in k and v */
            model_free(&f);
        }
    }
}

/* 8-bit activations are made head by head and piece by piece, by whoever made the values: the same bits for every
 * number of threads, near to f32 activations in the same weights. Heads of 8 are no whole block. */
static void quantized_is_near(void **state) {
    (void)state;
    static float exact[TOKENS * VOCAB], whole[TOKENS * VOCAB], other[TOKENS * VOCAB];
    static const int pieces[] = {TOKENS, 11, 8, 4, 3, 1};
    for (int i = 0; i < 12; i++) {
        Fixture f;
        StateOptions options = {.n_ctx = CTX, .n_batch = TOKENS, .n_threads = 1, .kv_type = KV_F32};
        head_dim = i % 3 == 0 ? 8 : i % 3 == 1 ? 32 : 48;
        kind = ROUNDED;
        model_make(&f, 4 + i / 3, 2);
        run(exact, &f, options, TOKENS);
        model_free(&f);
        kind = QUANTIZED;
        model_make(&f, 4 + i / 3, 2);
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            options.n_threads = 1;
            run(whole, &f, options, pieces[j]);
            float off = distance(exact, whole); /* logits are about 2 */
            if (!(off < 0.2f)) fail_msg("head_dim %d, pieces of %d: off by %g", head_dim, pieces[j], (double)off);
            options.n_threads = 3;
            run(other, &f, options, pieces[j]);
            assert_memory_equal(whole, other, sizeof whole);
        }
        options.deterministic = true; /* then also for every cut */
        run(whole, &f, options, TOKENS);
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            run(other, &f, options, pieces[j]);
            assert_memory_equal(whole, other, sizeof whole);
        }
        model_free(&f);
    }
    kind = EXACT;
    head_dim = HEAD_DIM;
}

/* --deterministic: not close but equal, for every number of threads and every split. */
static void deterministic_is_bit_equal(void **state) {
    (void)state;
    static float whole[TOKENS * VOCAB], other[TOKENS * VOCAB];
    static const int ways[][2] = {{1, 1}, {1, 2}, {2, 3}, {5, 1}, {TOKENS, 2}, {16, 4}};
    for (int switches = 0; switches < 8; switches++) {
        Fixture f;
        model_make(&f, switches, 2);
        StateOptions options = {
            .n_ctx = CTX, .n_batch = TOKENS, .n_threads = 1, .kv_type = KV_F16, .deterministic = true};
        run(whole, &f, options, TOKENS);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            options.n_threads = ways[i][1];
            run(other, &f, options, ways[i][0]);
            assert_memory_equal(whole, other, sizeof whole);
        }
        model_free(&f);
    }
}

/* A pass of which only the last rows' logits are wanted leaves the last layer out of the others, keys and values apart:
 * the same bits in those logits, and in those of the token after it. */
static void unwanted_rows_change_nothing(void **state) {
    (void)state;
    enum { N = TOKENS - 1 };
    static const int wanted[] = {N, 1, 2, 12, 0};
    for (int i = 0; i < 12; i++) {
        Fixture f;
        kind = i < 6 ? EXACT : QUANTIZED;
        head_dim = i % 2 ? HEAD_DIM : 32;
        model_make(&f, 7, 2);
        f.model.config.attn.qk_norm = i % 3 ? QK_NORM_NONE : QK_NORM_WHOLE;
        float *norm = vector(HEADS * head_dim, 1, 0.3f);
        for (int l = 0; l < LAYERS && i % 3 == 0; l++)
            f.weights.layers[l].attn.q_norm = f.weights.layers[l].attn.k_norm = norm;
        int tokens[TOKENS];
        for (int t = 0; t < TOKENS; t++) tokens[t] = (t * 7 + 3) % VOCAB;
        float last[VOCAB], next[VOCAB], first_row[DIM];
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++) {
            StateOptions options = {.n_ctx = CTX, .n_batch = TOKENS, .n_threads = 1 + i % 2, .kv_type = KV_F32};
            State s;
            Error e = {0};
            assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
            model_pass(&f.model, &s, tokens, N, 0, N, wanted[j]);
            if (j == 0) memcpy(first_row, s.x, sizeof first_row);
            else assert_memory_not_equal(first_row, s.x, sizeof first_row); /* the last layer left it out */
            for (int row = 1; row <= 2; row++) {
                if (wanted[j]) {
                    const float *logits = model_logits(&f.model, &s, row == 1 ? N - 1 : 0);
                    if (j == 0) memcpy(row == 1 ? last : next, logits, sizeof last);
                    else assert_memory_equal(row == 1 ? last : next, logits, sizeof last);
                }
                if (row == 1) model_forward(&f.model, &s, tokens + N, 1, N);
            }
            if (!wanted[j]) assert_memory_equal(next, model_logits(&f.model, &s, 0), sizeof next);
            state_close(&s);
        }
        free(norm);
        model_free(&f);
    }
    kind = EXACT;
    head_dim = HEAD_DIM;
}

static bool until_second(void *arg, int layer) {
    *(int *)arg = layer;
    return layer < 1;
}

/* A pass that layer_done ends goes one layer further, on every thread; read again, the text is as if nothing had been.
 */
static void ended_pass_leaves_nothing(void **state) {
    (void)state;
    static float whole[TOKENS * VOCAB];
    int tokens[TOKENS], last;
    for (int i = 0; i < TOKENS; i++) tokens[i] = (i * 7 + 3) % VOCAB;
    Fixture f;
    model_make(&f, 7, 2);
    for (int threads = 1; threads <= 3; threads++) {
        StateOptions options = {
            .n_ctx = CTX, .n_batch = 20, .n_threads = threads, .kv_type = KV_F16, .deterministic = true};
        State s;
        Error e = {0};
        run(whole, &f, options, 20);
        assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
        s.layer_done = until_second;
        s.layer_arg = &last;
        assert_int_equal(model_prefill(&f.model, &s, tokens, TOKENS, 0, WANTED_LAST, NULL, NULL), 0);
        assert_int_equal(last, 2);
        s.layer_done = NULL;
        assert_int_equal(model_prefill(&f.model, &s, tokens, TOKENS, 0, WANTED_LAST, NULL, NULL), TOKENS);
        assert_memory_equal(model_logits(&f.model, &s, (TOKENS - 1) % 20), whole + (TOKENS - 1) * VOCAB,
                            VOCAB * sizeof *whole);
        state_close(&s);
    }
    model_free(&f);
}

/* Three texts in the same passes, some being read and some written, one with the start of another's cache: each gets
 * the bits that it gets alone. */
static void texts_do_not_see_each_other(void **state) {
    (void)state;
    enum { TEXTS = 3, SHARED = 9 };
    static const int lengths[TEXTS] = {21, 12, 30}, pieces[TEXTS] = {1, 5, 7};
    for (int switches = 0; switches < 16; switches++) {
        Fixture f;
        kind = switches & 1 ? QUANTIZED : EXACT;
        head_dim = switches & 8 ? 32 : HEAD_DIM;
        model_make(&f, switches & 7, 2);
        if (switches & 2) f.weights.layers[1].attn.window = 6;
        StateOptions options = {.n_ctx = CTX,
                                .n_batch = TOKENS,
                                .n_logits = TEXTS,
                                .n_texts = TEXTS,
                                .n_threads = 1 + switches % 3,
                                .kv_type = KV_F16,
                                .deterministic = true};
        State s;
        Error e = {0};
        assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
        static int tokens[TEXTS][CTX];
        static float alone[TEXTS][CTX][VOCAB];
        for (int i = 0; i < TEXTS; i++)
            for (int t = 0; t < lengths[i]; t++) {
                tokens[i][t] = (t * 7 + (t < SHARED ? 0 : i * 5) + 3) % VOCAB;
                model_forward(&f.model, &s, &tokens[i][t], 1, t);
                memcpy(alone[i][t], model_logits(&f.model, &s, 0), sizeof alone[i][t]);
            }
        int done[TEXTS] = {0}, row[TEXTS];
        for (bool more = true; more;) {
            int all[TOKENS], n = 0, spans = 0, at[TEXTS];
            Span span[TEXTS];
            for (int i = 0; i < TEXTS; i++) {
                if (i == 2 && done[2] == 0 && done[0] < SHARED) continue; /* waits for the text it begins like */
                if (i == 2 && done[2] == 0) sequence_copy(&s.texts[2], &s.texts[0], done[2] = SHARED);
                int more_of_it = lengths[i] - done[i] < pieces[i] ? lengths[i] - done[i] : pieces[i];
                if (more_of_it == 0) continue;
                memcpy(all + n, tokens[i] + done[i], (size_t)more_of_it * sizeof *all);
                span[spans] = (Span){&s.texts[i], n, more_of_it, done[i], done[i] + more_of_it};
                at[spans] = i;
                n += more_of_it;
                done[i] += more_of_it;
                row[spans++] = n - 1;
            }
            more = spans > 0;
            if (!more) break;
            model_pass_spans(&f.model, &s, all, span, spans);
            const float *found = model_logits_rows(&f.model, &s, row, spans);
            for (int i = 0; i < spans; i++) {
                int t = done[at[i]] - 1;
                if (memcmp(alone[at[i]][t], found + i * VOCAB, sizeof alone[0][0]))
                    fail_msg("switches %d: text %d differs at position %d", switches, at[i], t);
            }
        }
        state_close(&s);
        model_free(&f);
    }
    kind = EXACT;
    head_dim = HEAD_DIM;
}

/* A model without RoPE cannot see a jump in positions of its keys; with RoPE or wpe it must. */
static void positions_matter(void **state) {
    (void)state;
    for (int switches = 0; switches < 8; switches += 4) {
        Fixture f;
        model_make(&f, switches, 2);
        StateOptions options = {.n_ctx = CTX, .n_batch = 4, .n_threads = 1, .kv_type = KV_F32};
        State s;
        Error e = {0};
        assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
        int tokens[4] = {1, 2, 1, 2}, swapped[4] = {2, 1, 1, 2};
        float first[VOCAB];
        model_forward(&f.model, &s, tokens, 4, 0);
        memcpy(first, model_logits(&f.model, &s, 3), sizeof first);
        model_forward(&f.model, &s, swapped, 4, 0);
        const float *second = model_logits(&f.model, &s, 3);
        float max = 0;
        for (int i = 0; i < VOCAB; i++) max = fmaxf(max, fabsf(first[i] - second[i]));
        assert_true(max > 1e-2f);
        state_close(&s);
        model_free(&f);
    }
}

/* Decode computes the angles of the new position and of no other, whatever the rule. */
static void angles_are_computed_once(void **state) {
    (void)state;
    static const float factors[HEAD_DIM / 2] = {1, 2, 3, 4};
    static const RopeScaling rules[] = {ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_DYNAMIC,
                                        ROPE_SCALING_LONGROPE};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        Fixture f;
        model_make(&f, 7, 2);
        RopeConfig *rope = &f.model.config.rope;
        rope->scaling = rules[i];
        rope->factor = 2;
        rope->original_ctx = CTX / 2;
        rope->short_factor = rope->long_factor = factors;
        StateOptions options = {.n_ctx = CTX, .n_batch = 8, .n_threads = 1, .kv_type = KV_F32};
        State s;
        Error e = {0};
        assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
        int tokens[CTX] = {0}, pairs = HEAD_DIM / 2;
        model_forward(&f.model, &s, tokens, 8, 0);
        for (int pos = 8; pos < CTX; pos++) {
            float *cosine = s.attn.rope[ROPE_MAIN].cos;
            for (int j = 0; j < CTX * pairs; j++) cosine[j] = NAN;
            model_forward(&f.model, &s, tokens, 1, pos);
            int computed = 0;
            for (int row = 0; row < CTX; row++) computed += !isnan(cosine[row * pairs]);
            if (computed != 1 || isnan(cosine[pos * pairs]))
                fail_msg("rule %zu, position %d: %d rows computed", i, pos, computed);
            assert_true(isfinite(*model_logits(&f.model, &s, 0)));
        }
        state_close(&s);
        model_free(&f);
    }
}

/* A block of q8_0 is 32 values: a head of 8 would be written past its end. */
static void q8_0_of_small_heads_is_refused(void **state) {
    (void)state;
    Fixture f;
    model_make(&f, 7, 2);
    StateOptions options = {.n_ctx = CTX, .n_batch = 8, .n_threads = 1, .kv_type = KV_Q8_0};
    State s;
    Error e = {0};
    assert_int_equal(state_init(&s, &f.model, &options, &e), -1);
    assert_non_null(strstr(e.text, "expected head_dim to be a multiple of 32 for q8_0, found 8"));
    model_free(&f);
}

static int seen_rows[64], n_seen;
static const char *seen_name[64];
static void note(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                 int pos) {
    (void)arg, (void)layer, (void)x, (void)cols, (void)pos;
    assert_true(from < to && to <= cols);
    if (n_seen == 64 || from > 0) return; /* a later head */
    seen_name[n_seen] = name;
    seen_rows[n_seen++] = rows;
}

static void tap_sees_every_step(void **state) {
    (void)state;
    static const char *expected[] = {"attn_norm", "q",        "q_rot",    "k",       "k_rot",
                                     "v",         "attn_out", "ffn_norm", "ffn_out", "out"};
    Fixture f;
    model_make(&f, 7, 2);
    StateOptions options = {.n_ctx = CTX, .n_batch = 8, .n_threads = 2, .kv_type = KV_F32};
    State s;
    Error e = {0};
    assert_int_equal(state_init(&s, &f.model, &options, &e), 0);
    s.tap = note;
    n_seen = 0;
    int tokens[3] = {1, 2, 3};
    model_forward(&f.model, &s, tokens, 3, 0);
    model_logits(&f.model, &s, 2);
    assert_int_equal(n_seen, 1 + 10 * LAYERS + 2);
    assert_string_equal(seen_name[0], "embed");
    for (int i = 0; i < 10 * LAYERS; i++) {
        assert_string_equal(seen_name[1 + i], expected[i % 10]);
        assert_int_equal(seen_rows[1 + i], 3);
    }
    assert_string_equal(seen_name[n_seen - 2], "final_norm");
    assert_string_equal(seen_name[n_seen - 1], "logits");
    state_close(&s);
    model_free(&f);
}

static void too_large_is_refused(void **state) {
    (void)state;
    Fixture f;
    model_make(&f, 7, 2);
    f.model.config.head_dim = 1 << 28;
    StateOptions options = {.n_ctx = 1 << 30, .n_batch = 8, .n_threads = 1, .kv_type = KV_F32};
    State s;
    Error e = {0};
    assert_int_equal(state_init(&s, &f.model, &options, &e), -1);
    assert_non_null(strstr(e.text, "memory"));
    model_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_and_threads_do_not_matter),
        cmocka_unit_test(quantized_is_near),
        cmocka_unit_test(deterministic_is_bit_equal),
        cmocka_unit_test(unwanted_rows_change_nothing),
        cmocka_unit_test(ended_pass_leaves_nothing),
        cmocka_unit_test(texts_do_not_see_each_other),
        cmocka_unit_test(positions_matter),
        cmocka_unit_test(angles_are_computed_once),
        cmocka_unit_test(q8_0_of_small_heads_is_refused),
        cmocka_unit_test(tap_sees_every_step),
        cmocka_unit_test(too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

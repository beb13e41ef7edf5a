/* Layers with a sliding window keep their window alone: the same bits as with every position kept, for every KV type
 * and however the text is cut; and where a position is needed that is gone, the text is read anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "gen/batch.h"
#include "gen/snapshot.h"
#include "talk.h"

#include <cmocka.h> /* last: it makes a macro of fail */

enum { TEXT = 230, MODEL_CTX = 512, MOST_VOCAB = 4096 };
#define MODEL  "weights/shakespeare.gguf" /* heads of 32 features: q8_0 too */
#define FAMILY "tests/fixtures/families/"

typedef struct {
    Checkpoint ck;
    Config config;
    Weights weights;
    Model model;
} Opened;

/* With a window: two layers, of which the first gets it. Else what the file says. */
static void open_model(Opened *o, const char *path, int window) {
    Error e = {""};
    if (checkpoint_open(&o->ck, path, &e) || checkpoint_bind(&o->ck, &o->config, &o->weights, &e))
        fail_msg("%s: %s", path, e.text);
    if (window) o->config.n_layers = 2, o->weights.layers[0].attn.window = window;
    model_init(&o->model, &o->config, &o->weights);
    assert_true(o->config.vocab_size <= MOST_VOCAB);
}

static void open_state(State *s, const Opened *o, KvType type, int batch, int n_texts) {
    Error e = {""};
    StateOptions options = {.n_ctx = MODEL_CTX,
                            .n_batch = batch,
                            .n_logits = n_texts,
                            .n_texts = n_texts,
                            .n_threads = 2,
                            .kv_type = type,
                            .deterministic = true};
    if (state_init(s, &o->model, &options, &e)) fail_msg("%s", e.text);
}

static void text(int *tokens, int n, int vocab) {
    for (int i = 0; i < n; i++) tokens[i] = (i * i * 7 + i * 13 + 3) % vocab;
}

/* The logits of the last token of the text in pieces of n. */
static const float *read_in(State *s, const Model *m, const int *tokens, int n, int from, int piece) {
    for (int pos = from; pos < n; pos += piece) {
        int more = n - pos < piece ? n - pos : piece;
        model_forward(m, s, tokens + pos, more, pos);
        if (pos + more == n) return model_logits(m, s, more - 1);
    }
    return NULL;
}

static int rows_of(const State *s, const Opened *o) {
    int least = MODEL_CTX;
    for (int i = 0; i < o->config.n_layers; i++)
        if (s->attn.cache.layers[i].rows < least) least = s->attn.cache.layers[i].rows;
    return least;
}

static void check_text(const char *path, int window, KvType type) {
    static const int pieces[] = {1, 7, 16};
    Opened o;
    State whole, ring;
    int tokens[TEXT];
    float expected[MOST_VOCAB];
    open_model(&o, path, window);
    size_t vocab_bytes = (size_t)o.config.vocab_size * sizeof *expected;
    text(tokens, TEXT, o.config.vocab_size);
    for (int n = TEXT; n > 16; n /= 4) {
        open_state(&whole, &o, type, MODEL_CTX, 1); /* a batch as long as the context: every position is kept */
        assert_int_equal(rows_of(&whole, &o), MODEL_CTX);
        memcpy(expected, read_in(&whole, &o.model, tokens, n, 0, n), vocab_bytes);
        open_state(&ring, &o, type, 16, 1);
        assert_true(rows_of(&ring, &o) < TEXT / 2);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
            if (memcmp(read_in(&ring, &o.model, tokens, n, 0, pieces[i]), expected, vocab_bytes))
                fail_msg("%s, window %d: %d tokens in pieces of %d differ", path, window, n, pieces[i]);
        state_close(&whole);
        state_close(&ring);
    }
    checkpoint_close(&o.ck);
}

static void test_same_bits(void **state) {
    (void)state;
    static const char *const families[] = {"mistral", "gemma2", "gemma3_text", "gpt_oss", "cohere2", "qwen2_window"};
    for (int window = 1; window < 50; window = 3 * window + 2) /* 1, 5, 17 */
        for (KvType type = KV_F32; type <= KV_Q8_0; type++) check_text(MODEL, window, type);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[200];
        snprintf(path, sizeof path, FAMILY "%s", families[i]);
        check_text(path, 0, KV_F32);
        check_text(path, 0, KV_F16);
    }
}

/* A longer context costs a layer with a window nothing. */
static void test_memory(void **state) {
    (void)state;
    Opened o;
    open_model(&o, MODEL, 20);
    for (int i = 0; i < o.config.n_layers; i++) o.weights.layers[i].attn.window = 20;
    o.model.config.pos = POS_LEARNED; /* no tables of angles, which grow */
    StateOptions few = {.n_ctx = 1024, .n_batch = 16, .n_threads = 1, .kv_type = KV_F16}, many = few;
    many.n_ctx = 1 << 20;
    assert_int_equal(state_bytes(&o.model, &few), state_bytes(&o.model, &many));
    for (int i = 0; i < o.config.n_layers; i++) o.weights.layers[i].attn.window = 0;
    assert_true(state_bytes(&o.model, &many) - state_bytes(&o.model, &few) >
                kv_bytes_per_token(KV_F16, o.config.n_layers, o.config.n_kv_heads, o.config.head_dim) * 1000000);
    checkpoint_close(&o.ck);
}

/* A text that goes on after its first n tokens: the same as one that was read so, or nothing is kept of it. */
static void test_going_back(void **state) {
    (void)state;
    Opened o;
    State s, fresh;
    int tokens[TEXT], other[TEXT], n_kept = 0, n_gone = 0;
    float expected[MOST_VOCAB];
    open_model(&o, MODEL, 20);
    size_t vocab_bytes = (size_t)o.config.vocab_size * sizeof *expected;
    text(tokens, TEXT, o.config.vocab_size);
    for (int back = 0; back < TEXT; back += back < 15 ? 3 : 9) {
        int n = TEXT - back, more = TEXT - n < 20 ? TEXT - n : 20;
        open_state(&s, &o, KV_F16, 16, 1);
        open_state(&fresh, &o, KV_F16, 16, 1);
        read_in(&s, &o.model, tokens, TEXT, 0, 16);
        int kept = kv_cache_kept(&s.attn.cache, n);
        assert_true(kept == 0 || kept == n);
        n_kept += kept > 0;
        n_gone += kept == 0;
        if (back <= 10) assert_int_equal(kept, n);
        memcpy(other, tokens, sizeof other);
        for (int i = n; i < TEXT; i++) other[i] = (tokens[i] + 1) % o.config.vocab_size;
        if (more) {
            memcpy(expected, read_in(&fresh, &o.model, other, n + more, 0, 5), vocab_bytes);
            if (memcmp(read_in(&s, &o.model, other, n + more, kept, 5), expected, vocab_bytes))
                fail_msg("%d tokens back, %d kept: differs", back, kept);
        }
        state_close(&s);
        state_close(&fresh);
    }
    assert_true(n_kept > 5 && n_gone > 10);
    checkpoint_close(&o.ck);
}

/* The start of another text, copied while it is there; and what has been copied is its window alone. */
static void test_copies(void **state) {
    (void)state;
    Opened o;
    State s;
    int tokens[TEXT];
    float expected[MOST_VOCAB];
    open_model(&o, MODEL, 20);
    size_t vocab_bytes = (size_t)o.config.vocab_size * sizeof *expected;
    text(tokens, TEXT, o.config.vocab_size);
    open_state(&s, &o, KV_F16, 16, 2);
    memcpy(expected, read_in(&s, &o.model, tokens, TEXT, 0, 16), vocab_bytes);
    read_in(&s, &o.model, tokens, 150, 0, 16); /* of which the first 145 are another text's too */
    assert_int_equal(kv_cache_kept(&s.texts[0].cache, 100), 0);
    assert_int_equal(kv_cache_kept(&s.texts[0].cache, 145), 145);
    sequence_copy(&s.texts[1], &s.texts[0], 145);
    assert_int_equal(kv_cache_kept(&s.texts[1].cache, 145), 145);
    assert_int_equal(kv_cache_kept(&s.texts[1].cache, 100), 0);
    for (int pos = 145; pos < TEXT; pos += 10) {
        int n = TEXT - pos < 10 ? TEXT - pos : 10;
        model_pass_spans(&o.model, &s, tokens + pos, &(Span){&s.texts[1], 0, n, pos, pos + n}, 1);
        const float *found = model_logits_rows(&o.model, &s, (int[]){n - 1}, 1);
        if (pos + n == TEXT && memcmp(found, expected, vocab_bytes)) fail_msg("after a copy the text differs");
    }
    state_close(&s);
    checkpoint_close(&o.ck);
}

/* The logits after one more token. */
static const float *after(Talk *x, int token) {
    model_forward(&x->s.model, &x->s.state, &token, 1, x->g.n_cached);
    return model_logits(&x->s.model, &x->s.state, 0);
}

/* A session is written after the window has gone round, and read with another batch. */
static void test_session(void **state) {
    (void)state;
    Talk a, b;
    Error e = {""};
    int tokens[TEXT];
    float expected[MOST_VOCAB];
    char path[] = "/tmp/test_windowXXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    talk_open(&a, FAMILY "mistral", KV_F32, 8, MODEL_CTX, true);
    talk_open(&b, FAMILY "mistral", KV_F32, 60, MODEL_CTX, true);
    int vocab = a.s.model.config.vocab_size;
    text(tokens, TEXT, vocab);
    assert_int_equal(generator_prompt(&a.g, tokens, TEXT, &e), 0);
    assert_true(kv_cache_wrapped(&a.s.state.attn.cache));
    if (snapshot_write(path, &a.g, NULL, &e) || snapshot_read(path, &b.g, NULL, &e)) fail_msg("%s", e.text);
    assert_int_equal(b.g.n_cached, TEXT);
    memcpy(expected, after(&a, 5), (size_t)vocab * sizeof *expected);
    assert_memory_equal(after(&b, 5), expected, (size_t)vocab * sizeof *expected);
    unlink(path);
    talk_close(&a);
    talk_close(&b);
}

/* Keys of a window that has gone round are not moved: the rest is read anew. Before that they are. */
static void test_shift(void **state) {
    (void)state;
    Talk a, b;
    Error e = {""};
    int tokens[TEXT], left[TEXT];
    talk_open(&a, FAMILY "mistral", KV_F32, 8, MODEL_CTX, true);
    talk_open(&b, FAMILY "mistral", KV_F32, 8, MODEL_CTX, true);
    int vocab = a.s.model.config.vocab_size;
    text(tokens, TEXT, vocab);
    memcpy(left, tokens, 4 * sizeof *left);
    memcpy(left + 4, tokens + 100, 100 * sizeof *left);
    assert_int_equal(generator_prompt(&a.g, tokens, TEXT, &e), 0);
    assert_int_equal(generator_rewrite(&a.g, left, 104, &e), 0);
    assert_int_equal(generator_prompt(&b.g, left, 104, &e), 0);
    assert_int_equal(a.g.n_cached, 104);
    float expected[MOST_VOCAB];
    memcpy(expected, after(&b, 5), (size_t)vocab * sizeof *expected);
    assert_memory_equal(after(&a, 5), expected, (size_t)vocab * sizeof *expected);
    assert_int_equal(generator_prompt(&b.g, tokens, 24, &e), 0);
    assert_false(kv_cache_wrapped(&b.s.state.attn.cache));
    memcpy(left, tokens + 6, 18 * sizeof *left);
    generator_reuse(&b.g, left, 18);
    assert_int_equal(b.g.n_cached, 18);
    talk_close(&a);
    talk_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_memory),  cmocka_unit_test(test_going_back),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_session), cmocka_unit_test(test_shift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

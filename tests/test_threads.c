/* One Model and one Tokenizer, used by several threads at once: each conversation's State gets what it gets alone.
 * Under ThreadSanitizer (make CONFIG=tsan test) this also shows that nothing shared is written. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "gen/sampler.h"
#include "model.h"
#include "tokenizer.h"

#include <cmocka.h> /* last: it makes a macro of fail */

enum { TALKS = 4, PROMPT = 12, LENGTH = 60 };

typedef struct {
    const Model *m;
    const Tokenizer *t;
    int number, n_threads;
    KvType type;
    int tokens[LENGTH];
    bool failed;
} Talk;

/* A prompt of its own, then a drawn text: all that a conversation does. */
static void *talk(void *arg) {
    Talk *c = arg;
    State s;
    Sampler sampler = {0};
    Error e = {""};
    StateOptions options = {.n_ctx = LENGTH, .n_batch = 5, .n_threads = c->n_threads, .kv_type = c->type};
    SamplerParams params = {
        .temperature = 1, .top_p = 0.9f, .repeat_penalty = 1.1f, .repeat_last = 16, .seed = (uint64_t)c->number};
    c->failed = state_init(&s, c->m, &options, &e) || sampler_init(&sampler, &params, c->m->config.vocab_size, &e);
    if (c->failed) return NULL;
    for (int i = 0; i < PROMPT; i++) c->tokens[i] = (7 * i + 3 * c->number + 1) % c->m->config.vocab_size;
    model_prefill(c->m, &s, c->tokens, PROMPT, 0, WANTED_LAST, NULL, NULL);
    model_logits(c->m, &s, (PROMPT - 1) % options.n_batch);
    for (int pos = PROMPT; pos < LENGTH; pos++) {
        c->tokens[pos] = sampler_next(&sampler, s.logits);
        if ((c->failed = c->tokens[pos] < 0)) break;
        sampler_accept(&sampler, c->tokens[pos]);
        model_forward(c->m, &s, &c->tokens[pos], 1, pos);
        model_logits(c->m, &s, 0);
    }
    if (c->t) {
        static const char text[] = "Hello there, 12 people <s> \xe2\x82\xac";
        int *ids, n;
        c->failed |=
            tokenizer_encode(c->t, text, sizeof text - 1, TOKENIZE_BOS | TOKENIZE_SPECIAL, &ids, &n, &e) || n < 5;
        free(ids);
    }
    sampler_close(&sampler);
    state_close(&s);
    return NULL;
}

static void at_once(const char *path, const char *tokenizer, int n_threads, KvType type) {
    Checkpoint ck;
    Config config;
    Weights weights;
    Model m;
    Error e = {""};
    Talk alone[TALKS], together[TALKS];
    pthread_t thread[TALKS];
    if (checkpoint_open(&ck, path, &e) || checkpoint_bind(&ck, &config, &weights, &e)) fail_msg("%s", e.text);
    model_init(&m, &config, &weights);
    Tokenizer *t = tokenizer_open(tokenizer, &e);
    if (!t) fail_msg("%s", e.text);
    for (int i = 0; i < TALKS; i++) {
        alone[i] = together[i] = (Talk){.m = &m, .t = t, .number = i, .n_threads = n_threads, .type = type};
        talk(&alone[i]);
        assert_false(alone[i].failed);
    }
    for (int i = 0; i < TALKS; i++) assert_int_equal(pthread_create(&thread[i], NULL, talk, &together[i]), 0);
    for (int i = 0; i < TALKS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < TALKS; i++) {
        assert_false(together[i].failed);
        assert_memory_equal(alone[i].tokens, together[i].tokens, sizeof alone[i].tokens);
    }
    assert_memory_not_equal(alone[0].tokens, alone[1].tokens, sizeof alone[0].tokens);
    tokenizer_close(t);
    checkpoint_close(&ck);
}

#define F "tests/fixtures/"
static void states_of_one_thread(void **state) {
    (void)state;
    at_once(F "base_q8_0.gguf", F "tokenizers/spm.model", 1, KV_F16);
    at_once(F "rope_dynamic_hf", F "tokenizers/bpe_smollm", 1, KV_F32);
}

static void states_of_two_threads(void **state) {
    (void)state;
    at_once(F "base.gguf", F "tokenizers/spm.bin", 2, KV_F16);
    at_once(F "base_f16.gguf", F "tokenizers/bpe_qwen2.gguf", 2, KV_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_one_thread),
        cmocka_unit_test(states_of_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

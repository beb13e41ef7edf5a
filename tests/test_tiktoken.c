/* Vocabularies of byte strings and ranks against tiktoken and mistral-common:
 * tests/fixtures/tokenizers/tiktoken_cases.json (scripts/make_tiktoken_fixtures.py); special tokens by the number of
 * ranks; malformed files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h" /* before cmocka, whose macros reuse the name `fail` */
#include "tokenizer.h"
#include "untrusted.h"

#include <cmocka.h>

#define DIR "tests/fixtures/tokenizers/"

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItem(object, key); }

static void assert_ids(const Tokenizer *t, const char *text, unsigned flags, const cJSON *expected, const char *label) {
    int *ids, n, i = 0;
    Error e = {0};
    if (tokenizer_encode(t, text, strlen(text), flags, &ids, &n, &e)) fail_msg("%s", e.text);
    const cJSON *id = expected->child;
    for (; id && i < n && ids[i] == id->valueint; id = id->next) i++;
    free(ids);
    if (id || i < n) fail_msg("%s: \"%s\": id %d of %d differs", label, text, i, n);
}

static void ids_equal_their_references(void **state) {
    (void)state;
    Error e = {0};
    cJSON *all = json_read(DIR "tiktoken_cases.json", &e);
    if (!all) fail_msg("%s", e.text);
    const cJSON *one;
    Tokenizer *t = NULL;
    char path[128], open[64] = "";
    int compared = 0;
    cJSON_ArrayForEach(one, all) {
        const char *file = get(one, "file")->valuestring;
        if (strcmp(open, file) != 0) {
            snprintf(open, sizeof open, "%s", file);
            snprintf(path, sizeof path, DIR "%s", file);
            tokenizer_close(t);
            if (!(t = tokenizer_open(path, &e))) fail_msg("%s", e.text);
            assert_string_equal(tokenizer_kind(t), "tiktoken");
        }
        assert_ids(t, get(one, "text")->valuestring, TOKENIZE_BOS | TOKENIZE_SPECIAL, get(one, "ids"), file);
        compared++;
    }
    tokenizer_close(t);
    cJSON_Delete(all);
    assert_true(compared > 100);
}

static char *read_fixture(const char *name, size_t *n) {
    char path[128], *data;
    Error e = {0};
    snprintf(path, sizeof path, DIR "%s", name);
    if (file_read(&data, n, path, &e)) fail_msg("%s", e.text);
    return data;
}

/* In a directory the text of special tokens is found; alone, mistral-common's rule holds: it never is. */
static void special_tokens_of_tekken(void **state) {
    (void)state;
    size_t n;
    char *data = read_fixture("tekken.json", &n);
    Error e = {0};
    memory_clear();
    memory_put("tekken.json", data, n);
    free(data);
    static const struct {
        const char *path;
        unsigned flags;
        bool first; /* is the first id that of [INST]? */
    } cases[] = {{MEMORY, TOKENIZE_SPECIAL, true},
                 {MEMORY, 0, false},
                 {MEMORY "/tekken.json", TOKENIZE_SPECIAL, false},
                 {MEMORY "/tekken.json", TOKENIZE_CONTROL, true}};
    for (int i = 0; i < 4; i++) {
        Tokenizer *t = tokenizer_open(cases[i].path, &e);
        if (!t) fail_msg("%s", e.text);
        int *ids, n_ids, eos[16];
        assert_int_equal(tokenizer_encode(t, "[INST]a", 7, cases[i].flags, &ids, &n_ids, &e), 0);
        assert_int_equal(ids[0] == 3, cases[i].first);
        assert_int_equal(tokenizer_bos(t), 1);
        assert_true(tokenizer_adds_bos(t));
        assert_int_equal(tokenizer_eos(t, eos), 1);
        assert_int_equal(eos[0], 2);
        assert_int_equal(tokenizer_find(t, "<SPECIAL_7>"), 7); /* has no name of its own */
        free(ids);
        tokenizer_close(t);
    }
}

/* A file of as many ranks as a known one has its special tokens; added_tokens_decoder names others. */
static void special_tokens_of_ranks(void **state) {
    (void)state;
    enum { N = 50256 };
    char *text = malloc(N * 24), *next = text;
    Error e = {0};
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0; i < N; i++) /* three bytes each, all different */
        next += sprintf(next, "%c%c%c%c %d\n", digits[i >> 18 & 63], digits[i >> 12 & 63], digits[i >> 6 & 63],
                        digits[i & 63], i);
    memory_clear();
    memory_put("vocab.tiktoken", text, (size_t)(next - text));
    Tokenizer *t = tokenizer_open(MEMORY "/vocab.tiktoken", &e);
    if (!t) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_find(t, "<|endoftext|>"), N);
    tokenizer_close(t);
    static const char config[] =
        "{\"added_tokens_decoder\": {\"50257\": {\"content\": \"<|mine|>\", \"special\": true}}}";
    memory_put("tokenizer_config.json", config, strlen(config));
    if (!(t = tokenizer_open(MEMORY, &e))) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_find(t, "<|mine|>"), N + 1);
    int *ids, n_ids;
    assert_int_equal(tokenizer_encode(t, "<|mine|>", 8, TOKENIZE_SPECIAL, &ids, &n_ids, &e), 0);
    assert_int_equal(n_ids, 1);
    free(ids);
    tokenizer_close(t);
    free(text);
}

static void malformed_files(void **state) {
    (void)state;
    static const struct {
        const char *name, *content, *why;
    } cases[] = {
        {"a.tiktoken", "YQ== 0\nYg==\n", "line 2: expected a token in base64"},
        {"a.tiktoken", "YQ== 0\nYg== 99999999999\n", "line 2: expected a token in base64"},
        {"a.tiktoken", "YQ== 0\nYg== 0\n", "token 0: expected one of that rank, found two"},
        {"a.tiktoken", "YQ== 0\nYQ== 1\n", "expected a text of its own"},
        {"a.tiktoken", "YQ== 0\nYg= 1\n", "expected bytes in base64, found \"Yg=\""},
        {"a.tiktoken", "YQ== 0\nYg== 5000000\n", "ranks: expected numbers near the count 2"},
        {"tekken.json", "{\"config\": {\"pattern\": \"a\"}, \"vocab\": []}", "config.default_vocab_size: expected"},
        {"tekken.json",
         "{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 5, \"default_num_special_tokens\": 3}, \"vocab\": "
         "[{}, "
         "{}]}",
         "vocab: token 0: expected token_bytes"},
        {"tekken.json",
         "{\"config\": {\"pattern\": \"(\", \"default_vocab_size\": 4, \"default_num_special_tokens\": 3}, \"vocab\": "
         "[{\"token_bytes\": \"YQ==\"}]}",
         "expected a regular expression"},
        {"tekken.json",
         "{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 4, \"default_num_special_tokens\": 3}, \"vocab\": "
         "[{\"token_bytes\": \"YQ==\"}], \"special_tokens\": [{\"rank\": 3, \"token_str\": \"x\"}]}",
         "rank: expected an integer from 0 to 2"},
        {"tekken.json",
         "{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 4, \"default_num_special_tokens\": 3}, \"vocab\": "
         "[{\"token_bytes\": \"YQ==\"}], \"special_tokens\": [{\"rank\": 1}]}",
         "special_tokens: expected a rank and a token_str"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        char path[64];
        memory_clear();
        memory_put(cases[i].name, cases[i].content, strlen(cases[i].content));
        snprintf(path, sizeof path, MEMORY "/%s", cases[i].name);
        assert_null(tokenizer_open(path, &e));
        if (!strstr(e.text, cases[i].why)) fail_msg("expected \"%s\" in \"%s\"", cases[i].why, e.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_their_references),
        cmocka_unit_test(special_tokens_of_tekken),
        cmocka_unit_test(special_tokens_of_ranks),
        cmocka_unit_test(malformed_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

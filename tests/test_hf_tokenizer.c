/* Hugging Face directories against transformers' AutoTokenizer: tests/fixtures/tokenizers/hf_cases.json
 * (scripts/make_hf_tokenizer_fixtures.py), and what only messages or templates show. */
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

/* A file of a case: what it holds, or the path of a fixture. */
static void put_file(const cJSON *file) {
    Error e = {0};
    char path[256], *data;
    size_t n;
    if (!cJSON_IsString(file)) {
        data = cJSON_PrintUnformatted(file);
        n = strlen(data);
    } else {
        snprintf(path, sizeof path, DIR "%s", file->valuestring);
        if (file_read(&data, &n, path, &e)) fail_msg("%s", e.text);
    }
    memory_put(file->string, data, n);
    free(data);
}

static void put_files(const cJSON *files) {
    const cJSON *file;
    memory_clear();
    cJSON_ArrayForEach(file, files) put_file(file);
}

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItem(object, key); }

static int compare(const Tokenizer *t, const cJSON *test, const char *label) {
    int *ids, n, i = 0;
    Error e = {0};
    const char *text = get(test, "text")->valuestring;
    if (tokenizer_encode(t, text, strlen(text), TOKENIZE_BOS | TOKENIZE_SPECIAL, &ids, &n, &e)) fail_msg("%s", e.text);
    const cJSON *id = get(test, "ids")->child;
    for (; id && i < n && ids[i] == id->valueint; id = id->next) i++;
    bool differ = id || i < n;
    if (differ) {
        char *expected = cJSON_PrintUnformatted(get(test, "ids"));
        print_error("%s\n  \"%s\"\n  expected %s\n  found    ", label, text, expected);
        for (i = 0; i < n; i++) print_error("%d,", ids[i]);
        print_error("\n");
        free(expected);
    }
    free(ids);
    return differ;
}

static void ids_equal_transformers(void **state) {
    (void)state;
    Error e = {0};
    int wrong = 0, compared = 0;
    cJSON *all = json_read(DIR "hf_cases.json", &e);
    if (!all) fail_msg("%s", e.text);
    const cJSON *one, *test;
    cJSON_ArrayForEach(one, all) {
        char *label = cJSON_PrintUnformatted(get(one, "files"));
        put_files(get(one, "files"));
        e = (Error){0};
        Tokenizer *t = tokenizer_open(MEMORY, &e);
        if (!t) fail_msg("%s: %s", label, e.text);
        int eos[16];
        cJSON_ArrayForEach(test, get(one, "tests")) wrong += compare(t, test, label), compared++;
        if (cJSON_IsNumber(get(one, "bos"))) assert_int_equal(tokenizer_bos(t), get(one, "bos")->valueint);
        if (cJSON_IsNumber(get(one, "eos")))
            assert_int_equal((tokenizer_eos(t, eos), eos[0]), get(one, "eos")->valueint);
        tokenizer_close(t);
        free(label);
    }
    cJSON_Delete(all);
    assert_int_equal(wrong, 0);
    assert_true(compared > 250);
}

/* A directory in memory that holds one file, the fixture's tokenizer.json. */
static void only_llama(void) {
    Error e = {0};
    char *data;
    size_t n;
    memory_clear();
    assert_int_equal(file_read(&data, &n, DIR "llama/tokenizer.json", &e), 0);
    memory_put("tokenizer.json", data, n);
    free(data);
}

/* Where the chat template comes from. */
static void templates(void **state) {
    (void)state;
    static const struct {
        const char *name[2], *content[2], *template;
    } cases[] = {
        {{"tokenizer_config.json"}, {"{\"chat_template\": \"one\"}"}, "one"},
        {{"tokenizer_config.json"},
         {"{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"two\"}, {\"name\": \"default\", \"template\": "
          "\"three\"}]}"},
         "three"},
        {{"tokenizer_config.json", "chat_template.jinja"}, {"{\"chat_template\": \"one\"}", "four"}, "four"},
        {{"chat_template.json"}, {"{\"chat_template\": \"five\"}"}, "five"},
        {{"tokenizer_config.json", "chat_template.json"},
         {"{\"chat_template\": \"one\"}", "{\"chat_template\": \"five\"}"},
         "one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        only_llama();
        for (int k = 0; k < 2 && cases[i].name[k]; k++)
            memory_put(cases[i].name[k], cases[i].content[k], strlen(cases[i].content[k]));
        Tokenizer *t = tokenizer_open(MEMORY, &e);
        if (!t) fail_msg("%s", e.text);
        assert_string_equal(tokenizer_chat_template(t), cases[i].template);
        tokenizer_close(t);
    }
}

/* A file beside the vocabulary that is no object, or says a flag with another type, is refused by its name. */
static void bad_files_beside(void **state) {
    (void)state;
    static const struct {
        const char *name, *content, *why;
    } cases[] = {
        {"tokenizer_config.json", "[]", "tokenizer_config.json: JSON: expected an object"},
        {"tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\", \"legacy\": 1}",
         "tokenizer_config.json: legacy: expected true or false"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": [[{}, {}]]}", "added_tokens_decoder: expected an object"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": [{}, {}, 3]}",
         "added_tokens_decoder: expected an object"},
        {"special_tokens_map.json", "{", "special_tokens_map.json: JSON: expected"},
        {"tokenizer.json", "[]", "tokenizer.json: JSON: expected an object"},
        {"tokenizer.json", "{\"added_tokens\": {}}", "tokenizer.json: added_tokens: expected an array"},
        {"tokenizer.json", "{\"added_tokens\": null, \"model\": {\"type\": \"BPE\"}}", "model.vocab: expected"},
        {"added_tokens.json", "3", "added_tokens.json: JSON: expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        only_llama();
        static const char config[] = "{\"bos_token\": \"<new>\"}";
        memory_put("tokenizer_config.json", config, strlen(config));
        memory_put(cases[i].name, cases[i].content, strlen(cases[i].content));
        assert_null(tokenizer_open(MEMORY, &e));
        if (!strstr(e.text, cases[i].why)) fail_msg("expected \"%s\" in \"%s\"", cases[i].why, e.text);
    }
}

/* A sentencepiece model whose directory names a class that builds its own tokenizer of it: pieces that a stranger put
 * behind the others. A piece is a field 1 {text 1, score 2}. */
static void bad_pieces(void **state) {
    (void)state;
#define PIECE(bytes) bytes, sizeof bytes - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {PIECE("\x0a\x05\x0a\x03zzz"), ""},
        {PIECE("\x0a\x03\x0a\x01s"), "expected a text of its own, found \"s\" again"},
        {PIECE("\x0a\x0a\x0a\x03zzz\x15\x00\x00\xc0\x7f"), ": score: expected a number, found nan"},
        {PIECE("\x0a\x0a\x0a\x03zzz\x15\x00\x00\x80\xff"), ": score: expected a number, found -inf"},
        {PIECE("\x0a\x02\x0a\x00"), "expected 1 to 65536 bytes of UTF-8 without NUL, found something else"},
        {PIECE("\x0a\x05\x0a\x03z\x00z"), "expected 1 to 65536 bytes of UTF-8 without NUL, found something else"},
        {PIECE("\x0a\x04\x0a\x02z\xff"), "expected 1 to 65536 bytes of UTF-8 without NUL, found something else"},
        {PIECE("\x0a\x02\x0a\x05"), ": expected protobuf fields, found none"},
        {PIECE("\x0a\x05\x0a"), "expected a protobuf field at byte"},
    };
    char *model, *config, all[1 << 15];
    size_t n_model, n_config;
    Error e = {0};
    assert_int_equal(file_read(&model, &n_model, DIR "spm_llama/tokenizer.model", &e), 0);
    assert_int_equal(file_read(&config, &n_config, DIR "spm_llama/tokenizer_config.json", &e), 0);
    assert_true(n_model + 32 < sizeof all);
    memcpy(all, model, n_model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e = (Error){0};
        memcpy(all + n_model, cases[i].bytes, cases[i].n);
        memory_clear();
        memory_put("tokenizer.model", all, n_model + cases[i].n);
        memory_put("tokenizer_config.json", config, n_config);
        Tokenizer *t = tokenizer_open(MEMORY, &e);
        if ((t != NULL) != !*cases[i].why || !strstr(e.text, cases[i].why))
            fail_msg("%zu: expected \"%s\" in \"%s\"", i, cases[i].why, e.text);
        tokenizer_close(t);
    }
    free(model);
    free(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_transformers),
        cmocka_unit_test(templates),
        cmocka_unit_test(bad_files_beside),
        cmocka_unit_test(bad_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

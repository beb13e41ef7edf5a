/* Tokenizers against their references: tests/fixtures/tokenizers/cases.tsv (scripts/make_tokenizer_fixtures.py: ids
 * from sentencepiece and from Hugging Face's tokenizers), the cases beside the project where they are, malformed files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/json.h" /* before cmocka, whose macros reuse the name `fail` */
#include "tokenizer.h"
#include "untrusted.h"

#include <cmocka.h>

#include "tests/skip.h"

#define DIR     "tests/fixtures/tokenizers/"
#define SHARED  "../shared/cases/"
#define SMOLLM2 "weights/SmolLM2-135M-Instruct.Q4_1.gguf"

static Tokenizer *open_or_fail(const char *path) {
    Error e = {0};
    Tokenizer *t = tokenizer_open(path, &e);
    if (!t) fail_msg("%s", e.text);
    return t;
}

static size_t from_hex(const char *hex, size_t n, char *out) {
    for (size_t i = 0; i + 1 < n; i += 2) {
        char two[3] = {hex[i], hex[i + 1], 0};
        out[i / 2] = (char)strtol(two, NULL, 16);
    }
    return n / 2;
}

/* ids as "1 2 3" into a buffer. */
static const char *show_ids(const int *ids, int n, char *out, size_t room) {
    size_t k = 0;
    out[0] = 0;
    for (int i = 0; i < n && k + 16 < room; i++) k += (size_t)snprintf(out + k, room - k, "%s%d", i ? " " : "", ids[i]);
    return out;
}

static char *decode_all(const Tokenizer *t, const int *ids, int n, size_t *size) {
    char *out = malloc((size_t)n * 512 + 1);
    *size = 0;
    for (int i = 0, prev = -1; i < n; prev = tokenizer_next(t, prev, ids[i++])) {
        const char *bytes;
        char buf[8];
        size_t length = tokenizer_decode(t, prev, ids[i], &bytes, buf);
        assert_true(length < 512);
        memcpy(out + *size, bytes, length);
        *size += length;
    }
    return out;
}

static void ids_equal_their_references(void **state) {
    (void)state;
    char *text, *save = NULL, open[64] = "", shown[8192];
    size_t size;
    Error e = {0};
    int cases = 0, wrong = 0;
    Tokenizer *t = NULL;
    assert_int_equal(file_read(&text, &size, DIR "cases.tsv", &e), 0);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *field[5];
        for (int i = 0; i < 5; i++) {
            field[i] = i ? strchr(field[i - 1], '\t') : line;
            if (i) assert_non_null(field[i]), *field[i]++ = 0;
        }
        if (strcmp(open, field[0]) != 0) {
            char path[128];
            snprintf(open, sizeof open, "%s", field[0]);
            snprintf(path, sizeof path, DIR "%s", open);
            tokenizer_close(t);
            t = open_or_fail(path);
        }
        char input[1024];
        size_t n_input = from_hex(field[2], strlen(field[2]), input), n_text;
        int *ids, n;
        assert_int_equal(tokenizer_encode(t, input, n_input, (unsigned)atoi(field[1]), &ids, &n, &e), 0);
        if (strcmp(show_ids(ids, n, shown, sizeof shown), field[3]) != 0) {
            if (wrong++ < 5)
                print_error("%s flags %s text %s\n  expected %s\n  found    %s\n", open, field[1], field[2], field[3],
                            shown);
        } else if (strcmp(field[4], "-") != 0) {
            char *decoded = decode_all(t, ids, n, &n_text), expected[2048];
            size_t n_expected = from_hex(field[4], strlen(field[4]), expected);
            if (n_text != n_expected || memcmp(decoded, expected, n_text) != 0) {
                if (wrong++ < 5)
                    print_error("%s ids %s\n  expected text %s\n  found \"%.*s\"\n", open, shown, field[4], (int)n_text,
                                decoded);
            }
            free(decoded);
        }
        free(ids);
        cases++;
    }
    tokenizer_close(t);
    free(text);
    assert_int_equal(wrong, 0);
    assert_true(cases > 1000);
}

static void special_tokens_and_facts(void **state) {
    (void)state;
    int eos[16], *ids, n;
    char shown[256];
    Error e = {0};
    Tokenizer *t = open_or_fail(DIR "llama");
    assert_int_equal(tokenizer_bos(t), 1);
    assert_true(tokenizer_adds_bos(t));
    assert_int_equal(tokenizer_eos(t, eos), 1);
    assert_int_equal(eos[0], 2);
    assert_string_equal(tokenizer_chat_template(t), "{{ messages }}");
    assert_int_equal(tokenizer_find(t, "</s>"), 2);
    assert_int_equal(tokenizer_find(t, "no such token"), -1);
    assert_int_equal(tokenizer_encode(t, "", 0, TOKENIZE_BOS, &ids, &n, &e), 0);
    assert_string_equal(show_ids(ids, n, shown, sizeof shown), "1"); /* BOS even for the empty text */
    free(ids);
    tokenizer_close(t);

    t = open_or_fail(DIR "spm.gguf");
    assert_string_equal(tokenizer_kind(t), "spm-bpe");
    static const struct {
        unsigned flags;
        int first, n_special;
    } runs[] = {
        {0, -1, 0}, {TOKENIZE_SPECIAL, 2, 1}, {TOKENIZE_CONTROL, 2, 1}, {TOKENIZE_CONTROL | TOKENIZE_BOS, 1, 2}};
    for (int r = 0; r < 4; r++) { /* "</s>" is text unless special tokens are wanted */
        int special = 0;
        assert_int_equal(tokenizer_encode(t, "</s>a", 5, runs[r].flags, &ids, &n, &e), 0);
        for (int i = 0; i < n; i++) special += ids[i] == 1 || ids[i] == 2;
        assert_int_equal(special, runs[r].n_special);
        if (runs[r].first > 0) assert_int_equal(ids[0], runs[r].first);
        free(ids);
    }
    size_t length;
    assert_memory_equal(tokenizer_piece(t, 1, &length), "<s>", 3);
    tokenizer_piece(t, 1 << 30, &length);
    assert_int_equal(length, 0);
    const char *bytes;
    char buf[8];
    assert_int_equal(tokenizer_decode(t, -1, -5, &bytes, buf), 0);
    assert_int_equal(tokenizer_decode(t, -1, 1, &bytes, buf), 0); /* BOS adds no text */
    tokenizer_close(t);
}

/* One character a million times: the time may not grow with the square. */
static void long_texts_take_no_long_time(void **state) {
    (void)state;
    static const char *const files[] = {"bpe_smollm.gguf", "bpe_llama-bpe", "spm.gguf", "llama"};
    size_t size = 1 << 20;
    char *text = malloc(size);
    Error e = {0};
    for (int f = 0; f < 4; f++) {
        char path[128];
        snprintf(path, sizeof path, DIR "%s", files[f]);
        Tokenizer *t = open_or_fail(path);
        for (const char *c = "a <1"; *c; c++) {
            int *ids, n;
            memset(text, *c, size);
            clock_t begin = clock();
            assert_int_equal(tokenizer_encode(t, text, size, TOKENIZE_SPECIAL, &ids, &n, &e), 0);
            double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
            assert_true(n > 0);
            assert_true(seconds < 30); /* about half a second; minutes if it were quadratic */
            free(ids);
        }
        tokenizer_close(t);
    }
    free(text);
}

/* A long text is given to sentencepiece's library in parts, and the ids are those of the parts. */
static void long_text_by_the_library(void **state) {
    (void)state;
    enum { N = 40000 };
    Error e = {0};
    int *word, *ids, n_word, n;
    char *text = malloc(6 * N);
    Tokenizer *t = open_or_fail("tests/fuzz/corpus/sentencepiece/seed_unigram.model");
    assert_int_equal(tokenizer_encode(t, "abcab", 5, 0, &word, &n_word, &e), 0);
    for (int i = 0; i < N; i++) memcpy(text + 6 * i, "abcab ", 6);
    assert_int_equal(tokenizer_encode(t, text, 6 * N - 1, 0, &ids, &n, &e), 0);
    assert_int_equal(n, N * n_word);
    for (int i = 0; i < n; i++) assert_int_equal(ids[i], word[i % n_word]);
    free(word);
    free(ids);
    free(text);
    tokenizer_close(t);
}

/* ---- files from outside the project ---- */

static int compare_ids(const Tokenizer *t, const cJSON *expected, const char *text, size_t n_text, unsigned flags,
                       const char *name) {
    int *ids, n;
    Error e = {0};
    if (!cJSON_IsArray(expected)) return 0;
    assert_int_equal(tokenizer_encode(t, text, n_text, flags, &ids, &n, &e), 0);
    bool same = n == cJSON_GetArraySize(expected);
    const cJSON *want = expected->child;
    for (int i = 0; same && i < n; i++, want = want->next) same = ids[i] == want->valueint;
    free(ids);
    if (!same) print_error("%s: \"%.40s\": ids differ\n", name, text);
    return !same;
}

static void smollm2_cases(void **state) {
    (void)state;
    Error e = {0};
    if (access(SHARED "tok_cases.json", R_OK)) SKIP(NO_BANK);
    if (access(SMOLLM2, R_OK)) SKIP(NO_SMOLLM2);
    cJSON *root = json_read(SHARED "tok_cases.json", &e);
    assert_non_null(root);
    Tokenizer *t = open_or_fail(SMOLLM2);
    const cJSON *c;
    int wrong = 0, compared = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases")) {
        const cJSON *text = cJSON_GetObjectItem(c, "text");
        size_t n = json_bytes(text->valuestring, strlen(text->valuestring)); /* NULs too */
        wrong += compare_ids(t, cJSON_GetObjectItem(c, "smollm2"), text->valuestring, n, TOKENIZE_SPECIAL, "smollm2");
        wrong += compare_ids(t, cJSON_GetObjectItem(c, "smollm2_plain"), text->valuestring, n, 0, "smollm2_plain");
        compared++;
    }
    tokenizer_close(t);
    cJSON_Delete(root);
    assert_int_equal(wrong, 0);
    assert_true(compared > 40);
}

static void text_cases(void **state) {
    (void)state;
    static const char *const files[] = {SHARED "tok/spm.model", SHARED "tok/spm_vocab.gguf",
                                        SHARED "tok/spm_tokenizer.bin"};
    Error e = {0};
    if (access(SHARED "text_cases.json", R_OK)) SKIP(NO_BANK);
    cJSON *root = json_read(SHARED "text_cases.json", &e);
    assert_non_null(root);
    int wrong = 0, compared = 0;
    const cJSON *c;
    for (int f = 0; f < 4; f++) {
        if (f == 3 && access(SMOLLM2, R_OK)) continue;
        Tokenizer *t = open_or_fail(f < 3 ? files[f] : SMOLLM2);
        cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases")) {
            const cJSON *hex = cJSON_GetObjectItem(c, "hex");
            char text[4096];
            if (!cJSON_IsString(hex) || strlen(hex->valuestring) > 2 * sizeof text - 2) continue;
            size_t n = from_hex(hex->valuestring, strlen(hex->valuestring), text);
            text[n] = 0;
            /* The bank has sentencepiece's ids. A GGUF is read as llama.cpp does, which cuts the text at pieces of
             * <...> before it puts a space in front. */
            if (f == 1 && strchr(text, '<')) continue;
            wrong += compare_ids(t, cJSON_GetObjectItem(c, f < 3 ? "spm" : "smollm2"), text, n, TOKENIZE_SPECIAL,
                                 f < 3 ? files[f] : SMOLLM2);
            compared++;
        }
        tokenizer_close(t);
    }
    cJSON_Delete(root);
    assert_int_equal(wrong, 0);
    assert_true(compared > 120);
}

/* ---- malformed files ---- */

#define FILE_NAME MEMORY "/tokenizer"

static Tokenizer *open_bytes(const void *data, size_t size, Error *e) {
    memory_clear();
    memory_put("tokenizer", data, size);
    *e = (Error){0};
    Tokenizer *t = tokenizer_open(FILE_NAME, e);
    if (!t) { /* one line that names the file and what was expected */
        assert_non_null(strstr(e->text, FILE_NAME));
        assert_non_null(strstr(e->text, "expected"));
        assert_null(strchr(e->text, '\n'));
    }
    return t;
}

static void put_token(char *out, size_t *n, float score, int length, const char *text, size_t n_text) {
    memcpy(out + *n, &score, 4);
    memcpy(out + *n + 4, &length, 4);
    memcpy(out + *n + 8, text, n_text);
    *n += 8 + n_text;
}

static void bad_tokenizer_bin(void **state) {
    (void)state;
    static const struct {
        int max_length, length;
        const char *text, *why;
    } cases[] = {
        {8, -1, "", "length: expected at most 8, found 4294967295"},
        {8, 0x7fffffff, "", "length: expected at most 8"},
        {8, 5, "abc", "expected 5 bytes, found 3"},
        {2, 3, "abc", "length: expected at most 2, found 3"},
        {8, 6, "<0x-1>", "expected <0xNN>, found <0x-1>"},
        {8, 1, "b", "expected a text of its own, found \"b\" again"},
        {0, 1, "c", "max_token_length: expected 1 to 65536, found 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char data[256];
        size_t n = 4;
        Error e;
        memcpy(data, &cases[i].max_length, 4);
        put_token(data, &n, 0, 1, "u", 1);
        put_token(data, &n, 0, 1, "s", 1);
        put_token(data, &n, 0, 1, "e", 1);
        put_token(data, &n, -1, 1, "b", 1);
        put_token(data, &n, -2, cases[i].length, cases[i].text, strlen(cases[i].text));
        Tokenizer *t = open_bytes(data, n, &e);
        assert_null(t);
        if (!strstr(e.text, cases[i].why)) fail_msg("expected \"%s\" in \"%s\"", cases[i].why, e.text);
    }
}

/* The longest token's length comes first: 123 is the byte '{', which begins a tokenizer.json too. */
static void tokenizer_bin_that_begins_with_a_brace(void **state) {
    (void)state;
    static const int lengths[] = {'{', '{' << 8 | ' ', 10};
    for (int i = 0; i < 3; i++) {
        char data[128];
        size_t n = 4;
        Error e;
        memcpy(data, &lengths[i], 4);
        put_token(data, &n, 0, 5, "<unk>", 5);
        put_token(data, &n, 0, 5, "\n<s>\n", 5);
        put_token(data, &n, 0, 6, "\n</s>\n", 6);
        put_token(data, &n, -1, 1, "b", 1);
        Tokenizer *t = open_bytes(data, n, &e);
        if (!t) fail_msg("%s", e.text);
        assert_string_equal(tokenizer_kind(t), "llama2.c");
        tokenizer_close(t);
    }
}

/* splits.json (scripts/make_tokenizer_fixtures.py): every behaviour of Split, at expressions and at literal texts. */
static void splits_equal_their_references(void **state) {
    (void)state;
    Error e = {0};
    cJSON *all = json_read(DIR "splits.json", &e), *item;
    if (!all) fail_msg("%s", e.text);
    const char *text = cJSON_GetObjectItem(all, "text")->valuestring;
    char *model = cJSON_PrintUnformatted(cJSON_GetObjectItem(all, "model"));
    int cases = 0, wrong = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(all, "cases")) {
        static const char format[] =
            "{\"model\": %s, \"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
            "\"pretokenizers\": [%s, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}}";
        char *step = cJSON_PrintUnformatted(cJSON_GetObjectItem(item, "step")), shown[1024];
        size_t room = sizeof format + strlen(model) + strlen(step);
        char *json = malloc(room);
        snprintf(json, room, format, model, step);
        Tokenizer *t = open_bytes(json, strlen(json), &e);
        if (!t) fail_msg("%s: %s", step, e.text);
        int *ids, n, i = 0;
        assert_int_equal(tokenizer_encode(t, text, strlen(text), 0, &ids, &n, &e), 0);
        const cJSON *id = cJSON_GetObjectItem(item, "ids")->child;
        for (; id && i < n && ids[i] == id->valueint; id = id->next) i++;
        if ((id || i < n) && wrong++ < 5) print_error("%s: found %s\n", step, show_ids(ids, n, shown, sizeof shown));
        cases++;
        free(ids);
        tokenizer_close(t);
        free(json);
        free(step);
    }
    free(model);
    cJSON_Delete(all);
    assert_int_equal(wrong, 0);
    assert_true(cases >= 300);
}

/* What a GGUF's vocabulary says that is not built, or says of the wrong type. */
static void bad_gguf_vocabulary(void **state) {
    (void)state;
    static const struct {
        const char *file, *key;
        uint32_t type;
        const char *value;
        size_t n;
        const char *why; /* "": taken */
    } add[] = {
        {"spm.gguf", "tokenizer.ggml.remove_extra_whitespaces", GGUF_BOOL, "", 1, ""},
        {"spm.gguf", "tokenizer.ggml.remove_extra_whitespaces", GGUF_I8, "\1", 1, "expected a boolean, found i8"},
        {"spm.gguf", "tokenizer.ggml.eot_token_id", GGUF_U32, "\377\377\377\177", 4, ""}, /* no token: no end token */
        {"spm.gguf", "tokenizer.ggml.eot_token_id", GGUF_F32, "\0\0\0\0", 4, "eot_token_id: expected an integer"},
        {"spm.gguf", "tokenizer.ggml.merges", GGUF_U32, "\1\0\0\0", 4,
         ""}, /* a vocabulary with scores has no use for them */
        {"bpe_smollm.gguf", "tokenizer.ggml.scores", GGUF_ARRAY, "\4\0\0\0\0\0\0\0\0\0\0\0", 12,
         "scores: expected an array of float32, found another type"},
        {"bpe_smollm.gguf", "tokenizer.ggml.scores", GGUF_ARRAY, "\6\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16,
         "items, one a token, found 1"},
    };
    for (size_t i = 0; i < sizeof add / sizeof *add; i++) {
        char path[128], *data;
        size_t n;
        Error e = {0};
        snprintf(path, sizeof path, DIR "%s", add[i].file);
        assert_int_equal(file_read(&data, &n, path, &e), 0);
        char *more = gguf_with_key(data, n, add[i].key, add[i].type, add[i].value, add[i].n, &n);
        Tokenizer *t = open_bytes(more, n, &e);
        if (*add[i].why ? !strstr(e.text, add[i].why) : !t)
            fail_msg("%s: expected \"%s\" in \"%s\"", add[i].key, add[i].why, e.text);
        tokenizer_close(t);
        free(more);
        free(data);
    }
}

/* A directory that has the sentencepiece model alone. */
static void directory_with_a_model(void **state) {
    (void)state;
    char *data, shown[2][256];
    size_t n;
    int *ids, n_ids;
    Error e = {0};
    assert_int_equal(file_read(&data, &n, DIR "spm.model", &e), 0);
    memory_clear();
    memory_put("tokenizer.model", data, n);
    for (int i = 0; i < 2; i++) {
        Tokenizer *t = open_or_fail(i ? MEMORY : DIR "spm.model");
        assert_string_equal(tokenizer_kind(t), "sentencepiece");
        assert_int_equal(tokenizer_encode(t, "hello world", 11, TOKENIZE_BOS, &ids, &n_ids, &e), 0);
        show_ids(ids, n_ids, shown[i], sizeof shown[i]);
        free(ids);
        tokenizer_close(t);
    }
    assert_string_equal(shown[0], shown[1]);
    free(data);
    memory_clear();
    assert_null(tokenizer_open(MEMORY, &e));
    assert_non_null(strstr(e.text, "expected tokenizer.json, tokenizer.model or vocab.json, found none"));
}

static void bad_paths(void **state) {
    (void)state;
    static const char *const paths[] = {"/nonexistent/tokenizer.json", "tests", "Makefile", "/dev/null"};
    for (int i = 0; i < 4; i++) {
        Error e = {0};
        assert_null(tokenizer_open(paths[i], &e));
        assert_non_null(strstr(e.text, paths[i]));
    }
}

/* An expression that would backtrack without end fails; it does not hang. */
static void endless_expression_fails(void **state) {
    (void)state;
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
        "\"Split\", \"pattern\": {\"Regex\": \"(a*)*(a|aa)*b(?=c)\"}, \"behavior\": \"Isolated\"}, \"decoder\": "
        "{\"type\": \"Fuse\"}}";
    Error e;
    int *ids, n;
    char text[4000];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "bd", 2);
    Tokenizer *t = open_bytes(json, strlen(json), &e);
    assert_non_null(t);
    assert_int_equal(tokenizer_encode(t, text, sizeof text, 0, &ids, &n, &e), -1);
    assert_non_null(strstr(e.text, "reasonable time"));
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_their_references),
        cmocka_unit_test(special_tokens_and_facts),
        cmocka_unit_test(long_texts_take_no_long_time),
        cmocka_unit_test(long_text_by_the_library),
        cmocka_unit_test(smollm2_cases),
        cmocka_unit_test(text_cases),
        cmocka_unit_test(bad_tokenizer_bin),
        cmocka_unit_test(tokenizer_bin_that_begins_with_a_brace),
        cmocka_unit_test(splits_equal_their_references),
        cmocka_unit_test(bad_gguf_vocabulary),
        cmocka_unit_test(directory_with_a_model),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(endless_expression_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

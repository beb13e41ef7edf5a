/* tokenizer.json against Hugging Face's tokenizers: every kind of model, normalizer, pre-tokenizer, post-processor,
 * decoder and added token on 200 texts (tests/fixtures/tokenizers/kinds.json, by scripts/make_tokenizer_fixtures.py),
 * and files that are refused by the name of the part. */
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

#define KINDS     "tests/fixtures/tokenizers/kinds.json"
#define FILE_NAME MEMORY "/tokenizer.json"

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }

static Tokenizer *open_text(const char *json, Error *e) {
    memory_clear();
    memory_put("tokenizer.json", json, strlen(json));
    *e = (Error){0};
    return tokenizer_open(FILE_NAME, e);
}

static uint32_t crc32(const char *s, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)s[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* The ids as "1 2 3" and the text that they decode to, both malloc'ed. */
static char *show_ids(const int *ids, int n) {
    char *out = calloc((size_t)n + 1, 12), *next = out;
    for (int i = 0; i < n; i++) next += sprintf(next, "%s%d", i ? " " : "", ids[i]);
    return out;
}

static char *decode_all(const Tokenizer *t, const int *ids, int n) {
    size_t size = 0, room = 1;
    char *out = calloc(1, room);
    for (int i = 0, prev = -1; i < n; prev = tokenizer_next(t, prev, ids[i++])) {
        const char *bytes;
        char buf[8];
        size_t length = tokenizer_decode(t, prev, ids[i], &bytes, buf);
        out = realloc(out, room += length);
        assert_non_null(out);
        memcpy(out + size, bytes, length);
        size += length;
    }
    out[size] = 0;
    return out;
}

/* `sums` begins with the CRC-32 of the ids and, unless the text is not compared, of the text; "-": nothing is. */
static bool sums_are(const char *sums, const char *ids, const char *text) {
    char found[20];
    size_t n = strcspn(sums, " ");
    snprintf(found, sizeof found, "%08x%08x", crc32(ids, strlen(ids)), crc32(text, strlen(text)));
    return *sums == '-' || strncmp(sums, found, n) == 0;
}

static char *root_of(const cJSON *all, const cJSON *c) {
    cJSON *root = cJSON_Duplicate(get(c, "parts"), true);
    const cJSON *model = get(get(all, "models"), get(c, "base")->valuestring);
    assert_true(cJSON_AddItemToObject(root, "model", cJSON_Duplicate(model, true)));
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    assert_non_null(text);
    return text;
}

/* How many texts of one case differ. */
static int compare_case(const cJSON *all, const cJSON *c) {
    Error e;
    char *json = root_of(all, c);
    const char *name = get(c, "name")->valuestring, *sums = get(c, "sums") ? get(c, "sums")->valuestring : NULL;
    const cJSON *text, *want_ids = sums ? NULL : get(c, "ids")->child, *want_text = sums ? NULL : get(c, "text")->child;
    Tokenizer *t = open_text(json, &e);
    free(json);
    if (!t) fail_msg("%s: %s", name, e.text);
    int wrong = 0;
    cJSON_ArrayForEach(text, get(all, "texts")) {
        int *ids, n;
        const char *s = text->valuestring;
        if (tokenizer_encode(t, s, strlen(s), TOKENIZE_BOS | TOKENIZE_SPECIAL, &ids, &n, &e))
            fail_msg("%s: %s: %s", name, s, e.text);
        char *shown = show_ids(ids, n), *decoded = decode_all(t, ids, n);
        bool same = sums ? sums_are(sums, shown, decoded)
                         : strcmp(shown, want_ids->valuestring) == 0 &&
                               (!cJSON_IsString(want_text) || strcmp(decoded, want_text->valuestring) == 0);
        if (!same && wrong++ < 3) {
            print_error("%s: \"%s\"\n  found    %s \"%s\"\n", name, s, shown, decoded);
            if (!sums)
                print_error("  expected %s \"%s\"\n", want_ids->valuestring,
                            cJSON_IsString(want_text) ? want_text->valuestring : "(any)");
        }
        free(shown);
        free(decoded);
        free(ids);
        if (sums) sums += strcspn(sums, " ") + 1;
        else want_ids = want_ids->next, want_text = want_text->next;
    }
    tokenizer_close(t);
    return wrong;
}

static void kinds_equal_the_library(void **state) {
    (void)state;
    Error e = {0};
    cJSON *all = json_read(KINDS, &e);
    if (!all) fail_msg("%s", e.text);
    const cJSON *c;
    int wrong = 0, cases = 0;
    cJSON_ArrayForEach(c, get(all, "cases")) {
        int n = compare_case(all, c);
        if (n) print_error("%s: %d texts differ\n", get(c, "name")->valuestring, n);
        wrong += n > 0;
        cases++;
    }
    cJSON_Delete(all);
    assert_int_equal(wrong, 0);
    assert_true(cases > 90);
}

/* The parts of a file that is otherwise sound. */
#define FILE_OF(model, rest) "{\"model\": {" model "}" rest "}"
#define BPE(rest)            FILE_OF("\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []", rest)
#define PRE(steps)           BPE(", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" steps "]}")
#define NORM(step)           BPE(", \"normalizer\": " step)
#define DEC(steps)           BPE(", \"decoder\": {\"type\": \"Sequence\", \"decoders\": [" steps "]}")
#define POST(step)           BPE(", \"post_processor\": " step)
#define SIX(x)               x ", " x ", " x ", " x ", " x ", " x

/* What would change ids or text and is not known is refused by the name of its part; so is what makes no sense. */
static void what_is_unknown_is_refused_by_name(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{}", "model: expected an object"},
        {FILE_OF("\"type\": \"Markov\"", ""),
         "model.type: expected BPE, Unigram, WordPiece or WordLevel, found Markov"},
        {FILE_OF("\"x\": 0", ""), "found none"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": 0, \"b\": 0}", ""), "id 0: expected one token"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": -1}", ""), "expected an integer from 0"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": 4000000000}", ""), "expected an integer from 0"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": \"b\"}", ""), "entry 0: expected a text and a number"},
        {FILE_OF("\"merges\": [], \"vocab\": []", ""), "model.vocab: expected an object"},
        {FILE_OF("\"merges\": [], \"vocab\": {}", ""), "model.vocab: expected tokens, found none"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": 0, \"b\": 70000}", ""), "number of tokens 2, found 70000"},
        {FILE_OF("\"merges\": [\"a b\"], \"vocab\": {\"a\": 0}", ""), "merge 0: expected tokens of the vocabulary"},
        {FILE_OF("\"merges\": [\"ab\"], \"vocab\": {\"a\": 0}", ""), "merge 0: expected two tokens"},
        {FILE_OF("\"merges\": [[\"a\"]], \"vocab\": {\"a\": 0}", ""), "merge 0: expected two tokens"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": 0}, \"dropout\": 0.1", ""), "model.dropout: expected 0"},
        {FILE_OF("\"merges\": [], \"vocab\": {\"a\": 0}, \"unk_token\": \"u\"", ""), "unk_token: expected a token"},
        {FILE_OF(
             "\"merges\": [], \"vocab\": {\"a\": 0}, \"end_of_word_suffix\": \"</wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww>\"",
             ""),
         "model.end_of_word_suffix: expected at most 31 bytes"},
        {FILE_OF("\"type\": \"Unigram\", \"vocab\": {}", ""), "model.vocab: expected tokens"},
        {FILE_OF("\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1", ""),
         "unk_id: expected an integer from 0 to 0"},
        {FILE_OF("\"type\": \"Unigram\", \"vocab\": [[\"a\"]]", ""), "entry 0: expected a text and a number"},
        {FILE_OF("\"type\": \"Unigram\", \"vocab\": [[\"a\", 0], [\"a\", 1]]", ""), "\"a\" again"},
        {FILE_OF("\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, \"max_input_chars_per_word\": 5000", ""),
         "max_input_chars_per_word: expected an integer from 0 to 1000"},
        {NORM("{\"type\": \"Uppercase\"}"), "normalizer: expected a type that tokenizers has, found Uppercase"},
        {NORM("{\"type\": \"Replace\"}"), "normalizer Replace: expected a pattern"},
        {NORM("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(\"}, \"content\": \"\"}"),
         "Replace: expected a regular expression"},
        {NORM("{\"type\": \"Prepend\"}"), "normalizer Prepend: expected a text"},
        {NORM("{\"type\": \"Precompiled\"}"), "expected a precompiled_charsmap"},
        {NORM("{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"*\"}"), "expected base64"},
        {NORM("{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////wAAAAA=\"}"), "expected a trie"},
        {NORM("{\"type\": \"Strip\", \"strip_left\": 1}"), "strip_left: expected true or false"},
        {PRE("{\"type\": \"Thai\"}"), "pre_tokenizer: expected a type that tokenizers has, found Thai"},
        {PRE("{\"type\": \"ByteLevel\", \"add_prefix_space\": \"no\"}"), "add_prefix_space: expected true or false"},
        {PRE("{\"type\": \"Metaspace\", \"replacement\": \"__\"}"),
         "replacement: expected one character, found \"__\""},
        {PRE("{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}"),
         "prepend_scheme: expected always, first or never, found last"},
        {PRE("{\"type\": \"Split\", \"pattern\": {}, \"behavior\": \"Isolated\"}"),
         "Split: expected a pattern, found none"},
        {PRE("{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Removing\"}"),
         "MergedWithNext, found Removing"},
        {PRE("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Isolated\"}"),
         "expected a regular expression"},
        {PRE("{\"type\": \"FixedLength\", \"length\": 0}"), "length: expected an integer from 1"},
        {PRE("{\"type\": \"CharDelimiterSplit\"}"), "delimiter: expected one character"},
        {PRE("{\"type\": \"Sequence\"}"), "Sequence: expected an array pretokenizers, found none"},
        {PRE(SIX(SIX("{\"type\": \"Digits\"}"))), "pre_tokenizer: expected at most 32 steps"},
        {PRE("{\"type\": \"ByteLevel\"}, {\"type\": \"ByteLevel\"}, {\"type\": \"ByteLevel\"}"), "2 of them ByteLevel"},
        {NORM("{\"type\": \"Sequence\", \"normalizers\": [" SIX(SIX("{\"type\": \"NFC\"}")) "]}"),
         "normalizer: expected at most 32 steps"},
        {DEC("{\"type\": \"CTC\"}"), "decoder: expected a type that tokenizers has, found CTC"},
        {DEC("{\"type\": \"Strip\", \"content\": \"xy\"}"), "content: expected one character"},
        {DEC("{\"type\": \"Fuse\"}, {\"type\": \"WordPiece\"}"),
         "expected no WordPiece of several characters behind Fuse"},
        {DEC("{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 1}"),
         "expected no Strip"},
        {DEC("{\"type\": \"BPEDecoder\"}, {\"type\": \"Fuse\"}"), "expected BPEDecoder last"},
        {DEC("{\"type\": \"BPEDecoder\", \"suffix\": \"\"}"), "suffix: expected a text"},
        {DEC(SIX(SIX("{\"type\": \"Fuse\"}"))), "decoder: expected at most 16 steps"},
        {POST("{\"type\": \"Padding\"}"), "post_processor: expected a type that tokenizers has, found Padding"},
        {POST("{\"type\": \"BertProcessing\"}"), "post_processor: expected ids of the vocabulary, found \"cls\""},
        {POST("{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"a\", 1]}"),
         "expected ids of the vocabulary, found \"sep\""},
        {POST("{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"b\"}}]}"), "found \"b\""},
        {POST("{\"type\": \"TemplateProcessing\", \"single\": []}"), "expected the text A, found none"},
        {POST("{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"B\"}}]}"),
         "expected the text A once"},
        {BPE(", \"added_tokens\": [{\"id\": 1}]"), "added_tokens: expected an id and a content"},
        {BPE(", \"added_tokens\": [{\"id\": 1, \"content\": \"b\", \"lstrip\": 1}]"), "lstrip: expected true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e;
        Tokenizer *t = open_text(cases[i][0], &e);
        tokenizer_close(t);
        if (t || !strstr(e.text, cases[i][1]) || !strstr(e.text, FILE_NAME))
            fail_msg("%s: expected \"%s\" in \"%s\"", cases[i][0], cases[i][1], e.text);
    }
}

/* The library numbers what the model does not have behind its vocabulary, whatever the file says. */
static void added_tokens_are_numbered_as_there(void **state) {
    (void)state;
    static const char json[] =
        BPE(", \"added_tokens\": [{\"id\": 7, \"content\": \"b\"}, {\"id\": 0, \"content\": \"a\"}, "
            "{\"id\": 9, \"content\": \"c\"}]");
    Error e;
    Tokenizer *t = open_text(json, &e);
    if (!t) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_vocab_size(t), 3);
    assert_int_equal(tokenizer_find(t, "b"), 1);
    assert_int_equal(tokenizer_find(t, "c"), 2);
    tokenizer_close(t);
}

/* The list of merges is read from the text, in place: its escapes, spaces, forms and mistakes. */
static void merges_are_read_as_json(void **state) {
    (void)state;
#define MERGES(list)                                                                                                   \
    FILE_OF("\"merges\": " list ", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"\\u0120ab\": 4, "      \
            "\"\\\"\": 5, \"a\\\"\": 6, \"\\ud83d\\ude00\": 7, \"\\ud83d\\ude00a\": 8}",                               \
            "")
    static const struct {
        const char *json, *text, *ids;
    } good[] = {
        {MERGES("[]"), "ab", "0 1"},
        {MERGES(" [ \"a b\" , [ \"\\u0120\" ,\"a\\u0062\"]\n]"), "ab\u0120ab", "2 4"},
        {MERGES("[\"a \\\"\", \"\\uD83D\\uDE00 a\"]"), "a\"\U0001F600a", "6 8"},
        {MERGES("[[\"\U0001F600\", \"a\"]], \"x\": \"]}{[\\\"\\\\\""), "\U0001F600a", "8"},
    };
    static const char *const bad[] = {
        MERGES("[\"a b\",]"),       MERGES("[\"a b\" \"a b\"]"),
        MERGES("[\"a  b\"]"),       MERGES("[[\"a\", \"b\", \"b\"]]"),
        MERGES("[[\"a\" \"b\"]]"),  MERGES("[7777]"),
        MERGES("[\"a b\", null]"),  MERGES("[\"a \\x\"]"),
        MERGES("[\"a \\u12\"]"),    MERGES("[\"a \\ud83d\"]"),
        MERGES("[\"a \\ude00 \"]"), MERGES("[\"a \\ud83d\\u0041\"]"),
        MERGES("[[\"a\", \"b\"}]"), MERGES("[\"a b\"}"),
    };
    Error e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int *ids, n;
        Tokenizer *t = open_text(good[i].json, &e);
        if (!t) fail_msg("%s: %s", good[i].json, e.text);
        assert_int_equal(tokenizer_encode(t, good[i].text, strlen(good[i].text), 0, &ids, &n, &e), 0);
        char *shown = show_ids(ids, n);
        assert_string_equal(shown, good[i].ids);
        free(shown);
        free(ids);
        tokenizer_close(t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Tokenizer *t = open_text(bad[i], &e);
        if (t || !strstr(e.text, FILE_NAME) || !strstr(e.text, "expected"))
            fail_msg("%s: taken, or %s", bad[i], e.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_equal_the_library),
        cmocka_unit_test(what_is_unknown_is_refused_by_name),
        cmocka_unit_test(added_tokens_are_numbered_as_there),
        cmocka_unit_test(merges_are_read_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Small files that are made to cost much: each case is a vocabulary file and a text, run in a process of its own, whose
 * time and memory are bounded by the bytes of both (the table in SECURITY.md). Refusing the file or the text is fine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tokenizer.h" /* before cmocka, whose macros reuse the name `fail` */
#include "untrusted.h"

#include <cmocka.h>

/* About 0.3 on a quiet machine, ten times that under a sanitizer; what grows too fast takes minutes. */
enum { MAX_SECONDS = 30 };
enum { FREE_KIB = 64 << 10, PROGRAM_KIB = 24 << 10, BYTES_PER_BYTE = 8 };

static FILE *out;

static void repeat(const char *s, int n) {
    while (n-- > 0) fputs(s, out);
}

#define BPE     "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \" \": 2}, \"merges\": []}"
#define ADDED   ", \"single_word\": false, \"lstrip\": true, \"rstrip\": true, \"normalized\": true, \"special\": false}"
#define REPLACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \""
#define SPLIT(x)                                                                                                       \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" x "\"}, \"behavior\": \"Isolated\", \"invert\": false}"

static void bomb(void) {
    fputs("{" BPE ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [", out);
    for (int i = 0; i < 3; i++) {
        fputs(i ? ", " REPLACE : REPLACE, out);
        repeat("a", 200);
        fputs("\"}", out);
    }
    fputs("]}", out);
}

static void normalizers_that_multiply(void) {
    bomb();
    fputs("}", out);
}

static void added_tokens_that_multiply(void) {
    bomb();
    fputs(", \"added_tokens\": [", out);
    for (int i = 0; i < 2000; i++) fprintf(out, "%s{\"id\": %d, \"content\": \"a%d\"" ADDED, i ? ", " : "", i + 3, i);
    fputs("]}", out);
}

/* One allowance for all stretches between added tokens, not one for each. */
static void stretches_that_multiply(void) {
    bomb();
    fputs(", \"added_tokens\": [{\"id\": 3, \"content\": \"b\", \"normalized\": false, \"special\": false}]}", out);
}

static void empty_matches(void) {
    fputs("{" BPE ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [", out);
    for (int i = 0; i < 30; i++)
        fprintf(out, "%s{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"%s\"}, \"content\": \"%s\"}", i ? ", " : "",
                i % 2 ? "b+" : "", i % 2 ? "" : "b");
    fputs("]}}", out);
}

static void added_tokens_with_one_end(void) {
    fputs("{" BPE ", \"added_tokens\": [", out);
    for (int i = 2; i < 1500; i++) {
        fprintf(out, "%s{\"id\": %d, \"content\": \"", i > 2 ? ", " : "", i + 1);
        repeat("a", i);
        fputs("b\"" ADDED, out);
    }
    fputs("]}", out);
}

static void one_long_added_token(void) {
    fputs("{" BPE ", \"added_tokens\": [{\"id\": 3, \"content\": \"", out);
    repeat("a", 60000);
    fputs("b\"" ADDED ", {\"id\": 4, \"content\": \"aa\"" ADDED "]}", out);
}

static void spaces_taken_again_and_again(void) {
    fputs("{" BPE ", \"added_tokens\": [{\"id\": 2, \"content\": \" \"" ADDED "]}", out);
}

static void normal_form_of_marks(void) {
    fputs("{" BPE
          ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"NFKD\"}]}}",
          out);
}

static void unigram_of_every_length(void) {
    fputs("{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [", out);
    for (int i = 1; i <= 700; i++) {
        fprintf(out, "%s[\"", i > 1 ? ", " : "");
        repeat("a", i);
        fprintf(out, "\", -%d.5]", i);
    }
    fputs("]}}", out);
}

static void merges_in_a_chain(void) {
    fputs("{\"model\": {\"type\": \"BPE\", \"vocab\": {", out);
    for (int i = 1; i <= 700; i++) {
        fprintf(out, "%s\"", i > 1 ? ", " : "");
        repeat("a", i);
        fprintf(out, "\": %d", i - 1);
    }
    fputs("}, \"merges\": [", out);
    for (int i = 1; i < 700; i++) {
        fprintf(out, "%s[\"", i > 1 ? ", " : "");
        repeat("a", i);
        fputs("\", \"a\"]", out);
    }
    fputs("]}}", out);
}

static void words_that_fail_at_their_end(void) {
    fputs("{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"a\", \"max_input_chars_per_word\": 1000, \"vocab\": "
          "{\"a\": 0, \"##a\": 1, "
          "\"##",
          out);
    repeat("a", 2000);
    fputs("\": 2}}, \"pre_tokenizer\": {\"type\": \"FixedLength\", \"length\": 999}}", out);
}

static void many_cuts(void) {
    fputs("{" BPE ", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [", out);
    for (int i = 0; i < 10; i++) fputs(i ? ", {\"type\": \"Metaspace\", \"replacement\": \"b\"}" : SPLIT("a|b"), out);
    fputs("]}}", out);
}

static void expression_of_each_place(void) {
    fputs("{" BPE ", \"pre_tokenizer\": " SPLIT("a*a*a*c|(?=[\\\\s\\\\S]*+)b") "}", out);
}

static void decoder_that_multiplies(void) {
    fputs("{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {", out);
    for (int i = 0; i < 5000; i++) fprintf(out, "%s\"a%d\": %d", i ? ", " : "", i, i);
    fputs("}}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": [" REPLACE, out);
    repeat("a", 30000);
    fputs("\"}, {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a+\"}, \"content\": \"\"}]}}", out);
}

static void plain(void) { fputs("{" BPE "}", out); }

/* ---- other vocabularies than JSON ---- */

static void u32(uint32_t x) { fwrite(&x, 4, 1, out); }
static void u64(uint64_t x) { fwrite(&x, 8, 1, out); }
static void text(const char *s) {
    u64(strlen(s));
    fputs(s, out);
}
static void array_key(const char *key, uint32_t type, uint64_t n) {
    text(key);
    u32(9);
    u32(type);
    u64(n);
}

/* A GGUF of <unk>, <s>, </s> and n pieces of letters a, first, first + step... long; the more letters, the better. */
static void gguf_pieces(int n, int first, int step, uint32_t type) {
    fwrite("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 24, 1, out);
    text("tokenizer.ggml.model");
    u32(8);
    text("llama");
    array_key("tokenizer.ggml.tokens", 8, 3 + (uint64_t)n);
    text("<unk>");
    text("<s>");
    text("</s>");
    for (int i = 0; i < n; i++) {
        u64((uint64_t)(first + i * step));
        repeat("a", first + i * step);
    }
    array_key("tokenizer.ggml.scores", 6, 3 + (uint64_t)n);
    for (int i = 0; i < 3 + n; i++) fwrite(&(float){(float)i}, 4, 1, out);
    array_key("tokenizer.ggml.token_type", 5, 3 + (uint64_t)n);
    for (int i = 0; i < 3 + n; i++) u32(i < 3 ? 3 : type);
    repeat(" ", 64);
}
static void user_piece_of_60000_bytes(void) { gguf_pieces(1, 60000, 0, 4); }
static void user_pieces_of_every_length(void) { gguf_pieces(700, 2, 1, 4); }
static void scores_in_a_chain(void) { gguf_pieces(700, 1, 1, 1); }

static void ranks_in_a_chain(void) { /* "aaa" is "YWFh" in base64 */
    fputs("YQ== 0\nYWE= 1\n", out);
    for (int i = 0; i < 240; i++) {
        repeat("YWFh", i);
        fprintf(out, "YWFh %d\n", 2 + i);
    }
}

/* The library of sentencepiece would take half a gigabyte for a megabyte of this. */
static void sentencepiece_model(void) {
    char buffer[1 << 13];
    FILE *model = fopen("tests/fixtures/tokenizers/spm.model", "rb");
    size_t n = model ? fread(buffer, 1, sizeof buffer, model) : 0;
    assert_true(n > 1000 && n < sizeof buffer);
    fclose(model);
    fwrite(buffer, 1, n, out);
}

static const struct {
    void (*file)(void);
    const char *text; /* n times */
    int n;
} CASES[] = {
    {normalizers_that_multiply, "a", 4},
    {added_tokens_that_multiply, "a", 4},
    {stretches_that_multiply, "ab", 20000},
    {empty_matches, "a", 4000},
    {added_tokens_with_one_end, "a", 100000},
    {one_long_added_token, "a", 100000},
    {spaces_taken_again_and_again, " ", 100000},
    {normal_form_of_marks, "\u0315\u0300\u0345", 30000},
    {unigram_of_every_length, "a", 50000},
    {unigram_of_every_length, "b", 100000},
    {merges_in_a_chain, "a", 100000},
    {words_that_fail_at_their_end, "a", 100000},
    {many_cuts, "a ", 20000},
    {expression_of_each_place, "a", 4000},
    {decoder_that_multiplies, "a", 4},
    {user_piece_of_60000_bytes, "a", 100000},
    {user_pieces_of_every_length, "a", 100000},
    {scores_in_a_chain, "a", 100000},
    {ranks_in_a_chain, "a", 100000},
    {sentencepiece_model, "\xff", 1000000},
    {sentencepiece_model, "a ", 500000},
    {plain, "a", 1000000},
    {plain, "\xff", 1000000},
};

/* The child: 0 when the file and the text were taken or refused. */
static int use(const char *json, size_t size, const char *text, size_t n) {
    Error e = {0};
    int *ids = NULL, count;
    memory_put("tokenizer.json", json, size);
    Tokenizer *t = tokenizer_open(MEMORY "/tokenizer.json", &e);
    if (t && tokenizer_encode(t, text, n, TOKENIZE_SPECIAL, &ids, &count, &e) == 0 && count < 0) return 1;
    free(ids);
    tokenizer_close(t);
    if (getenv("VERBOSE") && *e.text) fprintf(stderr, "%s\n", e.text);
    return t || strstr(e.text, "expected") ? 0 : 2;
}

static void costs_are_bounded_by_the_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *json = NULL, *text = malloc(strlen(CASES[i].text) * (size_t)CASES[i].n + 1), *next = text;
        size_t size;
        for (int k = 0; k < CASES[i].n; k++) next = stpcpy(next, CASES[i].text);
        out = open_memstream(&json, &size);
        CASES[i].file();
        fclose(out);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) _exit(use(json, size, text, (size_t)(next - text)));
        int status;
        struct rusage usage;
        assert_int_equal(wait4(child, &status, 0, &usage), child);
        double seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6;
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("case %zu: expected exit 0, found status %d", i, status);
        if (getenv("VERBOSE"))
            print_message("case %2zu: file %zu, text %zu, %.2f s, %ld KiB\n", i, size, (size_t)(next - text), seconds,
                          usage.ru_maxrss);
        if (seconds > MAX_SECONDS) fail_msg("case %zu: expected at most %d s, found %.1f", i, MAX_SECONDS, seconds);
#ifndef __SANITIZE_ADDRESS__
        long most = FREE_KIB + PROGRAM_KIB + (long)((size + (size_t)(next - text)) * BYTES_PER_BYTE >> 10);
        if (usage.ru_maxrss > most) fail_msg("case %zu: expected at most %ld KiB, found %ld", i, most, usage.ru_maxrss);
#endif
        free(json);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_bounded_by_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* text and error: nothing of a stranger's file speaks to the terminal, and one failure is one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#include <cmocka.h> /* last: it makes fail a macro */
#undef fail

static void shown(const char *s, size_t n, int columns, bool middle, const char *expected) {
    char out[1024];
    size_t length = text_show(out, sizeof out, s, n, columns, middle);
    assert_string_equal(out, expected);
    assert_int_equal(length, strlen(expected));
}
#define SHOWN(s, expected) shown(s, sizeof(s) - 1, 60, false, expected)

static void what_could_speak_is_escaped(void **state) {
    (void)state;
    SHOWN("plain", "plain");
    SHOWN("", "");
    SHOWN("a\0b", "a\\x00b");
    SHOWN("\033]0;title\007", "\\x1b]0;title\\x07");
    SHOWN("a\nrun: b\r\t", "a\\x0arun: b\\x0d\\x09");
    SHOWN("\x7f", "\\x7f");
    SHOWN("\xc2\x9b"
          "31m",
          "\\u{9b}31m"); /* C1 as UTF-8 */
    SHOWN("\x9b"
          "31m",
          "\\x9b"
          "31m"); /* as a byte */
    SHOWN("\xff\xfe", "\\xff\\xfe");
    SHOWN("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
    SHOWN("\xc0\x80", "\\xc0\\x80");          /* an overlong NUL */
    SHOWN("a\xe2\x80\xae"
          "b",
          "a\\u{202e}b");               /* override */
    SHOWN("\xe2\x81\xa6", "\\u{2066}"); /* isolate */
    SHOWN("\xe2\x80\xa8\xe2\x80\xa9", "\\u{2028}\\u{2029}");
    SHOWN("\xe2\x80\x8b\xef\xbb\xbf\xc2\xad", "\\u{200b}\\u{feff}\\u{ad}");
    SHOWN("\xf3\xa0\x81\x81", "\\u{e0041}"); /* a tag */
    SHOWN("caf\xc3\xa9 \xe7\x8c\xab \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe7\x8c\xab \xf0\x9f\x98\x80");
    SHOWN("\xe2\x96\x81word", "\xe2\x96\x81word");
}

static void long_texts_are_cut_with_a_mark(void **state) {
    (void)state;
    char s[4001], out[1024];
    memset(s, 'a', 4000);
    s[4000] = 0;
    size_t n = text_show(out, sizeof out, s, 4000, 60, false);
    assert_int_equal(n, 60);
    assert_string_equal(out + 57, "...");
    n = text_show(out, sizeof out, s, 60, 60, false); /* just fits */
    assert_int_equal(n, 60);
    assert_null(strstr(out, "..."));
    memset(s, 1, 4000); /* four columns each */
    n = text_show(out, sizeof out, s, 4000, 60, false);
    assert_true(n <= 60 && strcmp(out + n - 3, "...") == 0);
    for (int i = 0; i < 3999; i += 3) memcpy(s + i, "\xe7\x8c\xab", 3); /* two columns each */
    n = text_show(out, sizeof out, s, 3999, 60, false);
    assert_int_equal(n, 28 * 3 + 3);
    size_t bad;
    assert_true(utf8_valid(out, n, &bad));
    shown("/a/very/long/path/to/the/model.gguf", 35, 20, true, "/a/ve...e/model.gguf");
    static const char text[] = "a\x01\xe7\x8c\xab\xff long enough to be cut somewhere";
    for (size_t room = 1; room < 40; room++) { /* never more than there is room for */
        char *small = malloc(room);
        assert_non_null(small);
        n = text_show(small, room, text, sizeof text - 1, 30, room % 2);
        assert_true(n < room && strlen(small) == n);
        free(small);
    }
}

static void an_error_is_one_printable_line(void **state) {
    (void)state;
    Error e = {0};
    assert_int_equal(fail(&e, "%s: %s: expected %d to %zu, found %.*s of '%c' (%5.2f%%)", "dir/\033[2Jmodel.gguf",
                          "key\xc2\x9b\n", 1, (size_t)2, 3, "abcdef", '\a', 12.345),
                     -1);
    assert_string_equal(e.text,
                        "dir/\\x1b[2Jmodel.gguf: key\\u{9b}\\x0a: expected 1 to 2, found abc of '\\x07' (12.35%)");
    Error kept = e;
    fail(&e, "another");
    assert_memory_equal(&e, &kept, sizeof e);
    e = (Error){0};
    fail(&e, "x %5d|%-5d|%+d|%05u|%x|%#x|%lld|%llu|%ld|%g|%.3f|%.15g|%hd", 42, 42, 42, 42u, 42u, 42u, -1LL, 1ULL << 63,
         -5L, 0.5, 1.0 / 3, 1e300, (short)-3);
    assert_string_equal(e.text, "x    42|42   |+42|00042|2a|0x2a|-1|9223372036854775808|-5|0.5|0.333|1e+300|-3");
    e = (Error){0};
    fail(&e, "x %*d|%-*d|%.*f", 5, 42, 4, 7, 2, 1.0);
    assert_string_equal(e.text, "x    42|7   |1.00");
}

static void long_names_and_paths_leave_the_cause(void **state) {
    (void)state;
    static char path[5000], name[5000];
    Error e = {0};
    memset(path, 'p', sizeof path - 1);
    memset(name, '\xff', sizeof name - 1);
    strcpy(path + 4980, "/model.gguf");
    fail(&e, "%s: %s: expected %s, found %s", path, name, name, "the cause");
    assert_true(strlen(e.text) < 400);
    assert_non_null(strstr(e.text, "/model.gguf: \\xff"));
    assert_non_null(strstr(e.text, "found the cause"));
    e = (Error){0};
    fail(&e, "--flag %s: expected %.100s|", path, path); /* a text of the program's own may be longer than 60 */
    assert_int_equal(strlen(e.text), strlen("--flag : expected |") + 160);
    e = (Error){0};
    for (size_t i = 0; i + 4 < sizeof path; i += 4) memcpy(path + i, "\xf0\x9f\x98\x80", 4);
    fail(&e, "%s: %s %s %s %s %s %s %s %s %s", path, path, path, path, path, path, path, path, path, path);
    assert_true(strlen(e.text) < sizeof e.text);
}

static void json_strings(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0, bad;
    FILE *f = open_memstream(&text, &size);
    static const char s[] = "a\"\\\n\x9b\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\xc3\xa9\0\x7f";
    text_print_json(f, s, sizeof s - 1);
    fclose(f);
    assert_string_equal(text, "\"a\\\"\\\\\\u000a\\ufffd\\u009b\\u202e\\udb40\\udc41\xc3\xa9\\u0000\\u007f\"");
    assert_true(utf8_valid(text, size, &bad));
    free(text);
}

/* Bytes of the well-formed character at s, 0: none. Source: The Unicode Standard 15, table 3-7. */
static size_t well_formed(const unsigned char *s, size_t n) {
    static const struct {
        unsigned char first[2], second[2];
        size_t length;
    } row[] = {{{0x00, 0x7f}, {0x00, 0xff}, 1}, {{0xc2, 0xdf}, {0x80, 0xbf}, 2}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 3},
               {{0xe1, 0xec}, {0x80, 0xbf}, 3}, {{0xed, 0xed}, {0x80, 0x9f}, 3}, {{0xee, 0xef}, {0x80, 0xbf}, 3},
               {{0xf0, 0xf0}, {0x90, 0xbf}, 4}, {{0xf1, 0xf3}, {0x80, 0xbf}, 4}, {{0xf4, 0xf4}, {0x80, 0x8f}, 4}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        if (s[0] < row[r].first[0] || s[0] > row[r].first[1]) continue;
        if (row[r].length > n) return 0;
        if (row[r].length > 1 && (s[1] < row[r].second[0] || s[1] > row[r].second[1])) return 0;
        for (size_t i = 2; i < row[r].length; i++)
            if (s[i] < 0x80 || s[i] > 0xbf) return 0;
        return row[r].length;
    }
    return 0;
}

/* Texts of up to 24 characters, most of them right, with a strange byte here and there. */
static void utf8_is_what_unicode_says(void **state) {
    (void)state;
    static const char *const right[] = {"a",
                                        "Z",
                                        "\x7f",
                                        "\xc2\x80",
                                        "\xc4\xa0",
                                        "\xdf\xbf",
                                        "\xe0\xa0\x80",
                                        "\xe7\x8c\xab",
                                        "\xed\x9f\xbf",
                                        "\xef\xbf\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf4\x8f\xbf\xbf"};
    static const unsigned char strange[] = {0x00, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
                                            0xe0, 0xed, 0xf0, 0xf4, 0xf5, 0xff};
    int n_valid = 0;
    uint32_t random = 1;
    for (int round = 0; round < 100000; round++) {
        char s[128];
        size_t n = 0, i = 0, length, bad = 0;
        for (int k = 0; k < round % 24; k++) {
            random = random * 1664525 + 1013904223;
            const char *c = right[(random >> 20) % (round % 2 ? 6 : 12)];
            if (random >> 28 == 0 && round % 4) s[n++] = (char)strange[(random >> 16 & 0xff) % sizeof strange];
            else memcpy(s + n, c, strlen(c)), n += strlen(c);
        }
        while (i < n && (length = well_formed((const unsigned char *)s + i, n - i)) > 0) i += length;
        assert_int_equal(utf8_valid(s, n, &bad), i == n);
        if (i < n) assert_int_equal(bad, i);
        n_valid += i == n;
    }
    assert_in_range(n_valid, 30000, 90000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_what_unicode_says),
        cmocka_unit_test(what_could_speak_is_escaped),
        cmocka_unit_test(long_texts_are_cut_with_a_mark),
        cmocka_unit_test(an_error_is_one_printable_line),
        cmocka_unit_test(long_names_and_paths_leave_the_cause),
        cmocka_unit_test(json_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

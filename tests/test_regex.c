/* Regular expressions as Hugging Face's tokenizers match them (the matches are those of its Split), and expressions
 * that are made to take long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tokenizer/regex.h" /* before cmocka, whose macros reuse the name `fail` */

#include <cmocka.h>

/* The matches that are not empty, joined by |; the value of the last regex_next. */
static int matches(const char *pattern, const char *text, size_t n, char *out, Error *e) {
    Regex *r = regex_new(pattern, strlen(pattern), false, "FILE: part", e);
    if (!r) return -1;
    RegexSpace *space = regex_space_new(n);
    RegexCursor cursor = {0};
    size_t begin, end, k = 0;
    int found;
    assert_non_null(space);
    while ((found = regex_next(r, space, text, n, &cursor, &begin, &end, e)) > 0) {
        if (begin == end || !out) continue;
        if (k) out[k++] = '|';
        memcpy(out + k, text + begin, end - begin);
        k += end - begin;
    }
    if (out) out[k] = 0;
    regex_space_free(space);
    regex_free(r);
    return found;
}

static void expressions_mean_what_they_mean_there(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"[a-z&&[^aeiou]]+", "hello", "h|ll"},
        {"[[ab]x]+", "axbcx", "axb|x"},
        {"\\h+", "face it 0x9", "face|0|9"},
        {"\\w+", "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8\xe0\xa5\x8d\xe0\xa4\xa6\xe0\xa5\x80 ab_1",
         "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8\xe0\xa5\x8d\xe0\xa4\xa6\xe0\xa5\x80|ab_1"},
        {"[[:punct:]]+", "a.,$b", ".,$"},
        {"[[:^punct:]c]+", "a.,$b", "a|b"},
        {"[^[:punct:]]+", "a.,$b", "a|b"},
        {"[\\[:punct:]+", "a[:puncty]$", "[:punct"},
        {"^\\w", "ab\ncd", "a|c"},
        {"c$", "abc\nc", "c|c"},
        {"\\p{Han}+", "\xe6\xbc\xa2\xe5\xad\x97\xe3\x80\x82\xe3\x81\xb2\xe3\x80\x85",
         "\xe6\xbc\xa2\xe5\xad\x97|\xe3\x80\x85"},
        {"\\s+",
         "a\xe1\xa0\x8e \xc2\xa0\xe2\x80\x83"
         "b",
         " \xc2\xa0\xe2\x80\x83"},
        {"(?i)\xc3\x9f", "STRASSE \xc3\x9f", "SS|\xc3\x9f"},
        {"(?m).+", "a\nb", "a\nb"},
        {"\\bd\\b", "d dd d", "d|d"},
        {"b*", "abb", "bb"},
        {"(?<=a)b", "abcb", "b"},
        {"\\R", "a\r\nb\n", "\r\n|\n"},
        {"\\X",
         "e\xcc\x81"
         "x",
         "e\xcc\x81|x"},
        {"(?>a+)b|a", "aac", "a|a"},
        {"\\p{^L}+", "ab12", "12"},
        {"\\d+", "1\xd9\xa3\xc2\xb2", "1\xd9\xa3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[128];
        Error e = {0};
        assert_int_equal(matches(cases[i][0], cases[i][1], strlen(cases[i][1]), found, &e), 0);
        if (strcmp(found, cases[i][2]) != 0) fail_msg("%s: expected %s, found %s", cases[i][0], cases[i][2], found);
    }
}

static void what_is_no_expression_is_refused(void **state) {
    (void)state;
    static const char *const cases[] = {"(", "[a", "(?<n", "\\p{Nothing}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        assert_int_equal(matches(cases[i], "a", 1, NULL, &e), -1);
        assert_non_null(strstr(e.text, "FILE: part: expected a regular expression, found"));
    }
}

/* Each ends soon, with its matches or with an error that says why: powers of the length in one place, at each place, in
 * looking ahead, in counts, by reference. */
static void no_expression_hangs(void **state) {
    (void)state;
    static const char *const cases[] = {"(a+)+$",
                                        "(a|a)*\\d",
                                        "(a|aa)+b(?=d)",
                                        "(.*)*x(?=d)",
                                        "(a*)*b(?=d)",
                                        "a*a*a*a*b(?=d)",
                                        "(?:a+a+)+y",
                                        "a*b(?=d)",
                                        "a(?=[\\s\\S]*+)",
                                        "(?=[\\s\\S]*+)a\\d",
                                        "(((a{1,100}){1,100}){1,100}){1,100}b(?=d)",
                                        "(a*)\\1*b(?=d)",
                                        "a{9999}\\d",
                                        "(?<x>a\\g<x>|b)",
                                        "(?<=a*)b(?=d)",
                                        "(a?){50}a{50}b(?=d)",
                                        "(?i:a|A|ａ)*\\d"};
    enum { N = 20000 };
    char *text = malloc(N);
    memset(text, 'a', N);
    memcpy(text + N - 6, "bcx=y1", 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        clock_t begin = clock();
        int found = matches(cases[i], text, N, NULL, &e);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 5) fail_msg("%s: %g seconds", cases[i], seconds);
        if (found != 0 && !strstr(e.text, "reasonable time")) fail_msg("%s: %s", cases[i], e.text);
    }
    free(text);
    static const char *const refused[] = {"((?=[\\s\\S]*+).)*", "(?:(?<!x)(?:b|(?=a*)a)c)+", "(?<l>(?=a*)a)(\\g<l>)*"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Error e = {0};
        assert_int_equal(matches(refused[i], "a", 1, NULL, &e), -1);
        assert_non_null(strstr(e.text, "lookaround that repeats"));
    }
    char found[16]; /* one that repeats, but is not repeated, as grouping of digits is written */
    Error e = {0};
    assert_int_equal(matches("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567", 7, found, &e), 0);
    assert_string_equal(found, "1|234|567");
}

/* A search that takes many steps goes on place by place, and finds what one search would find. */
static void far_matches_are_found(void **state) {
    (void)state;
    enum { N = 15 * 64 + 5 };
    char text[N + 8], found[N + 8];
    static const char *const cases[][2] = {
        {"a{3}b", "aaab"},
        {"(?<=a)bc", "bc"},
        {"(?>a+)c|c1", "c1"},
        {"a+\\d|b.", "bc"},
        {"a\\z|[ab]{2}(?=c)", "ab"},
        {"\\Ga{5}(?=bc)|a{3}(?=bc)", "aaa"},
        {"\\Aa{7}c|1$", "1"},
        {"a+$|\\d", "1"},
        {"(?:\\Ga{9}|^)c|(a)bc", "abc"},
        {"(?i:A+x)|c1", "c1"},
        {"[^b]+c|1", "1"},
    };
    memset(text, 'a', N);
    strcpy(text + N, "bc1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e = {0};
        if (matches(cases[i][0], text, strlen(text), found, &e)) fail_msg("%s: %s", cases[i][0], e.text);
        if (strcmp(found, cases[i][1]) != 0) fail_msg("%s: expected %s, found %s", cases[i][0], cases[i][1], found);
    }
}

static void long_expressions_are_refused(void **state) {
    (void)state;
    char *pattern = calloc(1, REGEX_BYTES + 2);
    Error e = {0};
    memset(pattern, 'a', REGEX_BYTES);
    assert_int_equal(matches(pattern, "a", 1, NULL, &e), 0);
    pattern[REGEX_BYTES] = 'a';
    assert_int_equal(matches(pattern, "a", 1, NULL, &e), -1);
    assert_string_equal(e.text, "FILE: part: expected an expression of at most 16384 bytes, found 16385");
    free(pattern);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_mean_what_they_mean_there),
        cmocka_unit_test(what_is_no_expression_is_refused),
        cmocka_unit_test(no_expression_hangs),
        cmocka_unit_test(far_matches_are_found),
        cmocka_unit_test(long_expressions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

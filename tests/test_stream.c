/* Tests of src/gen/stream.c: stop texts over token borders, characters over token borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/stream.h"

#include <cmocka.h> /* last: it makes a macro of fail */

/* Feeds `parts` (NULL at the end) and compares what is out after each with `want`, and at the end. */
static void check(const char *const *stop, int n_stop, const char *const *parts, const char *const *want,
                  const char *at_end, bool stopped) {
    char *text = NULL;
    size_t size = 0;
    Error e = {""};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    Stream s;
    stream_init(&s, out, stop, n_stop);
    char so_far[256] = "";
    for (int i = 0; parts[i]; i++) {
        assert_int_equal(stream_write(&s, parts[i], strlen(parts[i]), &e), 0);
        strcat(so_far, want[i]);
        fflush(out);
        assert_string_equal(text, so_far);
    }
    assert_int_equal(stream_end(&s, &e), 0);
    assert_int_equal(s.stopped, stopped);
    strcat(so_far, at_end);
    fflush(out);
    assert_string_equal(text, so_far);
    stream_close(&s);
    fclose(out);
    free(text);
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_plain(void **state) {
    (void)state;
    check(NULL, 0, LIST("a", "", "bc"), LIST("a", "", "bc"), "", false);
}

static void test_stop_over_borders(void **state) {
    (void)state;
    check(LIST("END"), 1, LIST("so E", "N", "D more"), LIST("so ", "", ""), "", true);
    /* it looked like the stop text, and was not */
    check(LIST("END"), 1, LIST("E", "N", "E", "x"), LIST("", "", "EN", "Ex"), "", false);
    /* begun when the text ends: text after all */
    check(LIST("END"), 1, LIST("EN"), LIST(""), "EN", false);
    /* a begin inside a begin: "aab" after "aa" "a" "b" */
    check(LIST("aab"), 1, LIST("aa", "a", "b"), LIST("", "a", ""), "", true);
    /* the first place counts, not the first in the list */
    check(LIST("zz", "b"), 2, LIST("abzz"), LIST("a"), "", true);
    check(LIST("\n\n"), 1, LIST("x\n", "y\n", "\n"), LIST("x", "\ny", ""), "", true);
}

static void test_whole_characters(void **state) {
    (void)state;
    check(NULL, 0, LIST("\xF0\x9F", "\xA6", "\x99", "!"), LIST("", "", "\xF0\x9F\xA6\x99", "!"), "", false);
    check(NULL, 0, LIST("\x20\xE6", "\xAD", "\xAA"), LIST(" ", "", "\xE6\xAD\xAA"), "", false);
    /* no character any more: written at once, as it is */
    check(NULL, 0, LIST("\xE6", "\xAD", "A", "\xBF"),
          LIST("", "",
               "\xE6\xAD"
               "A",
               "\xBF"),
          "", false);
    /* the end inside a character, and a stop text there */
    check(NULL, 0, LIST("x\xF0\x92", "\x8E"), LIST("x", ""), "\xEF\xBF\xBD", false);
    check(LIST("."), 1, LIST("x\xC3", "."), LIST("x", "\xEF\xBF\xBD"), "", true);
    /* a stop text after half a character */
    check(LIST("."), 1, LIST("\xC3", "\xA9."), LIST("", "\xC3\xA9"), "", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_stop_over_borders),
        cmocka_unit_test(test_whole_characters),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}

/* JSON from strangers: what is taken, and what is refused in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h" /* before cmocka, whose macros reuse the name `fail` */

#include <cmocka.h>

static void refused(const char *text, size_t size, const char *why) {
    Error e = {0};
    cJSON *root = json_parse(text, size, "file", &e);
    assert_null(root);
    if (strncmp(e.text, "file: ", 6) != 0 || !strstr(e.text, why) || strchr(e.text, '\n'))
        fail_msg("expected \"file: ...%s\", found \"%s\"", why, e.text);
}

static void bad_texts_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "expected a value"},
        {"{\"a\": 1", "expected a value"},
        {"{\"a\": 1} x", "expected its end, found more at byte 9"},
        {"{} {}", "expected its end"},
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "key \"a\": expected once, found twice"},
        {"{\"o\": [{\"k\": 1, \"k\": 1}]}", "key \"k\": expected once, found twice"},
        {"\"\xff\"", "expected UTF-8, found byte 0xff at 1"},
        {"\"\xed\xa0\x80\"", "expected UTF-8, found byte 0xed at 1"},
        {"\"\xc0\x80\"", "expected UTF-8, found byte 0xc0 at 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, strlen(cases[i].text), cases[i].why);
    refused("{}\0{}", 5, "expected its end, found more at byte 2");
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    size_t n = 8000000;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '[', n);
    refused(text, 100000, "expected a value");
    /* More values than a file of its size may have: each takes 40 times the two bytes that it is written in. */
    for (size_t i = 1; i < n; i++) text[i] = i % 2 ? '0' : ',';
    refused(text, n, "values in 8000000 bytes, found 400");
    free(text);
}

static void values_are_checked(void **state) {
    (void)state;
    static const char text[] = " {\"i\": 7, \"f\": 1.5, \"big\": 1e300, \"b\": true, \"s\": \"x\", \"n\": null}\n";
    Error e = {0};
    cJSON *root = json_parse(text, sizeof text - 1, "file", &e);
    assert_non_null(root);
    int i = -1;
    double x = -1;
    bool b = false;
    assert_int_equal(json_int(&i, root, "i", 0, 10, "file", &e), 0);
    assert_int_equal(i, 7);
    assert_int_equal(json_number(&x, root, "f", "file", &e), 0);
    assert_true(x == 1.5);
    assert_int_equal(json_bool(&b, root, "b", "file", &e), 0);
    assert_true(b);
    assert_int_equal(json_int(&i, root, "n", 0, 10, "file", &e), 0); /* null is absent */
    assert_int_equal(json_int(&i, root, "none", 0, 10, "file", &e), 0);
    assert_int_equal(i, 7);
    assert_string_equal(e.text, "");

    static const struct {
        const char *key;
        int min, max;
    } bad[] = {{"i", 8, 10}, {"i", 0, 6}, {"f", 0, 10}, {"big", 0, 10}, {"b", 0, 10}, {"s", 0, 10}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        Error why = {0};
        assert_int_equal(json_int(&i, root, bad[k].key, bad[k].min, bad[k].max, "file", &why), -1);
        assert_non_null(strstr(why.text, bad[k].key));
        assert_int_equal(i, 7);
    }
    Error why = {0};
    assert_int_equal(json_bool(&b, root, "i", "file", &why), -1);
    assert_int_equal(json_number(&x, root, "s", "file", &(Error){0}), -1);
    cJSON_Delete(root);
}

/* C strings end at a NUL: json_bytes puts those back that \\u0000 stands for. */
static void a_nul_in_a_string(void **state) {
    (void)state;
    Error e = {0};
    static const char text[] = "{\"a\\u0000b\": \"\\u0000\", \"plain\": \"\\\\u0000\", \"a\": \"\\\\\\u0000x\"}";
    cJSON *root = json_parse(text, sizeof text - 1, "file", &e);
    if (!root) fail_msg("%s", e.text);
    cJSON *first = root->child;
    assert_int_equal(json_bytes(first->string, strlen(first->string)), 3);
    assert_memory_equal(first->string, "a\0b", 4);
    assert_int_equal(json_bytes(first->valuestring, strlen(first->valuestring)), 1);
    assert_memory_equal(first->valuestring, "\0", 2);
    assert_string_equal(first->next->valuestring, "\\u0000");
    char *last = first->next->next->valuestring;
    assert_int_equal(json_bytes(last, strlen(last)), 3);
    assert_memory_equal(last, "\\\0x", 4);
    cJSON_Delete(root);
    static const char twice[] = "{\"a\\u0000b\": 1, \"a\\u0000c\": 2}"; /* no key twice */
    root = json_parse(twice, sizeof twice - 1, "file", &e);
    assert_non_null(root);
    cJSON_Delete(root);
}

static void missing_file_is_named(void **state) {
    (void)state;
    Error e = {0};
    assert_null(json_read("/nonexistent/config.json", &e));
    assert_non_null(strstr(e.text, "/nonexistent/config.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_texts_are_refused), cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(values_are_checked),    cmocka_unit_test(a_nul_in_a_string),
        cmocka_unit_test(missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

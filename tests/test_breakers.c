/* test_breakers - what --dry-sequence-breaker's texts are in tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gen/breakers.h"

#include <cmocka.h> /* last: it makes a macro of fail */

/* The text of a sequence begins anywhere in its first token. */
static bool has(const Tokenizer *t, const DryBreaker *b, const char *text) {
    char all[1024] = "", buffer[8];
    for (int i = -1; i < b->n; i++) {
        const char *bytes;
        size_t n = tokenizer_decode(t, 0, i < 0 ? b->head : b->tail[i], &bytes, buffer);
        strncat(all, bytes, n);
    }
    return strstr(all, text) != NULL;
}

static void breakers_are_tokens_or_sequences(void **state) {
    (void)state;
    Error e = {0};
    Breakers b;
    static const char *const texts[] = {"ing", "q{}"};
    Tokenizer *t = tokenizer_open("tests/fixtures/tokenizers/bpe_gpt-2.gguf", &e);
    if (!t) fail_msg("%s", e.text);
    int n_vocab = tokenizer_vocab_size(t), single = 0, sequences[2] = {0};
    assert_int_equal(breakers_find(&b, t, n_vocab + 5, texts, 2, &e), 0);
    for (int id = 0; id < n_vocab; id++) {
        const char *bytes;
        char buffer[8];
        size_t n = tokenizer_decode(t, 0, id, &bytes, buffer);
        bool want = memmem(bytes, n, "ing", 3) || memmem(bytes, n, "q{}", 3);
        assert_int_equal(b.single[id], want);
        single += want;
    }
    for (int i = 0; i < b.n; i++) {
        bool first = has(t, &b.list[i], texts[0]), second = has(t, &b.list[i], texts[1]);
        if (!first && !second) fail_msg("sequence %d has no breaker in it", i);
        sequences[0] += first;
        sequences[1] += second;
        assert_true(i == 0 || b.list[i - 1].head <= b.list[i].head);
    }
    assert_true(single > 0 && sequences[0] > 0 && sequences[1] > 0);
    breakers_close(&b);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(breakers_are_tokens_or_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

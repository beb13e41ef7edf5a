#include "gen/breakers.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 40 /* of a breaker; the rest of a longer one is ignored, as in llama.cpp */ };

static bool known(const Breakers *b, const DryBreaker *one) {
    for (int i = b->n - 1; i >= 0 && b->list[i].head == one->head; i--)
        if (b->list[i].n == one->n && memcmp(b->list[i].tail, one->tail, (size_t)one->n * sizeof *one->tail) == 0)
            return true;
    return false;
}

/* The token `head` ends in the beginning of a breaker, which `rest` completes. */
static int add(Breakers *b, const Tokenizer *t, int head, const char *rest, size_t n_rest, Error *e) {
    DryBreaker one = {.head = head};
    int *ids;
    if (tokenizer_encode(t, rest, n_rest, 0, &ids, &one.n, e)) return -1;
    if (one.n > DRY_TAIL) one.n = DRY_TAIL;
    if (one.n) memcpy(one.tail, ids, (size_t)one.n * sizeof *ids);
    free(ids);
    if (known(b, &one)) return 0;
    DryBreaker *larger = b->n & (b->n - 1) ? b->list : realloc(b->list, (b->n ? 2 * (size_t)b->n : 1) * sizeof *larger);
    if (!larger) return fail(e, "sampler: memory: expected some, found none");
    b->list = larger;
    b->list[b->n++] = one;
    return 0;
}

static int look_at(Breakers *b, const Tokenizer *t, int id, const char *text, Error *e) {
    const char *word;
    char buffer[8];
    size_t n_word = tokenizer_decode(t, 0, id, &word, buffer), n_text = strnlen(text, MAX_BYTES);
    if (memmem(word, n_word, text, n_text)) {
        b->single[id] = true;
        return 0;
    }
    for (size_t at = 0; at < n_word; at++) {
        size_t n = n_word - at; /* bytes of the word's end, shorter than the breaker where they begin it */
        if (n < n_text && memcmp(word + at, text, n) == 0 && add(b, t, id, text + n, n_text - n, e)) return -1;
    }
    return 0;
}

int breakers_find(Breakers *b, const Tokenizer *t, int n_vocab, const char *const *texts, int n_texts, Error *e) {
    *b = (Breakers){.single = calloc((size_t)n_vocab, sizeof *b->single)};
    if (!b->single) return fail(e, "sampler: memory: expected some, found none");
    for (int id = 0; t && id < n_vocab && id < tokenizer_vocab_size(t); id++)
        for (int i = 0; i < n_texts; i++)
            if (look_at(b, t, id, texts[i], e)) return -1;
    return 0;
}

void breakers_close(Breakers *b) {
    free(b->single);
    free(b->list);
    *b = (Breakers){0};
}

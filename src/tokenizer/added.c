#include "tokenizer/added.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int added_push(AddedSet *set, Added token, Error *e) {
    if (set->n == set->room) {
        int room = set->room ? 2 * set->room : 32;
        Added *tokens = realloc(set->tokens, (size_t)room * sizeof *tokens);
        if (!tokens) return fail(e, "added tokens: memory: expected room for %d, found none", room);
        set->tokens = tokens;
        set->room = room;
    }
    set->tokens[set->n++] = token;
    return 0;
}

static int longest_first(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

int added_finish(AddedSet *set, const char *file, Error *e) {
    if (set->n == 0) return 0;
    set->lengths = malloc((size_t)set->n * sizeof *set->lengths);
    if (!set->lengths || !table_init(&set->texts, (size_t)set->n))
        return fail(e, "%s: memory: expected room for %d added tokens, found none", file, set->n);
    size_t n = 0;
    for (int i = 0; i < set->n; i++) {
        const Added *a = &set->tokens[i];
        if (a->n == 0 || !table_put(&set->texts, a->text, a->n, i)) continue;
        set->first[(unsigned char)a->text[0]] = true;
        set->lengths[n++] = a->n;
    }
    qsort(set->lengths, n, sizeof *set->lengths, longest_first);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || set->lengths[i] != set->lengths[i - 1]) set->lengths[set->n_lengths++] = set->lengths[i];
    return 0;
}

void added_close(AddedSet *set) {
    free(set->tokens);
    free(set->lengths);
    table_close(&set->texts);
    *set = (AddedSet){0};
}

static utf8proc_int32_t char_before(const char *text, size_t at, size_t *length) {
    size_t i = at;
    while (i > 0 && at - i < 4 && ((unsigned char)text[--i] & 0xc0) == 0x80) continue;
    utf8proc_int32_t c = -1;
    *length = at - i;
    if (i < at) utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(at - i), &c);
    return c;
}

static utf8proc_int32_t char_at(const char *text, size_t n, size_t at, size_t *length) {
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
    *length = size > 0 ? (size_t)size : 0;
    return c;
}

static bool is_space(utf8proc_int32_t c) {
    if (c < 0) return false;
    if ((c >= '\t' && c <= '\r') || c == 0x85) return true;
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

static bool is_word(utf8proc_int32_t c) {
    if (c < 0) return false;
    if (c == '_' || c == 0x200c || c == 0x200d) return true; /* the two joiners are in Rust's \\w */
    utf8proc_category_t k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC;
}

const Added *added_next(const AddedSet *set, const char *text, size_t n, size_t from, size_t floor, bool with_special,
                        size_t *begin, size_t *end) {
    if (set->n_lengths == 0) return NULL;
    for (size_t at = from; at < n; at++) {
        if (!set->first[(unsigned char)text[at]]) continue;
        for (size_t k = 0; k < set->n_lengths; k++) {
            size_t length = set->lengths[k], size;
            if (length > n - at) continue;
            int i = table_get(&set->texts, text + at, length);
            if (i < 0) continue;
            const Added *a = &set->tokens[i];
            if (a->special && !with_special) continue;
            *begin = at;
            *end = at + length;
            if (a->single_word &&
                (is_word(char_before(text, *begin, &size)) || is_word(char_at(text, n, *end, &size)))) {
                at += length - 1; /* this place is used up, though nothing was found */
                break;
            }
            while (a->lstrip && *begin > floor && is_space(char_before(text, *begin, &size))) *begin -= size;
            while (a->rstrip && *end < n && is_space(char_at(text, n, *end, &size)) && size) *end += size;
            return a;
        }
    }
    return NULL;
}

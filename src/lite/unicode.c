/* Characters without Unicode's tables. The small program's vocabularies, those of sentencepiece, normalize nothing and
 * have no special tokens that look at their neighbours: of all this they reach char_at alone. */
#include "tokenizer/unicode.h"

#include <ctype.h>

#include "base/text.h"

int char_at(const char *text, size_t n, size_t at, size_t *length) {
    *length = at < n ? utf8_length(text + at, n - at) : 0;
    return *length ? (int)utf8_code(text + at, *length) : -1;
}

int char_before(const char *text, size_t at, size_t *length) {
    size_t i = at;
    while (i > 0 && at - i < 4 && ((unsigned char)text[--i] & 0xc0) == 0x80) continue;
    return char_at(text, at, i, length);
}

size_t grapheme_at(const char *text, size_t n, size_t at) {
    size_t length;
    char_at(text, n, at, &length);
    return length;
}

bool is_white_space(int c) { return c >= 0 && c < 128 && isspace(c); }
bool is_word(int c) { return c == '_' || (c >= 0 && c < 128 && isalnum(c)); }
bool is_mark(int c) { return c >= 128; }
bool is_nonspacing(int c) { return c >= 128; }
bool is_control(int c) { return c >= 0 && c < 128 && iscntrl(c); }

int lower_case(const char *text, size_t n, Bytes *out, Error *e) {
    (void)text, (void)n, (void)out;
    return fail(e, "text: expected a vocabulary that keeps capital letters (run-lite has no other, see make)");
}

int normal_form(NormalForm form, const char *text, size_t n, Bytes *out, Error *e) {
    (void)form, (void)text, (void)n, (void)out;
    return fail(e, "text: expected a vocabulary that normalizes nothing (run-lite has no other, see make)");
}

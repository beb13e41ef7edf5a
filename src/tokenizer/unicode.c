#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <utf8proc.h>

int char_at(const char *text, size_t n, size_t at, size_t *length) {
    utf8proc_int32_t c = -1;
    *length = 0;
    if (at >= n) return -1;
    if ((unsigned char)text[at] < 0x80) {
        *length = 1;
        return text[at];
    }
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
    *length = size > 0 ? (size_t)size : 1; /* 1 cannot be in valid UTF-8 */
    return c;
}

int char_before(const char *text, size_t at, size_t *length) {
    size_t i = at;
    while (i > 0 && at - i < 4 && ((unsigned char)text[--i] & 0xc0) == 0x80) continue;
    *length = 0;
    int c = char_at(text, at, i, length);
    *length = at - i;
    return c;
}

static bool in(int c, unsigned categories) { return c >= 0 && (categories >> utf8proc_category(c) & 1); }

#define BIT(name) (1u << UTF8PROC_CATEGORY_##name)

enum {
    MARKS = BIT(MN) | BIT(MC) | BIT(ME),
    WORDS = BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO) | MARKS | BIT(ND) | BIT(NL) | BIT(PC),
    SPACES = BIT(ZS) | BIT(ZL) | BIT(ZP),
    CONTROLS = BIT(CC) | BIT(CF) | BIT(CO),
};

bool is_white_space(int c) { return (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || (c >= 0x80 && in(c, SPACES)); }
bool is_word(int c) { return in(c, WORDS) || c == 0x200c || c == 0x200d; }
bool is_mark(int c) { return c >= 0x80 && in(c, MARKS); }
bool is_nonspacing(int c) { return c >= 0x80 && in(c, BIT(MN)); }
bool is_control(int c) { return in(c, CONTROLS); }

int lower_case(const char *text, size_t n, Bytes *out, Error *e) {
    for (size_t i = 0, length; i < n; i += length) {
        int c = char_at(text, n, i, &length);
        if (c == 0x130) { /* the only one that becomes two: i and a dot above */
            if (bytes_add(out, "i\xcc\x87", 3, e)) return -1;
        } else if (c < 0x80 ? c < 'A' || c > 'Z' : utf8proc_tolower(c) == c) {
            if (bytes_add(out, text + i, length, e)) return -1;
        } else if (bytes_add_char(out, (unsigned)utf8proc_tolower(c), e)) {
            return -1;
        }
    }
    return 0;
}

/* ---- normal forms ---- */

/* No character becomes more than 18. */
enum { MOST = 32 };

typedef struct {
    utf8proc_int32_t *chars; /* [room] */
    utf8proc_int32_t *marks; /* [room] while they are sorted */
    size_t n, room;
} Decomposed;

static int reserve(Decomposed *d, size_t n, Error *e) {
    if (n <= d->room) return 0;
    size_t room = n + n / 2 + 1024;
    utf8proc_int32_t *chars = realloc(d->chars, room * sizeof *chars);
    if (chars) d->chars = chars;
    utf8proc_int32_t *marks = chars ? realloc(d->marks, room * sizeof *marks) : NULL;
    if (!marks) return fail(e, "text: memory: expected some to normalize, found none");
    d->marks = marks;
    d->room = room;
    return 0;
}

static unsigned combining_class(utf8proc_int32_t c) { return (unsigned)utf8proc_get_property(c)->combining_class; }

/* The marks chars[from, to) in the order of their combining classes, equal ones as they were: a counting sort, since a
 * stranger may write a hundred thousand of them. */
static void sort_marks(Decomposed *d, size_t from, size_t to) {
    size_t begin[257] = {0};
    if (to - from < 2) return;
    for (size_t i = from; i < to; i++) begin[combining_class(d->chars[i]) + 1]++;
    for (int k = 0; k < 256; k++) begin[k + 1] += begin[k];
    for (size_t i = from; i < to; i++) d->marks[begin[combining_class(d->chars[i])]++] = d->chars[i];
    for (size_t i = from; i < to; i++) d->chars[i] = d->marks[i - from];
}

static int decompose(Decomposed *d, const char *text, size_t n, bool compatible, Error *e) {
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (compatible) options |= UTF8PROC_COMPAT;
    d->n = 0;
    size_t marks = 0; /* where the marks at the end begin */
    for (size_t i = 0, length; i < n; i += length) {
        int c = char_at(text, n, i, &length), boundary = 0;
        if (reserve(d, d->n + MOST, e)) return -1;
        utf8proc_ssize_t more = utf8proc_decompose_char(c, d->chars + d->n, MOST, options, &boundary);
        if (more < 0 || more > MOST)
            return fail(e, "text: normalizer: expected a character, found U+%04X", (unsigned)c);
        for (utf8proc_ssize_t k = 0; k < more; k++, d->n++) {
            if (combining_class(d->chars[d->n]) != 0) continue;
            sort_marks(d, marks, d->n);
            marks = d->n + 1;
        }
    }
    sort_marks(d, marks, d->n);
    return 0;
}

int normal_form(NormalForm form, const char *text, size_t n, Bytes *out, Error *e) {
    Decomposed d = {0};
    int status = 0;
    for (size_t i = 0; i < n && !status;) {
        /* ASCII stays as it is; its last character may be the base of what follows. */
        size_t plain = i, end;
        while (plain < n && (unsigned char)text[plain] < 0x80) plain++;
        if (plain > i && plain < n) plain--;
        status = bytes_add(out, text + i, plain - i, e);
        for (end = plain + 1; end < n && (unsigned char)text[end] >= 0x80;) end++;
        if (plain >= n || status) break;
        status = decompose(&d, text + plain, end - plain, form == FORM_NFKC || form == FORM_NFKD, e);
        utf8proc_ssize_t count = (utf8proc_ssize_t)d.n;
        if (!status && (form == FORM_NFC || form == FORM_NFKC))
            count = utf8proc_normalize_utf32(d.chars, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        for (utf8proc_ssize_t k = 0; k < count && !status; k++) status = bytes_add_char(out, (unsigned)d.chars[k], e);
        i = end;
    }
    free(d.chars);
    free(d.marks);
    return status;
}

size_t grapheme_at(const char *text, size_t n, size_t at) {
    size_t length, end = at;
    utf8proc_int32_t state = 0;
    int c = char_at(text, n, at, &length);
    for (end += length; end < n; end += length) {
        int next = char_at(text, n, end, &length);
        if (utf8proc_grapheme_break_stateful(c, next, &state)) break;
        c = next;
    }
    return end - at;
}

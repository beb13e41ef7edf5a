#include "base/text.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* ---- UTF-8 --------------------------------------------------------------------------------------- */

unsigned utf8_code(const char *s, size_t length) {
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned code = (unsigned char)s[0] & mask[length];
    for (size_t i = 1; i < length; i++) code = code << 6 | ((unsigned char)s[i] & 0x3f);
    return code;
}

size_t utf8_length(const char *s, size_t n) {
    static const struct {
        unsigned char mask, lead;
        unsigned smallest;
    } form[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char *u = (const unsigned char *)s;
    for (size_t k = 0; k < 4 && k < n; k++) {
        if ((u[0] & form[k].mask) != form[k].lead) continue;
        for (size_t i = 1; i <= k; i++)
            if ((u[i] & 0xc0) != 0x80) return 0;
        unsigned code = utf8_code(s, k + 1);
        if (code < form[k].smallest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
        return k + 1;
    }
    return 0;
}

/* Are the next 8 bytes whole characters of one or two bytes? Then 8, or 7 where the last of them begins another; else
 * 0. All 8 at once: a byte 10xxxxxx must follow each 110xxxxx and nothing else; c0 and c1 are in no UTF-8. */
static size_t short_characters(const char *s) {
    const uint64_t each = 0x0101010101010101u, top = 0x80 * each;
    uint64_t x, c0;
    memcpy(&x, s, sizeof x);
    uint64_t first = x & x << 1 & top, second = x & ~(x << 1) & top;
    c0 = (x & 0xfe * each) ^ 0xc0 * each;
    if ((first & x << 2) || ((c0 - each) & ~c0 & top) || second != first << 8) return 0;
    return first >> 63 ? 7 : 8;
}

bool utf8_valid(const char *s, size_t n, size_t *bad) {
    for (size_t i = 0, length; i < n; i += length) {
        length = n - i >= 8 ? short_characters(s + i) : 0;
        if (length == 0) length = utf8_length(s + i, n - i);
        if (length == 0) {
            *bad = i;
            return false;
        }
    }
    return true;
}

/* ---- What does something to a terminal ----------------------------------------------------------- */

typedef struct {
    unsigned first, last;
} Range;

static bool in_ranges(unsigned code, const Range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}
#define IN(code, ranges) in_ranges(code, ranges, sizeof(ranges) / sizeof *(ranges))

static bool is_control(unsigned code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/* Overrides, embeddings and isolates of direction: text after them is shown in another order. */
static bool turns_direction(unsigned code) {
    static const Range ranges[] = {{0x202a, 0x202e}, {0x2066, 0x2069}};
    return IN(code, ranges);
}

/* Unicode 15's category Cf, and the separators of lines and paragraphs. */
static bool is_format(unsigned code) {
    static const Range ranges[] = {
        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
        {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f},
    };
    return IN(code, ranges);
}

/* East Asian wide characters and emoji take two columns. */
static int columns_of(unsigned code) {
    static const Range wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                                 {0xf900, 0xfaff}, {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                                 {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    return IN(code, wide) ? 2 : 1;
}

/* ---- One line of a message ----------------------------------------------------------------------- */

enum { SHOWN = 16 }; /* bytes of one character as it is shown, and a NUL */

/* The character or bad byte at s as it is shown; *used bytes of s. Returns its columns. */
static int show_one(char shown[SHOWN], const char *s, size_t n, size_t *used) {
    size_t length = utf8_length(s, n);
    unsigned code = length ? utf8_code(s, length) : (unsigned char)*s;
    *used = length ? length : 1;
    if (!length || code < 0x20 || code == 0x7f) return snprintf(shown, SHOWN, "\\x%02x", code);
    if (is_control(code) || is_format(code)) return snprintf(shown, SHOWN, "\\u{%x}", code);
    memcpy(shown, s, length);
    shown[length] = 0;
    return columns_of(code);
}

/* Shows characters from s on in at most `columns` columns; *used bytes of s. Returns the bytes written. */
static size_t show_some(char *out, size_t room, const char *s, size_t n, int columns, size_t *used) {
    size_t length = 0, one;
    for (*used = 0; *used < n; *used += one) {
        char shown[SHOWN];
        columns -= show_one(shown, s + *used, n - *used, &one);
        size_t bytes = strlen(shown);
        if (columns < 0 || length + bytes + 1 > room) break;
        memcpy(out + length, shown, bytes);
        length += bytes;
    }
    if (room) out[length] = 0;
    return length;
}

/* The first byte of the last characters that fit into `columns` columns. */
static size_t tail_begin(const char *s, size_t n, int columns) {
    size_t at = n;
    while (at > 0) {
        size_t back = 1, used;
        char shown[SHOWN];
        while (back < 4 && back < at && ((unsigned char)s[at - back] & 0xc0) == 0x80) back++;
        if (utf8_length(s + at - back, back) != back) back = 1;
        columns -= show_one(shown, s + at - back, back, &used);
        if (columns < 0) break;
        at -= back;
    }
    return at;
}

size_t text_show(char *out, size_t room, const char *s, size_t n, int columns, bool cut_middle) {
    enum { MARK = 3 };
    size_t used, length = show_some(out, room, s, n, columns, &used);
    if (used == n || columns <= MARK) return length;
    int head = cut_middle ? (columns - MARK) / 3 : columns - MARK;
    size_t from = cut_middle ? tail_begin(s, n, columns - MARK - head) : n;
    length = show_some(out, room, s, n, head, &used);
    length += show_some(out + length, room - length, "...", MARK, MARK, &used);
    return length + show_some(out + length, room - length, s + from, n - from, columns, &used);
}

/* ---- Text as it is, and JSON ---------------------------------------------------------------------- */

bool text_print(FILE *out, const char *s, size_t n, bool raw) {
    if (raw || !isatty(fileno(out))) return fwrite(s, 1, n, out) == n;
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = utf8_length(s + i, n - i);
        unsigned code = length ? utf8_code(s + i, length) : 0xfffd;
        bool keep = code == '\n' || code == '\t' || (!is_control(code) && !turns_direction(code));
        if (!length) fputs("\xef\xbf\xbd", out);
        else if (keep) fwrite(s + i, 1, length, out);
    }
    return !ferror(out);
}

void text_print_json(FILE *out, const char *s, size_t n) {
    fputc('"', out);
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = utf8_length(s + i, n - i);
        unsigned code = length ? utf8_code(s + i, length) : 0xfffd;
        if (code == '"' || code == '\\') fprintf(out, "\\%c", (int)code);
        else if (code > 0xffff && is_format(code))
            fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
        else if (!length || is_control(code) || is_format(code)) fprintf(out, "\\u%04x", code);
        else fwrite(s + i, 1, length, out);
    }
    fputc('"', out);
}

size_t utf8_encode(char out[4], unsigned code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(0xff << (8 - n) | code);
    return n;
}

/* ---- Byte order marks ---------------------------------------------------------------------------- */

/* Every second byte of the first ones is 0: Latin letters in UTF-16. */
static bool looks_utf16(const char *text, size_t n) {
    size_t seen = n < 64 ? n / 2 * 2 : 64;
    size_t odd = 0, even = 0;
    for (size_t i = 0; i < seen; i++) *(i % 2 ? &odd : &even) += text[i] == 0;
    return seen >= 8 && ((odd == seen / 2 && even == 0) || (even == seen / 2 && odd == 0));
}

int text_drop_mark(char *text, size_t *n, const char *what, Error *e) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *encoding;
    } marks[] = {{"\xff\xfe\0\0", 4, "UTF-32"},
                 {"\0\0\xfe\xff", 4, "UTF-32"},
                 {"\xff\xfe", 2, "UTF-16"},
                 {"\xfe\xff", 2, "UTF-16"}};
    const char *encoding = looks_utf16(text, *n) ? "UTF-16" : NULL;
    for (size_t i = 0; !encoding && i < sizeof marks / sizeof *marks; i++)
        if (*n >= marks[i].n && memcmp(text, marks[i].bytes, marks[i].n) == 0) encoding = marks[i].encoding;
    if (encoding)
        return fail(e, "%s: text: expected UTF-8, found %s (iconv -f %s -t UTF-8 converts it)", what, encoding,
                    encoding);
    if (*n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) memmove(text, text + 3, *n -= 3);
    return 0;
}

void text_list(char *list, size_t room, const char *separator, const char *item) {
    size_t n = strlen(list);
    snprintf(list + n, room - n, "%s%s", n ? separator : "", item);
}

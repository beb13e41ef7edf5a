#include "chat/text_methods.h"

#include <string.h>

#include "chat/call.h"
#include "chat/unicode.h"

static unsigned char mark_at(const Str *s, size_t i) { return s->mark ? s->mark[i] : 0; }

static void put_case(Jinja *j, Builder *b, uint32_t c, char how, unsigned char mark) {
    uint32_t out[3];
    int n = unicode_case(out, c, how);
    for (int k = 0; k < n; k++) builder_code(j, b, out[k], mark);
}

const Str *text_case(Jinja *j, const Str *s, char how) {
    Builder b = {.safe = s->safe};
    bool begins = true;
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        char to = how == 's' ? (unicode_upper(c) ? 'l' : 'u') : how == 't' ? (begins ? 't' : 'l') : how;
        put_case(j, &b, c, to, mark_at(s, i));
        begins = !unicode_upper(c) && !unicode_lower(c) && !unicode_title(c);
    }
    return builder_done(j, &b);
}

const Str *text_capitalize(Jinja *j, const Str *s) {
    Builder b = {.safe = s->safe};
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        put_case(j, &b, c, i == 0 ? 't' : 'l', mark_at(s, i));
    }
    return builder_done(j, &b);
}

const Str *text_pad(Jinja *j, const Str *s, int64_t width, const Str *fill, char side) {
    static const Str blank = {.n = 1, .chars = 1, .s = " "};
    if (fill && fill->chars != 1) j_fail(j, "The fill character must be exactly one character long");
    int64_t room = width - (int64_t)s->chars, left = 0;
    if (room <= 0) return s;
    if (side == 'r') left = room;
    if (side == 'c') left = room / 2 + (room & width & 1);
    Builder b = {.safe = s->safe};
    builder_fill(j, &b, fill ? fill : &blank, left);
    builder_str(j, &b, s);
    builder_fill(j, &b, fill ? fill : &blank, room - left);
    return builder_done(j, &b);
}

static bool stripped(Jinja *j, const char *at, size_t length, uint32_t c, const Str *chars) {
    if (!chars) return unicode_space(c);
    j_step(j, chars->n / 16 + 1);
    return memmem(chars->s, chars->n, at, length) != NULL;
}

const Str *text_strip(Jinja *j, const Str *s, const Str *chars, bool left, bool right) {
    size_t from = 0, to = s->n, length;
    for (; left && from < to; from += length) {
        uint32_t c = utf8_next(s->s + from, to - from, &length);
        if (!stripped(j, s->s + from, length, c, chars)) break;
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)s->s[at] & 0xc0) == 0x80) at--;
        uint32_t c = utf8_next(s->s + at, to - at, &length);
        if (!stripped(j, s->s + at, to - at, c, chars)) break;
        to = at;
    }
    return str_sub(j, s, from, to);
}

const Str *text_replace(Jinja *j, const Str *s, const Str *old, const Str *to, int64_t count) {
    Builder b = {.safe = s->safe};
    size_t at = 0;
    j_step(j, s->n / 16);
    for (; count != 0; count--) {
        const char *found = memmem(s->s + at, s->n - at, old->s, old->n);
        if (!found || (old->n == 0 && at > s->n)) break;
        size_t begin = (size_t)(found - s->s), end = begin + old->n;
        builder_bytes(j, &b, s->s + at, begin - at, s->mark ? s->mark + at : NULL);
        builder_str(j, &b, to);
        j_step(j, 1);
        at = end;
        if (old->n) continue;
        if (at == s->n) break; /* an empty text is found before each character and at the end */
        do builder_bytes(j, &b, s->s + at, 1, s->mark ? s->mark + at : NULL);
        while (++at < s->n && ((unsigned char)s->s[at] & 0xc0) == 0x80);
    }
    builder_bytes(j, &b, s->s + at, s->n - at, s->mark ? s->mark + at : NULL);
    return builder_done(j, &b);
}

List *text_lines(Jinja *j, const Str *s, bool keep_ends) {
    List *l = list_new(j, 0);
    size_t from = 0, length;
    for (size_t i = 0; i < s->n;) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        size_t end = i + length;
        if (!unicode_line_end(c)) {
            i = end;
            continue;
        }
        if (c == '\r' && end < s->n && s->s[end] == '\n') end++;
        list_add(j, l, v_str(str_sub(j, s, from, keep_ends ? end : i)));
        from = i = end;
    }
    if (from < s->n) list_add(j, l, v_str(str_sub(j, s, from, s->n)));
    return l;
}

const Str *escape_html(Jinja *j, Value v) {
    static const char specials[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const Str *s = v_to_str(j, v);
    if (s->safe) return s;
    Builder b = {.safe = true};
    for (size_t i = 0; i < s->n; i++) {
        const char *special = s->s[i] ? strchr(specials, s->s[i]) : NULL;
        unsigned char marks[8];
        memset(marks, mark_at(s, i), sizeof marks);
        if (special) builder_bytes(j, &b, names[special - specials], strlen(names[special - specials]), marks);
        else builder_bytes(j, &b, s->s + i, 1, marks);
    }
    return builder_done(j, &b);
}

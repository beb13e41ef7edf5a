/* Methods of str. */
#include <string.h>

#include "chat/call.h"
#include "chat/text_methods.h"
#include "chat/unicode.h"

static bool given(Value v) { return v.type != T_MISSING && v.type != T_NONE; }

#define CASE_METHOD(name, how)                                                                                         \
    static Value name(Jinja *j, Value v, Value *a) {                                                                   \
        (void)a;                                                                                                       \
        return v_str(text_case(j, v.u.str, how));                                                                      \
    }
CASE_METHOD(m_upper, 'u')
CASE_METHOD(m_lower, 'l')
CASE_METHOD(m_swapcase, 's')
CASE_METHOD(m_title, 't')
CASE_METHOD(m_casefold, 'f')

static Value m_capitalize(Jinja *j, Value v, Value *a) {
    (void)a;
    return v_str(text_capitalize(j, v.u.str));
}

static Value strip(Jinja *j, Value v, Value *a, bool left, bool right) {
    return v_str(text_strip(j, v.u.str, given(a[0]) ? as_str(j, a[0], "strip") : NULL, left, right));
}
static Value m_strip(Jinja *j, Value v, Value *a) { return strip(j, v, a, true, true); }
static Value m_lstrip(Jinja *j, Value v, Value *a) { return strip(j, v, a, true, false); }
static Value m_rstrip(Jinja *j, Value v, Value *a) { return strip(j, v, a, false, true); }

static Value pad(Jinja *j, Value v, Value *a, char side) {
    const Str *fill = given(a[1]) ? as_str(j, a[1], "fill character") : NULL;
    return v_str(text_pad(j, v.u.str, as_int(j, a[0], "width"), fill, side));
}
static Value m_center(Jinja *j, Value v, Value *a) { return pad(j, v, a, 'c'); }
static Value m_ljust(Jinja *j, Value v, Value *a) { return pad(j, v, a, 'l'); }
static Value m_rjust(Jinja *j, Value v, Value *a) { return pad(j, v, a, 'r'); }

static Value m_zfill(Jinja *j, Value v, Value *a) {
    const Str *s = v.u.str, *zero = str_text(j, "0");
    size_t sign = s->n && (s->s[0] == '-' || s->s[0] == '+');
    Builder b = {.safe = s->safe};
    builder_str(j, &b, str_sub(j, s, 0, sign));
    builder_fill(j, &b, zero, as_int(j, a[0], "zfill") - (int64_t)s->chars);
    builder_str(j, &b, str_sub(j, s, sign, s->n));
    return v_str(builder_done(j, &b));
}

/* Bytes [from, to) that start and end, character numbers as in a slice, mean. False when they are no place at all. */
static bool range_of(Jinja *j, const Str *s, Value start, Value end, size_t *from, size_t *to) {
    int64_t n = (int64_t)s->chars, low = given(start) ? as_int(j, start, "start") : 0;
    int64_t high = given(end) ? as_int(j, end, "end") : n;
    if (low < 0) low = low + n < 0 ? 0 : low + n;
    if (high < 0) high = high + n < 0 ? 0 : high + n;
    if (high > n) high = n;
    if (low > high) return false;
    *from = str_at(j, s, (size_t)low);
    *to = str_at(j, s, (size_t)high);
    return true;
}

static bool affix(Jinja *j, const Str *s, Value what, size_t from, size_t to, bool at_end) {
    if (what.type == T_TUPLE) {
        for (int i = 0; i < what.u.list->n; i++)
            if (affix(j, s, what.u.list->v[i], from, to, at_end)) return true;
        return false;
    }
    const Str *x = as_str(j, what, at_end ? "endswith" : "startswith");
    return x->n <= to - from && memcmp(s->s + (at_end ? to - x->n : from), x->s, x->n) == 0;
}

static Value m_startswith(Jinja *j, Value v, Value *a) {
    size_t from, to;
    return v_bool(range_of(j, v.u.str, a[1], a[2], &from, &to) && affix(j, v.u.str, a[0], from, to, false));
}

static Value m_endswith(Jinja *j, Value v, Value *a) {
    size_t from, to;
    return v_bool(range_of(j, v.u.str, a[1], a[2], &from, &to) && affix(j, v.u.str, a[0], from, to, true));
}

static Value m_removeprefix(Jinja *j, Value v, Value *a) {
    const Str *s = v.u.str, *x = as_str(j, a[0], "removeprefix");
    return affix(j, s, a[0], 0, s->n, false) ? v_str(str_sub(j, s, x->n, s->n)) : v;
}

static Value m_removesuffix(Jinja *j, Value v, Value *a) {
    const Str *s = v.u.str, *x = as_str(j, a[0], "removesuffix");
    return affix(j, s, a[0], 0, s->n, true) ? v_str(str_sub(j, s, 0, s->n - x->n)) : v;
}

/* The last place of x in s[from, to), or NULL. */
static const char *last_of(const char *s, size_t from, size_t to, const Str *x) {
    for (size_t at = to - from >= x->n ? to - x->n + 1 : from; at > from; at--)
        if (memcmp(s + at - 1, x->s, x->n) == 0) return s + at - 1;
    return NULL;
}

/* The character number at which a[0] is found, or -1. */
static int64_t search(Jinja *j, Value v, Value *a, bool last) {
    size_t from, to;
    const Str *s = v.u.str, *x = as_str(j, a[0], "find");
    if (!range_of(j, s, a[1], a[2], &from, &to)) return -1;
    j_step(j, (to - from) / 16 * (last ? x->n + 1 : 1));
    const char *at = last ? last_of(s->s, from, to, x) : memmem(s->s + from, to - from, x->s, x->n);
    return at ? (int64_t)str_sub(j, s, 0, (size_t)(at - s->s))->chars : -1;
}

static Value m_find(Jinja *j, Value v, Value *a) { return v_int(search(j, v, a, false)); }
static Value m_rfind(Jinja *j, Value v, Value *a) { return v_int(search(j, v, a, true)); }

static Value found(Jinja *j, int64_t at) {
    if (at < 0) j_fail(j, "substring not found");
    return v_int(at);
}
static Value m_index(Jinja *j, Value v, Value *a) { return found(j, search(j, v, a, false)); }
static Value m_rindex(Jinja *j, Value v, Value *a) { return found(j, search(j, v, a, true)); }

static Value m_count(Jinja *j, Value v, Value *a) {
    size_t from, to;
    const Str *s = v.u.str, *x = as_str(j, a[0], "count");
    int64_t n = 0;
    if (!range_of(j, s, a[1], a[2], &from, &to)) return v_int(0);
    if (x->n == 0) return v_int((int64_t)str_sub(j, s, from, to)->chars + 1);
    j_step(j, (to - from) / 16);
    for (const char *at; (at = memmem(s->s + from, to - from, x->s, x->n)); n++) from = (size_t)(at - s->s) + x->n;
    return v_int(n);
}

static Value m_replace(Jinja *j, Value v, Value *a) {
    const Str *old = as_str(j, a[0], "replace"), *to = as_str(j, a[1], "replace");
    if (v.u.str->safe) old = escape_html(j, a[0]), to = escape_html(j, a[1]);
    return v_str(text_replace(j, v.u.str, old, to, given(a[2]) ? as_int(j, a[2], "replace") : -1));
}

/* Words between white space; the last of `most` splits keeps what is behind it. */
static List *split_words(Jinja *j, const Str *s, int64_t most) {
    List *l = list_new(j, 0);
    size_t at = 0, length;
    for (;;) {
        while (at < s->n && unicode_space(utf8_next(s->s + at, s->n - at, &length))) at += length;
        if (at == s->n) return l;
        if (most-- == 0) break;
        size_t from = at;
        while (at < s->n && !unicode_space(utf8_next(s->s + at, s->n - at, &length))) at += length;
        list_add(j, l, v_str(str_sub(j, s, from, at)));
    }
    list_add(j, l, v_str(text_strip(j, str_sub(j, s, at, s->n), NULL, false, true)));
    return l;
}

static void reverse(List *l) {
    for (int i = 0, k = l->n - 1; i < k; i++, k--) {
        Value v = l->v[i];
        l->v[i] = l->v[k];
        l->v[k] = v;
    }
}

static List *rsplit_words(Jinja *j, const Str *s, int64_t most) {
    List *l = list_new(j, 0);
    s = text_strip(j, s, NULL, false, true);
    while (s->n) {
        if (most-- == 0) {
            list_add(j, l, v_str(text_strip(j, s, NULL, true, true)));
            break;
        }
        size_t at = s->n;
        while (at > 0) {
            size_t c = at - 1, length;
            while (c > 0 && ((unsigned char)s->s[c] & 0xc0) == 0x80) c--;
            if (unicode_space(utf8_next(s->s + c, at - c, &length))) break;
            at = c;
        }
        list_add(j, l, v_str(str_sub(j, s, at, s->n)));
        s = text_strip(j, str_sub(j, s, 0, at), NULL, false, true);
    }
    reverse(l);
    return l;
}

static Value split(Jinja *j, Value v, Value *a, bool right) {
    const Str *s = v.u.str;
    int64_t most = given(a[1]) ? as_int(j, a[1], "maxsplit") : -1;
    if (!given(a[0])) return v_list(right ? rsplit_words(j, s, most) : split_words(j, s, most));
    const Str *x = as_str(j, a[0], "split");
    List *l = list_new(j, 0);
    size_t from = 0, to = s->n;
    if (x->n == 0) j_fail(j, "empty separator");
    for (; most != 0; most--) {
        j_step(j, 1 + (right ? 0 : (to - from) / 256));
        const char *at = right ? last_of(s->s, from, to, x) : memmem(s->s + from, to - from, x->s, x->n);
        if (!at) break;
        size_t begin = (size_t)(at - s->s);
        list_add(j, l, v_str(right ? str_sub(j, s, begin + x->n, to) : str_sub(j, s, from, begin)));
        if (right) to = begin;
        else from = begin + x->n;
    }
    list_add(j, l, v_str(str_sub(j, s, from, to)));
    if (right) reverse(l);
    return v_list(l);
}
static Value m_split(Jinja *j, Value v, Value *a) { return split(j, v, a, false); }
static Value m_rsplit(Jinja *j, Value v, Value *a) { return split(j, v, a, true); }

static Value partition(Jinja *j, Value v, Value *a, bool last) {
    const Str *s = v.u.str, *x = as_str(j, a[0], "partition"), *none = str_text(j, "");
    if (x->n == 0) j_fail(j, "empty separator");
    const char *at = last ? last_of(s->s, 0, s->n, x) : memmem(s->s, s->n, x->s, x->n);
    List *l = list_new(j, 3);
    size_t begin = at ? (size_t)(at - s->s) : last ? 0 : s->n;
    list_add(j, l, v_str(at || !last ? str_sub(j, s, 0, begin) : none));
    list_add(j, l, v_str(at ? str_sub(j, s, begin, begin + x->n) : none));
    list_add(j, l, v_str(at ? str_sub(j, s, begin + x->n, s->n) : last ? s : none));
    return v_tuple(l);
}
static Value m_partition(Jinja *j, Value v, Value *a) { return partition(j, v, a, false); }
static Value m_rpartition(Jinja *j, Value v, Value *a) { return partition(j, v, a, true); }

static Value m_splitlines(Jinja *j, Value v, Value *a) {
    return v_list(text_lines(j, v.u.str, given(a[0]) && v_true(a[0])));
}

static Value m_join(Jinja *j, Value v, Value *a) {
    Builder b = {.safe = v.u.str->safe};
    if (!v_iterable(a[0])) j_fail(j, "can only join an iterable");
    List *l = v_items(j, a[0]);
    for (int i = 0; i < l->n; i++) {
        if (l->v[i].type != T_STR)
            j_fail(j, "sequence item %d: expected str instance, %s found", i, type_name(l->v[i]));
        if (i) builder_str(j, &b, v.u.str);
        builder_str(j, &b, b.safe ? escape_html(j, l->v[i]) : l->v[i].u.str);
    }
    return v_str(builder_done(j, &b));
}

static Value m_format(Jinja *j, Value v, const Args *args) { return v_str(brace_format(j, v.u.str, args)); }

/* All characters of a string that is not empty. */
static Value all(Value v, bool (*is)(uint32_t c)) {
    const Str *s = v.u.str;
    for (size_t i = 0, length; i < s->n; i += length)
        if (!is(utf8_next(s->s + i, s->n - i, &length))) return v_bool(false);
    return v_bool(s->n > 0);
}

static bool alnum(uint32_t c) { return unicode_alpha(c) || unicode_numeric(c); }

#define IS_METHOD(name, is)                                                                                            \
    static Value name(Jinja *j, Value v, Value *a) {                                                                   \
        (void)j, (void)a;                                                                                              \
        return all(v, is);                                                                                             \
    }
IS_METHOD(m_isalnum, alnum)
IS_METHOD(m_isalpha, unicode_alpha)
IS_METHOD(m_isdecimal, unicode_decimal)
IS_METHOD(m_isdigit, unicode_digit)
IS_METHOD(m_isnumeric, unicode_numeric)
IS_METHOD(m_isspace, unicode_space)

/* Some letter has a case, and all that have one have this one. */
static Value one_case(Value v, bool upper) {
    const Str *s = v.u.str;
    bool any = false;
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        if (unicode_title(c) || (upper ? unicode_lower(c) : unicode_upper(c))) return v_bool(false);
        any |= upper ? unicode_upper(c) : unicode_lower(c);
    }
    return v_bool(any);
}

static Value m_isupper(Jinja *j, Value v, Value *a) {
    (void)j, (void)a;
    return one_case(v, true);
}

static Value m_islower(Jinja *j, Value v, Value *a) {
    (void)j, (void)a;
    return one_case(v, false);
}

static Value m_istitle(Jinja *j, Value v, Value *a) {
    (void)j, (void)a;
    const Str *s = v.u.str;
    bool any = false, inside = false;
    for (size_t i = 0, length; i < s->n; i += length) {
        uint32_t c = utf8_next(s->s + i, s->n - i, &length);
        bool upper = unicode_upper(c) || unicode_title(c), lower = unicode_lower(c);
        if ((upper && inside) || (lower && !inside)) return v_bool(false);
        inside = upper || lower;
        any |= inside;
    }
    return v_bool(any);
}

const Function jinja_str_methods[] = {
    {.name = "capitalize", .run = m_capitalize},
    {.name = "casefold", .run = m_casefold},
    {.name = "center", .params = "width fillchar", .needed = 1, .run = m_center},
    {.name = "count", .params = "sub start end", .needed = 1, .run = m_count},
    {.name = "endswith", .params = "suffix start end", .needed = 1, .run = m_endswith},
    {.name = "find", .params = "sub start end", .needed = 1, .run = m_find},
    {.name = "format", .run_args = m_format},
    {.name = "index", .params = "sub start end", .needed = 1, .run = m_index},
    {.name = "isalnum", .run = m_isalnum},
    {.name = "isalpha", .run = m_isalpha},
    {.name = "isdecimal", .run = m_isdecimal},
    {.name = "isdigit", .run = m_isdigit},
    {.name = "islower", .run = m_islower},
    {.name = "isnumeric", .run = m_isnumeric},
    {.name = "isspace", .run = m_isspace},
    {.name = "istitle", .run = m_istitle},
    {.name = "isupper", .run = m_isupper},
    {.name = "join", .params = "iterable", .needed = 1, .run = m_join},
    {.name = "ljust", .params = "width fillchar", .needed = 1, .run = m_ljust},
    {.name = "lower", .run = m_lower},
    {.name = "lstrip", .params = "chars", .run = m_lstrip},
    {.name = "partition", .params = "sep", .needed = 1, .run = m_partition},
    {.name = "removeprefix", .params = "prefix", .needed = 1, .run = m_removeprefix},
    {.name = "removesuffix", .params = "suffix", .needed = 1, .run = m_removesuffix},
    {.name = "replace", .params = "old new count", .needed = 2, .run = m_replace},
    {.name = "rfind", .params = "sub start end", .needed = 1, .run = m_rfind},
    {.name = "rindex", .params = "sub start end", .needed = 1, .run = m_rindex},
    {.name = "rjust", .params = "width fillchar", .needed = 1, .run = m_rjust},
    {.name = "rpartition", .params = "sep", .needed = 1, .run = m_rpartition},
    {.name = "rsplit", .params = "sep maxsplit", .run = m_rsplit},
    {.name = "rstrip", .params = "chars", .run = m_rstrip},
    {.name = "split", .params = "sep maxsplit", .run = m_split},
    {.name = "splitlines", .params = "keepends", .run = m_splitlines},
    {.name = "startswith", .params = "prefix start end", .needed = 1, .run = m_startswith},
    {.name = "strip", .params = "chars", .run = m_strip},
    {.name = "swapcase", .run = m_swapcase},
    {.name = "title", .run = m_title},
    {.name = "upper", .run = m_upper},
    {.name = "zfill", .params = "width", .needed = 1, .run = m_zfill},
    {.name = NULL},
};

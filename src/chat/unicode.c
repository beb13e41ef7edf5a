#include "chat/unicode.h"

#include <utf8proc.h>

uint32_t utf8_next(const char *s, size_t n, size_t *length) {
    utf8proc_int32_t c;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)(n < 4 ? n : 4), &c);
    *length = size > 0 ? (size_t)size : 1;
    return size > 0 ? (uint32_t)c : 0xfffd;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool unicode_space(uint32_t c) {
    utf8proc_category_t k = category(c);
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 31) || c == 0x85 || k == UTF8PROC_CATEGORY_ZS ||
           k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool unicode_line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool unicode_printable(uint32_t c) {
    utf8proc_category_t k = category(c);
    bool other = k == UTF8PROC_CATEGORY_CN || k >= UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_ZL ||
                 k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_ZS;
    return c == ' ' || !other;
}

bool unicode_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool unicode_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

/* Superscripts, circled digits and their like: category No with a digit value. */
bool unicode_digit(uint32_t c) {
    static const uint32_t ranges[][2] = {{0xb2, 0xb3},     {0xb9, 0xb9},     {0x1369, 0x1371}, {0x19da, 0x19da},
                                         {0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468},
                                         {0x2474, 0x247c}, {0x2488, 0x2490}, {0x24ea, 0x24ea}, {0x24f5, 0x24fd},
                                         {0x24ff, 0x24ff}, {0x2776, 0x277e}, {0x2780, 0x2788}, {0x278a, 0x2792}};
    if (unicode_decimal(c)) return true;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

bool unicode_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool unicode_upper(uint32_t c) { return utf8proc_isupper((utf8proc_int32_t)c); }
bool unicode_lower(uint32_t c) { return utf8proc_islower((utf8proc_int32_t)c); }
bool unicode_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool unicode_word(uint32_t c, bool start) {
    utf8proc_category_t k = category(c);
    if (c == '_' || unicode_alpha(c) || k == UTF8PROC_CATEGORY_NL) return true;
    return !start && (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
                      k == UTF8PROC_CATEGORY_PC);
}

int unicode_case(uint32_t out[3], uint32_t c, char how) {
    /* Characters whose other case is several; the rest of SpecialCasing.txt does not occur in text. */
    static const struct {
        uint32_t c;
        char how;
        uint32_t to[3];
    } special[] = {{0xdf, 'u', {'S', 'S'}},        {0xdf, 't', {'S', 's'}},        {0xdf, 'f', {'s', 's'}},
                   {0x130, 'l', {'i', 0x307}},     {0x130, 'f', {'i', 0x307}},     {0x149, 'u', {0x2bc, 'N'}},
                   {0x149, 't', {0x2bc, 'N'}},     {0x1f0, 'u', {'J', 0x30c}},     {0x1e9e, 'f', {'s', 's'}},
                   {0xfb00, 'u', {'F', 'F'}},      {0xfb01, 'u', {'F', 'I'}},      {0xfb02, 'u', {'F', 'L'}},
                   {0xfb03, 'u', {'F', 'F', 'I'}}, {0xfb04, 'u', {'F', 'F', 'L'}}, {0xfb05, 'u', {'S', 'T'}},
                   {0xfb06, 'u', {'S', 'T'}}};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if (special[i].c != c || special[i].how != how) continue;
        int n = 0;
        while (n < 3 && special[i].to[n]) out[n] = special[i].to[n], n++;
        return n;
    }
    utf8proc_int32_t code = (utf8proc_int32_t)c;
    out[0] = (uint32_t)(how == 'u'   ? utf8proc_toupper(code)
                        : how == 't' ? utf8proc_totitle(code)
                                     : utf8proc_tolower(code));
    return 1;
}

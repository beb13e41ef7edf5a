#include "io/text.h"

size_t utf8_length(const char *s, size_t n) {
    static const struct {
        unsigned char mask, lead;
        unsigned smallest;
    } form[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char *u = (const unsigned char *)s;
    for (size_t k = 0; k < 4 && k < n; k++) {
        if ((u[0] & form[k].mask) != form[k].lead) continue;
        unsigned code = u[0] & (unsigned char)~form[k].mask;
        for (size_t i = 1; i <= k; i++) {
            if ((u[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (u[i] & 0x3f);
        }
        if (code < form[k].smallest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
        return k + 1;
    }
    return 0;
}

bool utf8_valid(const char *s, size_t n, size_t *bad) {
    for (size_t i = 0, length; i < n; i += length) {
        length = utf8_length(s + i, n - i);
        if (length == 0) {
            *bad = i;
            return false;
        }
    }
    return true;
}

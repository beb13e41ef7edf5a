#include "tokenizer/bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FREE_BYTES = 1 << 20, BYTES_PER_BYTE = 64, WORD_BYTES_PER_BYTE = 8 };
enum { FREE_STEPS = 1 << 28, STEPS_PER_BYTE = 1 << 8 };

uint64_t text_steps(size_t n) { return FREE_STEPS + STEPS_PER_BYTE * (uint64_t)n; }
size_t text_words(size_t n) { return n > SIZE_MAX / 128 ? SIZE_MAX / 2 : WORD_BYTES_PER_BYTE * n + FREE_BYTES; }
size_t text_allowance(size_t n) { return n > SIZE_MAX / 128 ? SIZE_MAX / 2 : BYTES_PER_BYTE * n + FREE_BYTES; }

int bytes_add(Bytes *b, const char *s, size_t n, Error *e) {
    if (n > *b->left)
        return fail(e, "text: normalizer: expected steps that write at most 1 MiB and %d bytes for each, found more",
                    BYTES_PER_BYTE);
    *b->left -= n;
    if (b->n + n >= b->room) {
        size_t room = b->n + n + b->room / 2 + 64;
        char *grown = realloc(b->s, room);
        if (!grown) return fail(e, "text: memory: expected %zu bytes, found none", room);
        b->s = grown;
        b->room = room;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
    return 0;
}

int bytes_add_char(Bytes *b, unsigned code, Error *e) {
    char s[4];
    size_t n = 1;
    if (code < 0x80) {
        s[0] = (char)code;
    } else if (code < 0x800) {
        s[0] = (char)(0xc0 | code >> 6);
        n = 2;
    } else if (code < 0x10000) {
        s[0] = (char)(0xe0 | code >> 12);
        n = 3;
    } else {
        s[0] = (char)(0xf0 | code >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++) s[i] = (char)(0x80 | (code >> 6 * (n - 1 - i) & 0x3f));
    return bytes_add(b, s, n, e);
}

void bytes_close(Bytes *b) {
    free(b->s);
    *b = (Bytes){.left = b->left};
}

int base64_digit(unsigned char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *s, size_t n, unsigned char *out, size_t *n_out) {
    unsigned group = 0;
    int bits = 0;
    *n_out = 0;
    while (n > 0 && s[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        int digit = base64_digit((unsigned char)s[i]);
        if (digit < 0) return false;
        group = group << 6 | (unsigned)digit;
        if ((bits += 6) < 8) continue;
        bits -= 8;
        out[(*n_out)++] = (unsigned char)(group >> bits);
    }
    return true;
}

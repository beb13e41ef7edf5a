#include "tokenizer/charsmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/bytes.h"
#include "tokenizer/unicode.h"

static uint32_t unit_at(const Charsmap *m, size_t i) {
    const unsigned char *p = m->trie + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The blob is there, of so many bytes. */
static int read_blob(Charsmap *m, size_t size, const char *what, Error *e) {
    size_t bad;
    if (size < 8) return fail(e, "%s: precompiled_charsmap: expected 8 bytes or more, found %zu", what, size);
    m->trie = m->blob;
    size_t trie_bytes = unit_at(m, 0);
    m->trie += 4;
    if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > size - 4)
        return fail(e, "%s: precompiled_charsmap: expected a trie of at most %zu bytes, found %zu", what, size - 4,
                    trie_bytes);
    m->n_units = trie_bytes / 4;
    m->texts = (const char *)m->trie + trie_bytes;
    m->n_texts = size - 4 - trie_bytes;
    if (!utf8_valid(m->texts, m->n_texts, &bad))
        return fail(e, "%s: precompiled_charsmap: expected UTF-8, found byte 0x%02x", what,
                    (unsigned char)m->texts[bad]);
    return 0;
}

int charsmap_init(Charsmap *m, const char *base64, size_t n, const char *what, Error *e) {
    size_t size;
    *m = (Charsmap){.blob = malloc(n + 1)};
    if (!m->blob) return fail(e, "%s: memory: expected %zu bytes, found none", what, n);
    if (!base64_decode(base64, n, m->blob, &size))
        return fail(e, "%s: precompiled_charsmap: expected base64, found something else", what);
    return read_blob(m, size, what, e);
}

int charsmap_from_bytes(Charsmap *m, const void *bytes, size_t n, const char *what, Error *e) {
    *m = (Charsmap){.blob = malloc(n + 1)};
    if (!m->blob) return fail(e, "%s: memory: expected %zu bytes, found none", what, n);
    memcpy(m->blob, bytes, n);
    return read_blob(m, n, what, e);
}

void charsmap_close(Charsmap *m) {
    free(m->blob);
    *m = (Charsmap){0};
}

/* What becomes of the shortest beginning of s that the trie has, which then stands for the whole of s (that is how the
 * library does it); NULL: it has none. A unit of the trie: bits 0-7 label, 8 has a leaf, 9-31 where its children are.
 * Source: darts-clone, double array. */
static const char *look_up(const Charsmap *m, const char *s, size_t n, size_t *n_out) {
    size_t node = 0;
    uint32_t unit = unit_at(m, 0);
    node ^= unit >> 10 << ((unit & 1u << 9) >> 6);
    for (size_t i = 0; i < n && s[i]; i++) {
        node ^= (unsigned char)s[i];
        if (node >= m->n_units) return NULL;
        unit = unit_at(m, node);
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)s[i]) return NULL;
        node ^= unit >> 10 << ((unit & 1u << 9) >> 6);
        if (!(unit >> 8 & 1)) continue;
        if (node >= m->n_units) return NULL;
        size_t at = unit_at(m, node) & 0x7fffffff;
        if (at >= m->n_texts || ((unsigned char)m->texts[at] & 0xc0) == 0x80) return NULL;
        const char *end = memchr(m->texts + at, 0, m->n_texts - at);
        *n_out = end ? (size_t)(end - m->texts) - at : m->n_texts - at;
        return m->texts + at;
    }
    return NULL;
}

int charsmap_apply(const Charsmap *m, const char *text, size_t n, Bytes *out, Error *e) {
    enum { LONGEST = 5 }; /* bytes of a grapheme that is looked up whole */
    for (size_t i = 0, whole; i < n; i += whole) {
        size_t n_new, length;
        const char *new;
        whole = grapheme_at(text, n, i);
        if (whole <= LONGEST && (new = look_up(m, text + i, whole, &n_new))) {
            if (bytes_add(out, new, n_new, e)) return -1;
            continue;
        }
        for (size_t at = i; at < i + whole; at += length) {
            char_at(text, n, at, &length);
            new = look_up(m, text + at, length, &n_new);
            if (bytes_add(out, new ? new : text + at, new ? n_new : length, e)) return -1;
        }
    }
    return 0;
}

#include "tokenizer/vocab.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁, U+2581 */

/* GPT-2's alphabet leaves the printable bytes of Latin-1 as they are and gives the 68 others, in
 * order, the code points from 256 on. Source: openai/gpt-2, encoder.py, bytes_to_unicode. */
static bool shown_as_itself(unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

/* The others are 0x00 to 0x20, 0x7f to 0xa0 and 0xad. */
static unsigned byte_code_point(unsigned char byte) {
    if (shown_as_itself(byte)) return byte;
    return 256 + (byte <= 0x20 ? byte : byte == 0xad ? 67u : byte - 0x7fu + 33u);
}

static size_t put_letter(unsigned code_point, char letter[2]) {
    if (code_point < 0x80) return letter[0] = (char)code_point, 1;
    letter[0] = (char)(0xc0 | code_point >> 6);
    letter[1] = (char)(0x80 | (code_point & 0x3f));
    return 2;
}

size_t byte_letter(unsigned char byte, char letter[2]) { return put_letter(byte_code_point(byte), letter); }

enum { N_LETTERS = 256 + 68 };

/* Code point below N_LETTERS -> byte; -1: not in the alphabet. */
static int byte_of_letter(unsigned code_point) {
    unsigned i = code_point - 256; /* of the others */
    if (code_point >= 256) return (int)(i <= 0x20 ? i : i == 67 ? 0xad : i - 33 + 0x7f);
    return shown_as_itself(code_point) ? (int)code_point : -1;
}

/* <0xNN> -> NN, or -1. */
static int byte_of_piece(const Piece *p) {
    if (p->n != 6 || memcmp(p->text, "<0x", 3) != 0 || p->text[5] != '>' || !isxdigit((unsigned char)p->text[3]) ||
        !isxdigit((unsigned char)p->text[4]))
        return -1;
    char hex[3] = {p->text[3], p->text[4], 0};
    return (int)strtol(hex, NULL, 16);
}

int vocab_init(Vocab *v, int n, const char *file, Error *e) {
    *v = (Vocab){.n = n};
    v->pieces = calloc((size_t)n + 1, sizeof *v->pieces);
    if (!v->pieces) return fail(e, "%s: memory: expected room for %d tokens, found none", file, n);
    return 0;
}

void vocab_close(Vocab *v) {
    free(v->pieces);
    free(v->decoded);
    table_close(&v->ids);
    *v = (Vocab){0};
}

size_t letters_to_bytes(const char *text, size_t n, char *out) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned char)text[i];
        if (c >= 0x80) {
            if (c >= 0xc8 || i + 1 == n) return SIZE_MAX; /* beyond U+01FF */
            c = (c & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f);
        }
        if (c >= N_LETTERS || byte_of_letter(c) < 0) return SIZE_MAX;
        out[k++] = (char)byte_of_letter(c);
    }
    return k;
}

/* Never longer than the text. */
static size_t decode_piece(const Piece *p, Spelling spelling, char *out) {
    size_t n = 0;
    switch ((PieceKind)p->kind) {
    case PIECE_NONE:
    case PIECE_UNKNOWN:
    case PIECE_CONTROL: return 0;
    case PIECE_BYTE: out[0] = (char)byte_of_piece(p); return 1;
    default: break;
    }
    if (spelling == SPELL_BYTE_ALPHABET && p->kind != PIECE_USER &&
        (n = letters_to_bytes(p->text, p->n, out)) != SIZE_MAX)
        return n;
    n = 0;
    for (size_t i = 0; i < p->n;) {
        if (spelling == SPELL_METASPACE && i + 3 <= p->n && memcmp(p->text + i, METASPACE, 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = p->text[i++];
        }
    }
    return n;
}

int vocab_finish(Vocab *v, Spelling spelling, const char *file, Error *e) {
    size_t total = 0;
    for (int id = 0; id < v->n && spelling != SPELL_LATER; id++) total += v->pieces[id].n;
    v->decoded = malloc(total + 1);
    if (!v->decoded || !table_init(&v->ids, (size_t)v->n))
        return fail(e, "%s: memory: expected room for %d tokens, found none", file, v->n);

    for (int b = 0; b < 256; b++) v->byte_id[b] = -1;
    char *next = v->decoded;
    enum { AT_ONCE = 32 };
    uint32_t hash[AT_ONCE];
    for (int id = 0; id < v->n; id++) {
        Piece *p = &v->pieces[id];
        for (int k = 0; id % AT_ONCE == 0 && k < AT_ONCE && id + k < v->n; k++)
            hash[k] = table_hash(&v->ids, p[k].text, p[k].n);
        if (p->kind == PIECE_NONE) continue;
        if (p->n > v->max_bytes) v->max_bytes = p->n;
        if (p->kind == PIECE_BYTE) {
            int b = byte_of_piece(p);
            if (b < 0)
                return fail(e, "%s: byte token %d: expected <0xNN>, found %.*s", file, id, p->n > 60 ? 60 : (int)p->n,
                            p->text);
            if (v->byte_id[b] >= 0)
                return fail(e, "%s: byte token %d: expected <0x%02X> once, found it twice", file, id, b);
            v->byte_id[b] = id;
        }
        if (p->n && !table_put_at(&v->ids, p->text, p->n, hash[id % AT_ONCE], id) && p->kind == PIECE_NORMAL)
            return fail(e, "%s: token %d: expected a text of its own, found \"%.*s\" again", file, id,
                        p->n > 60 ? 60 : (int)p->n, p->text);
        if (spelling == SPELL_LATER) continue;
        p->decoded = next;
        p->n_decoded = (uint32_t)decode_piece(p, spelling, next);
        next += p->n_decoded;
    }
    if (spelling == SPELL_BYTE_ALPHABET) vocab_find_bytes(v);
    return 0;
}

void vocab_find_bytes(Vocab *v) {
    for (int b = 0; b < 256; b++) {
        char letter[2];
        size_t n = byte_letter((unsigned char)b, letter);
        v->byte_id[b] = table_get(&v->ids, letter, n);
    }
}

#include "tokenizer/vocab.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁, U+2581 */

/* GPT-2's alphabet leaves the printable bytes of Latin-1 as they are and gives the 68 others, in
 * order, the code points from 256 on. Source: openai/gpt-2, encoder.py, bytes_to_unicode. */
static bool shown_as_itself(unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

static unsigned byte_code_point(unsigned char byte) {
    if (shown_as_itself(byte)) return byte;
    unsigned code_point = 256;
    for (unsigned b = 0; b < byte; b++) code_point += !shown_as_itself(b);
    return code_point;
}

static size_t put_letter(unsigned code_point, char letter[2]) {
    if (code_point < 0x80) return letter[0] = (char)code_point, 1;
    letter[0] = (char)(0xc0 | code_point >> 6);
    letter[1] = (char)(0x80 | (code_point & 0x3f));
    return 2;
}

size_t byte_letter(unsigned char byte, char letter[2]) { return put_letter(byte_code_point(byte), letter); }

enum { N_LETTERS = 256 + 68 };

/* Code point of the alphabet -> byte, -1: not in it. */
static void letters_to_bytes(int byte_of[N_LETTERS]) {
    for (int i = 0; i < N_LETTERS; i++) byte_of[i] = -1;
    for (unsigned b = 0, next = 256; b < 256; b++) byte_of[shown_as_itself(b) ? b : next++] = (int)b;
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

/* Text in GPT-2's alphabet to bytes; false (then out holds rubbish) when a letter is not in it. */
static bool decode_letters(const Piece *p, const int byte_of[N_LETTERS], char *out, size_t *n_out) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        unsigned c = (unsigned char)p->text[i];
        if (c >= 0x80) {
            if (c >= 0xc8 || i + 1 == p->n) return false; /* beyond U+01FF */
            c = (c & 0x1f) << 6 | ((unsigned char)p->text[++i] & 0x3f);
        }
        if (c >= N_LETTERS || byte_of[c] < 0) return false;
        out[n++] = (char)byte_of[c];
    }
    *n_out = n;
    return true;
}

/* Never longer than the text. */
static size_t decode_piece(const Piece *p, Spelling spelling, const int byte_of[N_LETTERS], char *out) {
    size_t n = 0;
    switch ((PieceKind)p->kind) {
    case PIECE_NONE:
    case PIECE_UNKNOWN:
    case PIECE_CONTROL: return 0;
    case PIECE_BYTE: out[0] = (char)byte_of_piece(p); return 1;
    default: break;
    }
    if (spelling == SPELL_BYTE_ALPHABET && p->kind != PIECE_USER && decode_letters(p, byte_of, out, &n)) return n;
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
    int byte_of[N_LETTERS];
    letters_to_bytes(byte_of);
    size_t total = 0;
    for (int id = 0; id < v->n; id++) total += v->pieces[id].n;
    v->decoded = malloc(total + 1);
    if (!v->decoded || !table_init(&v->ids, (size_t)v->n))
        return fail(e, "%s: memory: expected room for %d tokens, found none", file, v->n);

    for (int b = 0; b < 256; b++) v->byte_id[b] = -1;
    char *next = v->decoded;
    for (int id = 0; id < v->n; id++) {
        Piece *p = &v->pieces[id];
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
        if (p->n && !table_put(&v->ids, p->text, p->n, id) && p->kind == PIECE_NORMAL)
            return fail(e, "%s: token %d: expected a text of its own, found \"%.*s\" again", file, id,
                        p->n > 60 ? 60 : (int)p->n, p->text);
        p->decoded = next;
        p->n_decoded = (uint32_t)decode_piece(p, spelling, byte_of, next);
        next += p->n_decoded;
    }
    if (spelling == SPELL_BYTE_ALPHABET)
        for (int b = 0; b < 256; b++) {
            char letter[2];
            size_t n = byte_letter((unsigned char)b, letter);
            v->byte_id[b] = table_get(&v->ids, letter, n);
        }
    return 0;
}

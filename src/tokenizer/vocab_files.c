/* Vocabularies that come as a list of pieces: llama2.c's tokenizer.bin, sentencepiece. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/impl.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁ */

void add_eos(struct Tokenizer *t, int id) {
    for (int i = 0; i < t->n_eos; i++)
        if (t->eos[i] == id) return;
    if (id >= 0 && t->n_eos < 16) t->eos[t->n_eos++] = id;
}

void add_known_eos(struct Tokenizer *t) {
    static const char *const names[] = {"<|im_end|>",    "<|eot_id|>",    "<|eom_id|>", "<|end_of_text|>",
                                        "<|endoftext|>", "<end_of_turn>", "<|end|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int id = table_get(&t->vocab.ids, names[i], strlen(names[i]));
        if (id >= 0 && t->vocab.pieces[id].kind == PIECE_CONTROL) add_eos(t, id);
    }
}

/* A user-defined piece that looks like a special token is one: what a user types may not become it. */
static bool looks_special(const Piece *p) {
    return p->n > 4 && memcmp(p->text, "<|", 2) == 0 && memcmp(p->text + p->n - 2, "|>", 2) == 0;
}

int add_special_pieces(struct Tokenizer *t, bool user_too, const char *file, Error *e) {
    for (int id = 0; id < t->vocab.n; id++) {
        Piece *p = &t->vocab.pieces[id];
        bool special = p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN;
        p->marked = user_too && p->kind == PIECE_USER && looks_special(p);
        size_t bad;
        if (!special && !(user_too && p->kind == PIECE_USER)) continue;
        if (!utf8_valid(p->text, p->n, &bad))
            return fail(e, "%s: token %d: expected UTF-8 in a special token, found byte 0x%02x", file, id,
                        (unsigned char)p->text[bad]);
        Added token = {.text = p->text, .n = p->n, .id = id, .special = special || p->marked};
        if (added_push(&t->raw, token, e)) return -1;
    }
    return added_finish(&t->raw, file, e);
}

int score_finish(struct Tokenizer *t, const char *part, const char *file, Error *e) {
    for (int id = 0; id < t->vocab.n; id++) {
        const Piece *p = &t->vocab.pieces[id];
        if (p->kind != PIECE_USER || p->marked || !memmem(p->text, p->n, part, strlen(part))) continue;
        if (added_push(&t->score.whole, (Added){.text = p->text, .n = p->n, .id = id}, e)) return -1;
    }
    t->score.unk = t->unk;
    score_init(&t->score, &t->vocab);
    return added_finish(&t->score.whole, file, e);
}

static uint32_t read_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float read_f32(const unsigned char *p) {
    uint32_t bits = read_u32(p);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* int32 max_token_length, then per token: float32 score, int32 length, bytes; until the file ends. */
int read_llama2c(struct Tokenizer *t, const File *file, Error *e) {
    const unsigned char *data = file->data;
    size_t size = file->size, n = 0;
    if (size < 4) return fail(e, "%s: size: expected at least 4 bytes, found %zu", file->path, size);
    uint32_t max_length = read_u32(data);
    if (max_length == 0 || max_length > 1 << 16)
        return fail(e, "%s: max_token_length: expected 1 to 65536, found %u", file->path, max_length);
    for (size_t at = 4; at < size; n++) {
        if (size - at < 8)
            return fail(e, "%s: token %zu: expected 8 bytes of score and length, found %zu", file->path, n, size - at);
        uint32_t length = read_u32(data + at + 4);
        if (length > max_length)
            return fail(e, "%s: token %zu length: expected at most %u, found %u", file->path, n, max_length, length);
        at += 8;
        if (length > size - at)
            return fail(e, "%s: token %zu: expected %u bytes, found %zu", file->path, n, length, size - at);
        at += length;
    }
    if (n < 3 || n > INT_MAX / 2) return fail(e, "%s: tokens: expected 3 or more, found %zu", file->path, n);

    if (vocab_init(&t->vocab, (int)n, file->path, e)) return -1;
    const unsigned char *p = data + 4;
    int first_byte = -1;
    for (int id = 0; id < (int)n; id++) {
        uint32_t length = read_u32(p + 4);
        Piece *piece = &t->vocab.pieces[id];
        *piece = (Piece){.text = (const char *)p + 8, .n = length, .score = read_f32(p), .kind = PIECE_NORMAL};
        if (!isfinite(piece->score))
            return fail(e, "%s: token %d score: expected a number, found %g", file->path, id, (double)piece->score);
        if (length == 6 && memcmp(piece->text, "<0x", 3) == 0 && piece->text[5] == '>') {
            piece->kind = PIECE_BYTE;
            if (first_byte < 0) first_byte = id;
        }
        p += 8 + length;
    }
    /* The format has no kinds, but sentencepiece numbers its pieces so: unknown, BOS, EOS, what the model's
     * maker defined (score 0), bytes, text. llama2.c's exporter spells BOS and EOS with newlines around. */
    static const PieceKind kinds[3] = {PIECE_UNKNOWN, PIECE_CONTROL, PIECE_CONTROL};
    for (int id = 0; id < 3; id++) {
        Piece *piece = &t->vocab.pieces[id];
        piece->kind = kinds[id];
        if (piece->n > 2 && piece->text[0] == '\n' && piece->text[piece->n - 1] == '\n') {
            piece->text++;
            piece->n -= 2;
        }
    }
    for (int id = 3; id < first_byte; id++)
        if (t->vocab.pieces[id].score == 0) t->vocab.pieces[id].kind = PIECE_USER;
    if (vocab_finish(&t->vocab, SPELL_PLAIN, file->path, e)) return -1;
    t->model = MODEL_SCORE;
    t->kind = "llama2.c";
    t->respell = METASPACE; /* sentencepiece cannot tell the two apart */
    t->space = t->prefix = " ";
    t->prefix_scheme = PREFIX_ALWAYS;
    t->unk = 0;
    t->bos = 1;
    add_eos(t, 2);
    t->before[t->n_before++] = t->bos;
    t->strips_space = t->control_is_text = true;
    if (score_finish(t, "", file->path, e)) return -1;
    return add_special_pieces(t, false, file->path, e);
}

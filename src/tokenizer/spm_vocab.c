/* The vocabulary of a sentencepiece .model, as its library shows it. */
#include <string.h>

#include "tokenizer/impl.h"
#include "tokenizer/proto.h"

/* The library does not show the model's add_dummy_prefix, its work does. */
static bool note_first(void *arg, int id) {
    if (*(int *)arg < 0) *(int *)arg = id;
    return true;
}

static bool prepends_space(const struct Tokenizer *t) {
    char why[SP_WHY];
    int first = -1;
    sp_encode(t->sp, "a", 1, note_first, &first, why);
    return first >= 0 && t->vocab.pieces[first].n_decoded && t->vocab.pieces[first].decoded[0] == ' ';
}

/* Field numbers of sentencepiece_model.proto. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, PIECE_TYPE = 3 };
enum { TRAINER_TYPE = 3, TRAINER_SUFFIX = 24, TYPE_BPE = 2 };
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SQUEEZE = 4, NORMALIZER_ESCAPE = 5 };

/* The last value of a field that is a number, or what it is when it is absent. */
static uint64_t number_in(Span message, unsigned field, uint64_t otherwise) {
    ProtoField f;
    bool broken = false;
    while (proto_next(&message, &f, &broken))
        if (f.number == field && f.wire == 0) otherwise = f.varint;
    return otherwise;
}

static bool has_charsmap(Span normalizer) {
    ProtoField f;
    bool broken = false;
    while (proto_next(&normalizer, &f, &broken))
        if (f.number == NORMALIZER_CHARSMAP && f.wire == 2 && f.bytes.end > f.bytes.at) return true;
    return false;
}

/* A BPE model that changes nothing in the text but its spaces, and that has a token for every byte, gives the same ids
 * by score_encode, which needs a tenth of the library's memory and time. True: t is set up for that, else t->beyond
 * says what it is not enough for. */
static bool is_plain_bpe(struct Tokenizer *t, const File *file) {
    Span model = {file->data, file->data + file->size};
    ProtoField f;
    bool broken = false, unused = false, suffix = false, bytes = true, bpe = false, prefix = true;
    bool rules = false, squeezes = true, escapes = true;
    int id = 0;
    while (proto_next(&model, &f, &broken)) {
        if (f.wire != 2) continue;
        if (f.number == MODEL_PIECE && id < t->vocab.n) {
            uint64_t type = number_in(f.bytes, PIECE_TYPE, PIECE_NORMAL);
            if (type == PIECE_USER) t->vocab.pieces[id].kind = PIECE_USER;
            unused |= type == PIECE_UNUSED;
            id++;
        } else if (f.number == MODEL_TRAINER) {
            bpe = number_in(f.bytes, TRAINER_TYPE, 1) == TYPE_BPE;
            suffix = number_in(f.bytes, TRAINER_SUFFIX, 0);
        } else if (f.number == MODEL_NORMALIZER) {
            rules = has_charsmap(f.bytes);
            squeezes = number_in(f.bytes, NORMALIZER_SQUEEZE, 1);
            escapes = number_in(f.bytes, NORMALIZER_ESCAPE, 1);
            prefix = number_in(f.bytes, NORMALIZER_PREFIX, 1);
        }
    }
    for (int b = 0; b < 256; b++) bytes &= t->vocab.byte_id[b] >= 0;
    const struct {
        bool holds;
        const char *what;
    } beyond[] = {{!bpe, "is no byte-pair encoding"},
                  {rules, "rewrites characters"},
                  {squeezes, "drops repeated spaces"},
                  {!bytes, "lacks tokens of bytes"},
                  {unused, "has unused pieces"},
                  {!escapes || suffix, "spells or places spaces otherwise"},
                  {broken || id != t->vocab.n, "is not as its library shows it"}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        if (beyond[i].holds) return t->beyond = beyond[i].what, false;
    t->model = MODEL_SCORE;
    t->respell = " ";
    t->space = "\u2581";
    if (prefix) t->prefix = t->space;
    t->prefix_scheme = PREFIX_ALWAYS;
    return true;
}

/* Does U+2581, which is a piece by itself, only stand where pieces begin? */
static bool spaces_only_begin(const Vocab *v) {
    int space = table_get(&v->ids, "\u2581", 3);
    for (int id = 0; id < v->n; id++) {
        const Piece *p = &v->pieces[id];
        size_t i = 0;
        while (i + 3 <= p->n && memcmp(p->text + i, "\u2581", 3) == 0) i += 3;
        if (memmem(p->text + i, p->n - i, "\u2581", 3)) return false;
    }
    return space >= 0 && v->pieces[space].kind == PIECE_NORMAL;
}

int read_sentencepiece(struct Tokenizer *t, const File *file, Error *e) {
    char why[SP_WHY] = "";
    if (sp_check(file, e)) return -1;
    t->sp = sp_open(file->data, file->size, why);
    if (!t->sp) return fail(e, "%s: model: expected a sentencepiece model, found an error (%.120s)", file->path, why);
    int n = sp_size(t->sp);
    if (vocab_init(&t->vocab, n, file->path, e)) return -1;
    for (int id = 0; id < n; id++) {
        Piece *piece = &t->vocab.pieces[id];
        size_t length;
        int kind;
        piece->text = sp_piece(t->sp, id, &length, &piece->score, &kind);
        piece->n = (uint32_t)length;
        piece->kind = (uint8_t)kind;
        if (kind == PIECE_UNKNOWN) t->unk = id;
    }
    if (vocab_finish(&t->vocab, SPELL_METASPACE, file->path, e)) return -1;
    t->model = MODEL_SENTENCEPIECE;
    t->kind = "sentencepiece";
    t->bos = sp_bos(t->sp);
    add_eos(t, sp_eos(t->sp));
    add_known_eos(t);
    if (t->bos >= 0) t->before[t->n_before++] = t->bos;
    t->control_is_text = true;
    t->strips_space = prepends_space(t);
    if (add_special_pieces(t, false, file->path, e)) return -1;
    if (is_plain_bpe(t, file)) return score_finish(t, "", file->path, e);
    t->cut_at_spaces = t->strips_space && spaces_only_begin(&t->vocab);
    return 0;
}

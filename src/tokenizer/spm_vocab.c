/* The vocabulary of a sentencepiece .model, as its library shows it. */
#include "tokenizer/impl.h"

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
    return add_special_pieces(t, false, file->path, e);
}

#include "tokenizer/wordpiece.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

int wordpiece_init(WordPiece *w, const Vocab *v, const char *prefix, size_t max_chars, int unk, const char *file,
                   Error *e) {
    *w = (WordPiece){.max_chars = max_chars, .unk = unk, .no_prefix = !*prefix};
    AutomatonText *texts = malloc(((size_t)v->n + 1) * sizeof *texts);
    if (!texts) return fail(e, "%s: memory: expected room for %d pieces, found none", file, v->n);
    size_t n = 0;
    for (int id = 0; id < v->n; id++)
        if (v->pieces[id].kind != PIECE_NONE && !v->pieces[id].outside)
            texts[n++] = (AutomatonText){v->pieces[id].text, v->pieces[id].n, id};
    int status = automaton_init(&w->pieces, texts, n, false, file, e);
    free(texts);
    for (const char *c = prefix; *c && !status; c++) {
        w->continued = automaton_child(&w->pieces, w->continued, (unsigned char)*c);
        if (!w->continued) break;
    }
    return status;
}

void wordpiece_close(WordPiece *w) {
    automaton_close(&w->pieces);
    *w = (WordPiece){0};
}

static int push_unknown(int unk, const char *word, size_t n, Ids *out, Error *e) {
    if (unk >= 0) return ids_push(out, unk, e);
    return fail(e, "text: model: expected words of the vocabulary, found \"%.*s\" and no unk_token",
                n > 60 ? 60 : (int)n, word);
}

int wordpiece_encode(const WordPiece *w, const char *word, size_t n, uint64_t *steps, Ids *out, Error *e) {
    size_t n_chars = 0;
    for (size_t i = 0; i < n; i++) n_chars += ((unsigned char)word[i] & 0xc0) != 0x80;
    if (n_chars > w->max_chars) return push_unknown(w->unk, word, n, out, e);
    int from = out->n;
    for (size_t begin = 0, end; begin < n; begin = end) {
        int id = -1;
        uint32_t node = begin ? w->continued : 0;
        end = begin;
        size_t i = begin;
        for (; i < n && (begin == 0 || node || w->no_prefix); i++) {
            node = automaton_child(&w->pieces, node, (unsigned char)word[i]);
            if (!node) break;
            if (w->pieces.nodes[node].value < 0) continue;
            id = w->pieces.nodes[node].value;
            end = i + 1;
        }
        if (2 * (i - begin) > *steps) /* one takes twice as long as one of Unigram */
            return fail(e, "text: WordPiece: expected words whose pieces are found soon, found many of %zu bytes", n);
        *steps -= 2 * (i - begin);
        if (id < 0) {
            out->n = from;
            return push_unknown(w->unk, word, n, out, e);
        }
        if (ids_push(out, id, e)) return -1;
    }
    return 0;
}

int wordlevel_encode(const Vocab *v, int unk, const char *word, size_t n, Ids *out, Error *e) {
    int id = vocab_find(v, word, n);
    return id >= 0 ? ids_push(out, id, e) : push_unknown(unk, word, n, out, e);
}

#include "tokenizer/unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

enum { UNK_PENALTY = 10 };

int unigram_init(Unigram *u, const Vocab *v, double *scores, int unk, bool byte_fallback, const char *file, Error *e) {
    *u = (Unigram){.scores = scores, .unk = unk, .byte_fallback = byte_fallback};
    AutomatonText *texts = malloc(((size_t)v->n + 1) * sizeof *texts);
    if (!texts) return fail(e, "%s: memory: expected room for %d pieces, found none", file, v->n);
    size_t n = 0;
    double least = INFINITY;
    for (int id = 0; id < v->n; id++) {
        const Piece *p = &v->pieces[id];
        if (p->kind == PIECE_NONE || isnan(scores[id]))
            continue; /* NaN: an added token, which the model does not have */
        if (scores[id] < least) least = scores[id];
        texts[n++] = (AutomatonText){p->text, p->n, id};
    }
    u->unk_score = least - UNK_PENALTY;
    int status = automaton_init(&u->pieces, texts, n, false, file, e);
    free(texts);
    return status;
}

void unigram_close(Unigram *u) {
    automaton_close(&u->pieces);
    free(u->scores);
    *u = (Unigram){0};
}

/* The best way to write the text up to a place. */
struct UnigramNode {
    double score;
    uint32_t n; /* bytes of its last piece; 0: there is no way */
    int id;     /* of its last piece */
};

void unigram_space_close(UnigramSpace *s) {
    free(s->nodes);
    s->nodes = NULL;
    s->room = 0;
}

static void offer(struct UnigramNode *node, double score, uint32_t n, int id) {
    if (node->n == 0 || score > node->score) *node = (struct UnigramNode){score, n, id};
}

static int find_best(const Unigram *u, const char *word, size_t n, struct UnigramNode *best, uint64_t *steps,
                     Error *e) {
    uint32_t state = 0;
    size_t length;
    best[0] = (struct UnigramNode){0};
    for (size_t begin = 0; begin < n; begin += length) {
        char_at(word, n, begin, &length);
        for (size_t i = begin; i < begin + length; i++)
            state = automaton_step(&u->pieces, state, (unsigned char)word[i]);
        size_t end = begin + length;
        struct UnigramNode *node = &best[end];
        bool single = false; /* is the character a piece? */
        uint64_t looked = 0;
        *node = (struct UnigramNode){0};
        for (uint32_t p = automaton_longest(&u->pieces, state); p; p = u->pieces.nodes[p].shorter) {
            const AutomatonNode *piece = &u->pieces.nodes[p];
            offer(node, u->scores[piece->value] + best[end - piece->depth].score, piece->depth, piece->value);
            single |= piece->depth == length;
            looked++;
        }
        if (looked > *steps)
            return fail(e, "text: Unigram: expected few pieces that end at one place, found %llu and many such places",
                        (unsigned long long)looked);
        *steps -= looked;
        if (single) continue;
        offer(node, u->unk_score + best[begin].score, (uint32_t)length, u->unk);
        if (node->id == u->unk && u->unk < 0)
            return fail(e, "text: Unigram: expected characters of the vocabulary, found \"%.*s\" and no unk_id",
                        (int)length, word + begin);
    }
    return 0;
}

/* The last id first: the caller turns them round. Unknown characters side by side are one. */
static int push_unknown(const Unigram *u, const Vocab *v, const char *s, size_t n, Ids *out, Error *e) {
    bool bytes = u->byte_fallback;
    for (size_t i = 0; i < n && bytes; i++) bytes = v->byte_id[(unsigned char)s[i]] >= 0;
    int id = table_get(&v->ids, s, n);
    if (id >= 0 && !isnan(u->scores[id])) return ids_push(out, id, e);
    if (!bytes) return ids_push(out, u->unk, e);
    for (size_t i = n; i-- > 0;)
        if (ids_push(out, v->byte_id[(unsigned char)s[i]], e)) return -1;
    return 0;
}

int unigram_encode(const Unigram *u, const Vocab *v, const char *word, size_t n, UnigramSpace *space, Ids *out,
                   Error *e) {
    if (n >= UINT32_MAX) return fail(e, "text: size: expected less than 4 GiB, found %zu bytes", n);
    if (space->room <= n) {
        unigram_space_close(space);
        if (!(space->nodes = malloc((n + 64) * sizeof *space->nodes)))
            return fail(e, "text: memory: expected room for %zu bytes, found none", n);
        space->room = n + 64;
    }
    struct UnigramNode *best = space->nodes;
    if (find_best(u, word, n, best, space->steps, e)) return -1;
    int from = out->n;
    for (size_t end = n, begin; end > 0; end = begin) {
        begin = end - best[end].n;
        if (best[end].id != u->unk) {
            if (ids_push(out, best[end].id, e)) return -1;
            continue;
        }
        while (begin > 0 && best[begin].id == u->unk) begin -= best[begin].n;
        if (push_unknown(u, v, word + begin, end - begin, out, e)) return -1;
    }
    for (int i = from, k = out->n - 1; i < k; i++, k--) {
        int id = out->ids[i];
        out->ids[i] = out->ids[k];
        out->ids[k] = id;
    }
    return 0;
}

/* unigram - the most likely way to write a text in pieces, each of which has a logarithm of its probability. */
#pragma once
#include "tokenizer/automaton.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocab.h"

typedef struct {
    Automaton pieces; /* value: id */
    double *scores;   /* [vocab.n] owned */
    double unk_score; /* of a character without a piece */
    int unk;          /* -1: such a character is an error */
    bool byte_fallback;
} Unigram;

/* unigram_init - v: with scores[v->n], which it takes over; the pieces of kinds NORMAL, USER, BYTE and UNKNOWN count.
 */
int unigram_init(Unigram *u, const Vocab *v, double *scores, int unk, bool byte_fallback, const char *file, Error *e);
void unigram_close(Unigram *u);

/* What a text needs while it is written; zeroed: empty, and kept from text to text. */
typedef struct {
    struct UnigramNode *nodes; /* [room] */
    size_t room;
    uint64_t *steps; /* left, see text_steps */
} UnigramSpace;
void unigram_space_close(UnigramSpace *s);

/* unigram_encode - the ids of one word, valid UTF-8, appended to out. O(n times the number of pieces that end at a
 * place), which is at most the root of twice the vocabulary's bytes; on "aaaa..." it is the unbounded knapsack problem,
 * for which nothing much faster is known (Cygan et al., arXiv:1702.07669), so space->steps are the limit. Source: Kudo,
 * arXiv:1804.10959; Hugging Face tokenizers, models/unigram/model.rs, encode_optimized: neighbouring unknown characters
 * are one, of equal ways the one whose last piece is the longest. */
int unigram_encode(const Unigram *u, const Vocab *v, const char *word, size_t n, UnigramSpace *space, Ids *out,
                   Error *e);

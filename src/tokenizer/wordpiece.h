/* wordpiece - the two models that look words up: WordPiece takes the longest piece from the left again and again, and
 * WordLevel knows whole words only. */
#pragma once
#include "tokenizer/automaton.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocab.h"

/* Longer words are refused at load, since each piece of a word may look at all of what is left of it. */
enum { WORDPIECE_MAX_CHARS = 1000 };

typedef struct {
    Automaton pieces;   /* value: id */
    uint32_t continued; /* the node behind the prefix of pieces that begin no word ("##"); 0: there are none */
    bool no_prefix;     /* the prefix is empty: every piece may go on */
    size_t max_chars;   /* a word of more is unknown */
    int unk;            /* -1: an unknown word is an error */
} WordPiece;

/* wordpiece_init - of the model's pieces; prefix "" when pieces that go on look like others. */
int wordpiece_init(WordPiece *w, const Vocab *v, const char *prefix, size_t max_chars, int unk, const char *file,
                   Error *e);
void wordpiece_close(WordPiece *w);

/* wordpiece_encode - the ids of one word, valid UTF-8, appended to out: unk alone when a part of it has no piece.
 * steps: left, see text_steps. Source: Hugging Face tokenizers, models/wordpiece. */
int wordpiece_encode(const WordPiece *w, const char *word, size_t n, uint64_t *steps, Ids *out, Error *e);

/* wordlevel_encode - the id of one word, or unk. Source: Hugging Face tokenizers, models/wordlevel. */
int wordlevel_encode(const Vocab *v, int unk, const char *word, size_t n, Ids *out, Error *e);

/* bpe - byte-pair encoding of one word by the two rules in use: by the rank of a merge in a list (GPT-2,
 * tokenizer.json) and by the score of the merged piece (sentencepiece, llama2.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/added.h"
#include "tokenizer/merge.h"
#include "tokenizer/vocab.h"

typedef struct {
    uint64_t pair; /* left id << 32 | right id */
    int rank, id;  /* rank -1: the slot is free */
} Merge;

/* A line of the list on its way into the table. */
typedef struct {
    const char *left, *right;
    uint32_t n_left, n_right, left_hash, right_hash;
    int rank, left_id, right_id;
} MergeLine;

enum { MERGES_AT_ONCE = 32 };

typedef struct {
    Merge *slots; /* [n_slots] a power of two, at most half full */
    size_t n_slots;
    HashKey key;
    int last; /* what the merge added last makes */
    int n_waiting;
    MergeLine waiting[MERGES_AT_ONCE]; /* [n_waiting] added, and looked up together */
    size_t n_prefix;                   /* bytes at the start of a right part that its result leaves out ("##") */
} Merges;

/* merges_init - room for n merges. */
int merges_init(Merges *m, size_t n, const char *file, Error *e);
void merges_close(Merges *m);

/* merges_add - the rank-th line of the list: left and right become one. Of a pair given twice the last counts, as in
 * Hugging Face's map. Refuses a merge whose parts or result are no tokens. The texts must stay until merges_finish,
 * which comes after the last. */
int merges_add(Merges *m, const Vocab *v, int rank, const char *left, size_t n_left, const char *right, size_t n_right,
               const char *file, Error *e);
int merges_finish(Merges *m, const Vocab *v, const char *file, Error *e);
/* merges_sorted - the *n merges by rank, malloc'ed; NULL when out of memory. */
Merge *merges_sorted(const Merges *m, size_t *n);

typedef struct {
    int *ids;
    int n;
    size_t room;
} Ids;

int ids_push(Ids *out, int id, Error *e);

enum { BPE_AFFIX = 32 }; /* bytes, with a NUL */

typedef struct {
    Merges merges;
    bool byte_level;                           /* symbols start as bytes, not characters */
    bool by_text;                              /* neighbours merge when their bytes are a token, the lowest id first */
    bool ignore_merges;                        /* a word that is a token is that token, whatever the merges say */
    bool whole_lines;                          /* nothing but newlines: the same for such a word */
    bool byte_fallback;                        /* an unknown character becomes <0xNN> tokens */
    bool fuse_unk;                             /* neighbouring unknown characters become one unknown token */
    int unk;                                   /* -1: unknown characters add nothing */
    char prefix[BPE_AFFIX], suffix[BPE_AFFIX]; /* of characters that do not begin a word; of the one that ends it */
} Bpe;

/* bpe_encode - the ids of one word, valid UTF-8, appended to out.
 * Source: Sennrich et al., arXiv:1508.07909; Hugging Face tokenizers, models/bpe. */
int bpe_encode(const Bpe *b, const Vocab *v, const char *word, size_t n, MergeSpace *space, Ids *out, Error *e);

typedef struct {
    AddedSet whole;         /* user-defined pieces: stay whole */
    uint8_t joins[256][32]; /* bit right of joins[left]: a piece has these two bytes side by side */
    int unk;                /* -1: an unknown character adds nothing */
} ScoreBpe;

/* score_init - fills joins. */
void score_init(ScoreBpe *b, const Vocab *v);

/* score_encode - the ids of a whole text (valid UTF-8, spaces already spelled as the vocabulary spells them).
 * The pieces of `whole` are found first, longest first. Between two characters that no piece has side by side the text
 * is cut, which changes no id and keeps a long text out of one heap. A character without a token becomes <0xNN> tokens,
 * or `unk` where those are missing. Source: google/sentencepiece, src/bpe_model.cc. */
int score_encode(const ScoreBpe *b, const Vocab *v, const char *text, size_t n, MergeSpace *space, Ids *out, Error *e);

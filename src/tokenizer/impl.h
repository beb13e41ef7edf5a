/* impl - what is behind Tokenizer, and the readers that fill it. */
#pragma once
#include "io/file.h"
#include "io/gguf.h"

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decode.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pre.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocab.h"
#include "tokenizer/wordpiece.h"

typedef enum {
    MODEL_RANK,
    MODEL_SCORE,
    MODEL_UNIGRAM,
    MODEL_WORDPIECE,
    MODEL_WORDLEVEL,
    MODEL_SENTENCEPIECE
} ModelKind;

enum { MAX_AROUND = 8 };

struct Tokenizer {
    ModelKind model;
    const char *kind; /* for tokenizer_kind */
    Vocab vocab;
    char *texts; /* storage of piece texts where they are not in the mapping */
    File file;   /* kept mapped while pieces point into it */
    Gguf gguf;   /* when it was opened here */

    AddedSet raw;            /* found in the text as it is */
    AddedSet normalized;     /* found after normalizing */
    char **normalized_texts; /* [n_normalized_texts] owned: of an added token's id, NULL: as it is */
    int n_normalized_texts;
    bool control_is_text; /* encode finds special tokens only with TOKENIZE_CONTROL */

    Normalizer normalizer;       /* of each stretch between added tokens */
    const char *respell, *space; /* each `respell` in the text becomes `space`; NULL: nothing does */
    const char *prefix;          /* put before the stretch, or NULL */
    bool prefix_once;            /* only when it does not begin with it already */
    PrefixScheme prefix_scheme;
    Pretokenizer *words; /* but for MODEL_SCORE and MODEL_SENTENCEPIECE */
    const Pre *pre;      /* how a GGUF of MODEL_RANK says them; NULL: another file */
    Bpe bpe;
    ScoreBpe score; /* whole: found after respelling */
    Unigram unigram;
    WordPiece wordpiece;
    SpModel *sp;
    const char *beyond; /* MODEL_SENTENCEPIECE: what makes it more than byte-pair encoding by scores */
    bool cut_at_spaces; /* MODEL_SENTENCEPIECE: no piece crosses the place before a space */
    Decoder decoder;    /* tokenizer.json */

    int limit;                        /* ids from here on fail; 0: none */
    int unk, bos;                     /* -1: none */
    int before[MAX_AROUND], n_before; /* ids that TOKENIZE_BOS puts before the text */
    int after[MAX_AROUND], n_after;   /* and behind it */
    int eos[16], n_eos;
    bool strips_space; /* decoding drops the space that the prefix put at the start */
    char *chat_template;
    char note[200]; /* for tokenizer_note */
};

/* Each fills a zeroed Tokenizer (unk, bos = -1) from a file; -1 on failure, then the caller closes it. */
int read_llama2c(struct Tokenizer *t, const File *file, Error *e);
int read_gguf_vocab(struct Tokenizer *t, const Gguf *g, Error *e);
/* read_gguf_unigram, read_gguf_wordpiece - the rest of read_gguf_vocab for the models t5 and bert. */
int read_gguf_unigram(struct Tokenizer *t, const Gguf *g, Error *e);
int read_gguf_wordpiece(struct Tokenizer *t, const Gguf *g, Error *e);
int read_tokenizer_json(struct Tokenizer *t, const char *path, Error *e);
/* read_tokenizer_root - the vocabulary and every step that a tokenizer.json says. */
struct cJSON;
int read_tokenizer_root(struct Tokenizer *t, const struct cJSON *root, const char *file, Error *e);
/* tokenizer_from_root - one that is in memory. NULL on failure. */
struct Tokenizer *tokenizer_from_root(const struct cJSON *root, const char *file, Error *e);
/* read_hf_directory - tokenizer.json, tokenizer.model or vocab.json with merges.txt, with the files beside it. */
int read_hf_directory(struct Tokenizer *t, const char *dir, Error *e);
int read_sentencepiece(struct Tokenizer *t, const File *file, Error *e);
/* sp_check - refuses a model that the library would trust and run out of its memory with. */
int sp_check(const File *file, Error *e);

/* add_eos - notes an end token once; -1 is ignored. */
void add_eos(struct Tokenizer *t, int id);
/* add_special_pieces - control and unknown pieces, with user_too also user-defined ones, can be asked for by their
 * text. One that is no UTF-8 would cut a text inside of a character and is refused. */
int add_special_pieces(struct Tokenizer *t, bool user_too, const char *file, Error *e);
/* score_finish - t->score, once unk and the kinds of pieces are settled; user-defined pieces that hold `part` ("": all)
 * stay whole in a respelled text. */
int score_finish(struct Tokenizer *t, const char *part, const char *file, Error *e);
/* add_known_eos - the end tokens of known families, where the vocabulary has them as control tokens. */
void add_known_eos(struct Tokenizer *t);

/* impl - what is behind Tokenizer, and the readers that fill it. */
#pragma once
#include "io/file.h"
#include "io/gguf.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/vocab.h"

typedef enum { MODEL_RANK, MODEL_SCORE, MODEL_SENTENCEPIECE } ModelKind;
typedef enum { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } PrefixScheme;

struct Tokenizer {
    ModelKind model;
    const char *kind; /* for tokenizer_kind */
    Vocab vocab;
    char *texts; /* storage of piece texts where they are not in the mapping */
    File file;   /* kept mapped while pieces point into it */
    Gguf gguf;   /* when it was opened here */

    AddedSet raw;            /* found in the text as it is */
    AddedSet normalized;     /* found after normalizing */
    char **normalized_texts; /* [n_normalized_texts] owned */
    int n_normalized_texts;
    bool control_is_text; /* encode finds special tokens only with TOKENIZE_CONTROL */

    Normalizer normalizer;       /* MODEL_RANK: for each stretch between added tokens */
    const char *respell, *space; /* each `respell` in the text becomes `space`; NULL: nothing does */
    const char *prefix;          /* put before the stretch, or NULL */
    bool prefix_once;            /* only when it does not begin with it already */
    PrefixScheme prefix_scheme;
    Pretokenizer *words; /* MODEL_RANK */
    Bpe bpe;             /* MODEL_RANK */
    SpModel *sp;         /* MODEL_SENTENCEPIECE */

    int unk, bos; /* -1: none */
    bool adds_bos;
    int eos[16], n_eos;
    bool strips_space; /* decoding drops the space that the prefix put at the start */
    char *chat_template;
};

/* Each fills a zeroed Tokenizer (unk, bos = -1) from a file; -1 on failure, then the caller closes it. */
int read_llama2c(struct Tokenizer *t, const File *file, Error *e);
int read_gguf_vocab(struct Tokenizer *t, const Gguf *g, Error *e);
int read_tokenizer_json(struct Tokenizer *t, const char *path, Error *e);
/* read_gpt2_files - vocab.json and merges.txt of a directory, as GPT-2's own release has them. */
int read_gpt2_files(struct Tokenizer *t, const char *dir, Error *e);
int read_sentencepiece(struct Tokenizer *t, const File *file, Error *e);
/* sp_check - refuses a model that the library would trust and run out of its memory with. */
int sp_check(const File *file, Error *e);

/* add_eos - notes an end token once; -1 is ignored. */
void add_eos(struct Tokenizer *t, int id);
/* add_known_eos - the end tokens of known families, where the vocabulary has them as control tokens. */
void add_known_eos(struct Tokenizer *t);

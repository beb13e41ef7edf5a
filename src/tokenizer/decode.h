/* decode - what the decoder of a tokenizer.json makes of each token, worked out at load: a token's text depends on the
 * token alone, on whether it is the first, and on whether the one before ends a word. */
#pragma once
#include "tokenizer/regex.h"
#include "tokenizer/vocab.h"

typedef enum {
    DECODE_LETTERS,   /* letters of GPT-2's alphabet become bytes; from here on all is one text */
    DECODE_BYTES,     /* <0xNN> becomes a byte */
    DECODE_FUSE,      /* from here on all is one text */
    DECODE_REPLACE,   /* each match becomes text */
    DECODE_STRIP,     /* up to `start` times text at the start, `stop` times at the end */
    DECODE_METASPACE, /* text becomes a space; in the first token, with drops_first, nothing */
    DECODE_WORDPIECE, /* a space before each token but the first, unless it begins with text, which goes */
    DECODE_SUFFIX,    /* text ends a word and becomes a space, at the end of all nothing */
} DecodeKind;

typedef struct {
    DecodeKind kind;
    char *text; /* [n] owned */
    size_t n;
    Regex *match; /* owned */
    int start, stop;
    bool drops_first, cleanup, one_char; /* one_char: the match is always one character */
} DecodeStep;

enum { MAX_DECODES = 16 };

typedef struct {
    DecodeStep steps[MAX_DECODES];
    int n;
    bool spaced; /* no decoder: the tokens with spaces between */

    char *storage;      /* owned: of all texts */
    const char **first; /* [n_pieces] a piece's bytes when it is the first; NULL: the same as later */
    uint32_t *n_first;  /* [n_pieces] */
    const char *suffix; /* ends a word: the next token has a space before it; NULL: none */
    size_t n_suffix;
} Decoder;

/* decoder_add - the step with all it owns, which is freed here on failure too. */
int decoder_add(Decoder *d, DecodeStep step, const char *file, Error *e);
void decoder_close(Decoder *d);

/* decoder_apply - sets v->pieces[].decoded for all but control tokens, and the Decoder's rows. texts[id] (NULL: the
 * piece's) is what is decoded. Refuses a step that needs the whole text where one token at a time is written. */
int decoder_apply(Decoder *d, Vocab *v, char *const *texts, const char *file, Error *e);

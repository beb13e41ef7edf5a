/* normalize - what a tokenizer does to a text before it cuts it: a list of steps. */
#pragma once
#include "tokenizer/charsmap.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

typedef enum {
    NORMALIZE_FORM,    /* form */
    NORMALIZE_PREPEND, /* text comes first */
    NORMALIZE_REPLACE, /* each match becomes text */
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,         /* white space at the ends: left, right */
    NORMALIZE_DROP_MARKS,    /* M, or with `only_nonspacing` Mn */
    NORMALIZE_NMT,           /* sentencepiece's nmt rules */
    NORMALIZE_CLEAN,         /* BERT: no control characters, all white space is a space */
    NORMALIZE_SPACE_CHINESE, /* BERT: spaces around Chinese characters */
    NORMALIZE_CHARSMAP,
    NORMALIZE_LETTERS, /* bytes become the letters of GPT-2's alphabet */
} NormalizeKind;

typedef struct {
    NormalizeKind kind;
    NormalForm form;
    bool left, right, only_nonspacing;
    char *text; /* [n] owned */
    size_t n;
    Regex *match;      /* owned */
    Charsmap charsmap; /* owned */
} NormalizeStep;

enum { MAX_STEPS = 32 };

typedef struct {
    NormalizeStep steps[MAX_STEPS];
    int n;
} Normalizer;

/* normalizer_add - the step with all it owns, which is freed here on failure too. */
int normalizer_add(Normalizer *z, NormalizeStep step, const char *file, Error *e);
void normalizer_close(Normalizer *z);

/* normalize - *out is malloc'ed (NUL behind its last byte). An empty text stays empty. Fails when the steps
 * write more than the allowance of the space. */
int normalize(const Normalizer *z, RegexSpace *space, const char *text, size_t n, char **out, size_t *n_out, Error *e);

/* pretokenize - cuts a text into the words that a model may not merge across: a list of steps, each of which cuts or
 * changes every piece that the one before left. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer/regex.h"

/* What becomes of the matches, and of what lies between them. Isolated, the default: each is a piece of its own. */
typedef enum {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT
} Behavior;
typedef struct {
    Behavior behavior;
    bool invert;  /* the matches are what lies between, and the other way round */
    bool literal; /* the pattern is a text, no expression */
} Split;

typedef enum { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } PrefixScheme;

typedef enum {
    CUT_SPLIT,   /* at the matches */
    CUT_RESPELL, /* each space becomes text */
    CUT_PREFIX,  /* text comes first, where the piece does not begin with it */
    CUT_LETTERS, /* bytes become the letters of GPT-2's alphabet */
} CutKind;

typedef struct {
    CutKind kind;
    Regex *match; /* owned */
    Split split;
    char text[8]; /* one character */
    PrefixScheme scheme;
} CutStep;

typedef struct Pretokenizer Pretokenizer;

/* pretokenizer_new - without steps: the text is one word. NULL when out of memory. */
Pretokenizer *pretokenizer_new(void);
void pretokenizer_free(Pretokenizer *p);

/* pretokenizer_add - one more CUT_SPLIT. Source: NormalizedString::split of Hugging Face's tokenizers. */
int pretokenizer_add(Pretokenizer *p, const char *pattern, size_t n, Split split, const char *file, Error *e);
/* pretokenizer_add_step - one more step; what it owns is freed here on failure too. */
int pretokenizer_add_step(Pretokenizer *p, CutStep step, const char *file, Error *e);
/* pretokenizer_drop_letters - takes a CUT_LETTERS at the end away; false: there is none. */
bool pretokenizer_drop_letters(Pretokenizer *p);

/* GPT2_PATTERN - what Hugging Face's ByteLevel uses. */
extern const char GPT2_PATTERN[];

/* pretokenize - calls word(arg, s, n) for each word of the text (valid UTF-8) in order; stops with its value when that
 * is not 0. first: the text is where the whole text begins. Fails when an expression takes too long. Safe from several
 * threads, each with its space. */
int pretokenize(const Pretokenizer *p, RegexSpace *space, const char *text, size_t n, bool first,
                int (*word)(void *arg, const char *s, size_t n, Error *e), void *arg, Error *e);

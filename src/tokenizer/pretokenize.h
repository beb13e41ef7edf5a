/* pretokenize - cuts a text into the words that BPE may not merge across, by regular expressions.
 *
 * A pre-tokenizer is a list of expressions: each cuts every piece that the one before left into its matches and
 * what lies between them, and may put neighbours together again or leave some out. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct Pretokenizer Pretokenizer;

/* pretokenizer_new - without expressions: the text is one word. NULL when out of memory. */
Pretokenizer *pretokenizer_new(void);
void pretokenizer_free(Pretokenizer *p);

/* pretokenizer_count - how many expressions it has. */
int pretokenizer_count(const Pretokenizer *p);

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

/* pretokenizer_add - one more expression (see regex.h). Source: NormalizedString::split of Hugging Face's tokenizers.
 */
int pretokenizer_add(Pretokenizer *p, const char *pattern, size_t n, Split split, const char *file, Error *e);

/* GPT2_PATTERN - what Hugging Face's ByteLevel uses. */
extern const char GPT2_PATTERN[];

/* pretokenize - calls word(arg, s, n) for each word of the text (valid UTF-8) in order; stops with its
 * value when that is not 0. Fails when an expression backtracks without end. Safe from several threads. */
int pretokenize(const Pretokenizer *p, const char *text, size_t n,
                int (*word)(void *arg, const char *s, size_t n, Error *e), void *arg, Error *e);

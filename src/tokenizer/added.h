/* added - tokens that are found in the text before anything else happens to it: <|im_start|>, </s>. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer/table.h"

typedef struct {
    const char *text; /* [n] what is looked for; the caller's */
    size_t n;
    int id;
    bool special;        /* found only when special tokens are asked for */
    bool single_word;    /* not next to a letter, a digit or _ */
    bool lstrip, rstrip; /* takes the white space on that side with it */
} Added;

typedef struct {
    Added *tokens; /* [n] */
    int n, room;
    Table texts;     /* text -> index into tokens */
    size_t *lengths; /* [n_lengths] the lengths that occur, longest first */
    size_t n_lengths;
    bool first[256]; /* bytes that a token begins with */
} AddedSet;

int added_push(AddedSet *set, Added token, Error *e);
int added_finish(AddedSet *set, const char *file, Error *e);
void added_close(AddedSet *set);

/* added_next - the first token in text[from, n), of those that begin there the longest; its span, white space that
 * it takes included, in *begin and *end (*begin >= floor). NULL: none.
 * Source: Hugging Face tokenizers, added_vocabulary.rs, find_matches. */
const Added *added_next(const AddedSet *set, const char *text, size_t n, size_t from, size_t floor, bool with_special,
                        size_t *begin, size_t *end);

/* added - tokens that are found in the text before anything else happens to it: <|im_start|>, </s>. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer/automaton.h"

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
    Automaton automaton; /* of the texts read backward; value: index into tokens */
} AddedSet;

int added_push(AddedSet *set, Added token, Error *e);
int added_finish(AddedSet *set, const char *file, Error *e);
void added_close(AddedSet *set);

/* AddedSearch - the tokens of a set in one text, from the left to the right: of those that begin at a place the
 * longest; the next one is looked for behind it. */
typedef struct {
    const AddedSet *set;
    const char *text;
    size_t n;
    bool with_special;
    const unsigned char *plain; /* [n] set by the caller: no special token touches a byte that has 1; NULL: anywhere */
    struct AddedHit *hits;      /* [n_hits] the longest token that begins at a place, the last place first */
    size_t n_hits;
    size_t from, floor; /* where the next may begin; the end of the last one with its white space */
} AddedSearch;

/* added_search - finds them all, in O(n). The text is the caller's until added_search_close. */
int added_search(AddedSearch *s, const AddedSet *set, const char *text, size_t n, bool with_special, Error *e);
void added_search_close(AddedSearch *s);

/* added_next - the next one and its span with the white space that it takes; NULL: none. *begin may lie before the end
 * of the one before, which took the same white space. Source: Hugging Face tokenizers, added_vocabulary.rs,
 * find_matches. */
const Added *added_next(AddedSearch *s, size_t *begin, size_t *end);

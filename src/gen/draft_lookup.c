/* Prompt lookup: a text that repeats itself goes on as it did the last time. Saxena, "Prompt lookup decoding", 2023:
 * github.com/apoorvumang/prompt-lookup-decoding. */
#include <stdlib.h>

#include "gen/draft.h"

typedef struct {
    Drafter drafter; /* first */
    int from;        /* in the text: what followed */
} Lookup;

/* Where the text ended as it does now, for as many tokens as possible; of equally many the last place. */
static int sure(Drafter *d, const int *text, int n) {
    enum { LONGEST = 32 }; /* no longer end is looked for: a text of one token again and again has many */
    int longest = 0;
    for (int end = n - 1; end > longest && longest < LONGEST; end--) {
        int same = 0;
        while (same < end && same < LONGEST && text[end - 1 - same] == text[n - 1 - same]) same++;
        if (same > longest) longest = same, ((Lookup *)d)->from = end;
    }
    return longest < DRAFT_CLASSES ? longest : DRAFT_CLASSES - 1;
}

/* What followed may reach into the guess itself: then the text goes round. */
static int guess(Drafter *d, const int *text, int n, const Sampler *s, Proposal *out, int most) {
    int from = ((Lookup *)d)->from;
    (void)s;
    for (int i = 0; i < most; i++) out[i] = (Proposal){.id = from + i < n ? text[from + i] : out[from + i - n].id};
    return most;
}

static void lookup_close(Drafter *d) { free(d); }

Drafter *draft_lookup_open(Error *e) {
    Lookup *l = malloc(sizeof *l);
    if (!l) {
        fail(e, "--lookup: memory: expected some, found none");
        return NULL;
    }
    *l = (Lookup){.drafter = {.sure = sure, .guess = guess, .close = lookup_close}};
    return &l->drafter;
}

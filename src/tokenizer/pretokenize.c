#include "tokenizer/pretokenize.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/regex.h"

enum { MAX_EXPRESSIONS = 16 };

struct Pretokenizer {
    Regex *expressions[MAX_EXPRESSIONS];
    Split splits[MAX_EXPRESSIONS];
    int n;
};

const char GPT2_PATTERN[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
Pretokenizer *pretokenizer_new(void) { return calloc(1, sizeof(Pretokenizer)); }

void pretokenizer_free(Pretokenizer *p) {
    for (int i = 0; p && i < p->n; i++) regex_free(p->expressions[i]);
    free(p);
}

int pretokenizer_count(const Pretokenizer *p) { return p->n; }

int pretokenizer_add(Pretokenizer *p, const char *pattern, size_t n, Split split, const char *file, Error *e) {
    char what[256];
    if (p->n == MAX_EXPRESSIONS)
        return fail(e, "%s: pre_tokenizer: expected at most %d expressions, found more", file, MAX_EXPRESSIONS);
    snprintf(what, sizeof what, "%s: pre_tokenizer", file);
    Regex *r = regex_new(pattern, n, split.literal, what, e);
    if (!r) return -1;
    p->splits[p->n] = split;
    p->expressions[p->n++] = r;
    return 0;
}

typedef struct {
    const Pretokenizer *p;
    RegexSpace *space;
    int (*word)(void *arg, const char *s, size_t n, Error *e);
    void *arg;
    Error *e;
} Cutter;

/* Row - the pieces of one cut in order: the last one waits, since the next may join it. */
typedef struct {
    size_t begin, end; /* of the last piece */
    bool any, match;   /* is there one, and was its last part a match? */
} Row;

static bool joins(Behavior b, bool before, bool now) {
    return (b == SPLIT_CONTIGUOUS && before == now) || (b == SPLIT_MERGED_WITH_PREVIOUS && !before && now) ||
           (b == SPLIT_MERGED_WITH_NEXT && before && !now);
}

static int cut(Cutter *c, int level, const char *s, size_t n);

/* The next part, a match or what lies between two (which is not told when it is empty; an empty match is). */
static int add_part(Cutter *c, int level, Row *row, const char *s, size_t begin, size_t end, bool match) {
    Split split = c->p->splits[level];
    match ^= split.invert;
    if (row->any && joins(split.behavior, row->match, match)) {
        row->end = end;
    } else {
        if (row->any && cut(c, level + 1, s + row->begin, row->end - row->begin)) return -1;
        *row = (Row){.begin = begin, .end = match && split.behavior == SPLIT_REMOVED ? begin : end, .any = true};
    }
    row->match = match;
    return 0;
}

/* The parts of a piece; an empty one is none. */
static int cut(Cutter *c, int level, const char *s, size_t n) {
    if (n == 0) return 0;
    if (level == c->p->n) return c->word(c->arg, s, n, c->e);
    size_t done = 0, begin, end;
    Row row = {.any = false};
    RegexCursor cursor = {0};
    int found;
    while ((found = regex_next(c->p->expressions[level], c->space, s, n, &cursor, &begin, &end, c->e)) > 0) {
        if (begin > done && add_part(c, level, &row, s, done, begin, false)) return -1;
        if (add_part(c, level, &row, s, begin, end, true)) return -1;
        done = end;
    }
    if (found < 0) return -1;
    if (done < n && add_part(c, level, &row, s, done, n, false)) return -1;
    return cut(c, level + 1, s + row.begin, row.end - row.begin);
}

int pretokenize(const Pretokenizer *p, const char *text, size_t n,
                int (*word)(void *arg, const char *s, size_t n, Error *e), void *arg, Error *e) {
    if (p->n == 0) return n ? word(arg, text, n, e) : 0;
    Cutter c = {.p = p, .space = regex_space_new(n), .word = word, .arg = arg, .e = e};
    if (!c.space) return fail(e, "text: memory: expected some for the pre-tokenizer, found none");
    int status = cut(&c, 0, text, n);
    regex_space_free(c.space);
    return status;
}

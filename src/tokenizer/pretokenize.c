#include "tokenizer/pretokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bytes.h"
#include "tokenizer/vocab.h"

/* Letters double a text, so only so many steps may make them. */
enum { MAX_CUTS = 32, MAX_LETTERS = 2 };

struct Pretokenizer {
    CutStep steps[MAX_CUTS];
    int n, n_letters;
};

const char GPT2_PATTERN[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
Pretokenizer *pretokenizer_new(void) { return calloc(1, sizeof(Pretokenizer)); }

void pretokenizer_free(Pretokenizer *p) {
    for (int i = 0; p && i < p->n; i++) regex_free(p->steps[i].match);
    free(p);
}

int pretokenizer_add_step(Pretokenizer *p, CutStep step, const char *file, Error *e) {
    bool letters = step.kind == CUT_LETTERS;
    if (p->n == MAX_CUTS || (letters && p->n_letters == MAX_LETTERS)) {
        regex_free(step.match);
        return fail(e, "%s: pre_tokenizer: expected at most %d steps, %d of them ByteLevel, found more", file, MAX_CUTS,
                    MAX_LETTERS);
    }
    p->n_letters += letters;
    p->steps[p->n++] = step;
    return 0;
}

int pretokenizer_add(Pretokenizer *p, const char *pattern, size_t n, Split split, const char *file, Error *e) {
    char what[256];
    snprintf(what, sizeof what, "%s: pre_tokenizer", file);
    CutStep step = {.kind = CUT_SPLIT, .split = split, .match = regex_new(pattern, n, split.literal, what, e)};
    return step.match ? pretokenizer_add_step(p, step, file, e) : -1;
}

bool pretokenizer_drop_letters(Pretokenizer *p) {
    if (p->n == 0 || p->steps[p->n - 1].kind != CUT_LETTERS) return false;
    p->n--;
    return true;
}

typedef struct {
    const Pretokenizer *p;
    RegexSpace *space;
    int (*word)(void *arg, const char *s, size_t n, Error *e);
    void *arg;
    Error *e;
} Cutter;

static int cut(Cutter *c, int level, const char *s, size_t n, bool first);

/* Row - the pieces of one cut in order: the last one waits, since the next may join it. */
typedef struct {
    size_t begin, end; /* of the last piece */
    bool any, match;   /* is there one, and was its last part a match? */
    bool first;        /* the row is where the whole text begins */
} Row;

static bool joins(Behavior b, bool before, bool now) {
    return (b == SPLIT_CONTIGUOUS && before == now) || (b == SPLIT_MERGED_WITH_PREVIOUS && !before && now) ||
           (b == SPLIT_MERGED_WITH_NEXT && before && !now);
}

static int cut_last(Cutter *c, int level, const Row *row, const char *s) {
    return cut(c, level + 1, s + row->begin, row->end - row->begin, row->first && row->begin == 0);
}

/* The next part, a match or what lies between two (which is not told when it is empty; an empty match is). */
static int add_part(Cutter *c, int level, Row *row, const char *s, size_t begin, size_t end, bool match) {
    Split split = c->p->steps[level].split;
    match ^= split.invert;
    if (row->any && joins(split.behavior, row->match, match)) {
        row->end = end;
    } else {
        if (row->any && cut_last(c, level, row, s)) return -1;
        row->begin = begin;
        row->end = match && split.behavior == SPLIT_REMOVED ? begin : end;
        row->any = true;
    }
    row->match = match;
    return 0;
}

static int split_piece(Cutter *c, int level, const char *s, size_t n, bool first) {
    size_t done = 0, begin, end;
    Row row = {.first = first};
    RegexCursor cursor = {0};
    int found;
    while ((found = regex_next(c->p->steps[level].match, c->space, s, n, &cursor, &begin, &end, c->e)) > 0) {
        if (begin > done && add_part(c, level, &row, s, done, begin, false)) return -1;
        if (add_part(c, level, &row, s, begin, end, true)) return -1;
        done = end;
    }
    if (found < 0) return -1;
    if (done < n && add_part(c, level, &row, s, done, n, false)) return -1;
    return cut_last(c, level, &row, s);
}

/* The piece as the step changes it. */
static int change_piece(const CutStep *step, const char *s, size_t n, bool first, Bytes *out, Error *e) {
    size_t n_text = strlen(step->text);
    if (step->kind == CUT_PREFIX && step->scheme != PREFIX_NEVER && (first || step->scheme == PREFIX_ALWAYS) &&
        (n < n_text || memcmp(s, step->text, n_text) != 0) && bytes_add(out, step->text, n_text, e))
        return -1;
    if (step->kind == CUT_PREFIX) return bytes_add(out, s, n, e);
    for (size_t i = 0; i < n; i++) {
        char letter[2];
        if (step->kind == CUT_LETTERS ? bytes_add(out, letter, byte_letter((unsigned char)s[i], letter), e)
            : s[i] == ' '             ? bytes_add(out, step->text, n_text, e)
                                      : bytes_add(out, s + i, 1, e))
            return -1;
    }
    return 0;
}

/* What the steps from `level` on make of a piece; an empty one is none. */
static int cut(Cutter *c, int level, const char *s, size_t n, bool first) {
    if (n == 0) return 0;
    if (level == c->p->n) return c->word(c->arg, s, n, c->e);
    const CutStep *step = &c->p->steps[level];
    if (step->kind == CUT_SPLIT) return split_piece(c, level, s, n, first);
    Bytes changed = {.left = regex_space_bytes(c->space)};
    int status = change_piece(step, s, n, first, &changed, c->e);
    if (!status) status = cut(c, level + 1, changed.s, changed.n, first);
    bytes_close(&changed);
    return status;
}

int pretokenize(const Pretokenizer *p, RegexSpace *space, const char *text, size_t n, bool first,
                int (*word)(void *arg, const char *s, size_t n, Error *e), void *arg, Error *e) {
    Cutter c = {.p = p, .space = space, .word = word, .arg = arg, .e = e};
    return cut(&c, 0, text, n, first);
}

#include "tokenizer/decode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/bytes.h"

static void step_close(DecodeStep *step) {
    free(step->text);
    regex_free(step->match);
}

int decoder_add(Decoder *d, DecodeStep step, const char *file, Error *e) {
    if (d->n < MAX_DECODES) {
        d->steps[d->n++] = step;
        return 0;
    }
    step_close(&step);
    return fail(e, "%s: decoder: expected at most %d steps, found more", file, MAX_DECODES);
}

void decoder_close(Decoder *d) {
    for (int i = 0; i < d->n; i++) step_close(&d->steps[i]);
    free(d->storage);
    free(d->first);
    free(d->n_first);
    *d = (Decoder){0};
}

/* ---- one token ---- */

/* The token now, and where the next step writes it. */
typedef struct {
    Bytes now, next;
    RegexSpace *space;
    bool first, byte; /* is it the first; a byte that is no character alone, which the steps leave as it is */
} Token;

static void step_done(Token *t) {
    Bytes done = t->now;
    t->now = t->next;
    t->next = done;
    t->next.n = 0;
}

/* Each match of `match`, or (NULL) of the text `what`, becomes `with`. */
static int replace(Token *t, const Regex *match, const char *with, size_t n_with, Error *e) {
    RegexCursor cursor = {0};
    size_t done = 0, begin, end;
    int found;
    while ((found = regex_next(match, t->space, t->now.s, t->now.n, &cursor, &begin, &end, e)) > 0) {
        if (bytes_add(&t->next, t->now.s + done, begin - done, e) || bytes_add(&t->next, with, n_with, e)) return -1;
        done = end;
    }
    if (found < 0 || bytes_add(&t->next, t->now.s + done, t->now.n - done, e)) return -1;
    step_done(t);
    return 0;
}

static int replace_text(Token *t, const char *what, size_t n_what, const char *with, size_t n_with, Error *e) {
    const char *s = t->now.s, *end = s + t->now.n, *hit;
    while (n_what && (hit = memmem(s, (size_t)(end - s), what, n_what))) {
        if (bytes_add(&t->next, s, (size_t)(hit - s), e) || bytes_add(&t->next, with, n_with, e)) return -1;
        s = hit + n_what;
    }
    if (bytes_add(&t->next, s, (size_t)(end - s), e)) return -1;
    step_done(t);
    return 0;
}

static void strip(Token *t, const DecodeStep *step, bool start, bool stop) {
    size_t begin = 0;
    for (int i = 0; start && i < step->start && t->now.n - begin >= step->n; i++) {
        if (memcmp(t->now.s + begin, step->text, step->n) != 0) break;
        begin += step->n;
    }
    for (int i = 0; stop && i < step->stop && t->now.n - begin >= step->n; i++) {
        if (memcmp(t->now.s + t->now.n - step->n, step->text, step->n) != 0) break;
        t->now.n -= step->n;
    }
    t->now.n -= begin;
    memmove(t->now.s, t->now.s + begin, t->now.n);
}

/* <0xNN> */
static void byte_of_token(Token *t) {
    const char *s = t->now.s;
    if (t->now.n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || !isxdigit((unsigned char)s[3]) ||
        !isxdigit((unsigned char)s[4]))
        return;
    char hex[3] = {s[3], s[4], 0};
    t->now.s[0] = (char)strtol(hex, NULL, 16);
    t->now.n = 1;
    t->byte = (unsigned char)t->now.s[0] >= 0x80;
}

static int wordpiece(Token *t, const DecodeStep *step, Error *e) {
    static const char *const tidy[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    bool goes_on = t->now.n >= step->n && memcmp(t->now.s, step->text, step->n) == 0;
    size_t skip = !t->first && goes_on ? step->n : 0;
    if ((!t->first && !goes_on && bytes_add(&t->next, " ", 1, e)) ||
        bytes_add(&t->next, t->now.s + skip, t->now.n - skip, e))
        return -1;
    step_done(t);
    for (size_t i = 0; step->cleanup && i < sizeof tidy / sizeof *tidy; i++)
        if (replace_text(t, tidy[i][0], strlen(tidy[i][0]), tidy[i][1], strlen(tidy[i][1]), e)) return -1;
    return 0;
}

/* The suffix at the end goes (the next token then has a space before it); every text begins with that space. */
static int end_of_word(Token *t, const DecodeStep *step, Error *e) {
    if (t->now.n >= step->n && memcmp(t->now.s + t->now.n - step->n, step->text, step->n) == 0) t->now.n -= step->n;
    if (replace_text(t, step->text, step->n, " ", 1, e) || bytes_add(&t->next, " ", 1, e) ||
        bytes_add(&t->next, t->now.s, t->now.n, e))
        return -1;
    step_done(t);
    return 0;
}

static int letters(Token *t, Error *e) {
    if (bytes_add(&t->next, t->now.s, t->now.n, e)) return -1;
    size_t n = letters_to_bytes(t->now.s, t->now.n, t->next.s);
    if (n == SIZE_MAX) { /* not of the alphabet: the token is its own bytes */
        t->next.n = 0;
        return 0;
    }
    t->next.n = n;
    step_done(t);
    t->byte = true;
    return 0;
}

static int apply(Token *t, const DecodeStep *step, bool fused, Error *e) {
    if (t->byte) return 0;
    switch (step->kind) {
    case DECODE_LETTERS: return letters(t, e);
    case DECODE_REPLACE: return replace(t, step->match, step->text, step->n, e);
    case DECODE_WORDPIECE: return wordpiece(t, step, e);
    case DECODE_SUFFIX: return end_of_word(t, step, e);
    case DECODE_METASPACE: return replace_text(t, step->text, step->n, " ", t->first && step->drops_first ? 0 : 1, e);
    case DECODE_BYTES:
        if (!fused) byte_of_token(t);
        return 0;
    case DECODE_STRIP: strip(t, step, !fused || t->first, !fused); return 0;
    case DECODE_FUSE: return 0;
    }
    return 0;
}

static int token_text(const Decoder *d, Token *t, const char *text, size_t n, Error *e) {
    bool fused = false;
    t->now.n = t->next.n = 0;
    t->byte = false;
    if ((d->spaced && !t->first && bytes_add(&t->now, " ", 1, e)) || bytes_add(&t->now, text, n, e)) return -1;
    for (int i = 0; i < d->n; i++) {
        if (apply(t, &d->steps[i], fused, e)) return -1;
        fused |= d->steps[i].kind == DECODE_FUSE || d->steps[i].kind == DECODE_LETTERS;
    }
    return 0;
}

/* ---- all of them ---- */

/* Behind a step that makes one text of all tokens only what looks at single characters can be worked out for each. */
static int check_steps(Decoder *d, bool *depends_on_first, const char *file, Error *e) {
    static const char *const names[] = {"ByteLevel", "ByteFallback", "Fuse",      "Replace",
                                        "Strip",     "Metaspace",    "WordPiece", "BPEDecoder"};
    bool fused = false;
    *depends_on_first = d->spaced;
    for (int i = 0; i < d->n; i++) {
        const DecodeStep *s = &d->steps[i];
        bool replaces_one = s->kind == DECODE_REPLACE && s->one_char;
        bool strips_start = s->kind == DECODE_STRIP && s->start <= 1 && s->stop == 0;
        bool harmless = s->kind == DECODE_FUSE || s->kind == DECODE_BYTES || replaces_one || strips_start;
        if (fused && !harmless)
            return fail(e, "%s: decoder: expected no %s of several characters behind Fuse or ByteLevel, found one",
                        file, names[s->kind]);
        if (s->kind == DECODE_SUFFIX && i != d->n - 1)
            return fail(e, "%s: decoder: expected BPEDecoder last, found a step behind it", file);
        fused |= s->kind == DECODE_FUSE || s->kind == DECODE_LETTERS;
        *depends_on_first |=
            (s->kind == DECODE_STRIP && fused) || s->kind == DECODE_METASPACE || s->kind == DECODE_WORDPIECE;
        if (s->kind != DECODE_SUFFIX) continue;
        d->suffix = s->text;
        d->n_suffix = s->n;
    }
    return 0;
}

typedef struct {
    size_t at, n;
} Span;

static int append(Bytes *all, const Token *t, Span *span, Error *e) {
    *span = (Span){all->n, t->now.n};
    return bytes_add(all, t->now.s, t->now.n, e);
}

int decoder_apply(Decoder *d, Vocab *v, char *const *texts, const char *file, Error *e) {
    Error why = {0};
    bool both;
    size_t total = 0;
    if (check_steps(d, &both, file, e)) return -1;
    for (int id = 0; id < v->n; id++) total += v->pieces[id].n;
    Token t = {.space = regex_space_new(total)};
    size_t none = 0, *left = t.space ? regex_space_bytes(t.space) : &none;
    Bytes all = {.left = left};
    t.now.left = t.next.left = left;
    Span *spans = calloc(2 * (size_t)v->n + 1, sizeof *spans);
    int status = t.space && spans && bytes_add(&all, "", 0, &why) == 0
                     ? 0
                     : fail(e, "%s: memory: expected some, found none", file);
    for (int id = 0; id < v->n && !status; id++) {
        const Piece *p = &v->pieces[id];
        const char *text = texts && texts[id] ? texts[id] : p->text;
        if (p->kind == PIECE_NONE || p->kind == PIECE_CONTROL) continue;
        for (int k = 0; k < 1 + both && !status; k++) {
            t.first = k == 1;
            status = token_text(d, &t, text, text == p->text ? p->n : strlen(text), &why) ||
                     append(&all, &t, &spans[2 * id + k], &why);
        }
    }
    if (why.text[0]) fail(e, "%s: decoder: expected tokens to decode, found an error (%.200s)", file, why.text);
    if (!status && both) {
        d->first = calloc((size_t)v->n + 1, sizeof *d->first);
        d->n_first = calloc((size_t)v->n + 1, sizeof *d->n_first);
        if (!d->first || !d->n_first) status = fail(e, "%s: memory: expected some, found none", file);
    }
    d->storage = all.s;
    for (int id = 0; id < v->n && !status; id++) {
        v->pieces[id].decoded = all.s + spans[2 * id].at;
        v->pieces[id].n_decoded = (uint32_t)spans[2 * id].n;
        if (!both) continue;
        d->first[id] = all.s + spans[2 * id + 1].at;
        d->n_first[id] = (uint32_t)spans[2 * id + 1].n;
    }
    free(spans);
    bytes_close(&t.now);
    bytes_close(&t.next);
    regex_space_free(t.space);
    return status ? -1 : 0;
}

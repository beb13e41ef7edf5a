#include "tokenizer/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"
#include "tokenizer/impl.h"

static const char PROBE[] =
    "Hello, world! It's 2024-07-31; I'LL say we've 3.14159 or 1234567 reasons, don't we?\n\n  def f(x):\n\treturn x**2"
    "  # caf\xc3\xa9 na\xc3\xafve\r\n    \xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c 123 "
    "\xe3\x81\x93\xe3\x82\x93 \xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd9\x85\xd8\xb1 \xf0\x9f\x98\x80"
    "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd e\xcc\x81  \n \n\n\n   http://a.b/c?d=e&f  ABCdefGHI'S x_y__z <b>&amp;</b> "
    "\xc2\xbd\xe2\x85\xa7 \xea\xb0\x80\xeb\x82\x98 end   ";

typedef struct {
    size_t n, room;
    char *text;
} Cuts;

static int note_cut(void *arg, const char *s, size_t n, Error *e) {
    Cuts *c = arg;
    if (c->n + n + 1 > c->room) return fail(e, "probe: words: expected at most %zu bytes, found more", c->room);
    memcpy(c->text + c->n, s, n);
    c->n += n;
    c->text[c->n++] = 0;
    return 0;
}

bool trial_cuts_alike(const Pretokenizer *a, const Pretokenizer *b, Error *e) {
    char text[2][4 * sizeof PROBE];
    Cuts cuts[2] = {{.text = text[0], .room = sizeof text[0]}, {.text = text[1], .room = sizeof text[1]}};
    RegexSpace *space = regex_space_new(sizeof PROBE);
    int status = !space;
    if (space) status = pretokenize(a, space, PROBE, sizeof PROBE - 1, true, note_cut, &cuts[0], e);
    if (!status) status = pretokenize(b, space, PROBE, sizeof PROBE - 1, true, note_cut, &cuts[1], e);
    regex_space_free(space);
    return !status && cuts[0].n == cuts[1].n && memcmp(text[0], text[1], cuts[0].n) == 0;
}

/* Leaves out one id; returns how many stay. */
static int without(int *ids, int n, int id) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (ids[i] != id) ids[kept++] = ids[i];
    return kept;
}

/* But for `but`; -1: of all ids. */
static bool same_ids(const Tokenizer *a, const Tokenizer *b, const char *text, unsigned flags, int but, Error *e) {
    int *ids[2] = {NULL, NULL}, n[2];
    bool same = tokenizer_encode(a, text, strlen(text), flags, &ids[0], &n[0], e) == 0 &&
                tokenizer_encode(b, text, strlen(text), flags, &ids[1], &n[1], e) == 0;
    for (int i = 0; i < 2 && same && but >= 0; i++) n[i] = without(ids[i], n[i], but);
    same = same && n[0] == n[1] && memcmp(ids[0], ids[1], (size_t)n[0] * sizeof **ids) == 0;
    free(ids[0]);
    free(ids[1]);
    return same;
}

bool trial_encodes_alike(const Tokenizer *a, const Tokenizer *b, char line[TRIAL_TEXT], Error *e) {
    char special[sizeof PROBE];
    bool bare = b->model == MODEL_SCORE || a->control_is_text; /* special tokens without text between */
    int space = bare ? table_get(&b->vocab.ids, "\u2581", 3) : -1;
    *line = 0;
    bool same = same_ids(a, b, line, TOKENIZE_BOS, -1, e);
    for (const char *at = PROBE; *at && same; at += strcspn(at, "\n") + 1) {
        snprintf(line, TRIAL_TEXT, "%.*s", (int)strcspn(at, "\n"), at);
        same = (*line == ' ' && b->model == MODEL_SCORE) || same_ids(a, b, line, 0, -1, e);
        if (!strchr(at, '\n')) break;
    }
    if (same) memcpy(line, PROBE, sizeof PROBE);
    same = same && same_ids(a, b, PROBE, TOKENIZE_BOS, -1, e);
    size_t n = 0;
    for (int id = a->vocab.n; id-- > 0 && same && n + 80 < sizeof special;) {
        const Piece *p = &a->vocab.pieces[id];
        if ((p->kind == PIECE_CONTROL || p->kind == PIECE_USER) && p->n < 64)
            n += (size_t)snprintf(special + n, sizeof special - n, bare ? "%.*s" : "say%.*s5", (int)p->n, p->text);
    }
    if (!same || n == 0) return same;
    memcpy(line, special, n + 1);
    return same_ids(a, b, special, TOKENIZE_SPECIAL | TOKENIZE_CONTROL, space, e);
}

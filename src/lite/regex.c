/* No regular expressions: a byte-level BPE vocabulary, which cuts its text by them, is refused. */
#include "tokenizer/regex.h"

#include <stdlib.h>

#include "tokenizer/bytes.h"

Regex *regex_new(const char *pattern, size_t n, bool literal, const char *what, Error *e) {
    (void)literal;
    fail(e, "%s: expected a vocabulary without regular expressions (run-lite has none, see make), found '%.*s'", what,
         n > 40 ? 40 : (int)n, pattern);
    return NULL;
}

void regex_free(Regex *r) { (void)r; }
struct RegexSpace {
    size_t bytes; /* left */
};

RegexSpace *regex_space_new(size_t n_bytes) {
    RegexSpace *s = malloc(sizeof *s);
    if (s) s->bytes = text_allowance(n_bytes);
    return s;
}
void regex_space_free(RegexSpace *s) { free(s); }
size_t *regex_space_bytes(RegexSpace *s) { return &s->bytes; }

int regex_next(const Regex *r, RegexSpace *space, const char *text, size_t n, RegexCursor *cursor, size_t *begin,
               size_t *end, Error *e) {
    (void)r, (void)space, (void)text, (void)n, (void)cursor, (void)begin, (void)end, (void)e;
    return 0;
}

/* No regular expressions: a byte-level BPE vocabulary, which cuts its text by them, is refused. */
#include "tokenizer/regex.h"

#include <stdlib.h>

Regex *regex_new(const char *pattern, size_t n, bool literal, const char *what, Error *e) {
    (void)literal;
    fail(e, "%s: expected a vocabulary without regular expressions (run-lite has none, see make), found '%.*s'", what,
         n > 40 ? 40 : (int)n, pattern);
    return NULL;
}

void regex_free(Regex *r) { (void)r; }
RegexSpace *regex_space_new(size_t n_bytes) {
    (void)n_bytes;
    return malloc(1);
}
void regex_space_free(RegexSpace *s) { free(s); }

int regex_next(const Regex *r, RegexSpace *space, const char *text, size_t n, RegexCursor *cursor, size_t *begin,
               size_t *end, Error *e) {
    (void)r, (void)space, (void)text, (void)n, (void)cursor, (void)begin, (void)end, (void)e;
    return 0;
}

/* An expression on the first line, and the text behind it that it is looked for in. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "tokenizer/regex.h"

const bool prefix_is_refused = false;
const FuzzFormat fuzz_format = FUZZ_REGEX;

int fuzz_one(const uint8_t *data, size_t size) {
    const char *pattern = (const char *)data, *line_end = memchr(pattern, '\n', size);
    size_t n = line_end ? (size_t)(line_end - pattern) : size, bad;
    outcome = (Error){0};
    if (!utf8_valid(pattern, size, &bad)) { /* as every reader of expressions and texts checks before */
        fail(&outcome, "input: expected UTF-8, found byte %zu", bad);
        return 0;
    }
    Regex *r = regex_new(pattern, n, false, "input", &outcome);
    const char *text = line_end ? line_end + 1 : "";
    size_t n_text = line_end ? size - n - 1 : 0, begin, end, last = 0;
    RegexSpace *space = regex_space_new(n_text);
    RegexCursor cursor = {0};
    Error slow = {0}; /* an expression that takes too long is refused */
    if (!space) abort();
    while (r && regex_next(r, space, text, n_text, &cursor, &begin, &end, &slow) > 0) {
        if (end > n_text || begin > end || end < last) abort();
        last = end;
    }
    regex_space_free(space);
    regex_free(r);
    return 0;
}

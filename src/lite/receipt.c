/* Receipts are JSON. */
#include "gen/receipt.h"

Receipt *receipt_read(const char *path, Error *e) {
    fail(e, "%s: expected no receipt (run-lite reads none, see make), found one", path);
    return NULL;
}

void receipt_free(Receipt *r) { (void)r; }

int receipt_write(const char *path, const Generator *g, const char *prompt, size_t n_prompt, const char *text,
                  size_t n_text, const int *tokens, int n_tokens, Error *e) {
    (void)g, (void)prompt, (void)n_prompt, (void)text, (void)n_text, (void)tokens, (void)n_tokens;
    return fail(e, "%s: expected no --receipt (run-lite writes none, see make), found it", path);
}

int receipt_prompt(const Receipt *r, const char *prompt, size_t n, Error *e) {
    (void)prompt, (void)n;
    return fail(e, "%s: expected no receipt (run-lite reads none, see make), found one", r->path);
}

int receipt_compare(const Receipt *r, const Generator *g, const char *text, size_t n_text, const int *tokens,
                    int n_tokens, Error *e) {
    (void)g, (void)tokens, (void)n_tokens;
    return receipt_prompt(r, text, n_text, e);
}

/* normalize - what a tokenizer does to the text before it cuts it. */
#pragma once
#include <stddef.h>

#include "base/error.h"

typedef enum { NORMALIZE_PREPEND, NORMALIZE_REPLACE, NORMALIZE_NFC } NormalizeKind;

typedef struct {
    NormalizeKind kind;
    char *what, *with; /* [n_what], [n_with] owned; PREPEND: what; REPLACE: what becomes with */
    size_t n_what, n_with;
} NormalizeStep;

enum { MAX_STEPS = 16 };

typedef struct {
    NormalizeStep steps[MAX_STEPS];
    int n;
} Normalizer;

/* normalizer_add - copies what and with. */
int normalizer_add(Normalizer *z, NormalizeKind kind, const char *what, const char *with, const char *file, Error *e);
void normalizer_close(Normalizer *z);

/* normalize - *out is malloc'ed (NUL behind its last byte). An empty text stays empty. */
int normalize(const Normalizer *z, const char *text, size_t n, char **out, size_t *n_out, Error *e);

/* replace_all - a malloc'ed copy of text with each `what` (not empty) replaced; NULL when out of memory. */
char *replace_all(const char *text, size_t n, const char *what, size_t n_what, const char *with, size_t n_with,
                  size_t *n_out);

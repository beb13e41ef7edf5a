#include "tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int normalizer_add(Normalizer *z, NormalizeKind kind, const char *what, const char *with, const char *file, Error *e) {
    if (z->n == MAX_STEPS) return fail(e, "%s: normalizer: expected at most %d steps, found more", file, MAX_STEPS);
    NormalizeStep step = {kind, strdup(what), strdup(with), strlen(what), strlen(with)};
    if (!step.what || !step.with) {
        free(step.what);
        free(step.with);
        return fail(e, "%s: memory: expected some, found none", file);
    }
    z->steps[z->n++] = step;
    return 0;
}

void normalizer_close(Normalizer *z) {
    for (int i = 0; i < z->n; i++) {
        free(z->steps[i].what);
        free(z->steps[i].with);
    }
    *z = (Normalizer){0};
}

char *replace_all(const char *text, size_t n, const char *what, size_t n_what, const char *with, size_t n_with,
                  size_t *n_out) {
    size_t count = 0, k = 0;
    for (const char *s = text, *hit; (hit = memmem(s, (size_t)(text + n - s), what, n_what)); s = hit + n_what) count++;
    char *out = malloc(n - count * n_what + count * n_with + 1);
    if (!out) return NULL;
    const char *s = text;
    for (const char *hit; (hit = memmem(s, (size_t)(text + n - s), what, n_what)); s = hit + n_what) {
        memcpy(out + k, s, (size_t)(hit - s));
        k += (size_t)(hit - s);
        memcpy(out + k, with, n_with);
        k += n_with;
    }
    memcpy(out + k, s, (size_t)(text + n - s));
    k += (size_t)(text + n - s);
    out[k] = 0;
    *n_out = k;
    return out;
}

static char *step_apply(const NormalizeStep *step, const char *text, size_t n, size_t *n_out) {
    char *out = NULL;
    if (step->kind == NORMALIZE_REPLACE)
        return replace_all(text, n, step->what, step->n_what, step->with, step->n_with, n_out);
    if (step->kind == NORMALIZE_PREPEND) {
        size_t n_what = n ? step->n_what : 0;
        if (!(out = malloc(n_what + n + 1))) return NULL;
        memcpy(out, step->what, n_what);
        memcpy(out + n_what, text, n);
        out[ *n_out = n_what + n] = 0;
        return out;
    }
    utf8proc_uint8_t *composed = NULL;
    utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &composed,
                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (size < 0) return NULL;
    *n_out = (size_t)size;
    return (char *)composed;
}

int normalize(const Normalizer *z, const char *text, size_t n, char **out, size_t *n_out, Error *e) {
    char *now = malloc(n + 1);
    if (now) {
        memcpy(now, text, n);
        now[n] = 0;
    }
    for (int i = 0; i < z->n && now; i++) {
        if (n == 0) break; /* nothing comes of nothing, PREPEND included */
        char *next = step_apply(&z->steps[i], now, n, &n);
        free(now);
        now = next;
    }
    if (!now) return fail(e, "text: memory: expected some to normalize %zu bytes, found none", n);
    *out = now;
    *n_out = n;
    return 0;
}

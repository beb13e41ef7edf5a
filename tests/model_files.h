/* model_files - what the tests of the readers of models share: fixtures changed here and there, and a directory of
 * its own for files that are opened by name. */
#pragma once
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/hf.h"
#include "io/safetensors.h"
#include "model.h"
#include "untrusted.h"

#include <cmocka.h> /* last: it makes fail a macro */

#define FIXTURES "tests/fixtures/"
#define GPT2     FIXTURES "ladder/gpt2/"

typedef struct {
    char *data;
    size_t n;
} Bytes;

static inline Bytes load(const char *path) {
    Error e = {0};
    Bytes b;
    if (file_read(&b.data, &b.n, path, &e)) fail_msg("%s", e.text);
    return b;
}

static inline void save(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline int expect(const char *what, const Error *e, const char *part) {
    if (*part ? strstr(e->text, part) != NULL : e->text[0] == 0) return 0;
    print_error("%s: expected a message with '%s', found '%s'\n", what, part, e->text);
    return 1;
}

/* The bytes as a file of that name, used as a model; why it was refused, or "". */
static inline Error try_bytes(const char *name, const void *data, size_t n) {
    char path[128];
    memory_clear();
    memory_put(name, data, n);
    snprintf(path, sizeof path, MEMORY "/%s", name);
    use_model(path);
    memory_clear();
    return outcome;
}

static char dir[64];

static inline const char *in_dir(char out[256], const char *name) {
    snprintf(out, 256, "%s/%s", dir, name);
    return out;
}

static inline int make_dir(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/checkpoint-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state) {
    (void)state;
    char path[600];
    DIR *d = opendir(dir);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    return rmdir(dir);
}

static inline Error try(const char *path) {
    use_model(path);
    return outcome;
}

static inline void copy_fixture(const char *from, const char *name) {
    char path[256];
    Bytes b = load(from);
    save(in_dir(path, name), b.data, b.n);
    free(b.data);
}

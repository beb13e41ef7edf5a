/* gguf - the container format: keys, values, tensor table. Knows nothing of models.
 * Source: ggml docs/gguf.md, versions 2 and 3, little-endian. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "io/file.h"

typedef struct {
    const char *s; /* not NUL-terminated, may hold NUL bytes; points into the mapping */
    size_t n;      /* bytes */
} Str;

static inline bool gguf_str_is(Str s, const char *text) { return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0; }

typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} GgufType;

/* A tensor type of ggml, known by its size whether or not we can compute with it. */
typedef struct {
    int number;
    const char *name; /* "Q4_K" */
    int block_values, block_bytes;
} GgmlType;

const GgmlType *ggml_type(uint32_t number); /* NULL: no such type (or one that was removed) */

typedef struct {
    Str key;
    GgufType type;
    const unsigned char *value; /* scalar bytes, unaligned; for a string its characters */
    size_t n;                   /* bytes of a string, items of an array, else 1 */
    GgufType item_type;         /* of an array */
} GgufKv;

typedef struct {
    Str name;
    uint32_t ggml_type;        /* checked: a type that ggml has (also those we cannot compute with) */
    int n_dims;                /* 1..4 */
    uint64_t dims[4];          /* dims[0] is the fastest (cols); all >= 1 */
    const unsigned char *data; /* inside the mapping */
    size_t bytes;
} GgufTensor;

typedef struct {
    const File *file;
    uint32_t version;
    size_t alignment;
    size_t n_kv, n_tensors;
    GgufKv *kv;                  /* [n_kv] owned */
    const unsigned char *kv_end; /* where the last key's value ends */
    GgufTensor *tensors;         /* [n_tensors] owned, sorted as in the file */
} Gguf;

/* gguf_open - parses and checks everything against the file's real size. The file stays the caller's. */
int gguf_open(Gguf *g, const File *file, Error *e);
void gguf_close(Gguf *g);

const GgufKv *gguf_find(const Gguf *g, const char *key); /* NULL: absent */
const GgufTensor *gguf_tensor(const Gguf *g, const char *name);

/* gguf_get_* - the key's value converted to the type asked for when it fits, any integer type is taken
 * for an integer. Return 1 found, 0 absent (*out left alone), -1 wrong type or range (e is set). */
int gguf_get_int(const Gguf *g, const char *key, int64_t *out, int64_t min, int64_t max, Error *e);
int gguf_get_float(const Gguf *g, const char *key, double *out, Error *e);
int gguf_get_bool(const Gguf *g, const char *key, bool *out, Error *e);
int gguf_get_str(const Gguf *g, const char *key, Str *out, Error *e);

/* gguf_array_next - walks an array of strings: *cursor starts at kv->value. */
Str gguf_array_next(const unsigned char **cursor);

/* GgufKeys - n keys with their values as a GGUF has them; data is malloc'ed. */
typedef struct {
    unsigned char *data;
    size_t bytes, n;
} GgufKeys;

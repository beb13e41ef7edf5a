#include "io/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MAX_ARRAY_DEPTH = 8, MAX_NAME = 64 };

/* Source: the gguf Python module, GGML_QUANT_SIZES. */
static const GgmlType types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};

/* Types that ggml no longer has, and what holds the same weights today: the last two groups were Q4_0 and IQ4_NL in the
 * order of one CPU's vectors. Source: ggml.h. */
static const struct {
    uint32_t number;
    const char *name, *instead;
} removed[] = {
    {4, "Q4_2", "Q4_0"},      {5, "Q4_3", "Q4_1"},          {31, "Q4_0_4_4", "Q4_0"},     {32, "Q4_0_4_8", "Q4_0"},
    {33, "Q4_0_8_8", "Q4_0"}, {36, "IQ4_NL_4_4", "IQ4_NL"}, {37, "IQ4_NL_4_8", "IQ4_NL"}, {38, "IQ4_NL_8_8", "IQ4_NL"},
};

const GgmlType *ggml_type(uint32_t number) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].number == number) return &types[i];
    return NULL;
}

/* Cursor - reads forward through the file; after the first failure every read gives zeros. */
typedef struct {
    const File *file;
    size_t at;
    Error *e;
    bool failed;
} Cursor;

static void cursor_fail(Cursor *c, const char *what, const char *expected, size_t found) {
    if (!c->failed)
        fail(c->e, "%s: %s at byte %zu: expected %s, found %zu", c->file->path, what, c->at, expected, found);
    c->failed = true;
}

/* take - n bytes at the cursor, or NULL: the file ends before. */
static const unsigned char *take(Cursor *c, uint64_t n, const char *what) {
    size_t left = c->file->size - c->at;
    if (c->failed) return NULL;
    if (n > left) {
        fail(c->e, "%s: %s at byte %zu: expected %llu bytes, found %zu (truncated file?)", c->file->path, what, c->at,
             (unsigned long long)n, left);
        c->failed = true;
        return NULL;
    }
    const unsigned char *p = c->file->data + c->at;
    c->at += (size_t)n;
    return p;
}

static uint32_t take_u32(Cursor *c, const char *what) {
    uint32_t x = 0;
    const unsigned char *p = take(c, sizeof x, what);
    if (p) memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t take_u64(Cursor *c, const char *what) {
    uint64_t x = 0;
    const unsigned char *p = take(c, sizeof x, what);
    if (p) memcpy(&x, p, sizeof x);
    return x;
}

static Str take_str(Cursor *c, const char *what) {
    uint64_t n = take_u64(c, what);
    const unsigned char *p = take(c, n, what);
    return p ? (Str){(const char *)p, (size_t)n} : (Str){"", 0};
}

static size_t scalar_bytes(uint32_t type) {
    static const size_t bytes[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return bytes[type];
}

static void skip_array(Cursor *c, int depth, GgufType *item_type, uint64_t *n, const unsigned char **items) {
    uint32_t type = take_u32(c, "array type");
    *n = take_u64(c, "array length");
    *items = c->file->data + c->at;
    if (c->failed) return;
    if (type >= GGUF_TYPE_COUNT) {
        cursor_fail(c, "array type", "0 to 12", type);
        return;
    }
    *item_type = (GgufType)type;
    if (type == GGUF_ARRAY && depth == MAX_ARRAY_DEPTH) {
        cursor_fail(c, "nested arrays", "at most 8 levels", MAX_ARRAY_DEPTH + 1);
        return;
    }
    size_t each = type == GGUF_STRING ? 8 : type == GGUF_ARRAY ? 12 : scalar_bytes(type);
    if (*n > (c->file->size - c->at) / each) {
        cursor_fail(c, "array length", "items that fit the file", (size_t)*n);
        return;
    }
    if (type == GGUF_STRING) {
        for (uint64_t i = 0; i < *n && !c->failed; i++) take_str(c, "string in an array");
    } else if (type == GGUF_ARRAY) {
        GgufType ignored_type;
        uint64_t ignored_n;
        const unsigned char *ignored;
        for (uint64_t i = 0; i < *n && !c->failed; i++) skip_array(c, depth + 1, &ignored_type, &ignored_n, &ignored);
    } else {
        const unsigned char *p = take(c, *n * each, "array");
        if (p && type == GGUF_BOOL)
            for (uint64_t i = 0; i < *n; i++)
                if (p[i] > 1) cursor_fail(c, "boolean", "0 or 1", p[i]);
    }
}

static void check_name(Cursor *c, Str name, const char *what) {
    size_t bad;
    if (c->failed) return;
    if (name.n == 0) cursor_fail(c, what, "a name", 0);
    else if (!utf8_valid(name.s, name.n, &bad)) cursor_fail(c, what, "UTF-8, the bad byte's offset is", bad);
}

static void read_kv(Cursor *c, GgufKv *kv) {
    kv->key = take_str(c, "key");
    check_name(c, kv->key, "key");
    uint32_t type = take_u32(c, "value type");
    if (c->failed) return;
    if (type >= GGUF_TYPE_COUNT) {
        cursor_fail(c, "value type", "0 to 12", type);
        return;
    }
    kv->type = (GgufType)type;
    if (type == GGUF_STRING) {
        Str s = take_str(c, "string");
        kv->value = (const unsigned char *)s.s;
        kv->n = s.n;
    } else if (type == GGUF_ARRAY) {
        uint64_t n;
        skip_array(c, 1, &kv->item_type, &n, &kv->value);
        kv->n = (size_t)n;
    } else {
        kv->value = take(c, scalar_bytes(type), "value");
        kv->n = 1;
        if (kv->value && type == GGUF_BOOL && *kv->value > 1) cursor_fail(c, "boolean", "0 or 1", *kv->value);
    }
}

/* A tensor's place in the data section and its size in bytes; the data pointer is set later. */
static void read_tensor(Cursor *c, GgufTensor *t, uint64_t *offset) {
    t->name = take_str(c, "tensor name");
    check_name(c, t->name, "tensor name");
    if (t->name.n > MAX_NAME) cursor_fail(c, "tensor name", "at most 64 bytes", t->name.n);
    uint32_t n_dims = take_u32(c, "tensor dimensions");
    if (c->failed) return;
    int name_n = (int)t->name.n;
    if (n_dims < 1 || n_dims > 4) {
        fail(c->e, "%s: %.*s: dimensions: expected 1 to 4, found %u", c->file->path, name_n, t->name.s, n_dims);
        c->failed = true;
        return;
    }
    t->n_dims = (int)n_dims;
    for (int i = 0; i < 4; i++) t->dims[i] = 1;
    for (uint32_t i = 0; i < n_dims; i++) t->dims[i] = take_u64(c, "tensor dimension");
    t->ggml_type = take_u32(c, "tensor type");
    *offset = take_u64(c, "tensor offset");
    if (c->failed) return;

    c->failed = true; /* until everything below holds */
    const GgmlType *type = ggml_type(t->ggml_type);
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
        if (removed[i].number == t->ggml_type) {
            fail(c->e,
                 "%s: %.*s: type: expected one that ggml still has, found %s: get the model as %s, or quantize the "
                 "original again",
                 c->file->path, name_n, t->name.s, removed[i].name, removed[i].instead);
            return;
        }
    if (!type) {
        fail(c->e, "%s: %.*s: type: expected a ggml type, found %u", c->file->path, name_n, t->name.s, t->ggml_type);
        return;
    }
    uint64_t values = 1, bytes;
    for (int i = 0; i < 4; i++) {
        if (t->dims[i] == 0 || __builtin_mul_overflow(values, t->dims[i], &values)) {
            fail(c->e, "%s: %.*s: dimension %d: expected a size that fits the file, found %llu", c->file->path, name_n,
                 t->name.s, i, (unsigned long long)t->dims[i]);
            return;
        }
    }
    if (t->dims[0] % (uint64_t)type->block_values) {
        fail(c->e, "%s: %.*s: row length: expected a multiple of %d for %s, found %llu", c->file->path, name_n,
             t->name.s, type->block_values, type->name, (unsigned long long)t->dims[0]);
        return;
    }
    if (__builtin_mul_overflow(values / (uint64_t)type->block_values, (uint64_t)type->block_bytes, &bytes) ||
        bytes > c->file->size) {
        fail(c->e, "%s: %.*s: size: expected bytes that fit the file of %zu, found %llu values of %s", c->file->path,
             name_n, t->name.s, c->file->size, (unsigned long long)values, type->name);
        return;
    }
    t->bytes = (size_t)bytes;
    c->failed = false;
}

static int compare_str(Str a, Str b) {
    int order = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}
static int compare_kv(const void *a, const void *b) {
    const GgufKv *const *x = a, *const *y = b;
    return compare_str((*x)->key, (*y)->key);
}
static int compare_name(const void *a, const void *b) {
    const GgufTensor *const *x = a, *const *y = b;
    return compare_str((*x)->name, (*y)->name);
}
static int compare_place(const void *a, const void *b) {
    const GgufTensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* No key and no tensor twice, and no two tensors over each other. */
static int check_unique(const Gguf *g, Error *e) {
    size_t n = g->n_kv > g->n_tensors ? g->n_kv : g->n_tensors;
    const void **sorted = malloc((n + 1) * sizeof *sorted);
    int status = 0;
    if (!sorted) return fail(e, "%s: memory: expected some, found none", g->file->path);
    for (size_t i = 0; i < g->n_kv; i++) sorted[i] = &g->kv[i];
    qsort(sorted, g->n_kv, sizeof *sorted, compare_kv);
    for (size_t i = 1; i < g->n_kv && !status; i++) {
        const GgufKv *a = sorted[i - 1], *b = sorted[i];
        if (compare_str(a->key, b->key) == 0)
            status = fail(e, "%s: key %.*s: expected once, found twice", g->file->path,
                          (int)(a->key.n < 64 ? a->key.n : 64), a->key.s);
    }
    for (size_t i = 0; i < g->n_tensors; i++) sorted[i] = &g->tensors[i];
    qsort(sorted, g->n_tensors, sizeof *sorted, compare_name);
    for (size_t i = 1; i < g->n_tensors && !status; i++) {
        const GgufTensor *a = sorted[i - 1], *b = sorted[i];
        if (compare_str(a->name, b->name) == 0)
            status = fail(e, "%s: tensor %.*s: expected once, found twice", g->file->path, (int)a->name.n, a->name.s);
    }
    qsort(sorted, g->n_tensors, sizeof *sorted, compare_place);
    for (size_t i = 1; i < g->n_tensors && !status; i++) {
        const GgufTensor *a = sorted[i - 1], *b = sorted[i];
        if (a->data + a->bytes > b->data)
            status = fail(e, "%s: tensor %.*s: expected data of its own, found it to overlap %.*s", g->file->path,
                          (int)b->name.n, b->name.s, (int)a->name.n, a->name.s);
    }
    free(sorted);
    return status;
}

int gguf_open(Gguf *g, const File *file, Error *e) {
    enum { SMALLEST_KV = 8 + 1 + 4 + 1, SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 };
    *g = (Gguf){.file = file, .alignment = 32};
    Cursor c = {.file = file, .e = e};
    uint64_t *offset = NULL;
    const unsigned char *magic = take(&c, 4, "magic");
    if (!magic) goto failed;
    if (memcmp(magic, "GGUF", 4) != 0) {
        const char *is = file_diagnose(file);
        fail(e, "%s: magic: expected GGUF, found %.120s", file->path, is ? is : "something else");
        goto failed;
    }
    g->version = take_u32(&c, "version");
    uint64_t n_tensors = take_u64(&c, "tensor count"), n_kv = take_u64(&c, "key count");
    if (c.failed) goto failed;
    if (g->version != 2 && g->version != 3) {
        if (g->version == 2u << 24 || g->version == 3u << 24)
            fail(e, "%s: byte order: expected little-endian, found a big-endian GGUF", file->path);
        else fail(e, "%s: version: expected 2 or 3, found %u", file->path, g->version);
        goto failed;
    }
    size_t left = file->size - c.at;
    if (n_kv > left / SMALLEST_KV) {
        cursor_fail(&c, "key count", "keys that fit the file", (size_t)n_kv);
        goto failed;
    }
    if (n_tensors > left / SMALLEST_TENSOR) {
        cursor_fail(&c, "tensor count", "tensors that fit the file", (size_t)n_tensors);
        goto failed;
    }
    g->n_kv = (size_t)n_kv;
    g->n_tensors = (size_t)n_tensors;
    g->kv = calloc(g->n_kv + 1, sizeof *g->kv);
    g->tensors = calloc(g->n_tensors + 1, sizeof *g->tensors);
    offset = calloc(g->n_tensors + 1, sizeof *offset);
    if (!g->kv || !g->tensors || !offset) {
        fail(e, "%s: memory: expected room for %zu tensors, found none", file->path, g->n_tensors);
        goto failed;
    }
    for (size_t i = 0; i < g->n_kv && !c.failed; i++) read_kv(&c, &g->kv[i]);
    g->kv_end = file->data + c.at;
    for (size_t i = 0; i < g->n_tensors && !c.failed; i++) read_tensor(&c, &g->tensors[i], &offset[i]);
    if (c.failed) goto failed;

    int64_t alignment = (int64_t)g->alignment;
    if (gguf_get_int(g, "general.alignment", &alignment, 1, 1 << 20, e) < 0) goto failed;
    if (alignment % 8) {
        fail(e, "%s: general.alignment: expected a multiple of 8, found %lld", file->path, (long long)alignment);
        goto failed;
    }
    g->alignment = (size_t)alignment;
    size_t start = (c.at + g->alignment - 1) / g->alignment * g->alignment;
    size_t room = start < file->size ? file->size - start : 0, needed = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        if (offset[i] % g->alignment) {
            fail(e, "%s: %.*s: offset: expected a multiple of %zu, found %llu", file->path, (int)t->name.n, t->name.s,
                 g->alignment, (unsigned long long)offset[i]);
            goto failed;
        }
        if (offset[i] > SIZE_MAX / 2) {
            fail(e, "%s: %.*s: offset: expected one inside the file, found %llu", file->path, (int)t->name.n, t->name.s,
                 (unsigned long long)offset[i]);
            goto failed;
        }
        if (needed < offset[i] + t->bytes) needed = offset[i] + t->bytes;
    }
    if (needed > room) {
        fail(e, "%s: data: expected %zu bytes after the header, found %zu: truncated by %zu bytes", file->path, needed,
             room, start + needed - file->size);
        goto failed;
    }
    for (size_t i = 0; i < g->n_tensors; i++) g->tensors[i].data = file->data + start + offset[i];
    if (check_unique(g, e)) goto failed;
    free(offset);
    return 0;
failed:
    free(offset);
    gguf_close(g);
    return -1;
}

void gguf_close(Gguf *g) {
    free(g->kv);
    free(g->tensors);
    *g = (Gguf){0};
}

const GgufKv *gguf_find(const Gguf *g, const char *key) {
    for (size_t i = 0; i < g->n_kv; i++)
        if (gguf_str_is(g->kv[i].key, key)) return &g->kv[i];
    return NULL;
}

const GgufTensor *gguf_tensor(const Gguf *g, const char *name) {
    for (size_t i = 0; i < g->n_tensors; i++)
        if (gguf_str_is(g->tensors[i].name, name)) return &g->tensors[i];
    return NULL;
}

static const char *type_name(GgufType t) {
    static const char *name[GGUF_TYPE_COUNT] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "bool", "string", "array", "u64", "i64", "f64"};
    return name[t];
}

static int wrong_type(const Gguf *g, const char *key, const char *expected, const GgufKv *kv, Error *e) {
    return fail(e, "%s: %s: expected %s, found %s", g->file->path, key, expected, type_name(kv->type));
}

static int64_t load_integer(const GgufKv *kv, bool *is_integer, bool *fits) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } x = {0};
    *is_integer = *fits = true;
    size_t n = scalar_bytes(kv->type);
    if (n) memcpy(&x, kv->value, n);
    switch (kv->type) {
    case GGUF_U8: return x.u8;
    case GGUF_I8: return x.i8;
    case GGUF_U16: return x.u16;
    case GGUF_I16: return x.i16;
    case GGUF_U32: return x.u32;
    case GGUF_I32: return x.i32;
    case GGUF_I64: return x.i64;
    case GGUF_U64: *fits = x.u64 <= INT64_MAX; return (int64_t)(x.u64 & INT64_MAX);
    default: *is_integer = false; return 0;
    }
}

int gguf_get_int(const Gguf *g, const char *key, int64_t *out, int64_t min, int64_t max, Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return 0;
    bool is_integer, fits;
    int64_t x = load_integer(kv, &is_integer, &fits);
    if (!is_integer) return wrong_type(g, key, "an integer", kv, e);
    if (!fits || x < min || x > max)
        return fail(e, "%s: %s: expected %lld to %lld, found %lld", g->file->path, key, (long long)min, (long long)max,
                    (long long)x);
    *out = x;
    return 1;
}

int gguf_get_float(const Gguf *g, const char *key, double *out, Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return 0;
    double x;
    float single;
    if (kv->type == GGUF_F32) {
        memcpy(&single, kv->value, sizeof single);
        x = (double)single;
    } else if (kv->type == GGUF_F64) {
        memcpy(&x, kv->value, sizeof x);
    } else {
        bool is_integer, fits;
        x = (double)load_integer(kv, &is_integer, &fits);
        if (!is_integer) return wrong_type(g, key, "a number", kv, e);
        if (!fits) x += 0x1p63; /* the bit that int64_t has no place for */
    }
    if (!__builtin_isfinite(x)) return fail(e, "%s: %s: expected a finite number, found %g", g->file->path, key, x);
    *out = x;
    return 1;
}

int gguf_get_bool(const Gguf *g, const char *key, bool *out, Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_BOOL) return wrong_type(g, key, "a boolean", kv, e);
    *out = *kv->value != 0;
    return 1;
}

int gguf_get_str(const Gguf *g, const char *key, Str *out, Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_STRING) return wrong_type(g, key, "a string", kv, e);
    *out = (Str){(const char *)kv->value, kv->n};
    return 1;
}

Str gguf_array_next(const unsigned char **cursor) {
    uint64_t n;
    memcpy(&n, *cursor, sizeof n);
    Str s = {(const char *)*cursor + sizeof n, (size_t)n};
    *cursor += sizeof n + (size_t)n;
    return s;
}

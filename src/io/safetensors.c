#include "io/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

enum { MAX_HEADER = 100 << 20 }; /* the reference implementation's limit */

static size_t dtype_bytes(const char *dtype) {
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = {{"F32", 4},  {"F16", 2},     {"BF16", 2},    {"F64", 8}, {"I64", 8}, {"I32", 4},
                 {"I16", 2},  {"I8", 1},      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},
                 {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dtype, known[i].name) == 0) return known[i].bytes;
    return 0;
}

/* A JSON number that is an integer in [0, max]; cJSON holds doubles, exact up to 2^53. */
static int whole(uint64_t *out, const cJSON *item, double max) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > max ||
        item->valuedouble != floor(item->valuedouble))
        return -1;
    *out = (uint64_t)item->valuedouble;
    return 0;
}

static int read_tensor(SafeTensor *t, const cJSON *entry, const unsigned char *data, size_t data_bytes,
                       const char *path, Error *e) {
    const char *name = entry->string;
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    if (!cJSON_IsString(dtype)) return fail(e, "%s: %.64s: dtype: expected a string, found none", path, name);
    size_t each = dtype_bytes(dtype->valuestring);
    if (!each)
        return fail(e, "%s: %.64s: dtype: expected one of the format's, found %.16s", path, name, dtype->valuestring);
    strcpy(t->dtype, dtype->valuestring);
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > 8)
        return fail(e, "%s: %.64s: shape: expected an array of at most 8 sizes, found something else", path, name);
    uint64_t bytes = each, n, from, to;
    const cJSON *item;
    cJSON_ArrayForEach(item, shape) {
        if (whole(&n, item, 0x1p53) || __builtin_mul_overflow(bytes, n, &bytes))
            return fail(e, "%s: %.64s: shape: expected sizes that fit the file, found %g", path, name,
                        item->valuedouble);
        t->dims[t->n_dims++] = (int64_t)n;
    }
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        whole(&from, cJSON_GetArrayItem(offsets, 0), 0x1p53) || whole(&to, cJSON_GetArrayItem(offsets, 1), 0x1p53))
        return fail(e, "%s: %.64s: data_offsets: expected [begin, end], found something else", path, name);
    if (from > to || to > data_bytes)
        return fail(e, "%s: %.64s: data_offsets: expected a range in 0..%zu, found [%llu, %llu]", path, name,
                    data_bytes, (unsigned long long)from, (unsigned long long)to);
    if (to - from != bytes)
        return fail(e, "%s: %.64s: data: expected %llu bytes for its shape and dtype, found %llu", path, name,
                    (unsigned long long)bytes, (unsigned long long)(to - from));
    t->data = data + from;
    t->bytes = (size_t)bytes;
    t->name = strdup(name);
    return t->name ? 0 : fail(e, "%s: memory: expected some, found none", path);
}

/* data_end - where the last tensor ends, as far as the header makes sense. */
static uint64_t data_end(const cJSON *root) {
    uint64_t end = 0, from, to;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, root) {
        const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
        if (cJSON_IsArray(offsets) && !whole(&from, cJSON_GetArrayItem(offsets, 0), 0x1p53) &&
            !whole(&to, cJSON_GetArrayItem(offsets, 1), 0x1p53) && from <= to && to > end)
            end = to;
    }
    return end;
}

static int compare_place(const void *a, const void *b) {
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data) return (x->data > y->data) - (x->data < y->data);
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int safetensors_open(SafeTensors *st, const File *file, Error *e) {
    *st = (SafeTensors){.file = file};
    const char *path = file->path;
    uint64_t header;
    if (file->size < sizeof header)
        return fail(e, "%s: header: expected at least 8 bytes, found %zu", path, file->size);
    memcpy(&header, file->data, sizeof header);
    if (header > file->size - sizeof header || header > MAX_HEADER || header < 2) {
        const char *is = file_diagnose(file);
        if (is) return fail(e, "%s: format: expected safetensors, found %.120s", path, is);
        return fail(e, "%s: header length: expected 2 to %zu, found %llu", path, file->size - sizeof header,
                    (unsigned long long)header);
    }
    const unsigned char *data = file->data + sizeof header + header;
    size_t data_bytes = file->size - sizeof header - (size_t)header;
    cJSON *root = json_parse((const char *)file->data + sizeof header, (size_t)header, path, e);
    if (!root) return -1;
    int status = -1;
    if (!cJSON_IsObject(root)) {
        fail(e, "%s: header: expected an object, found something else", path);
        goto done;
    }
    st->tensors = calloc((size_t)cJSON_GetArraySize(root) + 1, sizeof *st->tensors);
    if (!st->tensors) {
        fail(e, "%s: memory: expected some, found none", path);
        goto done;
    }
    uint64_t end_wanted = data_end(root);
    if (end_wanted > data_bytes && end_wanted - data_bytes < 0x1p40) {
        fail(e, "%s: data: expected %llu bytes after the header, found %zu: truncated by %llu bytes", path,
             (unsigned long long)end_wanted, data_bytes, (unsigned long long)(end_wanted - data_bytes));
        goto done;
    }
    const cJSON *entry;
    cJSON_ArrayForEach(entry, root) {
        if (strcmp(entry->string, "__metadata__") == 0) {
            const cJSON *value;
            if (!cJSON_IsObject(entry)) {
                fail(e, "%s: __metadata__: expected an object, found something else", path);
                goto done;
            }
            cJSON_ArrayForEach(value, entry) {
                if (!cJSON_IsString(value)) {
                    fail(e, "%s: __metadata__: expected strings, found something else", path);
                    goto done;
                }
            }
            continue;
        }
        st->n++;
        if (read_tensor(&st->tensors[st->n - 1], entry, data, data_bytes, path, e)) goto done;
    }
    if (st->n == 0) {
        fail(e, "%s: tensors: expected some, found none", path);
        goto done;
    }
    /* The format leaves no holes: data begins at 0, each tensor where the last one ended. */
    qsort(st->tensors, st->n, sizeof *st->tensors, compare_place);
    const unsigned char *end = data;
    for (size_t i = 0; i < st->n; i++) {
        const SafeTensor *t = &st->tensors[i];
        if (t->data != end) {
            fail(e, "%s: %.64s: data: expected it to begin at %zu, found %zu (%s)", path, t->name, (size_t)(end - data),
                 (size_t)(t->data - data), t->data < end ? "overlap" : "hole");
            goto done;
        }
        end = t->data + t->bytes;
    }
    if (end != data + data_bytes) {
        fail(e, "%s: size: expected the file to end with its last tensor, found %zu more bytes", path,
             (size_t)(data + data_bytes - end));
        goto done;
    }
    status = 0;
done:
    cJSON_Delete(root);
    if (status) safetensors_close(st);
    return status;
}

void safetensors_close(SafeTensors *st) {
    for (size_t i = 0; i < st->n; i++) free(st->tensors[i].name);
    free(st->tensors);
    *st = (SafeTensors){0};
}

const SafeTensor *safetensors_find(const SafeTensors *st, const char *name) {
    for (size_t i = 0; i < st->n; i++)
        if (strcmp(st->tensors[i].name, name) == 0) return &st->tensors[i];
    return NULL;
}

#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/file.h"
#include "base/text.h"

typedef struct {
    const char *key; /* NULL: free */
    uint64_t hash;
} KeySlot;

/* The keys of one object: n open-addressed slots, a power of two, at most three quarters of them used. */
static int check_object(const cJSON *node, KeySlot *slots, size_t n_slots, const char *what, Error *e) {
    HashKey secret = hash_key();
    for (const cJSON *child = node->child; child; child = child->next) {
        uint64_t hash = hash_bytes(secret, child->string, strlen(child->string));
        size_t i = hash & (n_slots - 1);
        for (; slots[i].key; i = (i + 1) & (n_slots - 1))
            if (slots[i].hash == hash && strcmp(slots[i].key, child->string) == 0)
                return fail(e, "%s: key \"%.60s\": expected once, found twice", what, child->string);
        slots[i] = (KeySlot){child->string, hash};
    }
    return 0;
}

/* A key given twice has no meaning that two readers agree on. Recursion is bounded by cJSON's own
 * nesting limit (CJSON_NESTING_LIMIT, 1000). */
static int check_keys(const cJSON *node, const char *what, Error *e) {
    size_t n = 0, n_slots = 8;
    for (const cJSON *child = node->child; child; child = child->next) {
        if (child->child && check_keys(child, what, e)) return -1;
        n++;
    }
    if (!cJSON_IsObject(node) || n < 2) return 0;
    while (n_slots / 4 * 3 < n + 1) n_slots *= 2;
    KeySlot *slots = calloc(n_slots, sizeof *slots);
    if (!slots) return fail(e, "%s: memory: expected some, found none", what);
    int status = check_object(node, slots, n_slots, what, e);
    free(slots);
    return status;
}

/* How many values the text may hold: one before each comma and one in each bracket, outside of strings. No more than
 * `most` are there when strings count too: that is quickly told. */
static size_t count_values(const char *text, size_t size, size_t most) {
    size_t n = 1;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) n += (text[i] == ',') + (text[i] == '[') + (text[i] == '{');
    if (n <= most) return n;
    n = 1;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\') i++;
        else if (text[i] == '"') quoted = !quoted;
        else if (!quoted) n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return n;
}

/* A copy of the text with every \u0000 as C0 80; *size is the new one. NULL: no memory. */
static char *without_nul(const char *text, size_t *size) {
    enum { ESCAPE = 6 };
    char *copy = malloc(*size + 1);
    size_t n = 0;
    for (size_t i = 0; copy && i < *size;) {
        if (*size - i >= ESCAPE && memcmp(text + i, "\\u0000", ESCAPE) == 0) {
            copy[n++] = '\xc0', copy[n++] = '\x80';
            i += ESCAPE;
            continue;
        }
        if (text[i] == '\\' && i + 1 < *size) copy[n++] = text[i++]; /* an escaped backslash begins no escape */
        copy[n++] = text[i++];
    }
    if (copy) *size = n;
    return copy;
}

size_t json_bytes(char *s, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        bool nul = i + 1 < n && s[i] == '\xc0' && s[i + 1] == '\x80';
        s[to++] = nul ? 0 : s[i];
        i += nul;
    }
    s[to] = 0;
    return to;
}

static cJSON *parse(const char *text, size_t size, const char *what, Error *e) {
    const char *end = NULL;
    errno = 0; /* cJSON does not tell a lack of memory from a mistake; malloc does */
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, false);
    if (!root && errno == ENOMEM) {
        fail(e, "%s: JSON: memory: expected some, found none", what);
        return NULL;
    }
    if (!root) {
        fail(e, "%s: JSON: expected a value, found an error at byte %zu of %zu", what, end ? (size_t)(end - text) : 0,
             size);
        return NULL;
    }
    while (end < text + size && strchr(" \t\r\n", *end) && *end) end++;
    if (end < text + size) {
        fail(e, "%s: JSON: expected its end, found more at byte %zu", what, (size_t)(end - text));
    } else if (check_keys(root, what, e) == 0) {
        return root;
    }
    cJSON_Delete(root);
    return NULL;
}

cJSON *json_parse(const char *text, size_t size, const char *what, Error *e) {
    size_t bad;
    if (!utf8_valid(text, size, &bad)) {
        fail(e, "%s: JSON: expected UTF-8, found byte 0x%02x at %zu", what, (unsigned char)text[bad], bad);
        return NULL;
    }
    /* A value takes VALUE_BYTES, though it may be written in two: a file of nothing but zeros would take 40 times its
     * size. */
    enum { VALUE_BYTES = 80, FREE_BYTES = 64 << 20, BYTES_PER_BYTE = 8 };
    size_t most = (FREE_BYTES + BYTES_PER_BYTE * size) / VALUE_BYTES, values = count_values(text, size, most);
    if (values > most) {
        fail(e, "%s: JSON: expected at most %zu values in %zu bytes, found %zu", what, most, size, values);
        return NULL;
    }
    if (!memmem(text, size, "\\u0000", 6)) return parse(text, size, what, e);
    char *copy = without_nul(text, &size);
    cJSON *root = copy ? parse(copy, size, what, e) : NULL;
    if (!copy) fail(e, "%s: JSON: memory: expected some, found none", what);
    free(copy);
    return root;
}

enum { MOST_BYTES = 256 << 20 }; /* whatever the file's name is */

cJSON *json_read(const char *path, Error *e) {
    char *text;
    size_t size;
    if (file_read_most(&text, &size, path, MOST_BYTES, e)) return NULL;
    cJSON *root = json_parse(text, size, path, e);
    free(text);
    return root;
}

static const cJSON *item(const cJSON *object, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found && cJSON_IsNull(found) ? NULL : found;
}

int json_number(double *out, const cJSON *object, const char *key, const char *what, Error *e) {
    const cJSON *found = item(object, key);
    if (!found) return 0;
    if (!cJSON_IsNumber(found) || !isfinite(found->valuedouble))
        return fail(e, "%s: %s: expected a number, found something else", what, key);
    *out = found->valuedouble;
    return 0;
}

int json_int(int *out, const cJSON *object, const char *key, int min, int max, const char *what, Error *e) {
    double x = *out;
    if (!item(object, key)) return 0;
    if (json_number(&x, object, key, what, e)) return -1;
    if (x != floor(x) || x < min || x > max)
        return fail(e, "%s: %s: expected an integer from %d to %d, found %.15g", what, key, min, max, x);
    *out = (int)x;
    return 0;
}

int json_bool(bool *out, const cJSON *object, const char *key, const char *what, Error *e) {
    const cJSON *found = item(object, key);
    if (!found) return 0;
    if (!cJSON_IsBool(found)) return fail(e, "%s: %s: expected true or false, found something else", what, key);
    *out = cJSON_IsTrue(found);
    return 0;
}

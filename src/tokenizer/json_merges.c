#include "tokenizer/json_merges.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/file.h"

/* ---- where the list is ---- */

static char *skip_space(char *s) {
    while (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n') s++;
    return s;
}

/* Behind the string that begins at s; at the end of the text when it has none. */
static char *skip_string(char *s) {
    for (char *end = s; (end = strchr(end + 1, '"'));) {
        size_t n = 0; /* backslashes before it: an odd number escapes it */
        while (end[-1 - (ptrdiff_t)n] == '\\') n++;
        if (n % 2 == 0) return end + 1;
    }
    return s + strlen(s);
}

/* Behind the value that begins at s. What is not well-formed is found later, by the parser. */
static char *skip_value(char *s) {
    int depth = 0;
    while (*s) {
        if (*s == '"') {
            s = skip_string(s);
            if (depth == 0) return s;
            continue;
        }
        if (depth == 0 && strchr(",]} \t\r\n", *s)) return s;
        if (*s == '[' || *s == '{') depth++;
        else if ((*s == ']' || *s == '}') && --depth == 0) return s + 1;
        s++;
    }
    return s;
}

/* The value of a key of the object at s; NULL: it has none. */
static char *find_member(char *s, const char *key) {
    size_t n = strlen(key);
    s = skip_space(s);
    if (*s != '{') return NULL;
    do {
        char *name = skip_space(s + 1), *end = *name == '"' ? skip_string(name) : name;
        bool found = (size_t)(end - name) == n + 2 && memcmp(name + 1, key, n) == 0;
        s = skip_space(end);
        if (*s != ':') return NULL;
        s = skip_space(s + 1);
        if (found) return s;
        s = skip_space(skip_value(s));
    } while (*s == ',');
    return NULL;
}

/* The text of model.merges, malloc'ed; in its place there is null. NULL: it has none or [], or there is no memory. */
static char *take_merges(char *text) {
    char *model = find_member(text, "model"), *begin = model ? find_member(model, "merges") : NULL;
    char *end = begin && *begin == '[' ? skip_value(begin) : begin;
    if (!begin || end - begin < 4) return NULL;
    char *merges = strndup(begin, (size_t)(end - begin));
    if (!merges) return NULL;
    memset(begin, ' ', (size_t)(end - begin));
    memcpy(begin, "null", 4);
    return merges;
}

cJSON *json_read_tokenizer(const char *path, Error *e) {
    char *text;
    size_t size, bad;
    if (file_read(&text, &size, path, e)) return NULL;
    char *merges = memchr(text, 0, size) ? NULL : take_merges(text);
    cJSON *root = NULL;
    if (merges && !utf8_valid(merges, strlen(merges), &bad))
        fail(e, "%s: JSON: expected UTF-8, found byte 0x%02x in model.merges", path, (unsigned char)merges[bad]);
    else root = json_parse(text, size, path, e);
    free(text);
    if (!root || !merges) {
        free(merges);
        return root;
    }
    cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model"), *raw = cJSON_CreateRaw("");
    if (raw) {
        free(raw->valuestring);
        raw->valuestring = merges;
        bool replaced = cJSON_ReplaceItemInObjectCaseSensitive(model, "merges", raw);
        if (replaced && raw->string) return root; /* cJSON does not see that there is no memory for the key */
        if (!replaced) cJSON_Delete(raw);
    } else {
        free(merges);
    }
    fail(e, "%s: JSON: memory: expected some, found none", path);
    cJSON_Delete(root);
    return NULL;
}

/* ---- the list ---- */

size_t merge_text_most(const char *text) {
    size_t n = 0, size = strlen(text);
    for (size_t i = 0; i < size; i++) n += text[i] == '"';
    return n / 2 + 1;
}

/* Four hexadecimal digits, or -1. */
static int hex4(const char *s) {
    int x = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = s[i] ? strchr("0123456789abcdef0123456789ABCDEF", s[i]) : NULL;
        if (!digit) return -1;
        x = x << 4 | ((int)(digit - "0123456789abcdef0123456789ABCDEF") & 15);
    }
    return x;
}

static char *put_code(char *out, unsigned c) {
    if (c < 0x80) return *out++ = (char)c, out;
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(lead[more] | c >> 6 * more);
    while (more-- > 0) *out++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return out;
}

/* The string at *at, unescaped in place, which never makes it longer. */
static bool take_string(char **at, char **s, size_t *n) {
    char *in = *at, *out = in + 1;
    if (*in++ != '"') return false;
    *s = out;
    while (*in && *in != '"') {
        if (*in != '\\') {
            *out++ = *in++;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *plain = in[1] ? strchr(from, in[1]) : NULL;
        if (plain) {
            *out++ = to[plain - from];
            in += 2;
            continue;
        }
        int c = in[1] == 'u' ? hex4(in + 2) : -1, low;
        if (c < 0 || (c >= 0xdc00 && c < 0xe000)) return false;
        in += 6;
        if (c >= 0xd800 && c < 0xdc00) {
            if (in[0] != '\\' || in[1] != 'u' || (low = hex4(in + 2)) < 0xdc00 || low >= 0xe000) return false;
            c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
            in += 6;
        }
        out = put_code(out, (unsigned)c);
    }
    if (!*in) return false;
    *n = (size_t)(out - *s);
    *at = in + 1;
    return true;
}

static bool take(char **at, char c) {
    char *s = skip_space(*at);
    bool found = *s == c;
    *at = found ? skip_space(s + 1) : s;
    return found;
}

int merge_text_next(MergeText *m, char **left, size_t *n_left, char **right, size_t *n_right) {
    if (!m->begun && !take(&m->at, '[')) return -1;
    if (take(&m->at, ']')) return *m->at ? -1 : 0;
    if (m->begun && !take(&m->at, ',')) return -1;
    m->begun = true;
    if (take(&m->at, '[')) {
        bool two = take_string(&m->at, left, n_left) && take(&m->at, ',') && take_string(&m->at, right, n_right);
        return two && take(&m->at, ']') ? 1 : -1;
    }
    if (!take_string(&m->at, left, n_left)) return -1;
    char *space = memchr(*left, ' ', *n_left);
    if (!space) return -1;
    *right = space + 1;
    *n_right = *n_left - (size_t)(space - *left) - 1;
    *n_left = (size_t)(space - *left);
    return memchr(*right, ' ', *n_right) ? -1 : 1;
}

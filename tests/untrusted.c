#include "untrusted.h"

#include <errno.h>
#include <stdio.h>
#include <math.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "chat/jinja.h"
#include "io/file.h"

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #what);                                        \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- The directory ------------------------------------------------------------------------------------ */

enum { MAX_FILES = 16, MAX_NAME = 64 };

static struct {
    char name[MAX_NAME];
    unsigned char *bytes;
    size_t n;
} files[MAX_FILES];
static int n_files;

void memory_clear(void) {
    while (n_files) free(files[--n_files].bytes);
}

static int find(const char *name) {
    int i = 0;
    while (i < n_files && strcmp(files[i].name, name) != 0) i++;
    return i;
}

void memory_put(const char *name, const void *bytes, size_t n) {
    int i = find(name);
    if (i == MAX_FILES || strlen(name) >= MAX_NAME) return; /* an input with more parts than that */
    if (i < n_files) free(files[i].bytes);
    else n_files++;
    strcpy(files[i].name, name);
    MUST(files[i].bytes = malloc(n + 1));
    if (n) memcpy(files[i].bytes, bytes, n);
    files[i].n = n;
}

static const char MARK[] = "%%% ";

/* The next line that begins with MARK, at the start or after a newline; end when there is none. */
static const char *next_mark(const char *at, const char *start, const char *end) {
    for (; (at = memmem(at, (size_t)(end - at), MARK, sizeof MARK - 1)); at++)
        if (at == start || at[-1] == '\n') return at;
    return end;
}

void memory_unpack(const uint8_t *data, size_t n, const char *single) {
    const char *start = (const char *)data, *end = start + n;
    memory_clear();
    if (n < sizeof MARK || memcmp(start, MARK, sizeof MARK - 1) != 0) {
        memory_put(single, data, n);
        return;
    }
    for (const char *at = start; at < end;) {
        char name[MAX_NAME];
        const char *from = at + sizeof MARK - 1, *line_end = memchr(from, '\n', (size_t)(end - from));
        at = next_mark(from, start, end);
        if (!line_end || line_end >= at || line_end - from >= MAX_NAME) continue;
        memcpy(name, from, (size_t)(line_end - from));
        name[line_end - from] = 0;
        if (!name[0]) continue; /* would be the directory itself */
        size_t size = (size_t)(at - line_end) - 1;
        memory_put(name, line_end + 1, at < end && size ? size - 1 : size); /* without the newline before the mark */
    }
}

/* The file behind a path in MEMORY; -1: the path is another directory's; n_files: there is no such file. */
static int in_memory(const char *path) {
    size_t n = strlen(MEMORY);
    if (strncmp(path, MEMORY, n) != 0 || (path[n] && path[n] != '/')) return -1;
    return find(path[n] ? path + n + 1 : "");
}

/* ---- What the readers call instead of the real functions ------------------------------------------------ */

int __real_file_map(File *f, const char *path, Error *e);
int __real_file_read_most(char **data, size_t *size, const char *path, size_t most, Error *e);
void __real_file_close(File *f);
int __real_access(const char *path, int mode);
int __real_stat(const char *path, struct stat *st);
int __wrap_file_map(File *f, const char *path, Error *e);
int __wrap_file_read(char **data, size_t *size, const char *path, Error *e);
int __wrap_file_read_most(char **data, size_t *size, const char *path, size_t most, Error *e);
void __wrap_file_close(File *f);
int __wrap_access(const char *path, int mode);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_file_map(File *f, const char *path, Error *e) {
    int i = in_memory(path);
    if (i < 0) return __real_file_map(f, path, e);
    *f = (File){0};
    if (i == n_files) return fail(e, "%s: file: expected to open it, found %s", path, strerror(ENOENT));
    if (files[i].n == 0) return fail(e, "%s: size: expected a model or tokenizer, found an empty file", path);
    unsigned char *copy = malloc(files[i].n);
    MUST(copy);
    memcpy(copy, files[i].bytes, files[i].n);
    *f = (File){.data = copy, .size = files[i].n, .path = strdup(path)};
    return 0;
}

int __wrap_file_read(char **data, size_t *size, const char *path, Error *e) {
    return __wrap_file_read_most(data, size, path, SIZE_MAX, e);
}

int __wrap_file_read_most(char **data, size_t *size, const char *path, size_t most, Error *e) {
    int i = in_memory(path);
    if (i < 0) return __real_file_read_most(data, size, path, most, e);
    *data = NULL;
    *size = 0;
    if (i == n_files) return fail(e, "%s: file: expected to open it, found %s", path, strerror(ENOENT));
    if (files[i].n > most) return fail(e, "%s: size: expected at most %zu bytes, found %zu", path, most, files[i].n);
    MUST(*data = malloc(files[i].n + 1));
    memcpy(*data, files[i].bytes, files[i].n);
    (*data)[ *size = files[i].n] = 0;
    return 0;
}

void __wrap_file_close(File *f) {
    if (!f->path || in_memory(f->path) < 0) {
        __real_file_close(f);
        return;
    }
    free((void *)(uintptr_t)f->data);
    free((char *)(uintptr_t)f->path);
    *f = (File){0};
}

int __wrap_access(const char *path, int mode) {
    int i = in_memory(path);
    return i < 0 ? __real_access(path, mode) : i < n_files || strcmp(path, MEMORY) == 0 ? 0 : -1;
}

int __wrap_stat(const char *path, struct stat *st) {
    int i = in_memory(path);
    if (i < 0) return __real_stat(path, st);
    *st = (struct stat){.st_mode = i < n_files ? S_IFREG : S_IFDIR};
    return i < n_files || strcmp(path, MEMORY) == 0 ? 0 : -1;
}

/* ---- Files with one more thing in them -------------------------------------------------------------------- */

static size_t put_key(char *out, const char *key, uint32_t type, const void *value, size_t n_value) {
    uint64_t length = strlen(key);
    memcpy(out, &length, 8);
    memcpy(out + 8, key, length);
    memcpy(out + 8 + length, &type, 4);
    memcpy(out + 12 + length, value, n_value);
    return 12 + length + n_value;
}

char *gguf_with_key(const char *data, size_t n, const char *key, uint32_t type, const void *value, size_t n_value,
                    size_t *n_out) {
    enum { COUNT = 16, HEADER = 24, ALIGNMENT = 32 }; /* magic, version, tensors, keys */
    char filler[8 + ALIGNMENT] = {0}, *out = calloc(1, n + strlen(key) + n_value + 256);
    uint64_t keys;
    MUST(out && n >= HEADER);
    memcpy(out, data, HEADER);
    memcpy(&keys, data + COUNT, sizeof keys);
    keys += 2;
    memcpy(out + COUNT, &keys, sizeof keys);
    size_t at = HEADER + put_key(out + HEADER, key, type, value, n_value);
    size_t end = at + 12 + strlen("filler") + 8 - HEADER;
    filler[0] = (char)(ALIGNMENT - end % ALIGNMENT); /* a string of so many NULs */
    at += put_key(out + at, "filler", GGUF_STRING, filler, 8 + (size_t)filler[0]);
    memcpy(out + at, data + HEADER, n - HEADER);
    *n_out = at + n - HEADER;
    return out;
}

/* ---- Using what was accepted ---------------------------------------------------------------------------- */

Error outcome;

void check_outcome(const char *path) {
    if (!outcome.text[0]) return;
    const char *expected = strstr(outcome.text, "expected"), *slash = strrchr(path, '/');
    /* A file beside it may be the one that is wrong: the directory is the same. */
    bool named = strncmp(outcome.text, path, slash ? (size_t)(slash - path) + 1 : strlen(path)) == 0;
    /* A name of hundreds of bytes may have cut the sentence; the file comes first. */
    bool cut = strlen(outcome.text) == sizeof outcome.text - 1;
    if (named && !strchr(outcome.text, '\n') && (cut || (expected && strstr(expected, "found")))) return;
    fprintf(stderr, "a message without file, expectation or finding: '%s'\n", outcome.text);
    abort();
}

static const char text[] = "Hello  wor<s>ld\xff, \xe2\x96\x81na\xc3\xafve caf\xc3\xa9 <|im_start|>user\n "
                           "12<0x41>\r\n\t</s> \xf0\x9f\x98\x80 e\xcc\x81 "
                           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA "
                           "llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll";

/* A piece as -m tokenize --json prints it: a JSON string. */
static void check_json(const Tokenizer *t, int id) {
    char *json = NULL;
    size_t size = 0, length;
    const char *piece = tokenizer_piece(t, id, &length);
    FILE *f = open_memstream(&json, &size);
    MUST(f);
    text_print_json(f, piece, length);
    MUST(fclose(f) == 0);
    cJSON *string = cJSON_ParseWithOpts(json, NULL, true);
    MUST(cJSON_IsString(string));
    cJSON_Delete(string);
    free(json);
}

/* The text is any; the ids must be tokens, and decode to bytes that exist. */
static void use_open_tokenizer(const Tokenizer *t) {
    int *ids, n, eos[16];
    unsigned sum = 0;
    for (unsigned flags = 0; flags < 8; flags += 7) {
        Error slow = {0}; /* an expression that takes too long is refused here, of no file */
        if (tokenizer_encode(t, text, sizeof text - 1, flags, &ids, &n, &slow)) continue;
        for (int i = 0; i < n; i++) {
            const char *bytes, *piece;
            char buf[8];
            size_t length;
            MUST(ids[i] >= 0 && ids[i] < tokenizer_vocab_size(t));
            piece = tokenizer_piece(t, ids[i], &length);
            for (size_t k = 0; k < length; k++) sum += (unsigned char)piece[k];
            length = tokenizer_decode(t, i ? ids[i - 1] : -1, ids[i], &bytes, buf);
            for (size_t k = 0; k < length; k++) sum += (unsigned char)bytes[k];
            if (i < 32) check_json(t, ids[i]);
        }
        free(ids);
    }
    n = tokenizer_eos(t, eos);
    for (int i = 0; i < n; i++) MUST(eos[i] >= 0 && eos[i] < tokenizer_vocab_size(t));
    MUST(tokenizer_bos(t) >= -1 && tokenizer_bos(t) < tokenizer_vocab_size(t));
    const char *jinja = tokenizer_chat_template(t);
    if (jinja) {
        const Message m = {ROLE_USER, (char[]){"Hi"}, 2};
        ChatText rendered;
        Error e = {0};
        int status = jinja_render(&rendered, jinja, strlen(jinja),
                                  &(JinjaInput){.messages = &m, .n_messages = 1, .max_steps = 20000}, &e);
        MUST((status != 0) == (e.text[0] != 0));
        chat_text_close(&rendered);
    }
    volatile unsigned used = sum;
    (void)used;
}

void use_tokenizer(const char *path) {
    outcome = (Error){0};
    Tokenizer *t = tokenizer_open(path, &outcome);
    if (t) use_open_tokenizer(t);
    tokenizer_close(t);
    MUST(!t == (outcome.text[0] != 0));
    check_outcome(path);
}

/* The logits of two tokens at a CPU level, malloc'ed; NULL: refused. */
static float *logits_at(const Config *config, const Weights *weights, const Kernels *kernels) {
    Model m;
    State s;
    model_init(&m, config, weights);
    int n = config->n_ctx < 2 ? config->n_ctx : 2;
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = 1, .kv_type = KV_F32, .kernels = kernels};
    if (state_init(&s, &m, &options, &outcome)) return NULL;
    model_forward(&m, &s, (int[]){0, config->vocab_size - 1}, n, 0);
    float *copy = malloc((size_t)config->vocab_size * sizeof *copy);
    MUST(copy);
    memcpy(copy, model_logits(&m, &s, n - 1), (size_t)config->vocab_size * sizeof *copy);
    state_close(&s);
    return copy;
}

/* Runs it; a tame model (weights of ordinary size) has the same logits at the best CPU level as by the reference. Not
 * where int8 activations come in: what they may cost depends on the weights. */
static void run_two_tokens(const Config *config, const Weights *weights, bool tame) {
    Model m;
    model_init(&m, config, weights);
    float *best = logits_at(config, weights, kernels_best()), *ref = NULL, size = 1;
    if (best && tame && !m.int8) ref = logits_at(config, weights, &kernels_ref);
    for (int i = 0; ref && i < config->vocab_size; i++) size = fmaxf(size, fabsf(ref[i]));
    for (int i = 0; ref && i < config->vocab_size; i++)
        MUST(fabsf(best[i] - ref[i]) <= 0.05f * size || (!isfinite(ref[i]) && !isfinite(best[i])));
    free(best);
    free(ref);
}

void use_model(const char *path) {
    Checkpoint ck;
    Config config;
    Weights weights;
    outcome = (Error){0};
    if (checkpoint_open(&ck, path, &outcome) == 0 && checkpoint_bind(&ck, &config, &weights, &outcome) == 0) {
        bool tame = true;
        for (size_t i = 0; i < ck.n_tensors; i++) {
            const Mat *w = &ck.tensors[i].mat;
            float *row = malloc((size_t)w->cols * sizeof *row);
            MUST(row);
            for (int r = 0; r < w->rows; r++) {
                mat_dequantize_row(row, w, r);
                for (int k = 0; k < w->cols; k++) tame &= fabsf(row[k]) <= 4; /* not with NaN */
            }
            free(row);
        }
        run_two_tokens(&config, &weights, tame);
        if (!outcome.text[0] && ck.format == FORMAT_GGUF && gguf_find(&ck.gguf, "tokenizer.ggml.model")) {
            Tokenizer *t = tokenizer_from_gguf(&ck.gguf, &outcome);
            if (t) use_open_tokenizer(t);
            tokenizer_close(t);
        }
    }
    checkpoint_close(&ck);
    check_outcome(path);
}

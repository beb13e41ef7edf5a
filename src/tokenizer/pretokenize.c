#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretokenize.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPRESSIONS = 16 };

struct Pretokenizer {
    pcre2_code *codes[MAX_EXPRESSIONS];
    Split splits[MAX_EXPRESSIONS];
    int n;
};

#define GPT2 "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"                \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char GPT2_PATTERN[] = GPT2;

/* Source: the tokenizer.json of a model of each family. */
static const struct {
    const char *name;
    const char *patterns[3];
    bool ignore_merges, nfc;
} NAMED[] = {
    {"default", {GPT2}, false, false}, {"gpt-2", {GPT2}, false, false},
    {"gpt2", {GPT2}, false, false},    {"smollm", {"\\p{N}", GPT2}, false, false},
    {"qwen2", {QWEN2}, false, true},   {"llama-bpe", {LLAMA3}, true, false},
    {"llama3", {LLAMA3}, true, false}, {"llama-v3", {LLAMA3}, true, false},
};

/* PCRE2's \s has U+180E, which Unicode took out of White_Space in 2013. So \s and \S are written out. */
#define WHITE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* malloc'ed; NULL when out of memory. A \S inside a class is left to PCRE2. */
static char *spell_out_spaces(const char *pattern, size_t n, size_t *n_out) {
    char *out = malloc(n * sizeof "[^" WHITE "]" + 1);
    if (!out) return NULL;
    size_t k = 0;
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        const char *put = NULL;
        if (pattern[i] == '\\' && i + 1 < n) {
            char c = pattern[i + 1];
            if (c == 's') put = in_class ? WHITE : "[" WHITE "]";
            if (c == 'S' && !in_class) put = "[^" WHITE "]";
            if (!put) out[k++] = pattern[i], out[k++] = c;
            i++;
        } else {
            if (pattern[i] == '[') in_class = true;
            if (pattern[i] == ']') in_class = false;
            out[k++] = pattern[i];
        }
        if (put) memcpy(out + k, put, strlen(put)), k += strlen(put);
    }
    *n_out = k;
    return out;
}

Pretokenizer *pretokenizer_new(void) { return calloc(1, sizeof(Pretokenizer)); }

void pretokenizer_free(Pretokenizer *p) {
    for (int i = 0; p && i < p->n; i++) pcre2_code_free(p->codes[i]);
    free(p);
}

int pretokenizer_count(const Pretokenizer *p) { return p->n; }

/* NULL: it is no expression, or (PCRE2_ERROR_HEAP_FAILED) there is no memory. */
static pcre2_code *compile(const char *pattern, size_t n, bool literal, int *error) {
    size_t where, n_spelled;
    if (literal) return pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_LITERAL, error, &where, NULL);
    char *spelled = spell_out_spaces(pattern, n, &n_spelled);
    *error = PCRE2_ERROR_HEAP_FAILED;
    if (!spelled) return NULL;
    /* \C would cut inside of a character, and what is cut again is not looked at for its UTF-8. */
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)spelled, n_spelled,
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, error, &where, NULL);
    free(spelled);
    return compiled;
}

int pretokenizer_add(Pretokenizer *p, const char *pattern, size_t n, Split split, const char *file, Error *e) {
    if (p->n == MAX_EXPRESSIONS)
        return fail(e, "%s: pre_tokenizer: expected at most %d expressions, found more", file, MAX_EXPRESSIONS);
    int code;
    pcre2_code *compiled = compile(pattern, n, split.literal, &code);
    if (!compiled && code == PCRE2_ERROR_HEAP_FAILED) return fail(e, "%s: memory: expected some, found none", file);
    if (!compiled) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return fail(e, "%s: pre_tokenizer: expected a regular expression, found \"%.*s\" (%s)", file,
                    n > 60 ? 60 : (int)n, pattern, (char *)why);
    }
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE); /* without it the interpreter matches the same */
    p->splits[p->n] = split;
    p->codes[p->n++] = compiled;
    return 0;
}

int pretokenizer_add_named(Pretokenizer *p, const char *name, size_t n, bool *ignore_merges, bool *nfc,
                           const char *file, Error *e) {
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED; i++) {
        if (strlen(NAMED[i].name) != n || memcmp(NAMED[i].name, name, n) != 0) continue;
        *ignore_merges = NAMED[i].ignore_merges;
        *nfc = NAMED[i].nfc;
        for (int k = 0; k < 3 && NAMED[i].patterns[k]; k++)
            if (pretokenizer_add(p, NAMED[i].patterns[k], strlen(NAMED[i].patterns[k]), (Split){0}, file, e)) return -1;
        return 0;
    }
    return fail(e, "%s: tokenizer.ggml.pre: expected gpt-2, smollm, llama-bpe or qwen2, found \"%.*s\"", file,
                n > 60 ? 60 : (int)n, name);
}

typedef struct {
    const Pretokenizer *p;
    pcre2_match_context *context;
    pcre2_match_data *data[MAX_EXPRESSIONS];
    int (*word)(void *arg, const char *s, size_t n, Error *e);
    void *arg;
    Error *e;
} Cutter;

/* Row - the pieces of one cut in order: the last one waits, since the next may join it. */
typedef struct {
    size_t begin, end; /* of the last piece */
    bool any, match;   /* is there one, and was its last part a match? */
} Row;

static bool joins(Behavior b, bool before, bool now) {
    return (b == SPLIT_CONTIGUOUS && before == now) || (b == SPLIT_MERGED_WITH_PREVIOUS && !before && now) ||
           (b == SPLIT_MERGED_WITH_NEXT && before && !now);
}

static int cut(Cutter *c, int level, const char *s, size_t n);

/* The next part, a match or what lies between two (which is not told when it is empty; an empty match is). */
static int add_part(Cutter *c, int level, Row *row, const char *s, size_t begin, size_t end, bool match) {
    Split split = c->p->splits[level];
    match ^= split.invert;
    if (row->any && joins(split.behavior, row->match, match)) {
        row->end = end;
    } else {
        if (row->any && cut(c, level + 1, s + row->begin, row->end - row->begin)) return -1;
        *row = (Row){.begin = begin, .end = match && split.behavior == SPLIT_REMOVED ? begin : end, .any = true};
    }
    row->match = match;
    return 0;
}

/* The parts of a piece; an empty one is none. */
static int cut(Cutter *c, int level, const char *s, size_t n) {
    if (n == 0) return 0;
    if (level == c->p->n) return c->word(c->arg, s, n, c->e);
    size_t done = 0, from = 0;
    Row row = {.any = false};
    bool matches = false; /* was there one, which ended at `done`? */
    while (from <= n) {
        int matched =
            pcre2_match(c->p->codes[level], (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, c->data[level], c->context);
        if (matched == PCRE2_ERROR_NOMATCH) break;
        if (matched < 0) {
            PCRE2_UCHAR why[128] = "";
            pcre2_get_error_message(matched, why, sizeof why);
            return fail(c->e, "text: pre-tokenizer: expected a match in reasonable time, found: %s", (char *)why);
        }
        const size_t *span = pcre2_get_ovector_pointer(c->data[level]);
        size_t begin = span[0], end = span[1];
        if (end < begin || begin < from || (begin == end && matches && end == done)) { /* empty right behind a match */
            for (from++; from < n && ((unsigned char)s[from] & 0xc0) == 0x80;) from++;
            continue;
        }
        if (begin > done && add_part(c, level, &row, s, done, begin, false)) return -1;
        if (add_part(c, level, &row, s, begin, end, true)) return -1;
        matches = true;
        done = from = end;
    }
    if (done < n && add_part(c, level, &row, s, done, n, false)) return -1;
    return cut(c, level + 1, s + row.begin, row.end - row.begin);
}

int pretokenize(const Pretokenizer *p, const char *text, size_t n,
                int (*word)(void *arg, const char *s, size_t n, Error *e), void *arg, Error *e) {
    if (p->n == 0) return n ? word(arg, text, n, e) : 0;
    Cutter c = {.p = p, .word = word, .arg = arg, .e = e};
    pcre2_jit_stack *stack = pcre2_jit_stack_create(32 << 10, 8 << 20, NULL);
    c.context = pcre2_match_context_create(NULL);
    int status = 0;
    bool ok = c.context != NULL;
    for (int i = 0; i < p->n && ok; i++) ok = (c.data[i] = pcre2_match_data_create(1, NULL)) != NULL;
    if (!ok) {
        status = fail(e, "text: memory: expected some for the pre-tokenizer, found none");
    } else {
        /* A match may take some thousand steps a byte, never time without end. */
        pcre2_set_match_limit(c.context, 50000000);
        pcre2_set_heap_limit(c.context, 256 << 10); /* KiB */
        if (stack) pcre2_jit_stack_assign(c.context, NULL, stack);
        status = cut(&c, 0, text, n);
    }
    for (int i = 0; i < p->n; i++) pcre2_match_data_free(c.data[i]);
    pcre2_match_context_free(c.context);
    pcre2_jit_stack_free(stack);
    return status;
}

#include "tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/vocab.h"

static void step_close(NormalizeStep *step) {
    free(step->text);
    regex_free(step->match);
    charsmap_close(&step->charsmap);
}

int normalizer_add(Normalizer *z, NormalizeStep step, const char *file, Error *e) {
    if (z->n < MAX_STEPS) {
        z->steps[z->n++] = step;
        return 0;
    }
    step_close(&step);
    return fail(e, "%s: normalizer: expected at most %d steps, found more", file, MAX_STEPS);
}

void normalizer_close(Normalizer *z) {
    for (int i = 0; i < z->n; i++) step_close(&z->steps[i]);
    *z = (Normalizer){0};
}

static int replace(const NormalizeStep *step, RegexSpace *space, const char *text, size_t n, Bytes *out, Error *e) {
    RegexCursor cursor = {0};
    size_t done = 0, begin, end;
    int found;
    while ((found = regex_next(step->match, space, text, n, &cursor, &begin, &end, e)) > 0) {
        if (bytes_add(out, text + done, begin - done, e) || bytes_add(out, step->text, step->n, e)) return -1;
        done = end;
    }
    return found < 0 ? -1 : bytes_add(out, text + done, n - done, e);
}

static int strip(const NormalizeStep *step, const char *text, size_t n, Bytes *out, Error *e) {
    size_t begin = 0, length;
    while (step->left && begin < n && is_white_space(char_at(text, n, begin, &length))) begin += length;
    while (step->right && n > begin && is_white_space(char_before(text, n, &length))) n -= length;
    return bytes_add(out, text + begin, n - begin, e);
}

static bool between(int c, int first, int last) { return c >= first && c <= last; }

/* CJK Unified Ideographs and their extensions, as BERT has them. */
static bool is_chinese(int c) {
    return between(c, 0x4e00, 0x9fff) || between(c, 0x3400, 0x4dbf) || between(c, 0x20000, 0x2a6df) ||
           between(c, 0x2a700, 0x2b73f) || between(c, 0x2b740, 0x2b81f) || between(c, 0x2b920, 0x2ceaf) ||
           between(c, 0xf900, 0xfaff) || between(c, 0x2f800, 0x2fa1f);
}

/* What one character becomes; -1: nothing. */
static int nmt(int c) {
    if (between(c, 1, 8) || c == 0xb || between(c, 0xe, 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return -1;
    bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || between(c, 0x200b, 0x200f) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    return space ? ' ' : c;
}

static int clean(int c) {
    if (c == '\t' || c == '\n' || c == '\r') return ' ';
    if (c == 0 || c == 0xfffd || is_control(c)) return -1;
    return is_white_space(c) ? ' ' : c;
}

static int each_char(const NormalizeStep *step, const char *text, size_t n, Bytes *out, Error *e) {
    for (size_t i = 0, length; i < n; i += length) {
        int c = char_at(text, n, i, &length), now = c;
        switch (step->kind) {
        case NORMALIZE_NMT: now = nmt(c); break;
        case NORMALIZE_CLEAN: now = clean(c); break;
        case NORMALIZE_DROP_MARKS: now = (step->only_nonspacing ? is_nonspacing(c) : is_mark(c)) ? -1 : c; break;
        default: break;
        }
        bool spaced = step->kind == NORMALIZE_SPACE_CHINESE && is_chinese(c);
        if (spaced && bytes_add(out, " ", 1, e)) return -1;
        if (now == c ? bytes_add(out, text + i, length, e) : now >= 0 && bytes_add_char(out, (unsigned)now, e))
            return -1;
        if (spaced && bytes_add(out, " ", 1, e)) return -1;
    }
    return 0;
}

static int letters(const char *text, size_t n, Bytes *out, Error *e) {
    for (size_t i = 0; i < n; i++) {
        char letter[2];
        if (bytes_add(out, letter, byte_letter((unsigned char)text[i], letter), e)) return -1;
    }
    return 0;
}

static int apply(const NormalizeStep *step, RegexSpace *space, const char *text, size_t n, Bytes *out, Error *e) {
    switch (step->kind) {
    case NORMALIZE_FORM: return normal_form(step->form, text, n, out, e);
    case NORMALIZE_PREPEND: return bytes_add(out, step->text, step->n, e) || bytes_add(out, text, n, e) ? -1 : 0;
    case NORMALIZE_REPLACE: return replace(step, space, text, n, out, e);
    case NORMALIZE_LOWERCASE: return lower_case(text, n, out, e);
    case NORMALIZE_STRIP: return strip(step, text, n, out, e);
    case NORMALIZE_CHARSMAP: return charsmap_apply(&step->charsmap, text, n, out, e);
    case NORMALIZE_LETTERS: return letters(text, n, out, e);
    case NORMALIZE_DROP_MARKS:
    case NORMALIZE_NMT:
    case NORMALIZE_CLEAN:
    case NORMALIZE_SPACE_CHINESE: break;
    }
    return each_char(step, text, n, out, e);
}

int normalize(const Normalizer *z, RegexSpace *space, const char *text, size_t n, char **out, size_t *n_out, Error *e) {
    Bytes now = {.left = regex_space_bytes(space)}, next = now;
    int status = bytes_add(&now, text, n, e);
    for (int i = 0; i < z->n && now.n && !status; i++) { /* nothing comes of nothing, PREPEND included */
        status = bytes_add(&next, "", 0, e) || apply(&z->steps[i], space, now.s, now.n, &next, e) ? -1 : 0;
        Bytes done = now;
        now = next;
        next = done;
        next.n = 0;
    }
    bytes_close(&next);
    if (status) bytes_close(&now);
    *out = now.s;
    *n_out = now.n;
    return status;
}

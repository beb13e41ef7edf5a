#include "tokenizer/regex.h"

#include <oniguruma.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tokenizer/bytes.h"

/* A step is a place where the engine goes back to try another way. A search first gets FIRST_STEPS. When they do not
 * suffice, each place where the match may begin is tried by itself, with GROWTH times as many steps as long as they do
 * not suffice; those are charged to the text's budget. So a byte costs at most FIRST_STEPS for each search that begins
 * there (two) and as many for itself, and its part of the budget. */
enum { FIRST_STEPS = 64, GROWTH = 4, BASE_STEPS = 2000000, STEPS_PER_BYTE = 128 };
/* The way forward between two steps may be as long as the text (`a(?=[\s\S]*+)`, `(?>a*)c`): a second budget, of
 * processor time, looked at once a millisecond. */
enum { LOOK_NS = 1000000, BASE_NS = 200000000, NS_PER_BYTE = 8000 };
/* Entries of some 40 bytes on the engine's stack. */
enum { BASE_STACK = 1 << 20 };

struct Regex {
    OnigRegex code;
    char *literal; /* [n] instead of code, unless it is empty */
    size_t n;
};

struct RegexSpace {
    OnigRegion region; /* its arrays are owned here: the engine loses them when memory runs out */
    OnigMatchParam *limits;
    uint64_t steps;         /* left */
    size_t bytes;           /* left */
    int64_t deadline, look; /* look: when to read the thread's clock again, which takes a system call */
};

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static int64_t thread_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

static bool late(RegexSpace *s) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now < s->look) return false;
    s->look = now + LOOK_NS;
    return thread_ns() > s->deadline;
}

static OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};

/* The end of a character class, which may hold others, or of the pattern. */
static const char *skip_class(const char *s, const char *end) {
    for (int depth = 0; s < end; s++) {
        if (*s == '\\') s++;
        else if (*s == '[') depth++;
        else if (*s == ']' && --depth == 0) return s;
    }
    return end;
}

/* Does a lookaround that repeats stand inside of a repetition? Each round of the outer one reads the text anew, in one
 * match and without a step: `((?=.*+).)*`. Such a lookaround with a call (\g) may be inside of one too. */
static bool rereads(const char *s, size_t n) {
    enum { DEPTH = 256 };
    struct {
        bool looks, repeats, rereads; /* is a lookaround; has a repetition; holds a lookaround that has one */
    } group[DEPTH] = {{0}};
    int depth = 0;
    bool calls = false, any = false;
    for (const char *end = s + n; s < end; s++) {
        bool closed = false;
        size_t left = (size_t)(end - s);
        int inner = depth;
        if (*s == '\\') {
            calls |= left > 1 && s[1] == 'g';
            s++;
        } else if (*s == '[') {
            s = skip_class(s, end);
        } else if (*s == '(') {
            if (++depth == DEPTH) return true;
            group[depth].looks =
                left > 2 && s[1] == '?' && (strchr("=!~", s[2]) || (left > 3 && s[2] == '<' && strchr("=!", s[3])));
            group[depth].repeats = left > 2 && s[1] == '?' && s[2] == '~';
            group[depth].rereads = false;
            if (left > 2 && s[1] == '?') s += 2;
            continue;
        } else if (*s == ')' && depth > 0) {
            closed = true;
            depth--;
        }
        bool repeated = s + 1 < end && strchr("*+{", s[1]) && s[1];
        if (repeated) group[depth].repeats = true;
        if (!closed) continue;
        bool again = group[inner].rereads || (group[inner].looks && group[inner].repeats);
        if (repeated && again) return true;
        group[depth].repeats |= group[inner].repeats;
        group[depth].rereads |= again;
        any |= again;
    }
    return any && calls;
}

/* Since Oniguruma 6.9.9 [:punct:] has the symbols too. A malloc'ed copy of the pattern with that spelled out; NULL when
 * out of memory. */
static char *spell_punct(const char *pattern, size_t n, size_t *n_out) {
    static const struct {
        const char *name, *meaning;
    } spelled[] = {{"[:punct:]", "\\p{P}\\p{S}"}, {"[:^punct:]", "[^\\p{P}\\p{S}]"}};
    char *out = n < SIZE_MAX / 2 ? malloc(2 * n + 1) : NULL; /* no meaning is twice as long as its name */
    size_t k = 0;
    for (size_t i = 0; out && i < n;) {
        size_t before = i;
        for (int p = 0; p < 2 && i == before; p++) {
            size_t n_name = strlen(spelled[p].name), n_meaning = strlen(spelled[p].meaning);
            if (n - i < n_name || memcmp(pattern + i, spelled[p].name, n_name) != 0) continue;
            memcpy(out + k, spelled[p].meaning, n_meaning);
            k += n_meaning;
            i += n_name;
        }
        if (i > before) continue;
        if (pattern[i] == '\\' && i + 1 < n) out[k++] = pattern[i++];
        out[k++] = pattern[i++];
    }
    *n_out = k;
    return out;
}

Regex *regex_new(const char *pattern, size_t n, bool literal, const char *what, Error *e) {
    if (!literal && n > REGEX_BYTES) {
        fail(e, "%s: expected an expression of at most %d bytes, found %zu", what, REGEX_BYTES, n);
        return NULL;
    }
    if (!literal && rereads(pattern, n)) {
        fail(e, "%s: expected no lookaround that repeats inside of a repetition, found \"%.*s\"", what,
             n > 60 ? 60 : (int)n, pattern);
        return NULL;
    }
    Regex *r = calloc(1, sizeof *r);
    if (r && literal && n) {
        r->literal = malloc(n);
        r->n = n;
        if (r->literal) return memcpy(r->literal, pattern, n), r;
        regex_free(r);
        r = NULL;
    }
    /* Oniguruma does not survive a failed allocation while it compiles an expression. So the memory is reserved before:
     * \p{L} takes some thousand bytes a letter of the expression. */
    void *reserve = r && n < SIZE_MAX >> 16 ? malloc((1 << 20) + 4096 * n) : NULL;
    if (!reserve) {
        free(r);
        r = NULL;
    }
    free(reserve);
    size_t n_spelled;
    char *spelled = r ? spell_punct(pattern, n, &n_spelled) : NULL;
    OnigErrorInfo info = {0};
    const OnigUChar *begin = (const OnigUChar *)spelled;
    int status = spelled ? onig_initialize(encodings, 1) : ONIGERR_MEMORY;
    if (status == ONIG_NORMAL)
        status =
            onig_new(&r->code, begin, begin + n_spelled, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
    OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
    if (status != ONIG_NORMAL) onig_error_code_to_str(why, status, &info); /* which may look at the pattern */
    free(spelled);
    if (status == ONIG_NORMAL) return r;
    free(r);
    if (status == ONIGERR_MEMORY) {
        fail(e, "%s: memory: expected some for an expression, found none", what);
        return NULL;
    }
    fail(e, "%s: expected a regular expression, found \"%.*s\" (%.120s)", what, n > 60 ? 60 : (int)n, pattern,
         (char *)why);
    return NULL;
}

void regex_free(Regex *r) {
    if (!r) return;
    if (r->code) onig_free(r->code);
    free(r->literal);
    free(r);
}

RegexSpace *regex_space_new(size_t n_bytes) {
    RegexSpace *s = malloc(sizeof *s);
    if (!s) return NULL;
    *s = (RegexSpace){.limits = onig_new_match_param(),
                      .bytes = text_allowance(n_bytes),
                      .steps = BASE_STEPS + STEPS_PER_BYTE * (uint64_t)n_bytes,
                      .deadline = thread_ns() + BASE_NS + NS_PER_BYTE * (int64_t)n_bytes};
    if (s->limits) {
        onig_initialize_match_param(s->limits);
        size_t stack = BASE_STACK + n_bytes / 8;
        onig_set_match_stack_limit_size_of_match_param(s->limits, stack > INT32_MAX ? INT32_MAX : (unsigned)stack);
        return s;
    }
    regex_space_free(s);
    return NULL;
}

size_t *regex_space_bytes(RegexSpace *s) { return &s->bytes; }

void regex_space_free(RegexSpace *s) {
    if (!s) return;
    free(s->region.beg);
    free(s->region.end);
    if (s->limits) onig_free_match_param(s->limits);
    free(s);
}

/* Room for the captures of an expression and its match. */
static bool reserve_region(OnigRegion *region, int n) {
    if (n < ONIG_NREGION) n = ONIG_NREGION; /* the engine would do so */
    if (n <= region->allocated) return true;
    int *begin = realloc(region->beg, (size_t)n * sizeof *begin);
    if (begin) region->beg = begin;
    int *end = begin ? realloc(region->end, (size_t)n * sizeof *end) : NULL;
    if (!end) return false;
    region->end = end;
    region->allocated = n;
    return true;
}

static bool too_long(int at) {
    return at == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER || at == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER;
}

static void limit_steps(RegexSpace *space, unsigned long steps) {
    onig_set_retry_limit_in_match_of_match_param(space->limits, steps);
    onig_set_retry_limit_in_search_of_match_param(space->limits, steps);
}

/* Where the match begins when it is at this place, or an error. */
static int match_at(const Regex *r, RegexSpace *space, const char *text, size_t n, size_t at, OnigOptionType options) {
    const OnigUChar *begin = (const OnigUChar *)text;
    int64_t before = 0, now = 0;
    for (unsigned long steps = FIRST_STEPS;; steps *= GROWTH) {
        limit_steps(space, steps);
        int length =
            onig_match_with_param(r->code, begin, begin + n, begin + at, &space->region, options, space->limits);
        if (length >= 0) return (int)at;
        if (!too_long(length)) return length;
        before = now ? now : thread_ns();
        now = thread_ns();
        if (space->steps < steps * GROWTH || now + (now - before) * (GROWTH - 1) > space->deadline) return length;
        space->steps -= steps * GROWTH;
    }
}

/* Where the next match begins, or an error; its end is in the region. Within the budgets. */
static int search(const Regex *r, RegexSpace *space, const char *text, size_t n, size_t from) {
    const OnigUChar *begin = (const OnigUChar *)text, *end = begin + n;
    if (!reserve_region(&space->region, onig_number_of_captures(r->code) + 1)) return ONIGERR_MEMORY;
    if (late(space)) return ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
    limit_steps(space, FIRST_STEPS);
    int at =
        onig_search_with_param(r->code, begin, end, begin + from, end, &space->region, ONIG_OPTION_NONE, space->limits);
    if (!too_long(at)) return at;
    OnigOptionType options = ONIG_OPTION_NONE;
    for (size_t i = from; !late(space); options = ONIG_OPTION_NOT_BEGIN_POSITION) { /* \G is where the search began */
        at = match_at(r, space, text, n, i, options);
        if (at != ONIG_MISMATCH || i == n) return at;
        for (i++; i < n && ((unsigned char)text[i] & 0xc0) == 0x80;) i++;
    }
    return ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

int regex_next(const Regex *r, RegexSpace *space, const char *text, size_t n, RegexCursor *cursor, size_t *begin,
               size_t *end, Error *e) {
    while (cursor->from <= n) {
        const char *hit = r->literal ? memmem(text + cursor->from, n - cursor->from, r->literal, r->n) : NULL;
        if (hit) {
            *begin = (size_t)(hit - text);
            cursor->from = *end = *begin + r->n;
            return 1;
        }
        int at = r->literal ? ONIG_MISMATCH : search(r, space, text, n, cursor->from);
        if (at == ONIG_MISMATCH) return 0;
        if (at == ONIGERR_MEMORY) return fail(e, "text: memory: expected some for an expression, found none");
        if (at < 0) {
            OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
            onig_error_code_to_str(why, at);
            return fail(e, "text: expression: expected a match in reasonable time, found: %s", (char *)why);
        }
        *begin = (size_t)space->region.beg[0];
        *end = (size_t)space->region.end[0];
        bool again = *begin == *end && cursor->any && *end == cursor->end;
        cursor->from = *end;
        if (!again) {
            cursor->any = true;
            cursor->end = *end;
            return 1;
        }
        for (cursor->from++; cursor->from < n && ((unsigned char)text[cursor->from] & 0xc0) == 0x80;) cursor->from++;
    }
    return 0;
}

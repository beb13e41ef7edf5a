/* sp_check - what libsentencepiece (0.1.97) believes without looking: the double array of the normalization rules,
 * which it walks for each character of a text, and tables on its stack that hold 32 rules or 64 user-defined pieces
 * that begin alike. A model that would lead it out of its memory is refused here. Sources: sentencepiece_model.proto;
 * the unit's bits from darts-clone; the protobuf encoding. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"
#include "tokenizer/proto.h"

enum { MODEL_PIECE = 1, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3, TYPE_USER_DEFINED = 4 };
enum { NORMALIZER_CHARSMAP = 2 };
enum { MAX_RULES = 32, MAX_USER_PREFIXES = 64 };

/* ---- normalization rules -------------------------------------------------------------------------------- */

/* A node's children lie at base ^ c for each byte c; one that is not there has another label. */
static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
static bool has_value(uint32_t unit) { return unit >> 8 & 1; }

enum { NEW, OPEN, DONE }; /* of a node: OPEN while one of its children is looked at */

typedef struct {
    uint32_t index, base;
    int next; /* child to look at */
} Step;

/* Every node that some text leads to lies inside the array, its value inside the texts, and no way leads back or meets
 * more values than the library has room for. Ways may meet (equal ends are stored once), so each node is looked at once
 * and `most`, the values on the way down from it, is kept. NULL: so it is; else what is wrong. */
static const char *check_trie(const unsigned char *units, uint32_t n, size_t n_texts, Step *steps, unsigned char *state,
                              unsigned char *most) {
    uint32_t depth = 0, index = 0, unit;
    for (;;) { /* enter the node at index */
        memcpy(&unit, units + 4 * (size_t)index, sizeof unit);
        uint32_t base = index ^ offset(unit);
        if ((base | 0xff) >= n) return "a node outside the array";
        if (has_value(unit) && depth) {
            uint32_t value;
            memcpy(&value, units + 4 * (size_t)base, sizeof value);
            if ((value & ~(1u << 31)) >= n_texts) return "a rule without its text";
            most[index] = 1;
        }
        state[index] = OPEN;
        steps[depth++] = (Step){index, base, 0};
        for (bool entered = false; !entered;) { /* the next child that is new, here or further up */
            Step *step = &steps[depth - 1];
            if (step->next == 256) {
                state[step->index] = DONE;
                if (--depth == 0) return NULL;
                continue;
            }
            index = step->base ^ (uint32_t)step->next;
            memcpy(&unit, units + 4 * (size_t)index, sizeof unit);
            if (label(unit) != (uint32_t)step->next) {
                step->next++;
            } else if (state[index] == OPEN) {
                return "a way that leads back";
            } else if (state[index] == NEW) {
                entered = true;
            } else { /* done, now or by another way */
                memcpy(&unit, units + 4 * (size_t)step->index, sizeof unit);
                int values = most[index] + (has_value(unit) && step->index);
                if (values > MAX_RULES) return "more than 32 rules that begin alike";
                if (values > most[step->index]) most[step->index] = (unsigned char)values;
                step->next++;
            }
        }
    }
}

/* uint32 size of the array, the array, then the texts that the rules put. */
static int check_rules(Span map, const char *what, const char *file, Error *e) {
    uint32_t bytes = 0;
    size_t size = (size_t)(map.end - map.at);
    if (size == 0) return 0;
    if (size >= sizeof bytes) memcpy(&bytes, map.at, sizeof bytes);
    if (size < sizeof bytes || bytes > size - sizeof bytes || bytes < 1024 || bytes % 1024)
        return fail(e, "%s: %s: expected an array of 1024 bytes or a multiple inside the %zu, found %u", file, what,
                    size, bytes);
    uint32_t n = bytes / 4;
    Step *steps = malloc(n * sizeof *steps);
    unsigned char *marks = calloc(2, n); /* a node's state and the most values below it */
    const char *wrong = NULL;
    int status = 0;
    if (!steps || !marks) status = fail(e, "%s: memory: expected room for %u rules, found none", file, n);
    else if ((wrong = check_trie(map.at + 4, n, size - sizeof bytes - bytes, steps, marks, marks + n)))
        status = fail(e, "%s: %s: expected rules that end, found %s", file, what, wrong);
    free(steps);
    free(marks);
    return status;
}

static int check_normalizer(Span spec, const char *what, const char *file, Error *e) {
    ProtoField f;
    bool broken = false;
    while (proto_next(&spec, &f, &broken))
        if (f.number == NORMALIZER_CHARSMAP && f.wire == 2 && check_rules(f.bytes, what, file, e)) return -1;
    return broken ? fail(e, "%s: %s: expected protobuf fields, found none", file, what) : 0;
}

/* ---- pieces --------------------------------------------------------------------------------------------- */

typedef struct {
    Span *texts; /* [n] of user-defined pieces */
    size_t n, room;
} Users;

static int add_user(Users *u, Span text, const char *file, Error *e) {
    if (u->n == u->room) {
        size_t room = u->room ? 2 * u->room : 64;
        Span *more = realloc(u->texts, room * sizeof *more);
        if (!more) return fail(e, "%s: memory: expected room for %zu pieces, found none", file, room);
        u->texts = more;
        u->room = room;
    }
    const unsigned char *nul = memchr(text.at, 0, (size_t)(text.end - text.at)); /* the library's keys end at a NUL */
    u->texts[u->n++] = (Span){text.at, nul ? nul : text.end};
    return 0;
}

static int check_piece(Span piece, size_t index, Users *users, const char *file, Error *e) {
    ProtoField f;
    Span text = {piece.at, piece.at};
    uint64_t type = 1;
    float score = 0;
    bool broken = false;
    while (proto_next(&piece, &f, &broken)) {
        if (f.number == PIECE_TEXT && f.wire == 2) text = f.bytes;
        if (f.number == PIECE_SCORE && f.wire == 5) memcpy(&score, f.bytes.at, sizeof score);
        if (f.number == PIECE_TYPE && f.wire == 0) type = f.varint;
    }
    if (broken) return fail(e, "%s: piece %zu: expected protobuf fields, found none", file, index);
    if (!isfinite(score))
        return fail(e, "%s: piece %zu: score: expected a number, found %g", file, index, (double)score);
    return type == TYPE_USER_DEFINED ? add_user(users, text, file, e) : 0;
}

static int compare_texts(const void *a, const void *b) {
    const Span *x = a, *y = b;
    size_t n = (size_t)(x->end - x->at), m = (size_t)(y->end - y->at);
    int order = memcmp(x->at, y->at, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

/* Sorted, a text's prefixes stand before it: those that still are one make a stack. */
static int check_users(Users *u, const char *file, Error *e) {
    Span prefix[MAX_USER_PREFIXES];
    size_t depth = 0;
    if (u->n) qsort(u->texts, u->n, sizeof *u->texts, compare_texts);
    for (size_t i = 0; i < u->n; i++) {
        Span t = u->texts[i];
        while (depth) {
            Span p = prefix[depth - 1];
            size_t n = (size_t)(p.end - p.at);
            if (n <= (size_t)(t.end - t.at) && memcmp(p.at, t.at, n) == 0) break;
            depth--;
        }
        if (depth == MAX_USER_PREFIXES)
            return fail(e, "%s: user-defined pieces: expected at most %d that begin alike, found more", file,
                        MAX_USER_PREFIXES);
        prefix[depth++] = t;
    }
    return 0;
}

int sp_check(const File *file, Error *e) {
    Span model = {file->data, file->data + file->size};
    Users users = {0};
    ProtoField f;
    bool broken = false;
    int status = 0;
    size_t n_pieces = 0;
    while (!status && proto_next(&model, &f, &broken)) {
        if (f.wire != 2) continue;
        if (f.number == MODEL_PIECE) status = check_piece(f.bytes, n_pieces++, &users, file->path, e);
        if (f.number == MODEL_NORMALIZER) status = check_normalizer(f.bytes, "normalizer_spec", file->path, e);
        if (f.number == MODEL_DENORMALIZER) status = check_normalizer(f.bytes, "denormalizer_spec", file->path, e);
    }
    if (!status && broken)
        status = fail(e, "%s: model: expected a protobuf field at byte %zu, found none (truncated file?)", file->path,
                      (size_t)(model.at - file->data));
    if (!status) status = check_users(&users, file->path, e);
    free(users.texts);
    return status;
}

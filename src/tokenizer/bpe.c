#include "tokenizer/bpe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int merges_init(Merges *m, size_t n, const char *file, Error *e) {
    size_t n_slots = 8;
    while (n_slots < 2 * n + 2) n_slots *= 2;
    m->slots = malloc(n_slots * sizeof *m->slots);
    if (!m->slots) return fail(e, "%s: memory: expected room for %zu merges, found none", file, n);
    m->n_slots = n_slots;
    m->key = hash_key();
    for (size_t i = 0; i < n_slots; i++) m->slots[i].rank = -1;
    return 0;
}

void merges_close(Merges *m) {
    free(m->slots);
    *m = (Merges){0};
}

/* The pair's slot, or the free one where it belongs. */
static Merge *find_pair(const Merges *m, uint64_t pair) {
    uint64_t h = (pair ^ m->key.k[0]) * (m->key.k[1] | 1); /* ids and merges are a stranger's too */
    for (size_t i = (h >> 32) & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1))
        if (m->slots[i].rank < 0 || m->slots[i].pair == pair) return &m->slots[i];
}

static uint64_t pair_key(int left, int right) { return (uint64_t)left << 32 | (uint32_t)right; }

int merges_add(Merges *m, const Vocab *v, int rank, const char *left, size_t n_left, const char *right, size_t n_right,
               const char *file, Error *e) {
    char joined[1024];
    size_t n_skip = n_right < m->n_prefix ? n_right : m->n_prefix, n_joined = n_left + n_right - n_skip;
    if (n_left + n_right > sizeof joined)
        return fail(e, "%s: merge %d: expected at most %zu bytes, found %zu", file, rank, sizeof joined,
                    n_left + n_right);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right + n_skip, n_right - n_skip);
    int a = vocab_find(v, left, n_left), b = vocab_find(v, right, n_right);
    /* Vocabularies mostly list the results in the order of the merges: look there first. */
    int id = m->last + 1;
    if (id >= v->n || v->pieces[id].kind != PIECE_NORMAL || v->pieces[id].n != n_joined ||
        memcmp(v->pieces[id].text, joined, n_joined) != 0)
        id = vocab_find(v, joined, n_joined);
    m->last = id;
    if (a < 0 || b < 0 || id < 0)
        return fail(e, "%s: merge %d: expected tokens of the vocabulary, found \"%.*s\" and \"%.*s\"", file, rank,
                    n_left > 60 ? 60 : (int)n_left, left, n_right > 60 ? 60 : (int)n_right, right);
    Merge *slot = find_pair(m, pair_key(a, b));
    *slot = (Merge){pair_key(a, b), rank, id};
    return 0;
}

int ids_push(Ids *out, int id, Error *e) {
    if ((size_t)out->n == out->room) {
        size_t room = out->room ? 2 * out->room : 64;
        int *ids = out->n < INT_MAX ? realloc(out->ids, room * sizeof *ids) : NULL;
        if (!ids) return fail(e, "text: memory: expected room for %zu tokens, found none", room);
        out->ids = ids;
        out->room = room;
    }
    out->ids[out->n++] = id;
    return 0;
}

static bool by_rank(const void *rules, const Symbol *left, const Symbol *right, float *order, int *id) {
    const Merge *slot = find_pair(rules, pair_key(left->id, right->id));
    if (slot->rank < 0) return false;
    *order = (float)slot->rank; /* exact: ranks stay below 2^24 */
    *id = slot->id;
    return true;
}

typedef struct {
    const Vocab *vocab;
    const char *text;
} TextRules;

/* The token whose bytes these are, or -1; the text of a special token is not one. */
static int text_piece(const Vocab *v, const char *s, size_t n) {
    int id = n <= v->max_bytes ? table_get(&v->ids, s, n) : -1;
    return id >= 0 && v->pieces[id].kind == PIECE_NORMAL ? id : -1;
}

static bool by_text(const void *rules, const Symbol *left, const Symbol *right, float *order, int *id) {
    const TextRules *r = rules;
    *id = text_piece(r->vocab, r->text + left->at, left->n + right->n);
    *order = (float)*id;
    return *id >= 0;
}

/* The whole word's token, or -1. */
static int whole_word(const Bpe *b, const Vocab *v, const char *word, size_t n) {
    if (b->by_text) return text_piece(v, word, n);
    if (!b->byte_level) return vocab_find(v, word, n);
    char text[1024];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (length + 2 > sizeof text || length > v->max_bytes) return -1;
        length += byte_letter((unsigned char)word[i], text + length);
    }
    return vocab_find(v, text, length);
}

static bool has_byte_pieces(const Vocab *v, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v->byte_id[(unsigned char)s[i]] < 0) return false;
    return true;
}

/* The token of one character, with the affixes of its place in the word; -1: there is none. */
static int char_token(const Bpe *b, const Vocab *v, const char *s, size_t n, bool begins, bool ends) {
    const char *prefix = begins ? "" : b->prefix, *suffix = ends ? b->suffix : "";
    if (!*prefix && !*suffix) return vocab_find(v, s, n);
    char text[2 * BPE_AFFIX + 4];
    int length = snprintf(text, sizeof text, "%s%.*s%s", prefix, (int)n, s, suffix);
    return strlen(text) == strlen(prefix) + n + strlen(suffix) ? vocab_find(v, text, (size_t)length) : -1;
}

/* The word's first symbols: bytes or characters, with what stands for those that have no token. */
static void first_symbols(const Bpe *b, const Vocab *v, const char *word, size_t n, MergeSpace *space) {
    Symbol *symbols = space->symbols;
    size_t count = 0;
    bool fusing = false;
    for (size_t i = 0, length; i < n; i += length) {
        length = b->byte_level ? 1 : utf8_length(word + i, n - i);
        if (length == 0) length = 1; /* cannot be in valid UTF-8 */
        int id = b->byte_level ? v->byte_id[(unsigned char)word[i]]
                               : char_token(b, v, word + i, length, i == 0, i + length >= n);
        if (id >= 0) {
            symbols[count++] = (Symbol){.at = (uint32_t)i, .n = (uint32_t)length, .id = id};
            fusing = false;
        } else if (b->byte_fallback && has_byte_pieces(v, word + i, length)) {
            for (size_t k = 0; k < length; k++)
                symbols[count++] =
                    (Symbol){.at = (uint32_t)(i + k), .n = 1, .id = v->byte_id[(unsigned char)word[i + k]]};
            fusing = false;
        } else if (b->unk >= 0) {
            if (fusing && b->fuse_unk) symbols[count - 1].n += (uint32_t)length;
            else symbols[count++] = (Symbol){.at = (uint32_t)i, .n = (uint32_t)length, .id = b->unk};
            fusing = true;
        }
    }
    space->n_symbols = count;
}

static int push_result(const MergeSpace *space, Ids *out, Error *e) {
    if (space->n_symbols == 0) return 0;
    for (int32_t i = 0; i >= 0; i = space->symbols[i].next)
        if (ids_push(out, space->symbols[i].id, e)) return -1;
    return 0;
}

static bool only_newlines(const char *s, size_t n) {
    while (n && s[n - 1] == '\n') n--;
    return n == 0;
}

int bpe_encode(const Bpe *b, const Vocab *v, const char *word, size_t n, MergeSpace *space, Ids *out, Error *e) {
    if (n == 0) return 0;
    if (b->ignore_merges || (b->whole_lines && only_newlines(word, n))) {
        int id = whole_word(b, v, word, n);
        if (id >= 0) return ids_push(out, id, e);
    }
    if (merge_reserve(space, n, e)) return -1;
    first_symbols(b, v, word, n, space);
    if (b->by_text) merge_all(space, by_text, &(TextRules){v, word});
    else merge_all(space, by_rank, &b->merges);
    return push_result(space, out, e);
}

static bool is_text_piece(const Vocab *v, int id) {
    if (id < 0) return false;
    const Piece *p = &v->pieces[id];
    return p->kind == PIECE_NORMAL || (p->kind == PIECE_USER && !p->marked);
}

static bool by_score(const void *rules, const Symbol *left, const Symbol *right, float *order, int *id) {
    const TextRules *r = rules;
    size_t n = left->n + right->n;
    if (n > r->vocab->max_bytes) return false;
    *id = table_get(&r->vocab->ids, r->text + left->at, n); /* neighbours lie side by side in the text */
    if (!is_text_piece(r->vocab, *id)) return false;
    *order = -r->vocab->pieces[*id].score;
    return true;
}

int score_encode(const Vocab *v, const AddedSet *whole, int unk, const char *text, size_t n, MergeSpace *space,
                 Ids *out, Error *e) {
    if (n == 0) return 0;
    if (merge_reserve(space, n, e)) return -1;
    size_t count = 0, begin, end;
    AddedSearch search;
    if (added_search(&search, whole, text, n, true, e)) return -1;
    const Added *next = added_next(&search, &begin, &end);
    for (size_t i = 0, length; i < n; i += length) {
        bool frozen = next && i == begin;
        int id = frozen ? next->id : -1;
        if (frozen) {
            length = end - begin;
            next = added_next(&search, &begin, &end);
        } else {
            length = utf8_length(text + i, n - i);
            if (length == 0) length = 1; /* cannot be in valid UTF-8 */
            id = table_get(&v->ids, text + i, length);
            if (!is_text_piece(v, id)) id = -1;
        }
        space->symbols[count++] = (Symbol){.at = (uint32_t)i, .n = (uint32_t)length, .id = id, .frozen = frozen};
    }
    added_search_close(&search);
    space->n_symbols = count;
    merge_all(space, by_score, &(TextRules){v, text});

    for (int32_t i = 0; i >= 0; i = space->symbols[i].next) {
        const Symbol *s = &space->symbols[i];
        if (s->id >= 0) {
            if (ids_push(out, s->id, e)) return -1;
        } else if (has_byte_pieces(v, text + s->at, s->n)) {
            for (size_t k = 0; k < s->n; k++)
                if (ids_push(out, v->byte_id[(unsigned char)text[s->at + k]], e)) return -1;
        } else if (unk >= 0 && ids_push(out, unk, e)) {
            return -1;
        }
    }
    return 0;
}

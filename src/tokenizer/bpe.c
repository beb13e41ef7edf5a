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

static Merge *first_slot(const Merges *m, uint64_t pair) {
    uint64_t h = (pair ^ m->key.k[0]) * (m->key.k[1] | 1); /* ids and merges are a stranger's too */
    return &m->slots[(h >> 32) & (m->n_slots - 1)];
}

/* The pair's slot, or the free one where it belongs. */
static Merge *find_pair(const Merges *m, uint64_t pair) {
    for (Merge *slot = first_slot(m, pair);; slot = slot + 1 == m->slots + m->n_slots ? m->slots : slot + 1)
        if (slot->rank < 0 || slot->pair == pair) return slot;
}

static uint64_t pair_key(int left, int right) { return (uint64_t)left << 32 | (uint32_t)right; }

/* The token that a line makes. Vocabularies mostly list the results in the order of the merges: looks there first. */
static int result_of(const Merges *m, const Vocab *v, const MergeLine *line) {
    char joined[1024]; /* merges_add sees to the room */
    size_t n_skip = line->n_right < m->n_prefix ? line->n_right : m->n_prefix,
           n = line->n_left + line->n_right - n_skip;
    memcpy(joined, line->left, line->n_left);
    memcpy(joined + line->n_left, line->right + n_skip, line->n_right - n_skip);
    for (int id = m->last; id <= m->last + 1 && id < v->n; id++) {
        const Piece *p = &v->pieces[id];
        if (p->kind == PIECE_NORMAL && !p->outside && p->n == n && memcmp(p->text, joined, n) == 0) return id;
    }
    return vocab_find(v, joined, n);
}

static int checked_id(const Vocab *v, int id) { return id >= 0 && v->pieces[id].outside ? -1 : id; }

int merges_finish(Merges *m, const Vocab *v, const char *file, Error *e) {
    int n = m->n_waiting;
    m->n_waiting = 0;
    for (int i = 0; i < n; i++) {
        table_prefetch(&v->ids, m->waiting[i].left_hash);
        table_prefetch(&v->ids, m->waiting[i].right_hash);
    }
    for (int i = 0; i < n; i++) {
        MergeLine *l = &m->waiting[i];
        l->left_id = checked_id(v, table_find(&v->ids, l->left, l->n_left, l->left_hash));
        l->right_id = checked_id(v, table_find(&v->ids, l->right, l->n_right, l->right_hash));
        __builtin_prefetch(first_slot(m, pair_key(l->left_id, l->right_id)));
    }
    for (int i = 0; i < n; i++) {
        const MergeLine *l = &m->waiting[i];
        int id = result_of(m, v, l);
        m->last = id;
        if (l->left_id < 0 || l->right_id < 0 || id < 0)
            return fail(e, "%s: merge %d: expected tokens of the vocabulary, found \"%.*s\" and \"%.*s\"", file,
                        l->rank, l->n_left > 60 ? 60 : (int)l->n_left, l->left, l->n_right > 60 ? 60 : (int)l->n_right,
                        l->right);
        *find_pair(m, pair_key(l->left_id, l->right_id)) = (Merge){pair_key(l->left_id, l->right_id), l->rank, id};
    }
    return 0;
}

int merges_add(Merges *m, const Vocab *v, int rank, const char *left, size_t n_left, const char *right, size_t n_right,
               const char *file, Error *e) {
    if (n_left + n_right > 1024)
        return fail(e, "%s: merge %d: expected at most 1024 bytes, found %zu", file, rank, n_left + n_right);
    m->waiting[m->n_waiting++] = (MergeLine){.left = left,
                                             .right = right,
                                             .n_left = (uint32_t)n_left,
                                             .n_right = (uint32_t)n_right,
                                             .left_hash = table_hash(&v->ids, left, n_left),
                                             .right_hash = table_hash(&v->ids, right, n_right),
                                             .rank = rank};
    return m->n_waiting == MERGES_AT_ONCE ? merges_finish(m, v, file, e) : 0;
}

static int compare_rank(const void *a, const void *b) {
    const Merge *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

Merge *merges_sorted(const Merges *m, size_t *n) {
    Merge *list = malloc((m->n_slots + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < m->n_slots; i++)
        if (m->slots[i].rank >= 0) list[(*n)++] = m->slots[i];
    if (list) qsort(list, *n, sizeof *list, compare_rank);
    return list;
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

void score_init(ScoreBpe *b, const Vocab *v) {
    for (int id = 0; id < v->n; id++) {
        const unsigned char *p = (const unsigned char *)v->pieces[id].text;
        for (uint32_t i = 1; is_text_piece(v, id) && i < v->pieces[id].n; i++)
            b->joins[p[i - 1]][p[i] >> 3] |= 1 << (p[i] & 7);
    }
}

/* May a merge cross the place before s[0]? */
static bool joins(const ScoreBpe *b, const char *s) {
    unsigned char left = (unsigned char)s[-1], right = (unsigned char)s[0];
    return b->joins[left][right >> 3] >> (right & 7) & 1;
}

static size_t character(const char *s, size_t n) {
    size_t length = utf8_length(s, n);
    return length ? length : 1; /* cannot be 0 in valid UTF-8 */
}

static int push_unmerged(const ScoreBpe *b, const Vocab *v, const char *s, size_t n, Ids *out, Error *e) {
    if (!has_byte_pieces(v, s, n)) return b->unk >= 0 ? ids_push(out, b->unk, e) : 0;
    for (size_t k = 0; k < n; k++)
        if (ids_push(out, v->byte_id[(unsigned char)s[k]], e)) return -1;
    return 0;
}

/* A stretch that no merge leaves. */
static int score_word(const ScoreBpe *b, const Vocab *v, const char *s, size_t n, MergeSpace *space, Ids *out,
                      Error *e) {
    if (merge_reserve(space, n, e)) return -1;
    size_t count = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = character(s + i, n - i);
        int id = table_get(&v->ids, s + i, length);
        space->symbols[count++] =
            (Symbol){.at = (uint32_t)i, .n = (uint32_t)length, .id = is_text_piece(v, id) ? id : -1};
    }
    space->n_symbols = count;
    merge_all(space, by_score, &(TextRules){v, s});
    for (int32_t i = 0; i >= 0; i = space->symbols[i].next) {
        const Symbol *symbol = &space->symbols[i];
        if (symbol->id >= 0 ? ids_push(out, symbol->id, e) : push_unmerged(b, v, s + symbol->at, symbol->n, out, e))
            return -1;
    }
    return 0;
}

int score_encode(const ScoreBpe *b, const Vocab *v, const char *text, size_t n, MergeSpace *space, Ids *out, Error *e) {
    size_t begin, end, stop;
    AddedSearch search;
    if (n == 0) return 0;
    if (added_search(&search, &b->whole, text, n, true, e)) return -1;
    const Added *next = added_next(&search, &begin, &end);
    int status = 0;
    for (size_t i = 0; i < n && !status; i = stop) {
        if (next && i == begin) {
            status = ids_push(out, next->id, e);
            stop = end;
            next = added_next(&search, &begin, &end);
            continue;
        }
        size_t limit = next ? begin : n;
        for (stop = i + character(text + i, n - i); stop < limit && joins(b, text + stop);)
            stop += character(text + stop, n - stop);
        status = score_word(b, v, text + i, stop - i, space, out, e);
    }
    added_search_close(&search);
    return status;
}

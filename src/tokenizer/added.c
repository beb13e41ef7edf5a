#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

int added_push(AddedSet *set, Added token, Error *e) {
    if (set->n == set->room) {
        int room = set->room ? 2 * set->room : 32;
        Added *tokens = realloc(set->tokens, (size_t)room * sizeof *tokens);
        if (!tokens) return fail(e, "added tokens: memory: expected room for %d, found none", room);
        set->tokens = tokens;
        set->room = room;
    }
    set->tokens[set->n++] = token;
    return 0;
}

int added_finish(AddedSet *set, const char *file, Error *e) {
    automaton_close(&set->automaton);
    if (set->n == 0) return 0;
    AutomatonText *texts = malloc((size_t)set->n * sizeof *texts);
    if (!texts) return fail(e, "%s: memory: expected room for %d added tokens, found none", file, set->n);
    for (int i = 0; i < set->n; i++) texts[i] = (AutomatonText){set->tokens[i].text, (uint32_t)set->tokens[i].n, i};
    int status = automaton_init(&set->automaton, texts, (size_t)set->n, true, file, e);
    free(texts);
    return status;
}

void added_close(AddedSet *set) {
    free(set->tokens);
    automaton_close(&set->automaton);
    *set = (AddedSet){0};
}

struct AddedHit {
    uint32_t at;
    int token; /* index into the set's tokens */
};

int added_search(AddedSearch *s, const AddedSet *set, const char *text, size_t n, bool with_special, Error *e) {
    *s = (AddedSearch){.set = set, .text = text, .n = n, .with_special = with_special};
    const Automaton *a = &set->automaton;
    if (set->n == 0) return 0;
    if (n > UINT32_MAX) return fail(e, "text: size: expected less than 4 GiB, found %zu bytes", n);
    size_t room = 0;
    uint32_t state = 0;
    for (size_t i = n; i-- > 0;) { /* read backward, the texts that end at a place are those that begin there */
        state = automaton_step(a, state, (unsigned char)text[i]);
        uint32_t longest = automaton_longest(a, state);
        if (!longest) continue;
        if (s->n_hits == room) {
            room = room ? 2 * room : 64;
            struct AddedHit *hits = realloc(s->hits, room * sizeof *hits);
            if (!hits) return fail(e, "text: memory: expected room for %zu added tokens, found none", room);
            s->hits = hits;
        }
        s->hits[s->n_hits++] = (struct AddedHit){(uint32_t)i, a->nodes[longest].value};
    }
    return 0;
}

void added_search_close(AddedSearch *s) {
    free(s->hits);
    *s = (AddedSearch){0};
}

const Added *added_next(AddedSearch *s, size_t *begin, size_t *end) {
    const char *text = s->text;
    while (s->n_hits > 0) {
        struct AddedHit hit = s->hits[--s->n_hits];
        const Added *a = &s->set->tokens[hit.token];
        size_t length;
        if (hit.at < s->from || (a->special && s->plain && memchr(s->plain + hit.at, 1, a->n))) continue;
        *begin = hit.at;
        *end = s->from = hit.at + a->n;
        if (a->special && !s->with_special) continue; /* its place is used up, though nothing was found */
        if (a->single_word &&
            (is_word(char_before(text, *begin, &length)) || is_word(char_at(text, s->n, *end, &length))))
            continue;
        while (a->lstrip && *begin > s->floor && is_white_space(char_before(text, *begin, &length))) *begin -= length;
        if (a->rstrip && *end < s->floor) *end = s->floor; /* up to there it is white space, as the one before found */
        while (a->rstrip && *end < s->n && is_white_space(char_at(text, s->n, *end, &length))) *end += length;
        s->floor = *end;
        return a;
    }
    return NULL;
}

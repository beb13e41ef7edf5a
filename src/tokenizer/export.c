/* export - a vocabulary as the keys of a GGUF. Which rules a GGUF stands for is found by trial: a candidate is written
 * in memory, read again, and must give the ids of the original for texts that tell the rules apart. Source: llama.cpp,
 * conversion/base.py, which tells them apart by a hash of such ids. Test: tests/test_convert.sh */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer.h"
#include "tokenizer/impl.h"
#include "tokenizer/pre.h"
#include "tokenizer/trial.h"

typedef struct {
    unsigned char *data;
    size_t n, room, keys;
    bool failed;
} Out;

static void put(Out *o, const void *p, size_t n) {
    if (o->n + n > o->room) {
        size_t room = 2 * o->room + n + 4096;
        unsigned char *more = realloc(o->data, room);
        o->failed |= !more;
        if (!more) return;
        o->data = more;
        o->room = room;
    }
    memcpy(o->data + o->n, p, n);
    o->n += n;
}

static void put_u32(Out *o, uint32_t x) { put(o, &x, sizeof x); }
static void put_str(Out *o, const char *s, size_t n) {
    uint64_t length = n;
    put(o, &length, sizeof length);
    put(o, s, n);
}

static void key(Out *o, const char *name, GgufType type) {
    char full[96];
    snprintf(full, sizeof full, "tokenizer.%s", name);
    put_str(o, full, strlen(full));
    put_u32(o, type);
    o->keys++;
}

static void key_str(Out *o, const char *name, const char *s) {
    key(o, name, GGUF_STRING);
    put_str(o, s, strlen(s));
}

static void key_id(Out *o, const char *name, int id) {
    if (id < 0) return;
    key(o, name, GGUF_U32);
    put_u32(o, (uint32_t)id);
}

static void key_bool(Out *o, const char *name, bool x) {
    unsigned char byte = x;
    key(o, name, GGUF_BOOL);
    put(o, &byte, 1);
}

static void key_array(Out *o, const char *name, GgufType item, size_t n) {
    uint64_t length = n;
    key(o, name, GGUF_ARRAY);
    put_u32(o, item);
    put(o, &length, sizeof length);
}

/* GgufRules - what a GGUF may say of a vocabulary. */
typedef struct {
    const char *model, *pre; /* pre: NULL for "llama" */
    bool adds_space;         /* "llama" */
} GgufRules;

static void put_merges(Out *o, const Tokenizer *t, const Merge *list, size_t n) {
    key_array(o, "ggml.merges", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        const Piece *left = &t->vocab.pieces[list[i].pair >> 32], *right = &t->vocab.pieces[(uint32_t)list[i].pair];
        uint64_t length = left->n + 1 + right->n;
        put(o, &length, sizeof length);
        put(o, left->text, left->n);
        put(o, " ", 1);
        put(o, right->text, right->n);
    }
}

/* The scores that "llama" merges by: the vocabulary's, or the ranks of the merges, the first the highest. */
static void put_scores(Out *o, const Tokenizer *t, const Merge *list, size_t n_merges, int n) {
    key_array(o, "ggml.scores", GGUF_F32, (size_t)n);
    size_t at = o->n;
    for (int id = 0; id < n; id++) {
        bool scored = id < t->vocab.n && t->model != MODEL_RANK;
        float score = scored ? t->vocab.pieces[id].score : id < t->vocab.n ? 0 : -1000;
        put(o, &score, sizeof score);
    }
    for (size_t i = n_merges; i-- > 0 && !o->failed && t->model == MODEL_RANK;) { /* the lowest rank stays */
        float score = -(float)list[i].rank - 1;
        if (list[i].id < n) memcpy(o->data + at + (size_t)list[i].id * sizeof score, &score, sizeof score);
    }
}

/* A piece of "llama", which has U+2581 for each space; llama2.c's vocabularies have the space itself. */
static void put_metaspaced(Out *o, const Piece *p) {
    static const char METASPACE[] = "\xe2\x96\x81";
    enum { BYTES = sizeof METASPACE - 1 };
    uint64_t length = p->n;
    for (size_t i = 0; i < p->n; i++) length += p->text[i] == ' ' ? BYTES - 1 : 0;
    put(o, &length, sizeof length);
    for (size_t i = 0; i < p->n; i++)
        if (p->text[i] == ' ') put(o, METASPACE, BYTES);
        else put(o, p->text + i, 1);
}

static void put_keys(Out *o, const Tokenizer *t, const GgufRules *c, const Merge *list, size_t n_merges, int n) {
    bool spaces = !c->pre && t->space && strcmp(t->space, " ") == 0;
    key_str(o, "ggml.model", c->model);
    if (c->pre) key_str(o, "ggml.pre", c->pre);
    key_array(o, "ggml.tokens", GGUF_STRING, (size_t)n);
    for (int id = 0; id < n; id++) {
        char pad[32];
        const Piece *p = id < t->vocab.n ? &t->vocab.pieces[id] : NULL;
        if (p && p->kind != PIECE_NONE && spaces) put_metaspaced(o, p);
        else if (p && p->kind != PIECE_NONE) put_str(o, p->text, p->n);
        else put_str(o, pad, (size_t)snprintf(pad, sizeof pad, "[PAD%d]", id));
    }
    if (!c->pre) put_scores(o, t, list, n_merges, n);
    key_array(o, "ggml.token_type", GGUF_I32, (size_t)n);
    for (int id = 0; id < n; id++) {
        uint32_t kind = id < t->vocab.n ? t->vocab.pieces[id].kind : PIECE_NONE;
        put_u32(o, kind == PIECE_NONE ? PIECE_UNUSED : kind);
    }
    if (c->pre) put_merges(o, t, list, n_merges);
    else key_bool(o, "ggml.add_space_prefix", c->adds_space);
    key_id(o, "ggml.bos_token_id", t->bos);
    key_id(o, "ggml.eos_token_id", t->n_eos ? t->eos[0] : -1);
    key_id(o, "ggml.unknown_token_id", t->unk);
    key_bool(o, "ggml.add_bos_token", t->n_before > 0);
    key_bool(o, "ggml.add_eos_token", t->n_after > 0);
    if (t->chat_template) key_str(o, "chat_template", t->chat_template);
}

/* ---- Trial --------------------------------------------------------------------------------------- */

/* Reads the candidate's keys as a GGUF without tensors; `line` is the text that it has other ids for. */
static bool works(const Out *keys, const Tokenizer *t, char line[TRIAL_TEXT], Error *e) {
    Out o = {0};
    uint64_t count[2] = {0, keys->keys};
    put(&o, "GGUF\3\0\0\0", 8);
    put(&o, count, sizeof count);
    put(&o, keys->data, keys->n);
    File file = {.data = o.data, .size = o.n, .path = "vocabulary"};
    Gguf g = {0};
    bool same = false;
    if (!o.failed && gguf_open(&g, &file, e) == 0) {
        Tokenizer *again = tokenizer_from_gguf(&g, e);
        same = again && trial_encodes_alike(t, again, line, e);
        tokenizer_close(again);
        gguf_close(&g);
    }
    free(o.data);
    return same;
}

/* The first name of a pre-tokenizer that cuts as t does, and treats words as t does; NULL: none. */
static const char *find_pre(const Tokenizer *t, Error *e) {
    bool nfc = t->normalizer.n == 1 && t->normalizer.steps[0].kind == NORMALIZE_FORM &&
               t->normalizer.steps[0].form == FORM_NFC;
    if (t->normalizer.n && !nfc) return NULL;
    for (int i = 0;; i++) {
        const Pre *pre = pre_at(i);
        if (!pre) return NULL;
        bool whole = pre->flags & PRE_WHOLE_WORDS, composed = pre->flags & PRE_NFC;
        if (strcmp(pre->name, "default") == 0 || pre->flags & (PRE_METASPACE | PRE_NO_MERGES)) continue;
        if (whole != t->bpe.ignore_merges || composed != nfc) continue;
        Pretokenizer *words = pretokenizer_new();
        int status = !words;
        for (int j = 0; j < PRE_EXPRESSIONS && pre->expressions[j] && !status; j++)
            status =
                pretokenizer_add(words, pre->expressions[j], strlen(pre->expressions[j]), (Split){0}, pre->name, e);
        bool alike = !status && trial_cuts_alike(t->words, words, e);
        pretokenizer_free(words);
        if (alike) return pre->name;
    }
}

/* An added token that counts between other letters only as their text: a GGUF cannot say so. */
static bool has_single_word(const AddedSet *set) {
    for (int i = 0; i < set->n; i++)
        if (set->tokens[i].single_word) return true;
    return false;
}

int tokenizer_gguf_keys(const Tokenizer *t, int n_ids, GgufKeys *out, char why[TOKENIZER_WHY], Error *e) {
    Error trial = {0};
    GgufRules candidates[2] = {{.model = "llama", .adds_space = t->prefix != NULL},
                               {.model = "llama", .adds_space = t->prefix == NULL}};
    int n_candidates = 2;
    bool ranked = t->model == MODEL_RANK;
    char line[2][TRIAL_TEXT] = {"", ""},
         shown[200]; /* what a candidate has other ids for; the first is the likely one */
    why[0] = 0;
    if ((ranked && (t->bpe.by_text || *t->bpe.prefix || *t->bpe.suffix)) || (!ranked && t->model != MODEL_SCORE))
        snprintf(why, TOKENIZER_WHY, "a GGUF has no vocabulary of the kind %s%s%s", t->kind, t->beyond ? " that " : "",
                 t->beyond ? t->beyond : "");
    else if (t->n_before > 1 || t->n_after > 1 || (t->n_before && t->before[0] != t->bos) ||
             (t->n_after && (!t->n_eos || t->after[0] != t->eos[0])))
        snprintf(why, TOKENIZER_WHY, "a GGUF puts BOS and EOS around a text and nothing else");
    else if (has_single_word(&t->raw) || has_single_word(&t->normalized))
        snprintf(why, TOKENIZER_WHY, "a GGUF has no added tokens that are single words only");
    else if (t->vocab.n > n_ids) snprintf(why, TOKENIZER_WHY, "it has %d tokens and the model %d", t->vocab.n, n_ids);
    if (*why) return 0;
    if (ranked && t->bpe.byte_level) {
        n_candidates = 1;
        candidates[0] = (GgufRules){.model = "gpt2", .pre = find_pre(t, &trial)};
        if (!candidates[0].pre) {
            snprintf(why, TOKENIZER_WHY, "no pre-tokenizer of llama.cpp cuts a text as this one does");
            return error_is_memory(&trial) ? fail_again(e, &trial) : 0;
        }
    }
    size_t n_merges = 0;
    Merge *list = ranked ? merges_sorted(&t->bpe.merges, &n_merges) : NULL;
    if (ranked && !list) return fail(e, "tokenizer: memory: expected room for merges, found none");
    for (int i = 0; i < n_candidates; i++) {
        Out o = {0};
        put_keys(&o, t, &candidates[i], list, n_merges, n_ids);
        if (!o.failed && works(&o, t, line[i], &trial)) {
            *out = (GgufKeys){.data = o.data, .bytes = o.n, .n = o.keys};
            free(list);
            return 1;
        }
        free(o.data);
        if (o.failed) fail(&trial, "tokenizer: memory: expected some, found none");
    }
    free(list);
    if (error_is_memory(&trial)) return fail_again(e, &trial);
    text_show(shown, sizeof shown, line[0], strlen(line[0]), 40, true);
    snprintf(why, TOKENIZER_WHY, "a GGUF's tokenizer %s gives other ids for \"%s\"",
             candidates[0].pre ? candidates[0].pre : "llama", shown);
    return 0;
}

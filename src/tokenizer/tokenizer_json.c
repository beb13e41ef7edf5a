/* Hugging Face's tokenizer.json: the vocabulary of its model, the added tokens, and the steps around (json_steps.c).
 * What would change the ids and is not known here is refused by its name. The parts `truncation` and `padding` belong
 * to the batches of a training and are not followed, as transformers does not. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tokenizer/impl.h"
#include "tokenizer/json_merges.h"
#include "tokenizer/json_steps.h"

enum { MAX_ID = 1 << 24, MAX_HOLES = 1 << 15 };

/* ---- vocabulary ---- */

/* <0xNN> in capitals, which byte_fallback looks for */
static bool is_byte_piece(const char *s, size_t n) {
    static const char HEX[] = "0123456789ABCDEF";
    return n == 6 && memcmp(s, "<0x", 3) == 0 && strchr(HEX, s[3]) && strchr(HEX, s[4]) && s[5] == '>';
}

/* One entry of model.vocab: {text: id} or, in Unigram, [text, score] with its place as id. */
static int vocab_entry(const cJSON *item, int place, bool list, const char **text, int *id, double *score,
                       const char *file, Error *e) {
    const cJSON *number = list ? cJSON_GetArrayItem(item, 1) : item;
    *text = list ? item->child && cJSON_IsString(item->child) ? item->child->valuestring : NULL : item->string;
    *score = cJSON_IsNumber(number) ? number->valuedouble : NAN;
    *id = place;
    if (!*text || isnan(*score))
        return fail(e, "%s: model.vocab: entry %d: expected a text and a number, found something else", file, place);
    if (list) return 0;
    if (number->valuedouble != number->valueint || number->valueint < 0 || number->valueint >= MAX_ID)
        return fail(e, "%s: model.vocab: id of \"%.60s\": expected an integer from 0 to %d, found %.15g", file, *text,
                    MAX_ID - 1, *score);
    *id = number->valueint;
    return 0;
}

/* A text of the file, copied to where the next piece's text comes; it may hold a NUL. Returns its length. */
static size_t copy_text(char *next, const char *text) {
    size_t n = strlen(text);
    memcpy(next, text, n + 1);
    return json_bytes(next, n);
}

/* The texts of all pieces, one after the other. */
static void put_piece(struct Tokenizer *t, char **next, int id, const char *text, PieceKind kind, bool outside) {
    size_t n = copy_text(*next, text);
    t->vocab.pieces[id] = (Piece){.text = *next, .n = (uint32_t)n, .kind = (uint8_t)kind, .outside = outside};
    *next += n + 1;
}

static int fill_model_pieces(struct Tokenizer *t, char **next, const cJSON *vocab, double *scores, bool byte_pieces,
                             const char *file, Error *e) {
    const cJSON *item;
    int place = 0;
    cJSON_ArrayForEach(item, vocab) {
        const char *text;
        double score;
        int id;
        if (vocab_entry(item, place++, cJSON_IsArray(vocab), &text, &id, &score, file, e)) return -1;
        const Piece *p = &t->vocab.pieces[id];
        if (p->kind != PIECE_NONE)
            return fail(e, "%s: model.vocab: id %d: expected one token, found \"%.60s\" and \"%.60s\"", file, id,
                        p->text, text);
        bool byte = byte_pieces && is_byte_piece(text, strlen(text));
        put_piece(t, next, id, text, byte ? PIECE_BYTE : PIECE_NORMAL, false);
        if (scores) scores[id] = score;
    }
    return 0;
}

/* Added tokens keep the id that the model has for their text; others are numbered behind the vocabulary in the order of
 * the file, as the library does. Source: Hugging Face tokenizers, added_vocabulary.rs, add_tokens. */
static int fill_added_pieces(struct Tokenizer *t, char **next, const cJSON *added, int n_model, int *n_used, int room,
                             const char *file, Error *e) {
    const cJSON *item;
    int following = n_model;
    cJSON_ArrayForEach(item, added) {
        const char *text = json_text(item, "content");
        int id = (int)json_get(item, "id")->valuedouble;
        bool special = false;
        if (json_bool(&special, item, "special", file, e)) return -1;
        PieceKind kind = special ? PIECE_CONTROL : PIECE_USER;
        Piece *p = id < room ? &t->vocab.pieces[id] : NULL;
        size_t n = copy_text(*next, text);
        bool known = p && p->kind != PIECE_NONE && n == p->n && memcmp(p->text, *next, n) == 0;
        if (known) {
            p->kind = (uint8_t)kind;
        } else {
            /* Where that is taken, the ids have holes: then the token may be meant for one. */
            if (!p || p->kind != PIECE_NONE || t->vocab.pieces[following].kind == PIECE_NONE) id = following;
            if (t->vocab.pieces[id].kind != PIECE_NONE)
                return fail(e, "%s: added_tokens: id %d: expected \"%.60s\" as in the vocabulary, found \"%.60s\"",
                            file, id, t->vocab.pieces[id].text, text);
            put_piece(t, next, id, text, kind, true);
        }
        if (id >= following) following = id + 1;
        if (id >= *n_used) *n_used = id + 1;
    }
    return 0;
}

/* The pieces of the model, then added_tokens, into t->vocab; their texts are copied. */
static int fill_vocab(struct Tokenizer *t, const cJSON *vocab, const cJSON *added, double **scores, bool byte_pieces,
                      const char *file, Error *e) {
    const cJSON *item;
    size_t bytes = 1;
    int n = 0, count = cJSON_GetArraySize(vocab), n_added = cJSON_GetArraySize(added), place = 0;
    if (!cJSON_IsObject(vocab) && !(scores && cJSON_IsArray(vocab)))
        return fail(e, "%s: model.vocab: expected %s, found something else", file, scores ? "an array" : "an object");
    cJSON_ArrayForEach(item, vocab) {
        const char *text;
        double score;
        int id;
        if (vocab_entry(item, place++, cJSON_IsArray(vocab), &text, &id, &score, file, e)) return -1;
        if (id >= n) n = id + 1;
        bytes += strlen(text) + 1;
    }
    cJSON_ArrayForEach(item, added) {
        int id = -1;
        const char *content = json_text(item, "content");
        if (json_int(&id, item, "id", 0, MAX_ID - 1, file, e)) return -1;
        if (id < 0 || !content || !*content)
            return fail(e, "%s: added_tokens: expected an id and a content, found none", file);
        bytes += strlen(content) + 1;
    }
    if (count + n_added == 0) return fail(e, "%s: model.vocab: expected tokens, found none", file);
    if (n / 2 > count + MAX_HOLES) /* a table of that many ids would be mostly holes */
        return fail(e, "%s: model.vocab: expected ids near the number of tokens %d, found %d", file, count, n - 1);
    int room = (n > count ? n : count) + n_added + 1;
    if (vocab_init(&t->vocab, room, file, e)) return -1;
    char *next = t->texts = malloc(bytes);
    if (scores) *scores = malloc((size_t)room * sizeof **scores);
    if (!next || (scores && !*scores))
        return fail(e, "%s: memory: expected room for %d tokens, found none", file, room);
    for (int i = 0; scores && i < room; i++) (*scores)[i] = NAN;
    if (fill_model_pieces(t, &next, vocab, scores ? *scores : NULL, byte_pieces, file, e) ||
        fill_added_pieces(t, &next, added, count, &n, room, file, e))
        return -1;
    t->vocab.n = n;
    if (vocab_finish(&t->vocab, SPELL_LATER, file, e)) return -1;
    if (t->bpe.byte_level) vocab_find_bytes(&t->vocab);
    return 0;
}

/* ---- added tokens ---- */

/* A token that says "normalized" is found in the normalized text, by its normalized content. */
static int normalized_content(struct Tokenizer *t, RegexSpace *space, Added *a, const char *file, Error *e) {
    char **text = &t->normalized_texts[a->id];
    Error why = {0};
    if (t->normalizer.n == 0 || *text) return 0;
    if (normalize(&t->normalizer, space, a->text, a->n, text, &a->n, &why))
        return fail(e, "%s: added_tokens: expected a content to normalize, found an error (%.200s)", file, why.text);
    a->text = *text;
    return 0;
}

static int fill_added(struct Tokenizer *t, const cJSON *added, const char *file, Error *e) {
    const cJSON *item;
    size_t bytes = 0;
    cJSON_ArrayForEach(item, added) bytes += strlen(json_text(item, "content"));
    t->normalized_texts = calloc((size_t)t->vocab.n + 1, sizeof *t->normalized_texts);
    if (t->normalized_texts) t->n_normalized_texts = t->vocab.n;
    RegexSpace *space = regex_space_new(bytes);
    int status = t->normalized_texts && space ? 0 : fail(e, "%s: memory: expected some, found none", file);
    for (item = added ? added->child : NULL; item && !status; item = item->next) {
        const char *content = json_text(item, "content");
        size_t n = json_bytes((char *)(uintptr_t)content, strlen(content));
        int id = table_get(&t->vocab.ids, content, n);
        const Piece *p = &t->vocab.pieces[id];
        Added a = {.text = p->text, .n = p->n, .id = id, .special = p->kind == PIECE_CONTROL};
        bool normalized = !a.special;
        if (json_bool(&a.single_word, item, "single_word", file, e) || json_bool(&a.lstrip, item, "lstrip", file, e) ||
            json_bool(&a.rstrip, item, "rstrip", file, e) || json_bool(&normalized, item, "normalized", file, e))
            status = -1;
        else if (normalized) status = normalized_content(t, space, &a, file, e) || added_push(&t->normalized, a, e);
        else status = added_push(&t->raw, a, e);
    }
    regex_space_free(space);
    return status || added_finish(&t->raw, file, e) || added_finish(&t->normalized, file, e) ? -1 : 0;
}

/* ---- models ---- */

static int find_unk(struct Tokenizer *t, const cJSON *model, bool required, const char *file, Error *e) {
    const char *unk = json_text(model, "unk_token");
    t->unk = unk ? vocab_find(&t->vocab, unk, strlen(unk)) : -1;
    if (unk && t->unk < 0 && required)
        return fail(e, "%s: model.unk_token: expected a token, found \"%.60s\"", file, unk);
    return 0;
}

/* The merges that json_read_tokenizer left as text. */
static int read_merge_text(struct Tokenizer *t, char *text, const char *file, Error *e) {
    MergeText m = {text, false};
    char *left, *right;
    size_t n_left, n_right;
    if (merges_init(&t->bpe.merges, merge_text_most(text), file, e)) return -1;
    int rank = 0, more;
    while ((more = merge_text_next(&m, &left, &n_left, &right, &n_right)) > 0)
        if (merges_add(&t->bpe.merges, &t->vocab, rank++, left, n_left, right, n_right, file, e)) return -1;
    if (more < 0) return fail(e, "%s: model.merges: merge %d: expected two tokens, found something else", file, rank);
    return merges_finish(&t->bpe.merges, &t->vocab, file, e);
}

static int read_merges(struct Tokenizer *t, const cJSON *merges, const char *file, Error *e) {
    const cJSON *item;
    if (cJSON_IsRaw(merges)) return read_merge_text(t, merges->valuestring, file, e);
    if (!cJSON_IsArray(merges)) return fail(e, "%s: model.merges: expected an array, found something else", file);
    if (merges_init(&t->bpe.merges, (size_t)cJSON_GetArraySize(merges), file, e)) return -1;
    int rank = 0;
    cJSON_ArrayForEach(item, merges) {
        const char *left = NULL, *right = NULL;
        size_t n_left = 0;
        if (cJSON_IsString(item)) {
            left = item->valuestring;
            right = strchr(left, ' ');
            if (right) n_left = (size_t)(right++ - left);
            if (right && strchr(right, ' ')) right = NULL;
        } else if (cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2 && cJSON_IsString(item->child) &&
                   cJSON_IsString(item->child->next)) {
            left = item->child->valuestring;
            right = item->child->next->valuestring;
            n_left = strlen(left);
        }
        if (!right)
            return fail(e, "%s: model.merges: merge %d: expected two tokens, found \"%.60s\"", file, rank,
                        left ? left : "something else");
        size_t n_right = json_bytes((char *)(uintptr_t)right, strlen(right));
        n_left = json_bytes((char *)(uintptr_t)left, n_left);
        if (merges_add(&t->bpe.merges, &t->vocab, rank++, left, n_left, right, n_right, file, e)) return -1;
    }
    return merges_finish(&t->bpe.merges, &t->vocab, file, e);
}

static int copy_affix(char affix[BPE_AFFIX], const cJSON *model, const char *key, const char *file, Error *e) {
    const char *text = json_text(model, key);
    size_t n = text ? strlen(text) : 0;
    if (n >= BPE_AFFIX)
        return fail(e, "%s: model.%s: expected at most %d bytes, found %zu", file, key, BPE_AFFIX - 1, n);
    memcpy(affix, text ? text : "", n + 1);
    return 0;
}

static int read_bpe(struct Tokenizer *t, const cJSON *model, const cJSON *added, const char *file, Error *e) {
    Bpe *b = &t->bpe;
    double dropout = 0;
    if (json_number(&dropout, model, "dropout", file, e) || json_bool(&b->fuse_unk, model, "fuse_unk", file, e) ||
        json_bool(&b->byte_fallback, model, "byte_fallback", file, e) ||
        json_bool(&b->ignore_merges, model, "ignore_merges", file, e) ||
        copy_affix(b->prefix, model, "continuing_subword_prefix", file, e) ||
        copy_affix(b->suffix, model, "end_of_word_suffix", file, e))
        return -1;
    if (dropout != 0) return fail(e, "%s: model.dropout: expected 0, found %g", file, dropout);
    /* Where the alphabet's letters come last the model can begin with the bytes themselves. */
    b->byte_level = !*b->prefix && !*b->suffix && !b->byte_fallback && pretokenizer_drop_letters(t->words);
    b->merges.n_prefix = strlen(b->prefix);
    if (fill_vocab(t, json_get(model, "vocab"), added, NULL, b->byte_fallback, file, e) ||
        read_merges(t, json_get(model, "merges"), file, e) || find_unk(t, model, true, file, e))
        return -1;
    b->unk = t->unk;
    t->model = MODEL_RANK;
    t->kind = b->byte_level ? "byte-bpe" : "bpe";
    return 0;
}

static int read_unigram(struct Tokenizer *t, const cJSON *model, const cJSON *added, const char *file, Error *e) {
    bool byte_fallback = false;
    int unk = -1;
    double *scores = NULL;
    const cJSON *vocab = json_get(model, "vocab");
    if (json_bool(&byte_fallback, model, "byte_fallback", file, e) ||
        json_int(&unk, model, "unk_id", 0, cJSON_GetArraySize(vocab) - 1, file, e))
        return -1;
    if (fill_vocab(t, vocab, added, &scores, byte_fallback, file, e)) {
        free(scores);
        return -1;
    }
    t->unk = unk;
    t->model = MODEL_UNIGRAM;
    t->kind = "unigram";
    return unigram_init(&t->unigram, &t->vocab, scores, unk, byte_fallback, file, e);
}

static int read_wordpiece(struct Tokenizer *t, const cJSON *model, const cJSON *added, const char *file, Error *e) {
    const char *prefix = json_text(model, "continuing_subword_prefix");
    int max_chars = 100;
    if (json_int(&max_chars, model, "max_input_chars_per_word", 0, WORDPIECE_MAX_CHARS, file, e) ||
        fill_vocab(t, json_get(model, "vocab"), added, NULL, false, file, e) || find_unk(t, model, false, file, e))
        return -1;
    t->model = MODEL_WORDPIECE;
    t->kind = "wordpiece";
    return wordpiece_init(&t->wordpiece, &t->vocab, prefix ? prefix : "##", (size_t)max_chars, t->unk, file, e);
}

static int read_wordlevel(struct Tokenizer *t, const cJSON *model, const cJSON *added, const char *file, Error *e) {
    t->model = MODEL_WORDLEVEL;
    t->kind = "wordlevel";
    return fill_vocab(t, json_get(model, "vocab"), added, NULL, false, file, e) || find_unk(t, model, false, file, e);
}

static const struct {
    const char *type;
    int (*read)(struct Tokenizer *t, const cJSON *model, const cJSON *added, const char *file, Error *e);
} MODELS[] = {
    {"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_wordpiece}, {"WordLevel", read_wordlevel}};

/* Old files do not say their model's type. */
static const char *guess_type(const cJSON *model) {
    if (json_get(model, "merges")) return "BPE";
    if (cJSON_IsArray(json_get(model, "vocab"))) return "Unigram";
    if (json_get(model, "max_input_chars_per_word")) return "WordPiece";
    return json_get(model, "vocab") ? "WordLevel" : "none";
}

/* Bytes of all expressions below a part; cJSON's nesting has a limit. */
static size_t expression_bytes(const cJSON *part) {
    const char *regex = json_text(part, "Regex");
    size_t n = regex ? strlen(regex) : 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, part) n += expression_bytes(child);
    return n;
}

int read_tokenizer_root(struct Tokenizer *t, const cJSON *root, const char *file, Error *e) {
    const cJSON *model = json_get(root, "model"), *added = json_get(root, "added_tokens");
    const char *type = json_text(model, "type");
    size_t i = 0, n = sizeof MODELS / sizeof *MODELS;
    if (!cJSON_IsObject(model)) return fail(e, "%s: model: expected an object, found none", file);
    if (!type) type = guess_type(model);
    while (i < n && strcmp(type, MODELS[i].type) != 0) i++;
    if (i == n)
        return fail(e, "%s: model.type: expected BPE, Unigram, WordPiece or WordLevel, found %.60s", file, type);
    size_t expressions = expression_bytes(json_get(root, "normalizer")) +
                         expression_bytes(json_get(root, "pre_tokenizer")) +
                         expression_bytes(json_get(root, "decoder"));
    if (expressions > REGEX_BYTES)
        return fail(e, "%s: expressions: expected at most %d bytes in all, found %zu", file, REGEX_BYTES, expressions);
    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", file);
    if (read_normalizer(&t->normalizer, json_get(root, "normalizer"), file, e) ||
        read_pre_tokenizer(t->words, json_get(root, "pre_tokenizer"), file, e) ||
        read_decoder(&t->decoder, json_get(root, "decoder"), file, e) || MODELS[i].read(t, model, added, file, e) ||
        fill_added(t, added, file, e) || decoder_apply(&t->decoder, &t->vocab, t->normalized_texts, file, e))
        return -1;
    if (read_post_processor(t->before, &t->n_before, t->after, &t->n_after, MAX_AROUND, t->vocab.n,
                            json_get(root, "post_processor"), file, e))
        return -1;
    if (t->n_before) t->bos = t->before[0];
    return 0;
}

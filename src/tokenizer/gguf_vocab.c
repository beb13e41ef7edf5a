/* The vocabulary of a GGUF file. Source: llama.cpp, src/llama-vocab.cpp. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/impl.h"
#include "tokenizer/pre.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁ */

static uint32_t read_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float read_score(const GgufKv *scores, size_t id) {
    if (!scores) return 0;
    uint32_t bits = read_u32(scores->value + 4 * id);
    float x;
    if (scores->item_type == GGUF_I32) return (float)(int32_t)bits;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The array `key` of at least n items of one of two types; NULL when absent, or -1 in *status. */
static const GgufKv *find_array(const Gguf *g, const char *key, GgufType item, GgufType or_item, size_t n, int *status,
                                Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return NULL;
    if (kv->type != GGUF_ARRAY || (kv->item_type != item && kv->item_type != or_item))
        *status = fail(e, "%s: %s: expected an array of %s, found another type", g->file->path, key,
                       item == GGUF_STRING ? "strings"
                       : item == GGUF_F32  ? "float32"
                                           : "int32");
    else if (kv->n < n)
        *status = fail(e, "%s: %s: expected %zu items, one a token, found %zu", g->file->path, key, n, kv->n);
    return kv;
}

static int read_pieces(struct Tokenizer *t, const Gguf *g, Spelling spelling, bool scored, Error *e) {
    const char *file = g->file->path;
    int status = 0;
    const GgufKv *tokens = find_array(g, "tokenizer.ggml.tokens", GGUF_STRING, GGUF_STRING, 0, &status, e);
    if (status) return -1;
    if (!tokens || tokens->n == 0 || tokens->n > INT_MAX / 2)
        return fail(e, "%s: tokenizer.ggml.tokens: expected 1 or more tokens, found %zu", file, tokens ? tokens->n : 0);
    size_t n = tokens->n;
    const GgufKv *scores = find_array(g, "tokenizer.ggml.scores", GGUF_F32, GGUF_I32, n, &status, e);
    const GgufKv *kinds = find_array(g, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, n, &status, e);
    if (status) return -1;
    if (!scores && scored) return fail(e, "%s: tokenizer.ggml.scores: expected %zu scores, found none", file, n);

    if (vocab_init(&t->vocab, (int)n, file, e)) return -1;
    const unsigned char *cursor = tokens->value;
    for (size_t id = 0; id < n; id++) {
        Str text = gguf_array_next(&cursor);
        if (text.n > 1 << 16)
            return fail(e, "%s: token %zu: expected at most 65536 bytes, found %zu", file, id, text.n);
        uint32_t kind = kinds ? read_u32(kinds->value + 4 * id) : PIECE_NORMAL;
        if (kind > PIECE_BYTE)
            return fail(e, "%s: tokenizer.ggml.token_type %zu: expected 0 to 6, found %d", file, id, (int)kind);
        if (kind == PIECE_NONE) kind = PIECE_UNUSED; /* "undefined" there */
        float score = read_score(scores, id);
        if (isnan(score)) return fail(e, "%s: tokenizer.ggml.scores %zu: expected a number, found nan", file, id);
        t->vocab.pieces[id] = (Piece){.text = text.s, .n = (uint32_t)text.n, .score = score, .kind = (uint8_t)kind};
    }
    known_pieces(t);
    return vocab_finish(&t->vocab, spelling, file, e);
}

static int read_merges(struct Tokenizer *t, const Gguf *g, bool needed, Error *e) {
    int status = 0;
    const GgufKv *merges = find_array(g, "tokenizer.ggml.merges", GGUF_STRING, GGUF_STRING, 0, &status, e);
    if (status) return -1;
    if (!merges && needed) return fail(e, "%s: tokenizer.ggml.merges: expected merges, found none", g->file->path);
    size_t n = merges ? merges->n : 0;
    if (n > INT_MAX / 4 || merges_init(&t->bpe.merges, n, g->file->path, e)) return -1;
    const unsigned char *cursor = merges ? merges->value : NULL;
    for (size_t i = 0; i < n; i++) {
        Str line = gguf_array_next(&cursor);
        const char *space = line.n > 1 ? memchr(line.s + 1, ' ', line.n - 1) : NULL;
        if (!space)
            return fail(e, "%s: merge %zu: expected two tokens and a space between, found \"%.*s\"", g->file->path, i,
                        line.n > 60 ? 60 : (int)line.n, line.s);
        size_t left = (size_t)(space - line.s);
        if (merges_add(&t->bpe.merges, &t->vocab, (int)i, line.s, left, space + 1, line.n - left - 1, g->file->path, e))
            return -1;
    }
    return merges_finish(&t->bpe.merges, &t->vocab, g->file->path, e);
}

/* An id of the file; one outside the vocabulary counts for none, and the default stays. */
static int get_id(const Gguf *g, const char *key, int n, int *id, Error *e) {
    int64_t x = -1;
    if (*id >= n) *id = -1;
    int found = gguf_get_int(g, key, &x, INT64_MIN, INT64_MAX, e);
    if (found > 0 && x >= 0 && x < n) *id = (int)x;
    return found < 0 ? -1 : 0;
}

static int get_bool(const Gguf *g, const char *key, bool *out, Error *e) {
    return gguf_get_bool(g, key, out, e) < 0 ? -1 : 0;
}

typedef enum { GGUF_RANKED, GGUF_SCORED, GGUF_UNIGRAM, GGUF_WORDPIECE } GgufModel;

/* What a kind of vocabulary is when its keys are silent. */
typedef struct {
    const char *name;
    GgufModel model;
    int bos, eos, unk;
    bool adds_bos, adds_eos;
} ModelRow;

static const ModelRow MODELS[] = {
    {"llama", GGUF_SCORED, 1, 2, 0, true, false},        {"gpt2", GGUF_RANKED, -1, -1, -1, false, false},
    {"gemma4", GGUF_RANKED, -1, -1, -1, true, false},    {"t5", GGUF_UNIGRAM, -1, 1, 2, false, true},
    {"bert", GGUF_WORDPIECE, 101, -1, 100, true, false},
};

/* BOS, EOS and what is put around a text. */
static int read_special(struct Tokenizer *t, const Gguf *g, const ModelRow *m, const Pre *pre, Error *e) {
    int n = t->vocab.n, bos = m->bos, eos = m->eos;
    bool adds_bos = m->adds_bos || (pre && pre->flags & PRE_BOS), adds_eos = m->adds_eos;
    /* llama.cpp's default is Falcon's <|endoftext|>; in another vocabulary token 11 is some text. */
    if (m->model == GGUF_RANKED && n > 11 && t->vocab.pieces[11].kind == PIECE_CONTROL) {
        eos = 11;
        if (!pre || !(pre->flags & PRE_NO_BOS_ID)) bos = 11;
    }
    static const char *const ends[] = {"eot_token_id", "eom_token_id", "fim_pad_token_id", "fim_rep_token_id",
                                       "fim_sep_token_id"};
    t->unk = m->unk;
    if (get_id(g, "tokenizer.ggml.bos_token_id", n, &bos, e) || get_id(g, "tokenizer.ggml.eos_token_id", n, &eos, e) ||
        get_id(g, "tokenizer.ggml.unknown_token_id", n, &t->unk, e) ||
        get_bool(g, "tokenizer.ggml.add_bos_token", &adds_bos, e) ||
        get_bool(g, "tokenizer.ggml.add_eos_token", &adds_eos, e))
        return -1;
    add_eos(t, eos);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[64];
        int id = -1;
        snprintf(key, sizeof key, "tokenizer.ggml.%s", ends[i]);
        if (get_id(g, key, n, &id, e)) return -1;
        add_eos(t, id);
    }
    t->bos = bos;
    if (pre && pre->flags & PRE_METASPACE && pre->flags & PRE_BOS) adds_bos = true; /* Gemma 4's files say false */
    if (adds_bos && bos >= 0) t->before[t->n_before++] = bos;
    if (adds_eos && eos >= 0) t->after[t->n_after++] = eos;
    if (m->model != GGUF_WORDPIECE) return 0;
    int sep = 102; /* ends a text there whatever the keys say */
    if (get_id(g, "tokenizer.ggml.seperator_token_id", n, &sep, e)) return -1;
    if (sep >= 0) t->after[t->n_after++] = sep;
    return 0;
}

static int read_words(struct Tokenizer *t, const Pre *pre, const char *file, Error *e) {
    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", file);
    for (int i = 0; i < PRE_EXPRESSIONS && pre->expressions[i]; i++)
        if (pretokenizer_add(t->words, pre->expressions[i], strlen(pre->expressions[i]), (Split){0}, file, e))
            return -1;
    if (pre->flags & PRE_NFC &&
        normalizer_add(&t->normalizer, (NormalizeStep){.kind = NORMALIZE_FORM, .form = FORM_NFC}, file, e))
        return -1;
    return 0;
}

/* Byte-pair encoding by the rank of merges. */
static int read_ranked(struct Tokenizer *t, const Gguf *g, const Pre *pre, Error *e) {
    bool metaspace = pre->flags & PRE_METASPACE;
    t->model = MODEL_RANK;
    t->pre = pre;
    t->kind = metaspace ? "bpe" : "byte-bpe";
    t->bpe.byte_level = !metaspace;
    t->bpe.byte_fallback = metaspace;
    t->bpe.ignore_merges = pre->flags & PRE_WHOLE_WORDS;
    t->bpe.whole_lines = metaspace;
    t->bpe.unk = -1; /* as in Hugging Face's files of these models: a byte without a token adds nothing */
    if (metaspace) {
        t->respell = " ";
        t->space = METASPACE;
    }
    return read_words(t, pre, g->file->path, e) || read_merges(t, g, !(pre->flags & PRE_NO_MERGES), e) ? -1 : 0;
}

/* Byte-pair encoding by the score of the merged piece, as sentencepiece does it. */
static int read_scored(struct Tokenizer *t, const Gguf *g, Error *e) {
    bool squeeze = false, adds_space = true;
    if (get_bool(g, "tokenizer.ggml.add_space_prefix", &adds_space, e) ||
        get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &squeeze, e))
        return -1;
    if (squeeze || gguf_find(g, "tokenizer.ggml.precompiled_charsmap"))
        snprintf(t->note, sizeof t->note,
                 "tokenizer.ggml.%s: of no effect with tokenizer.ggml.model llama, as in llama.cpp",
                 squeeze ? "remove_extra_whitespaces" : "precompiled_charsmap");
    t->model = MODEL_SCORE;
    t->kind = "spm-bpe";
    t->respell = " ";
    t->space = METASPACE;
    if (adds_space) t->prefix = METASPACE;
    t->prefix_scheme = PREFIX_ALWAYS;
    t->strips_space = adds_space;
    return 0;
}

/* Phi-3's tokens take the white space behind them along; its tokenizer.json says so, its GGUF only by its name. */
static int read_name(struct Tokenizer *t, const Gguf *g, Error *e) {
    Str name = {0};
    if (gguf_get_str(g, "general.name", &name, e) < 0) return -1;
    bool phi3 = false;
    for (size_t i = 0; i + 4 <= name.n && !phi3; i++)
        phi3 = strncasecmp(name.s + i, "phi3", 4) == 0 || (i + 5 <= name.n && strncasecmp(name.s + i, "phi-3", 5) == 0);
    for (int i = 0; phi3 && i < t->raw.n; i++) {
        Str text = {t->raw.tokens[i].text, t->raw.tokens[i].n};
        t->raw.tokens[i].rstrip =
            !gguf_str_is(text, "<unk>") && !gguf_str_is(text, "<s>") && !gguf_str_is(text, "<|endoftext|>");
    }
    return 0;
}

/* The row of tokenizer.ggml.pre; NULL on failure. */
static const Pre *read_pre(struct Tokenizer *t, const Gguf *g, bool gemma4, Error *e) {
    Str name = {0};
    int found = gguf_get_str(g, "tokenizer.ggml.pre", &name, e);
    if (found < 0) return NULL;
    if (gemma4) name = (Str){"gemma4", 6};
    else if (!found || name.n == 0) name = (Str){"default", 7};
    const Pre *pre = pre_find(name.s, name.n);
    if (!pre)
        fail(e, "%s: tokenizer.ggml.pre: expected a pre-tokenizer that llama.cpp knows, found \"%.*s\"", g->file->path,
             name.n > 60 ? 60 : (int)name.n, name.s);
    if (gguf_str_is(name, "default"))
        snprintf(t->note, sizeof t->note,
                 "tokenizer.ggml.pre: %s: the file does not say how its model cuts text into words; the ids may be "
                 "wrong, convert it anew",
                 found ? "\"default\"" : "missing");
    return pre;
}

static int read_model(struct Tokenizer *t, const Gguf *g, GgufModel model, const Pre *pre, Error *e) {
    switch (model) {
    case GGUF_RANKED: return read_ranked(t, g, pre, e);
    case GGUF_SCORED: return read_scored(t, g, e);
    case GGUF_UNIGRAM: return read_gguf_unigram(t, g, e);
    case GGUF_WORDPIECE: return read_gguf_wordpiece(t, g, e);
    }
    return -1;
}

int read_gguf_vocab(struct Tokenizer *t, const Gguf *g, Error *e) {
    const char *file = g->file->path;
    Str model, template;
    const ModelRow *m = NULL;
    int found = gguf_get_str(g, "tokenizer.ggml.model", &model, e);
    if (found < 0) return -1;
    if (!found) return fail(e, "%s: tokenizer.ggml.model: expected a vocabulary, found none", file);
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (gguf_str_is(model, MODELS[i].name)) m = &MODELS[i];
    if (!m)
        return fail(e, "%s: tokenizer.ggml.model: expected llama, gpt2, gemma4, t5 or bert, found \"%.*s\"", file,
                    model.n > 60 ? 60 : (int)model.n, model.s);
    const Pre *pre = NULL;
    if (m->model == GGUF_RANKED && !(pre = read_pre(t, g, gguf_str_is(model, "gemma4"), e))) return -1;
    Spelling spelling = pre && !(pre->flags & PRE_METASPACE) ? SPELL_BYTE_ALPHABET : SPELL_METASPACE;
    if (read_pieces(t, g, spelling, m->model == GGUF_SCORED || m->model == GGUF_UNIGRAM, e) ||
        read_special(t, g, m, pre, e))
        return -1;
    found = gguf_get_str(g, "tokenizer.chat_template", &template, e);
    if (found < 0) return -1;
    if (found && !(t->chat_template = strndup(template.s, template.n)))
        return fail(e, "%s: memory: expected some, found none", file);
    if (read_model(t, g, m->model, pre, e) || add_special_pieces(t, true, file, e) || read_name(t, g, e)) return -1;
    return m->model == GGUF_SCORED ? score_finish(t, METASPACE, file, e) : 0;
}

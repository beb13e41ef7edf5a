/* GGUF vocabularies of other models than byte-pair encoding: "t5" (Unigram) and "bert" (WordPiece).
 * Source: llama.cpp, src/llama-vocab.cpp, llm_tokenizer_ugm and llm_tokenizer_wpm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"
#include "tokenizer/json_steps.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁ */

static int get_bool(const Gguf *g, const char *key, bool *out, Error *e) {
    return gguf_get_bool(g, key, out, e) < 0 ? -1 : 0;
}

static int add_charsmap(struct Tokenizer *t, const Gguf *g, Error *e) {
    static const char KEY[] = "tokenizer.ggml.precompiled_charsmap";
    const GgufKv *kv = gguf_find(g, KEY);
    if (!kv || (kv->type == GGUF_ARRAY && kv->n == 0)) return 0;
    if (kv->type != GGUF_ARRAY || (kv->item_type != GGUF_I8 && kv->item_type != GGUF_U8))
        return fail(e, "%s: %s: expected an array of int8, found another type", g->file->path, KEY);
    NormalizeStep step = {.kind = NORMALIZE_CHARSMAP};
    if (charsmap_from_bytes(&step.charsmap, kv->value, kv->n, g->file->path, e)) {
        charsmap_close(&step.charsmap);
        return -1;
    }
    return normalizer_add(&t->normalizer, step, g->file->path, e);
}

/* Spaces at the ends go, and of several neighbours all but one. */
static int add_squeeze(struct Tokenizer *t, const char *file, Error *e) {
    static const struct { const char *match, *text; } steps[] = {{"\\A +| +\\z", ""}, {" {2,}", " "}};
    for (int i = 0; i < 2; i++) {
        NormalizeStep step = {.kind = NORMALIZE_REPLACE, .text = strdup(steps[i].text), .n = strlen(steps[i].text)};
        step.match = step.text ? regex_new(steps[i].match, strlen(steps[i].match), false, file, e) : NULL;
        if (!step.match) {
            free(step.text);
            return fail(e, "%s: memory: expected some, found none", file);
        }
        if (normalizer_add(&t->normalizer, step, file, e)) return -1;
    }
    return 0;
}

int read_gguf_unigram(struct Tokenizer *t, const Gguf *g, Error *e) {
    const char *file = g->file->path;
    bool adds_space = false, squeeze = false;
    if (get_bool(g, "tokenizer.ggml.add_space_prefix", &adds_space, e) ||
        get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &squeeze, e) || add_charsmap(t, g, e) ||
        (squeeze && add_squeeze(t, file, e)))
        return -1;
    t->model = MODEL_UNIGRAM;
    t->kind = "unigram";
    t->respell = " ";
    t->space = METASPACE;
    if (adds_space || squeeze) t->prefix = METASPACE; /* squeezing puts one before every word */
    t->prefix_scheme = PREFIX_ALWAYS;
    t->strips_space = adds_space;
    double *scores = malloc(((size_t)t->vocab.n + 1) * sizeof *scores);
    if (!(t->words = pretokenizer_new()) || !scores) {
        free(scores);
        return fail(e, "%s: memory: expected some, found none", file);
    }
    for (int id = 0; id < t->vocab.n; id++)
        scores[id] = t->vocab.pieces[id].kind == PIECE_USER ? 0 : (double)t->vocab.pieces[id].score;
    return unigram_init(&t->unigram, &t->vocab, scores, t->unk, false, file, e);
}

/* A part of the pipeline given as JSON, as tokenizer.json has it. */
static int read_part(int (*read)(void *into, const cJSON *part, const char *file, Error *e), void *into,
                     const char *json, const char *file, Error *e) {
    cJSON *part = cJSON_Parse(json);
    int status = part ? read(into, part, file, e) : fail(e, "%s: memory: expected some, found none", file);
    cJSON_Delete(part);
    return status;
}

static int into_normalizer(void *into, const cJSON *part, const char *file, Error *e) {
    return read_normalizer(into, part, file, e);
}
static int into_words(void *into, const cJSON *part, const char *file, Error *e) {
    return read_pre_tokenizer(into, part, file, e);
}

int read_gguf_wordpiece(struct Tokenizer *t, const Gguf *g, Error *e) {
    const char *file = g->file->path;
    bool lower = true, accents;
    char steps[128];
    if (get_bool(g, "tokenizer.ggml.normalizer.lowercase", &lower, e)) return -1;
    accents = lower;
    if (get_bool(g, "tokenizer.ggml.normalizer.strip_accents", &accents, e)) return -1;
    snprintf(steps, sizeof steps, "{\"type\": \"BertNormalizer\", \"lowercase\": %s, \"strip_accents\": %s}",
             lower ? "true" : "false", accents ? "true" : "false");
    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", file);
    /* Pieces that begin a word have U+2581 in front here, instead of ## before those that do not. */
    CutStep prefix = {.kind = CUT_PREFIX, .text = "\u2581", .scheme = PREFIX_ALWAYS};
    if (read_part(into_normalizer, &t->normalizer, steps, file, e) ||
        read_part(into_words, t->words, "{\"type\": \"BertPreTokenizer\"}", file, e) ||
        pretokenizer_add_step(t->words, prefix, file, e))
        return -1;
    t->model = MODEL_WORDPIECE;
    t->kind = "wordpiece";
    return wordpiece_init(&t->wordpiece, &t->vocab, "", WORDPIECE_MAX_CHARS, t->unk, file, e);
}

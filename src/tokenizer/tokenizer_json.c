/* Hugging Face's tokenizer.json (BPE models). What would change the ids and is not known here is refused by its name.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "tokenizer/impl.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁ */
enum { MAX_ID = 1 << 24, MAX_HOLES = 1 << 15 };

static const cJSON *get(const cJSON *object, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found && cJSON_IsNull(found) ? NULL : found;
}

static const char *get_text(const cJSON *object, const char *key) {
    const cJSON *found = get(object, key);
    return cJSON_IsString(found) ? found->valuestring : NULL;
}

static bool is_type(const cJSON *object, const char *type) {
    const char *found = get_text(object, "type");
    return found && strcmp(found, type) == 0;
}

static int unknown_part(const char *part, const cJSON *object, const char *known, const char *file, Error *e) {
    const char *type = get_text(object, "type");
    return fail(e, "%s: %s: expected %.200s, found %s", file, part, known, type ? type : "none");
}

/* One step, or the steps of a Sequence (in `list`), through `each`. An absent part has no steps. */
static int for_each_step(struct Tokenizer *t, const cJSON *part, const char *list,
                         int (*each)(struct Tokenizer *t, const cJSON *step, const char *file, Error *e),
                         const char *file, Error *e) {
    if (!part) return 0;
    if (!is_type(part, "Sequence")) return each(t, part, file, e);
    const cJSON *steps = get(part, list), *step;
    if (!cJSON_IsArray(steps)) return fail(e, "%s: Sequence: expected an array %s, found none", file, list);
    cJSON_ArrayForEach(step, steps) if (for_each_step(t, step, list, each, file, e)) return -1;
    return 0;
}

/* ---- vocabulary ---- */

/* The pieces (text -> id in `vocab`, then added_tokens) into t->vocab; their texts are copied. */
static int fill_vocab(struct Tokenizer *t, const cJSON *vocab, const cJSON *added, Spelling spelling, bool byte_pieces,
                      const char *file, Error *e) {
    const cJSON *item;
    size_t bytes = 1;
    int n = 0, count = cJSON_GetArraySize(vocab) + cJSON_GetArraySize(added);
    if (!cJSON_IsObject(vocab)) return fail(e, "%s: model.vocab: expected an object, found something else", file);
    cJSON_ArrayForEach(item, vocab) {
        if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < 0 ||
            item->valueint >= MAX_ID)
            return fail(e, "%s: model.vocab: id of \"%.60s\": expected an integer from 0 to %d, found %.15g", file,
                        item->string, MAX_ID - 1, cJSON_IsNumber(item) ? item->valuedouble : -1);
        if (item->valueint >= n) n = item->valueint + 1;
        bytes += strlen(item->string) + 1;
    }
    cJSON_ArrayForEach(item, added) {
        int id = -1;
        const char *content = get_text(item, "content");
        if (json_int(&id, item, "id", 0, MAX_ID - 1, file, e)) return -1;
        if (id < 0 || !content || !*content)
            return fail(e, "%s: added_tokens: expected an id and a content, found none", file);
        if (id >= n) n = id + 1;
        bytes += strlen(content) + 1;
    }
    if (n == 0) return fail(e, "%s: model.vocab: expected tokens, found none", file);
    if (n / 2 > count + MAX_HOLES) /* a table of that many ids would be mostly holes */
        return fail(e, "%s: model.vocab: expected ids near the number of tokens %d, found %d", file, count, n - 1);
    if (vocab_init(&t->vocab, n, file, e)) return -1;
    char *next = t->texts = malloc(bytes);
    if (!next) return fail(e, "%s: memory: expected room for %d tokens, found none", file, n);
    cJSON_ArrayForEach(item, vocab) {
        Piece *p = &t->vocab.pieces[item->valueint];
        if (p->kind != PIECE_NONE)
            return fail(e, "%s: model.vocab: id %d: expected one token, found \"%.60s\" and \"%.60s\"", file,
                        item->valueint, p->text, item->string);
        size_t length = strlen(item->string);
        memcpy(next, item->string, length + 1);
        *p = (Piece){.text = next, .n = (uint32_t)length, .kind = PIECE_NORMAL};
        if (byte_pieces && length == 6 && memcmp(next, "<0x", 3) == 0 && next[5] == '>') p->kind = PIECE_BYTE;
        next += length + 1;
    }
    cJSON_ArrayForEach(item, added) {
        const char *content = get_text(item, "content");
        int id = (int)get(item, "id")->valuedouble;
        bool special = false;
        if (json_bool(&special, item, "special", file, e)) return -1;
        Piece *p = &t->vocab.pieces[id];
        size_t length = strlen(content);
        if (p->kind != PIECE_NONE && (p->n != length || memcmp(p->text, content, length) != 0))
            return fail(e, "%s: added_tokens: id %d: expected \"%.60s\" as in the vocabulary, found \"%.60s\"", file,
                        id, p->text, content);
        memcpy(next, content, length + 1);
        *p = (Piece){.text = next, .n = (uint32_t)length, .kind = special ? PIECE_CONTROL : PIECE_USER};
        next += length + 1;
    }
    return vocab_finish(&t->vocab, spelling, file, e);
}

/* What is looked for in the text: as it is, or, when the token says "normalized", after the normalizer
 * (which then has changed the token's text too). */
static int fill_added(struct Tokenizer *t, const cJSON *added, const char *file, Error *e) {
    const cJSON *item;
    int count = cJSON_GetArraySize(added);
    t->normalized_texts = calloc((size_t)count + 1, sizeof *t->normalized_texts);
    if (!t->normalized_texts) return fail(e, "%s: memory: expected some, found none", file);
    cJSON_ArrayForEach(item, added) {
        int id = (int)get(item, "id")->valuedouble;
        const Piece *p = &t->vocab.pieces[id];
        Added a = {.text = p->text, .n = p->n, .id = id, .special = p->kind == PIECE_CONTROL};
        bool normalized = !a.special;
        if (json_bool(&a.single_word, item, "single_word", file, e) || json_bool(&a.lstrip, item, "lstrip", file, e) ||
            json_bool(&a.rstrip, item, "rstrip", file, e) || json_bool(&normalized, item, "normalized", file, e))
            return -1;
        if (normalized && t->normalizer.n) {
            char **text = &t->normalized_texts[t->n_normalized_texts];
            if (normalize(&t->normalizer, p->text, p->n, text, &a.n, e)) return -1;
            t->n_normalized_texts++;
            a.text = *text;
            if (added_push(&t->normalized, a, e)) return -1;
        } else if (added_push(&t->raw, a, e)) {
            return -1;
        }
    }
    return added_finish(&t->raw, file, e) || added_finish(&t->normalized, file, e) ? -1 : 0;
}

static int fill_merges(struct Tokenizer *t, const cJSON *merges, const char *file, Error *e) {
    const cJSON *item;
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
        if (merges_add(&t->bpe.merges, &t->vocab, rank++, left, n_left, right, strlen(right), file, e)) return -1;
    }
    return 0;
}

/* ---- the parts of the pipeline ---- */

/* A pattern is {"String": literal} or {"Regex": expression}. */
static int normalizer_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    if (is_type(step, "NFC")) return normalizer_add(&t->normalizer, NORMALIZE_NFC, "", "", file, e);
    if (is_type(step, "Prepend")) {
        const char *what = get_text(step, "prepend");
        if (!what) return fail(e, "%s: normalizer Prepend: expected a text, found none", file);
        return normalizer_add(&t->normalizer, NORMALIZE_PREPEND, what, "", file, e);
    }
    if (is_type(step, "Replace")) {
        const char *what = get_text(get(step, "pattern"), "String"), *with = get_text(step, "content");
        if (!what || !*what || !with)
            return fail(e, "%s: normalizer Replace: expected a pattern String and a content, found something else",
                        file);
        return normalizer_add(&t->normalizer, NORMALIZE_REPLACE, what, with, file, e);
    }
    return unknown_part("normalizer", step, "NFC, Prepend, Replace or a Sequence of them", file, e);
}

static int metaspace_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    static const char SPLIT[] = "\\x{2581}[^\\x{2581}]*"; /* cuts before each ▁ */
    const char *replacement = get_text(step, "replacement"), *scheme = get_text(step, "prepend_scheme");
    bool add = true, split = true;
    if (json_bool(&add, step, "add_prefix_space", file, e) || json_bool(&split, step, "split", file, e)) return -1;
    if (t->space || t->prefix || !replacement || strcmp(replacement, METASPACE) != 0)
        return fail(
            e, "%s: pre_tokenizer Metaspace: expected to come first and to replace with U+2581, found otherwise", file);
    t->respell = " ";
    t->space = t->prefix = METASPACE;
    t->prefix_once = true;
    if (scheme && strcmp(scheme, "first") == 0) t->prefix_scheme = PREFIX_FIRST;
    else if (scheme ? strcmp(scheme, "always") == 0 : add) t->prefix_scheme = PREFIX_ALWAYS;
    else if (scheme && strcmp(scheme, "never") != 0)
        return fail(e, "%s: Metaspace prepend_scheme: expected always, first or never, found %.60s", file, scheme);
    return split ? pretokenizer_add(t->words, SPLIT, strlen(SPLIT), (Split){0}, file, e) : 0;
}

static int byte_level_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    bool add_space = true, use_regex = true;
    if (json_bool(&add_space, step, "add_prefix_space", file, e) || json_bool(&use_regex, step, "use_regex", file, e))
        return -1;
    if (add_space && (pretokenizer_count(t->words) || t->prefix))
        return fail(e, "%s: pre_tokenizer ByteLevel add_prefix_space: expected false behind another step, found true",
                    file);
    if (add_space) {
        t->prefix = " ";
        t->prefix_once = true;
        t->prefix_scheme = PREFIX_ALWAYS;
    }
    t->bpe.byte_level = true;
    return use_regex ? pretokenizer_add(t->words, GPT2_PATTERN, strlen(GPT2_PATTERN), (Split){0}, file, e) : 0;
}

static int split_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    static const char *const behaviors[] = {[SPLIT_ISOLATED] = "Isolated",
                                            [SPLIT_REMOVED] = "Removed",
                                            [SPLIT_CONTIGUOUS] = "Contiguous",
                                            [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                            [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext"};
    enum { N = sizeof behaviors / sizeof *behaviors };
    const char *regex = get_text(get(step, "pattern"), "Regex"), *text = get_text(get(step, "pattern"), "String");
    const char *behavior = get_text(step, "behavior"), *pattern = regex ? regex : text;
    Split split = {.literal = !regex};
    if (json_bool(&split.invert, step, "invert", file, e)) return -1;
    int i = 0;
    while (i < N && !(behavior && strcmp(behavior, behaviors[i]) == 0)) i++;
    if (i == N)
        return fail(e,
                    "%s: pre_tokenizer Split behavior: expected Isolated, Removed, Contiguous, MergedWithPrevious or "
                    "MergedWithNext, found %.60s",
                    file, behavior ? behavior : "none");
    if (!pattern) return fail(e, "%s: pre_tokenizer Split: expected a pattern, found none", file);
    split.behavior = (Behavior)i;
    return pretokenizer_add(t->words, pattern, strlen(pattern), split, file, e);
}

static int pre_tokenizer_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    if (t->bpe.byte_level) /* the letters that ByteLevel makes of the bytes would be cut */
        return fail(e, "%s: pre_tokenizer: expected ByteLevel last, found a step behind it", file);
    if (is_type(step, "ByteLevel")) return byte_level_step(t, step, file, e);
    if (is_type(step, "Metaspace")) {
        if (pretokenizer_count(t->words))
            return fail(e, "%s: pre_tokenizer Metaspace: expected to come first, found a step before it", file);
        return metaspace_step(t, step, file, e);
    }
    if (is_type(step, "Split")) return split_step(t, step, file, e);
    if (is_type(step, "Digits")) {
        bool individual = false;
        if (json_bool(&individual, step, "individual_digits", file, e)) return -1;
        return pretokenizer_add(t->words, individual ? "\\p{N}" : "\\p{N}+", individual ? 5 : 6, (Split){0}, file, e);
    }
    return unknown_part("pre_tokenizer", step, "ByteLevel, Split, Digits, Metaspace or a Sequence of them", file, e);
}

static bool replaces_metaspace(const cJSON *step) {
    const char *what = get_text(get(step, "pattern"), "String"), *with = get_text(step, "content");
    return what && with && strcmp(what, METASPACE) == 0 && strcmp(with, " ") == 0;
}

/* Decoding follows from the vocabulary's spelling; here only what is not known is refused, and what happens to the
 * first space is noted. */
static int decoder_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    if (is_type(step, "ByteLevel") || is_type(step, "ByteFallback") || is_type(step, "Fuse")) return 0;
    if (is_type(step, "Replace") && replaces_metaspace(step)) return 0;
    if (is_type(step, "Strip")) {
        int start = 0, stop = 0;
        const char *content = get_text(step, "content");
        if (json_int(&start, step, "start", 0, INT_MAX, file, e) || json_int(&stop, step, "stop", 0, INT_MAX, file, e))
            return -1;
        if (!content || strcmp(content, " ") != 0 || start > 1 || stop != 0)
            return fail(e, "%s: decoder Strip: expected one space at the start, found something else", file);
        t->strips_space = start == 1;
        return 0;
    }
    if (is_type(step, "Metaspace")) {
        const char *scheme = get_text(step, "prepend_scheme");
        bool add = true;
        if (json_bool(&add, step, "add_prefix_space", file, e)) return -1;
        t->strips_space = scheme ? strcmp(scheme, "never") != 0 : add;
        return 0;
    }
    return unknown_part("decoder", step, "ByteLevel, Metaspace, Replace of U+2581, ByteFallback, Fuse or Strip", file,
                        e);
}

/* TemplateProcessing: at most one token, BOS, before the text, and none behind it. */
static int post_processor_step(struct Tokenizer *t, const cJSON *step, const char *file, Error *e) {
    if (is_type(step, "ByteLevel")) return 0; /* only moves offsets */
    if (!is_type(step, "TemplateProcessing"))
        return unknown_part("post_processor", step, "TemplateProcessing or ByteLevel", file, e);
    const cJSON *part;
    bool text_seen = false;
    cJSON_ArrayForEach(part, get(step, "single")) {
        const cJSON *special = get(part, "SpecialToken");
        if (!special) {
            text_seen = true;
            continue;
        }
        const char *name = get_text(special, "id");
        const cJSON *ids = name ? get(get(get(step, "special_tokens"), name), "ids") : NULL;
        int id = cJSON_GetArraySize(ids) == 1 && cJSON_IsNumber(ids->child) ? ids->child->valueint : -1;
        if (text_seen || t->n_before || id < 0 || id >= t->vocab.n)
            return fail(e, "%s: post_processor: expected one token of the vocabulary before the text, found \"%.60s\"",
                        file, name ? name : "something else");
        t->bos = id;
        t->before[t->n_before++] = id;
    }
    return 0;
}

/* ---- the whole file ---- */

int read_tokenizer_root(struct Tokenizer *t, const cJSON *root, const char *file, Error *e) {
    const cJSON *model = get(root, "model"), *added = get(root, "added_tokens");
    const char *type = get_text(model, "type"), *unk = get_text(model, "unk_token");
    if (!cJSON_IsObject(model)) return fail(e, "%s: model: expected an object, found none", file);
    if (type ? strcmp(type, "BPE") != 0 : !get(model, "merges"))
        return fail(e, "%s: model.type: expected BPE, found %.60s", file, type ? type : "none");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *affix = get_text(model, affixes[i]);
        if (affix && *affix) return fail(e, "%s: model.%s: expected none, found \"%.60s\"", file, affixes[i], affix);
    }
    double dropout = 0;
    if (json_number(&dropout, model, "dropout", file, e) || json_bool(&t->bpe.fuse_unk, model, "fuse_unk", file, e) ||
        json_bool(&t->bpe.byte_fallback, model, "byte_fallback", file, e) ||
        json_bool(&t->bpe.ignore_merges, model, "ignore_merges", file, e))
        return -1;
    if (dropout != 0) return fail(e, "%s: model.dropout: expected 0, found %g", file, dropout);

    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", file);
    if (for_each_step(t, get(root, "normalizer"), "normalizers", normalizer_step, file, e) ||
        for_each_step(t, get(root, "pre_tokenizer"), "pretokenizers", pre_tokenizer_step, file, e))
        return -1;
    if (!get(root, "decoder")) return unknown_part("decoder", NULL, "one", file, e);
    if (for_each_step(t, get(root, "decoder"), "decoders", decoder_step, file, e)) return -1;
    if (fill_vocab(t, get(model, "vocab"), added, t->bpe.byte_level ? SPELL_BYTE_ALPHABET : SPELL_METASPACE,
                   t->bpe.byte_fallback, file, e) ||
        fill_added(t, added, file, e) || fill_merges(t, get(model, "merges"), file, e))
        return -1;
    if (unk) {
        t->unk = t->bpe.unk = table_get(&t->vocab.ids, unk, strlen(unk));
        if (t->unk < 0) return fail(e, "%s: model.unk_token: expected a token, found \"%.60s\"", file, unk);
    }
    if (for_each_step(t, get(root, "post_processor"), "processors", post_processor_step, file, e)) return -1;
    t->model = MODEL_RANK;
    t->kind = t->bpe.byte_level ? "byte-bpe" : "bpe";
    return 0;
}

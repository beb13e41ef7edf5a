/* to_json - a vocabulary as the tokenizer.json that gives the same ids, which is tried before it is written. Source:
 * Hugging Face tokenizers; the files of the models whose pre-tokenizer a GGUF names. Test: tests/test_convert.sh */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/impl.h"
#include "tokenizer/json_build.h"
#include "tokenizer/trial.h"

/* ---- Byte-pair encoding by ranks ------------------------------------------------------------------ */

/* Room for the text of any piece, or of two with a space between. */
static char *text_of(char *out, const Piece *p) {
    memcpy(out, p->text, p->n);
    out[p->n] = 0;
    return out + p->n;
}

static bool add_vocab(cJSON *model, const Tokenizer *t, char *text) {
    cJSON *vocab = cJSON_AddObjectToObject(model, "vocab");
    bool ok = vocab != NULL;
    for (int id = 0; id < t->vocab.n && ok; id++) {
        const Piece *p = &t->vocab.pieces[id];
        size_t bad;
        if (p->n == 0 || table_get(&t->vocab.ids, p->text, p->n) != id) continue; /* found by another id */
        if (memchr(p->text, 0, p->n) || !utf8_valid(p->text, p->n, &bad)) continue;
        text_of(text, p);
        ok = cJSON_AddNumberToObject(vocab, text, id);
    }
    return ok;
}

static bool add_merges(cJSON *model, const Tokenizer *t, char *text) {
    size_t n;
    Merge *list = merges_sorted(&t->bpe.merges, &n);
    cJSON *merges = cJSON_AddArrayToObject(model, "merges");
    bool ok = list && merges;
    for (size_t i = 0; i < n && ok; i++) {
        char *end = text_of(text, &t->vocab.pieces[list[i].pair >> 32]);
        *end = ' ';
        text_of(end + 1, &t->vocab.pieces[(uint32_t)list[i].pair]);
        ok = cJSON_AddItemToArray(merges, cJSON_CreateString(text));
    }
    free(list);
    return ok;
}

static bool add_ranked_steps(cJSON *root, const Tokenizer *t) {
    static const char LETTERS[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}";
    bool letters = t->bpe.byte_level;
    cJSON *words = build_words(root), *last = letters ? cJSON_Parse(LETTERS) : NULL;
    bool ok = words != NULL;
    for (int i = 0; ok && i < PRE_EXPRESSIONS && t->pre->expressions[i]; i++)
        ok = build_split(words, t->pre->expressions[i]);
    if (last && !(ok && cJSON_AddItemToArray(words, last))) {
        cJSON_Delete(last);
        ok = false;
    }
    if (ok && !letters) ok = build_spaces(root, false);
    if (ok && t->pre->flags & PRE_NFC) ok = build_add(root, "normalizer", cJSON_Parse("{\"type\": \"NFC\"}"));
    return ok && build_add(root, "decoder", letters ? cJSON_Parse(LETTERS) : build_decoder());
}

static cJSON *build_from_ranks(const Tokenizer *t, Error *e) {
    size_t longest = 0;
    for (int id = 0; id < t->vocab.n; id++)
        if (t->vocab.pieces[id].n > longest) longest = t->vocab.pieces[id].n;
    char *text = malloc(2 * longest + 2);
    cJSON *root = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(root, "model");
    bool ok = text && cJSON_AddStringToObject(model, "type", "BPE") && add_ranked_steps(root, t) &&
              cJSON_AddBoolToObject(model, "byte_fallback", t->bpe.byte_fallback) &&
              cJSON_AddBoolToObject(model, "fuse_unk", t->bpe.fuse_unk) &&
              cJSON_AddBoolToObject(model, "ignore_merges", t->bpe.ignore_merges) && add_vocab(model, t, text) &&
              add_merges(model, t, text);
    free(text);
    if (ok) return root;
    cJSON_Delete(root);
    fail(e, "tokenizer: memory: expected some, found none");
    return NULL;
}

/* ---- What goes around ----------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) { return ((const Added *)a)->id - ((const Added *)b)->id; }

/* The added tokens, in the order of their ids. */
static bool add_tokens(cJSON *root, const Tokenizer *t) {
    Added *list = malloc(((size_t)t->raw.n + 1) * sizeof *list);
    cJSON *flags = cJSON_Parse("{\"lstrip\": false, \"rstrip\": false, \"single_word\": false, \"normalized\": false}");
    bool ok = list && flags && cJSON_AddArrayToObject(root, "added_tokens");
    if (ok) memcpy(list, t->raw.tokens, (size_t)t->raw.n * sizeof *list);
    if (ok) qsort(list, (size_t)t->raw.n, sizeof *list, by_id);
    for (int i = 0; i < t->raw.n && ok; i++) {
        char *text = strndup(list[i].text, list[i].n);
        cJSON *rstrip = cJSON_CreateBool(list[i].rstrip);
        ok = text && rstrip && cJSON_ReplaceItemInObjectCaseSensitive(flags, "rstrip", rstrip) &&
             build_add_token(root, list[i].id, text, flags, list[i].special);
        free(text);
    }
    cJSON_Delete(flags);
    free(list);
    return ok;
}

static char *piece_text(const Tokenizer *t, int id) {
    return id >= 0 && id < t->vocab.n ? strndup(t->vocab.pieces[id].text, t->vocab.pieces[id].n) : NULL;
}

/* {"SpecialToken": {"id": TEXT, "type_id": 0}}, and TEXT in the list of special tokens. */
static bool add_around(cJSON *single, cJSON *special, const Tokenizer *t, int id) {
    char *text = piece_text(t, id);
    cJSON *item = cJSON_CreateObject(), *token = cJSON_AddObjectToObject(item, "SpecialToken");
    bool ok = text && cJSON_AddStringToObject(token, "id", text) && cJSON_AddNumberToObject(token, "type_id", 0) &&
              cJSON_AddItemToArray(single, item);
    if (!ok) cJSON_Delete(item);
    if (ok && !cJSON_GetObjectItemCaseSensitive(special, text)) {
        cJSON *entry = cJSON_AddObjectToObject(special, text);
        cJSON *ids = cJSON_AddArrayToObject(entry, "ids"), *tokens = cJSON_AddArrayToObject(entry, "tokens");
        ok = cJSON_AddStringToObject(entry, "id", text) && cJSON_AddItemToArray(ids, cJSON_CreateNumber(id)) &&
             cJSON_AddItemToArray(tokens, cJSON_CreateString(text));
    }
    free(text);
    return ok;
}

/* The ids before and behind a text. */
static bool add_template(cJSON *root, const Tokenizer *t) {
    if (t->n_before + t->n_after == 0) return true;
    static const char PAIR[] = "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
                               "\"type_id\": 1}}]";
    cJSON *processor = cJSON_AddObjectToObject(root, "post_processor");
    bool ok = cJSON_AddStringToObject(processor, "type", "TemplateProcessing");
    cJSON *single = cJSON_AddArrayToObject(processor, "single");
    ok = ok && build_add(processor, "pair", cJSON_Parse(PAIR));
    cJSON *special = cJSON_AddObjectToObject(processor, "special_tokens");
    cJSON *sequence = cJSON_Parse("{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}");
    for (int i = 0; i < t->n_before && ok; i++) ok = add_around(single, special, t, t->before[i]);
    ok = ok && sequence && cJSON_AddItemToArray(single, sequence);
    if (!ok) cJSON_Delete(sequence);
    for (int i = 0; i < t->n_after && ok; i++) ok = add_around(single, special, t, t->after[i]);
    return ok;
}

/* tokenizer_config.json: what transformers wants to know beside it. */
static char *print_config(const Tokenizer *t) {
    const struct {
        const char *key;
        int id;
    } named[] = {{"bos_token", t->bos}, {"eos_token", t->n_eos ? t->eos[0] : -1}, {"unk_token", t->unk}};
    cJSON *config = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(config, "tokenizer_class", "PreTrainedTokenizerFast") &&
              cJSON_AddFalseToObject(config, "clean_up_tokenization_spaces");
    for (int i = 0; i < 3 && ok; i++) {
        char *text = piece_text(t, named[i].id);
        ok = !text || cJSON_AddStringToObject(config, named[i].key, text);
        free(text);
    }
    if (ok && t->chat_template) ok = cJSON_AddStringToObject(config, "chat_template", t->chat_template);
    char *text = ok ? cJSON_Print(config) : NULL;
    cJSON_Delete(config);
    return text;
}

/* ---- The whole ------------------------------------------------------------------------------------ */

static cJSON *build(const Tokenizer *t, Error *e) {
    cJSON *root = t->model == MODEL_SCORE ? build_from_scores(t, e) : build_from_ranks(t, e);
    if (!root) return NULL;
    bool ok = cJSON_AddStringToObject(root, "version", "1.0") && add_tokens(root, t) && add_template(root, t);
    if (ok) return root;
    cJSON_Delete(root);
    fail(e, "tokenizer: memory: expected some, found none");
    return NULL;
}

void hf_tokenizer_free(HfTokenizer *files) {
    free(files->json);
    free(files->config);
    *files = (HfTokenizer){0};
}

int tokenizer_hf_files(const Tokenizer *t, HfTokenizer *out, char why[TOKENIZER_WHY], Error *e) {
    char line[TRIAL_TEXT] = "", shown[200];
    Error trial = {0};
    *why = 0;
    *out = (HfTokenizer){0};
    if (t->model != MODEL_SCORE && !(t->model == MODEL_RANK && t->pre)) {
        snprintf(why, TOKENIZER_WHY, "a vocabulary of the kind %s is not written anew: copy its files", t->kind);
        return 0;
    }
    cJSON *root = build(t, &trial);
    if (root) out->json = cJSON_PrintUnformatted(root); /* before it is read, which changes it */
    Tokenizer *again = root ? tokenizer_from_root(root, "tokenizer.json", &trial) : NULL;
    bool alike = again && trial_encodes_alike(t, again, line, &trial);
    tokenizer_close(again);
    if (alike) {
        out->config = print_config(t);
        alike = out->json && out->config;
        if (!alike) fail(&trial, "tokenizer: memory: expected some, found none");
    }
    cJSON_Delete(root);
    if (alike) return 1;
    hf_tokenizer_free(out);
    if (error_is_memory(&trial)) return fail_again(e, &trial);
    text_show(shown, sizeof shown, line, strlen(line), 40, true);
    if (*trial.text) snprintf(why, TOKENIZER_WHY, "tokenizer.json cannot hold it: %.200s", trial.text);
    else snprintf(why, TOKENIZER_WHY, "its tokenizer.json gives other ids for \"%s\"", shown);
    return 0;
}

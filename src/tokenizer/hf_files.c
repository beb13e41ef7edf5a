/* A Hugging Face directory: which file is its vocabulary, and what the files beside it say of the class, of added and
 * special tokens and of the chat template. All of it becomes one tokenizer.json, which is then read.
 * Source: transformers 5, models/auto/tokenization_auto.py, tokenization_utils_base.py (_from_pretrained) and
 * tokenization_utils_tokenizers.py (__init__). Test: tests/test_hf_tokenizer.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer/impl.h"
#include "tokenizer/json_build.h"
#include "tokenizer/json_merges.h"
#include "tokenizer/tiktoken.h"

static const cJSON *get(const cJSON *object, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found && cJSON_IsNull(found) ? NULL : found;
}

static const char *get_text(const cJSON *object, const char *key) {
    const cJSON *found = get(object, key);
    return cJSON_IsString(found) ? found->valuestring : NULL;
}

/* A token is given as a text or as {"content": text}. */
static const char *token_text(const cJSON *item) {
    return cJSON_IsString(item) ? item->valuestring : get_text(item, "content");
}

static int join(char path[FILE_PATH], const char *dir, const char *name, Error *e) {
    if (snprintf(path, FILE_PATH, "%s/%s", dir, name) < FILE_PATH) return 0;
    return fail(e, "%.100s: path: expected a shorter one, found %zu bytes", dir, strlen(dir));
}

static bool exists(const char *dir, const char *name) {
    char path[FILE_PATH];
    return snprintf(path, sizeof path, "%s/%s", dir, name) < FILE_PATH && access(path, F_OK) == 0;
}

/* The object of a file of the directory; NULL when there is no such file, or (*status -1) when it cannot be read. */
static cJSON *read_beside(const char *dir, const char *name, int *status, Error *e) {
    char path[FILE_PATH];
    if (!exists(dir, name) || join(path, dir, name, e)) return NULL;
    cJSON *object = json_read(path, e);
    if (object && !cJSON_IsObject(object)) {
        fail(e, "%s: JSON: expected an object, found something else", path);
        cJSON_Delete(object);
        object = NULL;
    }
    if (!object) *status = -1;
    return object;
}

/* The files beside a vocabulary. */
typedef struct {
    const char *dir;
    cJSON *config;                  /* tokenizer_config.json */
    cJSON *special;                 /* special_tokens_map.json, where added_tokens_decoder is not in the former */
    cJSON *added;                   /* added_tokens.json, likewise */
    cJSON *model;                   /* config.json */
    cJSON *named;                   /* bos_token and the like of the vocabulary itself, where no file says others */
    const char *model_type, *class; /* class without "Fast"; "" when none is named */
    char class_text[64];
} Beside;

static void beside_close(Beside *b) {
    cJSON_Delete(b->config);
    cJSON_Delete(b->special);
    cJSON_Delete(b->added);
    cJSON_Delete(b->model);
    cJSON_Delete(b->named);
}

static int beside_read(Beside *b, const char *dir, Error *e) {
    int status = 0;
    *b = (Beside){.dir = dir, .config = read_beside(dir, "tokenizer_config.json", &status, e)};
    const cJSON *decoder = get(b->config, "added_tokens_decoder");
    if (decoder && !cJSON_IsObject(decoder) && !cJSON_IsNull(decoder))
        status =
            fail(e, "%s/tokenizer_config.json: added_tokens_decoder: expected an object, found something else", dir);
    if (!status) b->model = read_beside(dir, "config.json", &status, e);
    if (!status && !decoder) {
        b->special = read_beside(dir, "special_tokens_map.json", &status, e);
        if (!status) b->added = read_beside(dir, "added_tokens.json", &status, e);
    }
    const char *class = get_text(b->config, "tokenizer_class"), *type = get_text(b->model, "model_type");
    if (!class) class = get_text(b->model, "tokenizer_class");
    if (!class && type && strcmp(type, "gpt2") == 0) class = "GPT2Tokenizer";
    if (!class && type && strncmp(type, "qwen", 4) == 0) class = "Qwen2Tokenizer";
    snprintf(b->class_text, sizeof b->class_text, "%s", class ? class : "");
    char *fast = strstr(b->class_text, "Fast");
    if (fast && !fast[4]) *fast = 0;
    b->class = b->class_text;
    b->model_type = type ? type : "";
    return status;
}

/* Whether the class that the files name counts: of these models transformers does not believe it. */
static bool class_counts(const Beside *b) {
    static const char *const types[] = {
        "ministral",        "ministral3", "mistral",   "mistral3", "mixtral",   "phi3",     "phimoe",   "granite",
        "granitemoe",       "olmo2",      "olmo3",     "glm",      "glm4",      "glm4_moe", "stablelm", "internlm2",
        "granitemoehybrid", "internlm3",  "ernie4_5",  "nemotron", "minicpm3",  "qwen2",    "qwen3_5",  "gpt_bigcode",
        "granitemoeshared", "persimmon",  "flex_olmo", "jamba",    "minimax_m2"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(b->model_type, types[i]) == 0) return false;
    return true;
}

static bool has_byte_level(const cJSON *part) {
    const char *type = get_text(part, "type");
    if (type && strcmp(type, "ByteLevel") == 0) return true;
    const cJSON *steps = get(part, "pretokenizers"), *step;
    if (!steps) steps = get(part, "decoders");
    cJSON_ArrayForEach(step, steps) if (has_byte_level(step)) return true;
    return false;
}

static bool is_class(const Beside *b, const char *class) { return strcmp(b->class, class) == 0 && class_counts(b); }

static int get_bool(const Beside *b, const char *key, bool *value, Error *e) {
    char path[FILE_PATH];
    return join(path, b->dir, "tokenizer_config.json", e) || json_bool(value, b->config, key, path, e) ? -1 : 0;
}

/* ---- added tokens --------------------------------------------------------------------------------------- */

/* Adds tokens to a root as the tokenizers library does: one that the model has keeps its id, others get the next. */
typedef struct {
    cJSON *root;
    Table added, model; /* content -> id; the second is filled when it is needed first */
    const cJSON *vocab;
    int n_model, next; /* next: the id of a token that has none yet */
    const char *file;
} Adder;

static void adder_close(Adder *a) {
    table_close(&a->added);
    table_close(&a->model);
}

/* An id, or -1: what is none, or is far too large, the reader of the whole refuses. */
static int id_of(const cJSON *item) {
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= 1 << 28 ? item->valueint : -1;
}

/* more: how many tokens may come. */
static int adder_init(Adder *a, cJSON *root, size_t more, const char *file, Error *e) {
    const cJSON *list = get(root, "added_tokens"), *item;
    if (!cJSON_IsObject(root)) return fail(e, "%s: JSON: expected an object, found something else", file);
    if (list && !cJSON_IsArray(list)) return fail(e, "%s: added_tokens: expected an array, found something else", file);
    if (!list) cJSON_DeleteItemFromObjectCaseSensitive(root, "added_tokens"); /* null */
    *a = (Adder){.root = root, .vocab = get(get(root, "model"), "vocab"), .file = file};
    a->next = a->n_model = cJSON_GetArraySize(a->vocab);
    if (!table_init(&a->added, more + (size_t)cJSON_GetArraySize(list)))
        return fail(e, "%s: memory: expected room for the added tokens, found none", file);
    cJSON_ArrayForEach(item, list) {
        const char *content = get_text(item, "content");
        int id = id_of(get(item, "id"));
        if (!content || id < 0) continue;
        table_put(&a->added, content, strlen(content), id);
        if (id >= a->next) a->next = id + 1;
    }
    return 0;
}

/* The id in the model's own vocabulary, or -1; -2 when out of memory. */
static int model_id(Adder *a, const char *content) {
    const cJSON *item;
    int id = 0;
    if (!a->model.n_slots) {
        if (!table_init(&a->model, (size_t)a->n_model)) return -2;
        bool list = cJSON_IsArray(a->vocab); /* of [piece, score], where the place is the id */
        cJSON_ArrayForEach(item, a->vocab) {
            const char *text = !list ? item->string : item->child ? item->child->valuestring : NULL;
            int value = list ? id++ : id_of(item);
            if (text && value >= 0) table_put(&a->model, text, strlen(text), value);
        }
    }
    return table_get(&a->model, content, strlen(content));
}

/* token: a text, or an object with content and flags; only_known: a token that has no id yet is left out. */
static int add_token(Adder *a, const cJSON *token, const char *content, int special, bool only_known, Error *e) {
    if (!content || !*content || table_get(&a->added, content, strlen(content)) >= 0) return 0;
    int id = model_id(a, content);
    if (id == -1 && only_known) return 0;
    if (id == -1) id = a->next;
    if (id < 0 || !build_add_token(a->root, id, content, token, special))
        return fail(e, "%s: memory: expected room for the added tokens, found none", a->file);
    const cJSON *last = get(a->root, "added_tokens")->child->prev; /* cJSON keeps the last item there */
    content = get_text(last, "content");
    table_put(&a->added, content, strlen(content), id);
    if (id >= a->next) a->next = id + 1;
    return 0;
}

static int by_id(const void *a, const void *b) {
    const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
    long long i = atoll(x->string), k = atoll(y->string);
    return (i > k) - (i < k);
}

static int by_value(const void *a, const void *b) {
    const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
    return (x->valuedouble > y->valuedouble) - (x->valuedouble < y->valuedouble);
}

/* The items of an object in the order of their ids; malloc'ed. */
static const cJSON **sorted(const cJSON *object, int n, int (*order)(const void *, const void *)) {
    const cJSON **items = malloc(((size_t)n + 1) * sizeof *items), **next = items, *item;
    if (!items) return NULL;
    cJSON_ArrayForEach(item, object) *next++ = item;
    qsort(items, (size_t)n, sizeof *items, order);
    return items;
}

/* added_tokens_decoder {"32000": {content, flags}} or added_tokens.json {content: 32000}. Their ids say the order. */
static int add_listed(Adder *a, const Beside *b, Error *e) {
    const cJSON *decoder = get(b->config, "added_tokens_decoder"), *object = decoder ? decoder : b->added;
    int n = cJSON_GetArraySize(object), status = 0;
    if (n == 0) return 0;
    const cJSON **items = sorted(object, n, decoder ? by_id : by_value);
    if (!items) return fail(e, "%s: memory: expected some, found none", a->file);
    for (int i = 0; i < n && !status; i++)
        status = decoder ? add_token(a, items[i], get_text(items[i], "content"), -1, false, e)
                         : add_token(a, NULL, items[i]->string, false, false, e);
    free(items);
    return status;
}

/* What the files say under a key, special_tokens_map.json before tokenizer_config.json. */
static const cJSON *said(const Beside *b, const char *key) {
    const cJSON *found = get(b->special, key);
    if (!found) found = get(b->config, key);
    return found ? found : get(b->named, key);
}

static const char *const NAMED[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { N_NAMED = sizeof NAMED / sizeof *NAMED };

static bool is_named(const char *key) {
    for (int i = 0; i < N_NAMED; i++)
        if (strcmp(NAMED[i], key) == 0) return true;
    return false;
}

/* The tokens that each class has when no file names others. */
static const char *default_token(const Beside *b, const char *key) {
    static const struct {
        const char *class, *bos, *eos, *unk, *pad;
    } rows[] = {{"LlamaTokenizer", "<s>", "</s>", "<unk>", NULL},
                {"GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL},
                {"Qwen2Tokenizer", NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(b->class, rows[i].class) != 0) continue;
        if (strcmp(key, "bos_token") == 0) return rows[i].bos;
        if (strcmp(key, "eos_token") == 0) return rows[i].eos;
        if (strcmp(key, "unk_token") == 0) return rows[i].unk;
        if (strcmp(key, "pad_token") == 0) return rows[i].pad;
    }
    return NULL;
}

/* Tokens with names (bos_token, image_token...) and without: all are special. */
static int add_special(Adder *a, const Beside *b, Error *e) {
    const cJSON *item, *extra = said(b, "extra_special_tokens");
    for (int i = 0; i < N_NAMED; i++) {
        const cJSON *token = said(b, NAMED[i]);
        if (token ? add_token(a, token, token_text(token), true, false, e)
                  : add_token(a, NULL, default_token(b, NAMED[i]), true, true, e))
            return -1;
    }
    cJSON_ArrayForEach(item, b->config) {
        size_t n = strlen(item->string);
        if (n > 6 && strcmp(item->string + n - 6, "_token") == 0 && cJSON_IsString(item) && !is_named(item->string) &&
            add_token(a, NULL, item->valuestring, true, false, e))
            return -1;
    }
    if (cJSON_GetArraySize(extra) == 0) extra = said(b, "additional_special_tokens");
    cJSON_ArrayForEach(item, extra) if (add_token(a, item, token_text(item), true, false, e)) return -1;
    return 0;
}

static int add_tokens(cJSON *root, const Beside *b, const char *file, Error *e) {
    Adder a;
    size_t more = N_NAMED + (size_t)cJSON_GetArraySize(b->config) + (size_t)cJSON_GetArraySize(b->added) +
                  (size_t)cJSON_GetArraySize(get(b->config, "added_tokens_decoder"));
    static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};
    for (int i = 0; i < 2; i++) more += (size_t)cJSON_GetArraySize(said(b, lists[i]));
    a = (Adder){0};
    int status = adder_init(&a, root, more, file, e);
    if (!status) status = add_listed(&a, b, e);
    if (!status) status = add_special(&a, b, e);
    adder_close(&a);
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------------------------- */

static int special_id(const struct Tokenizer *t, const Beside *b, const char *key) {
    const cJSON *token = said(b, key);
    const char *text = token ? token_text(token) : default_token(b, key);
    return text ? table_get(&t->vocab.ids, text, strlen(text)) : -1;
}

static const char *pick_template(const cJSON *config) {
    const cJSON *found = get(config, "chat_template"), *item;
    if (cJSON_IsString(found)) return found->valuestring;
    if (cJSON_IsObject(found)) return get_text(found, "default");
    cJSON_ArrayForEach(item, found) {
        const char *name = get_text(item, "name");
        if (name && strcmp(name, "default") == 0) return get_text(item, "template");
    }
    return NULL;
}

/* chat_template.jinja, else tokenizer_config.json's, else chat_template.json. */
static int read_template(struct Tokenizer *t, const Beside *b, Error *e) {
    char path[FILE_PATH];
    size_t size;
    int status = 0;
    if (exists(b->dir, "chat_template.jinja"))
        return join(path, b->dir, "chat_template.jinja", e) || file_read(&t->chat_template, &size, path, e) ? -1 : 0;
    const char *template = pick_template(b->config);
    cJSON *json = template ? NULL : read_beside(b->dir, "chat_template.json", &status, e);
    if (json) template = pick_template(json);
    if (!status && template && !(t->chat_template = strdup(template)))
        status = fail(e, "%s: memory: expected some, found none", b->dir);
    cJSON_Delete(json);
    return status;
}

/* Reads the tokenizer.json that the vocabulary and the files beside it make. own_template: a vocabulary file that says
 * itself what is put around a text. */
static int read_whole(struct Tokenizer *t, cJSON *root, const Beside *b, bool own_template, const char *file,
                      Error *e) {
    if (add_tokens(root, b, file, e) || read_tokenizer_root(t, root, file, e) || read_template(t, b, e)) return -1;
    int bos = special_id(t, b, "bos_token"), eos = special_id(t, b, "eos_token");
    if (bos >= 0 && !t->n_before) t->bos = bos;
    add_eos(t, eos);
    add_known_eos(t);
    if (own_template) return 0;
    bool adds_bos = false, adds_eos = false;
    if (get_bool(b, "add_bos_token", &adds_bos, e) || get_bool(b, "add_eos_token", &adds_eos, e)) return -1;
    if (adds_bos && t->bos >= 0) t->before[t->n_before++] = t->bos;
    if (adds_eos && eos >= 0) t->after[t->n_after++] = eos;
    return 0;
}

static LlamaSteps llama_steps(const Beside *b, int *status, Error *e) {
    LlamaSteps steps = {.legacy = false, .add_prefix_space = true};
    if (get_bool(b, "legacy", &steps.legacy, e) || get_bool(b, "add_prefix_space", &steps.add_prefix_space, e))
        *status = -1;
    return steps;
}

static int read_json(struct Tokenizer *t, Beside *b, const char *path, Error *e) {
    int status = 0;
    cJSON *root = json_read_tokenizer(path, e), *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    if (!root) return -1;
    if (is_tekken(root)) {
        status = read_tekken(t, root, path, e) || read_template(t, b, e) ? -1 : 0;
        cJSON_Delete(root);
        return status;
    }
    const char *type = get_text(model, "type");
    bool ranked = type ? strcmp(type, "BPE") == 0 : get(model, "merges") != NULL;
    /* The class sets its own steps, unless the file shows that it is not of that class. */
    if (ranked && is_class(b, "LlamaTokenizer") && !has_byte_level(get(root, "pre_tokenizer")) &&
        !has_byte_level(get(root, "decoder"))) {
        LlamaSteps steps = llama_steps(b, &status, e);
        if (!status && !build_llama_steps(root, steps)) status = fail(e, "%s: memory: expected some, found none", path);
    }
    if (!status) status = read_whole(t, root, b, true, path, e);
    cJSON_Delete(root);
    return status;
}

static int read_spm(struct Tokenizer *t, Beside *b, const char *path, Error *e) {
    int status = 0;
    bool legacy = true;
    LlamaSteps steps = llama_steps(b, &status, e);
    if (status || get_bool(b, "legacy", &legacy, e) || file_map(&t->file, path, e)) return -1;
    if (is_tiktoken(&t->file)) /* Llama 3's own release */
        return read_tiktoken(t, &t->file, get(b->config, "added_tokens_decoder"), e) || read_template(t, b, e) ? -1 : 0;
    if (!b->config && !b->special && !b->added) { /* nothing says more than the model itself: its library reads it */
        if (read_sentencepiece(t, &t->file, e)) return -1;
        t->control_is_text = false;
        return read_template(t, b, e);
    }
    cJSON *root = build_from_spm(&t->file, is_class(b, "LlamaTokenizer") ? &steps : NULL, legacy, e);
    if (!root) return -1;
    b->named = cJSON_DetachItemFromObjectCaseSensitive(root, "named");
    status = read_whole(t, root, b, false, path, e);
    cJSON_Delete(root);
    return status;
}

static int read_gpt2(struct Tokenizer *t, Beside *b, const char *vocab, Error *e) {
    char merges[FILE_PATH];
    bool prefix = false, qwen2 = strcmp(b->class, "Qwen2Tokenizer") == 0;
    if (join(merges, b->dir, "merges.txt", e) || get_bool(b, "add_prefix_space", &prefix, e)) return -1;
    cJSON *root = build_from_gpt2(vocab, merges, qwen2, prefix, e);
    if (!root) return -1;
    int status = read_whole(t, root, b, false, vocab, e);
    cJSON_Delete(root);
    return status;
}

static int read_ranks(struct Tokenizer *t, Beside *b, const char *path, Error *e) {
    if (file_map(&t->file, path, e) || read_tiktoken(t, &t->file, get(b->config, "added_tokens_decoder"), e)) return -1;
    return read_template(t, b, e);
}

/* In the order in which they count when there are several. */
static const struct {
    const char *name;
    int (*read)(struct Tokenizer *t, Beside *b, const char *path, Error *e);
} VOCABULARIES[] = {
    {"tekken.json", read_json},          {"tokenizer.json", read_json},
    {"tokenizer.model", read_spm},       {"vocab.json", read_gpt2},
    {"tekken.json", read_json},          {"tiktoken.model", read_ranks},
    {"qwen.tiktoken", read_ranks},       {"tokenizer.tiktoken", read_ranks},
    {"vocab.tiktoken", read_ranks},      {"cl100k_base.tiktoken", read_ranks},
    {"o200k_base.tiktoken", read_ranks},
};
enum { N_VOCABULARIES = sizeof VOCABULARIES / sizeof *VOCABULARIES };

int read_tokenizer_json(struct Tokenizer *t, const char *path, Error *e) {
    Beside b;
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!dir) return fail(e, "%s: memory: expected some, found none", path);
    int status = beside_read(&b, dir, e);
    if (!status) status = read_json(t, &b, path, e);
    if (t->bpe.by_text) t->control_is_text = true; /* a tekken.json alone keeps mistral-common's rule, too */
    beside_close(&b);
    free(dir);
    return status;
}

int read_hf_directory(struct Tokenizer *t, const char *dir, Error *e) {
    Beside b;
    char path[FILE_PATH];
    int status = beside_read(&b, dir, e);
    /* Of Mistral's models transformers takes tekken.json first. */
    size_t first = strstr(b.model_type, "mistral") || strstr(b.model_type, "ministral") ? 0 : 1, i = first;
    while (!status && i < N_VOCABULARIES && !exists(dir, VOCABULARIES[i].name)) i++;
    if (!status && i == N_VOCABULARIES)
        status = fail(e, "%s: tokenizer: expected tokenizer.json, tokenizer.model or vocab.json, found none", dir);
    if (!status) status = join(path, dir, VOCABULARIES[i].name, e) || VOCABULARIES[i].read(t, &b, path, e) ? -1 : 0;
    beside_close(&b);
    return status;
}

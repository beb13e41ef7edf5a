/* The files of a Hugging Face directory around its vocabulary: tokenizer_config.json, chat templates, and GPT-2's
 * vocab.json with merges.txt, which is read as the tokenizer.json that it stands for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json.h"
#include "tokenizer/impl.h"

static const cJSON *get(const cJSON *object, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found && cJSON_IsNull(found) ? NULL : found;
}

static const char *get_text(const cJSON *object, const char *key) {
    const cJSON *found = get(object, key);
    return cJSON_IsString(found) ? found->valuestring : NULL;
}

/* A token is given as a text or as {"content": text}. */
static int token_id(const struct Tokenizer *t, const cJSON *config, const char *key) {
    const cJSON *item = get(config, key);
    const char *text = cJSON_IsString(item) ? item->valuestring : get_text(item, "content");
    return text ? table_get(&t->vocab.ids, text, strlen(text)) : -1;
}

static const char *pick_template(const cJSON *config) {
    const cJSON *found = get(config, "chat_template"), *item;
    if (cJSON_IsString(found)) return found->valuestring;
    cJSON_ArrayForEach(item, found) {
        const char *name = get_text(item, "name");
        if (name && strcmp(name, "default") == 0) return get_text(item, "template");
    }
    return NULL;
}

static int join(char path[4096], const char *dir, const char *name, Error *e) {
    if (snprintf(path, 4096, "%s/%s", dir, name) < 4096) return 0;
    return fail(e, "%.100s: path: expected a shorter one, found %zu bytes", dir, strlen(dir));
}

static int read_config(struct Tokenizer *t, const char *dir, Error *e) {
    char path[4096];
    if (join(path, dir, "chat_template.jinja", e)) return -1;
    size_t size;
    if (access(path, F_OK) == 0 && file_read(&t->chat_template, &size, path, e)) return -1;
    if (join(path, dir, "tokenizer_config.json", e)) return -1;
    if (access(path, F_OK) != 0) return 0;
    cJSON *config = json_read(path, e);
    if (!config) return -1;
    const char *class = get_text(config, "tokenizer_class"), *template = pick_template(config);
    int bos = token_id(t, config, "bos_token"), status = 0;
    if (bos >= 0 && !t->n_before) t->bos = bos;
    add_eos(t, token_id(t, config, "eos_token"));
    /* transformers' Llama classes set the template by this key, the others leave it alone. */
    if (class && strncmp(class, "LlamaTokenizer", 14) == 0 && t->bos >= 0) {
        bool adds_bos = t->n_before > 0;
        status = json_bool(&adds_bos, config, "add_bos_token", path, e);
        t->n_before = adds_bos;
        t->before[0] = t->bos;
    }
    if (!status && template && !t->chat_template && !(t->chat_template = strdup(template)))
        status = fail(e, "%s: memory: expected some, found none", path);
    cJSON_Delete(config);
    return status;
}

int read_tokenizer_json(struct Tokenizer *t, const char *path, Error *e) {
    cJSON *root = json_read(path, e);
    if (!root) return -1;
    int status = read_tokenizer_root(t, root, path, e);
    cJSON_Delete(root);
    if (status) return -1;
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!dir) return fail(e, "%s: memory: expected some, found none", path);
    status = read_config(t, dir, e);
    free(dir);
    add_known_eos(t);
    return status;
}

/* merges.txt: a comment on the first line, then one merge a line. */
static cJSON *read_merges_txt(const char *path, Error *e) {
    char *text;
    size_t size;
    if (file_read(&text, &size, path, e)) return NULL;
    cJSON *merges = cJSON_CreateArray();
    bool ok = merges != NULL;
    char *end = text + size;
    for (char *line = text, *stop; ok && line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - line);
        if (n && line[n - 1] == '\r') n--;
        if (n == 0 || (line == text && n > 8 && memcmp(line, "#version", 8) == 0)) continue;
        line[n] = 0; /* the buffer has a byte behind its end */
        ok = cJSON_AddItemToArray(merges, cJSON_CreateString(line));
    }
    free(text);
    if (ok) return merges;
    cJSON_Delete(merges);
    fail(e, "%s: memory: expected room for the merges, found none", path);
    return NULL;
}

static const char GPT2_ROOT[] =
    "{\"model\": {\"type\": \"BPE\"}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": []}";

/* One more token of `added_tokens`, special. */
static bool add_special(cJSON *root, const char *content, int id) {
    cJSON *token = cJSON_CreateObject();
    if (cJSON_AddNumberToObject(token, "id", id) && cJSON_AddStringToObject(token, "content", content) &&
        cJSON_AddTrueToObject(token, "special") &&
        cJSON_AddItemToArray(cJSON_GetObjectItem(root, "added_tokens"), token))
        return true;
    cJSON_Delete(token);
    return false;
}

/* The tokenizer.json that vocab.json and merges.txt stand for; takes both. NULL when out of memory. */
static cJSON *gpt2_root(cJSON *vocab, cJSON *merges, const char *end_token) {
    cJSON *root = cJSON_Parse(GPT2_ROOT), *model = cJSON_GetObjectItem(root, "model");
    const cJSON *end = cJSON_GetObjectItemCaseSensitive(vocab, end_token);
    bool ok = !cJSON_IsNumber(end) || add_special(root, end_token, end->valueint);
    if (ok && cJSON_AddItemToObject(model, "vocab", vocab)) {
        if (cJSON_AddItemToObject(model, "merges", merges)) return root;
        vocab = NULL;
    }
    cJSON_Delete(vocab);
    cJSON_Delete(merges);
    cJSON_Delete(root);
    return NULL;
}

int read_gpt2_files(struct Tokenizer *t, const char *dir, Error *e) {
    static const char END[] = "<|endoftext|>";
    char path[4096], merges_path[4096];
    if (join(path, dir, "vocab.json", e) || join(merges_path, dir, "merges.txt", e)) return -1;
    cJSON *vocab = json_read(path, e), *merges = vocab ? read_merges_txt(merges_path, e) : NULL;
    if (!merges) {
        cJSON_Delete(vocab);
        return -1;
    }
    cJSON *root = gpt2_root(vocab, merges, END);
    int status = root ? read_tokenizer_root(t, root, path, e) : fail(e, "%s: memory: expected some, found none", path);
    cJSON_Delete(root);
    if (status) return -1;
    t->bos = table_get(&t->vocab.ids, END, strlen(END)); /* GPT-2 begins and ends texts with the same token */
    add_eos(t, t->bos);
    return read_config(t, dir, e);
}

#include "convert/carry.h"

#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "tokenizer.h"

/* One space in each line that is not a comment. */
static bool is_merges(const File *file) {
    const char *at = (const char *)file->data, *end = at + file->size;
    int merges = 0;
    for (const char *line_end; at < end; at = line_end + 1) {
        line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        size_t n = (size_t)(line_end - at);
        if (n == 0 || (merges == 0 && *at == '#')) continue;
        const char *space = memchr(at, ' ', n);
        if (!space || space == at || memchr(space + 1, ' ', (size_t)(line_end - space) - 1)) return false;
        merges++;
    }
    return merges > 0;
}

static bool is_vocabulary(const cJSON *root) {
    const cJSON *item;
    cJSON_ArrayForEach(item, root) if (!cJSON_IsNumber(item)) return false;
    return root->child != NULL;
}

static bool ends_in(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Nothing but tokens: "eos_token", "additional_special_tokens". */
static bool is_special_tokens(const cJSON *root) {
    const cJSON *item;
    cJSON_ArrayForEach(item,
                       root) if (!ends_in(item->string, "_token") && !ends_in(item->string, "_tokens")) return false;
    return root->child != NULL;
}

static bool has_one_of(const cJSON *root, const char *const *keys) {
    for (; *keys; keys++)
        if (cJSON_GetObjectItemCaseSensitive(root, *keys)) return true;
    return false;
}

static bool json_understood(const cJSON *root, const char *name) {
    static const char *const tokenizer_keys[] = {
        "tokenizer_class", "added_tokens_decoder", "model_max_length", "chat_template", "bos_token", "eos_token", NULL};
    static const char *const generation_keys[] = {"eos_token_id", "bos_token_id", "transformers_version", "do_sample",
                                                  "temperature",  "pad_token_id", "_from_model_config",   NULL};
    if (!cJSON_IsObject(root)) return false;
    if (strcmp(name, "tokenizer.json") == 0)
        return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "model"), "vocab");
    if (strcmp(name, "vocab.json") == 0) return is_vocabulary(root);
    if (strcmp(name, "special_tokens_map.json") == 0) return is_special_tokens(root);
    return has_one_of(root, strcmp(name, "generation_config.json") == 0 ? generation_keys : tokenizer_keys);
}

int carry_understands(const char *path, const char *name, Error *e) {
    Error why = {0};
    bool understood = false;
    if (strcmp(name, "tokenizer.model") == 0) {
        Tokenizer *t = tokenizer_open(path, &why);
        understood = t != NULL;
        tokenizer_close(t);
    } else if (strcmp(name, "merges.txt") == 0) {
        File file;
        if (file_map(&file, path, &why) == 0) {
            understood = is_merges(&file);
            file_close(&file);
        }
    } else {
        cJSON *root = json_read(path, &why);
        understood = root && json_understood(root, name);
        cJSON_Delete(root);
    }
    return error_is_memory(&why) ? fail_again(e, &why) : understood;
}

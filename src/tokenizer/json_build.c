#include "tokenizer/json_build.h"

#include <stdlib.h>
#include <string.h>

bool build_add(cJSON *object, const char *key, cJSON *item) {
    if (item && cJSON_AddItemToObject(object, key, item)) return true;
    cJSON_Delete(item);
    return false;
}

static bool put(cJSON *object, const char *key, cJSON *item) {
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    return build_add(object, key, item);
}

cJSON *build_decoder(void) {
    return cJSON_Parse("{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "
                       "\"\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}");
}

bool build_llama_steps(cJSON *root, LlamaSteps steps) {
    static const char METASPACE[] =
        "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": \"first\", \"split\": false}";
    static const char STRIP[] = "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}";
    const char *scheme = !steps.add_prefix_space ? "never" : steps.legacy ? "always" : "first";
    cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    cJSON *words = cJSON_Parse(METASPACE), *decoder = build_decoder();
    cJSON *list = cJSON_GetObjectItemCaseSensitive(decoder, "decoders");
    bool ok = put(words, "prepend_scheme", cJSON_CreateString(scheme));
    if (ok && steps.add_prefix_space) {
        cJSON *strip = cJSON_Parse(STRIP);
        ok = strip && cJSON_AddItemToArray(list, strip);
        if (!ok) cJSON_Delete(strip);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(root, "normalizer");
    cJSON_DeleteItemFromObjectCaseSensitive(model, "unk_token");
    ok = ok && put(model, "fuse_unk", cJSON_CreateTrue()) && put(model, "byte_fallback", cJSON_CreateTrue()) &&
         put(model, "ignore_merges", cJSON_CreateFalse());
    if (!ok) {
        cJSON_Delete(words);
        cJSON_Delete(decoder);
        return false;
    }
    ok = put(root, "pre_tokenizer", words); /* both are gone when they could not be added */
    return put(root, "decoder", decoder) && ok;
}

bool build_spaces(cJSON *root, bool prefix) {
    static const char SPACES[] = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
                                 "\"\u2581\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
                                 "\"content\": \"\u2581\"}]}";
    cJSON *steps = cJSON_Parse(SPACES);
    if (!prefix) cJSON_DeleteItemFromArray(cJSON_GetObjectItem(steps, "normalizers"), 0);
    return build_add(root, "normalizer", steps);
}

cJSON *build_words(cJSON *root) {
    cJSON *sequence = cJSON_AddObjectToObject(root, "pre_tokenizer");
    cJSON *type = cJSON_AddStringToObject(sequence, "type", "Sequence");
    return type ? cJSON_AddArrayToObject(sequence, "pretokenizers") : NULL;
}

bool build_split(cJSON *list, const char *expression) {
    cJSON *split = cJSON_CreateObject(), *pattern = cJSON_AddObjectToObject(split, "pattern");
    if (cJSON_AddStringToObject(split, "type", "Split") && cJSON_AddStringToObject(split, "behavior", "Isolated") &&
        cJSON_AddFalseToObject(split, "invert") && cJSON_AddStringToObject(pattern, "Regex", expression) &&
        cJSON_AddItemToArray(list, split))
        return true;
    cJSON_Delete(split);
    return false;
}

bool build_add_token(cJSON *root, int id, const char *content, const cJSON *flags, int special) {
    static const char *const keys[] = {"lstrip", "rstrip", "single_word", "normalized", "special"};
    cJSON *token = cJSON_CreateObject(), *list = cJSON_GetObjectItemCaseSensitive(root, "added_tokens");
    if (!list) list = cJSON_AddArrayToObject(root, "added_tokens");
    bool ok = list && token && build_add(token, "id", cJSON_CreateNumber(id)) &&
              build_add(token, "content", cJSON_CreateString(content));
    for (size_t i = 0; ok && i < sizeof keys / sizeof *keys; i++) {
        const cJSON *flag = cJSON_GetObjectItemCaseSensitive(flags, keys[i]);
        if (i == 4 && special >= 0) ok = build_add(token, keys[i], cJSON_CreateBool(special));
        else if (cJSON_IsBool(flag)) ok = build_add(token, keys[i], cJSON_CreateBool(cJSON_IsTrue(flag)));
    }
    if (ok && cJSON_AddItemToArray(list, token)) return true;
    cJSON_Delete(token);
    return false;
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

static const char GPT2_ROOT[] = "{\"model\": {\"type\": \"BPE\"}, \"decoder\": {\"type\": \"ByteLevel\"}, "
                                "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}";
static const char QWEN2_ROOT[] =
    "{\"model\": {\"type\": \"BPE\"}, \"decoder\": {\"type\": \"ByteLevel\"}, \"normalizer\": {\"type\": \"NFC\"}, "
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Isolated\", "
    "\"pattern\": {\"Regex\": "
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}, "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}}";

cJSON *build_from_gpt2(const char *vocab_path, const char *merges_path, bool qwen2, bool add_prefix_space, Error *e) {
    cJSON *vocab = json_read(vocab_path, e), *merges = vocab ? read_merges_txt(merges_path, e) : NULL;
    if (!merges) {
        cJSON_Delete(vocab);
        return NULL;
    }
    cJSON *root = cJSON_Parse(qwen2 ? QWEN2_ROOT : GPT2_ROOT);
    cJSON *model = cJSON_GetObjectItem(root, "model"), *words = cJSON_GetObjectItem(root, "pre_tokenizer");
    bool added = build_add(model, "vocab", vocab); /* both are gone when they could not be added */
    added = build_add(model, "merges", merges) && added;
    if (added && (qwen2 || build_add(words, "add_prefix_space", cJSON_CreateBool(add_prefix_space)))) return root;
    cJSON_Delete(root);
    fail(e, "%s: memory: expected some, found none", vocab_path);
    return NULL;
}

/* json_merges - the list of merges of a tokenizer.json, which is half of its bytes, without a tree: read from the text
 * in place. */
#pragma once
#include "io/json.h"

/* json_read_tokenizer - json_read, but the array model.merges is left as text: an item of type cJSON_Raw. */
cJSON *json_read_tokenizer(const char *path, Error *e);

typedef struct {
    char *at;
    bool begun;
} MergeText;

/* merge_text_most - at least as many merges as the text has. */
size_t merge_text_most(const char *text);
/* merge_text_next - the next merge, "left right" or ["left", "right"], its strings unescaped in place: 1, 0 at the end
 * of the list, -1 when it is malformed. Begin with {text, false}. */
int merge_text_next(MergeText *m, char **left, size_t *n_left, char **right, size_t *n_right);

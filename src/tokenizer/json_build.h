/* json_build - the tokenizer.json that other vocabulary files stand for: Hugging Face's transformers makes one of them,
 * and so do we, so that there is one reader of steps. */
#pragma once
#include "io/file.h"
#include "io/json.h"

/* How transformers sets up a tokenizer of class LlamaTokenizer. */
typedef struct {
    bool legacy;           /* a prefix behind each special token, not only where the text begins */
    bool add_prefix_space; /* a prefix at all */
} LlamaSteps;

/* build_llama_steps - replaces the steps of root (a BPE model) by those of the class.
 * False when out of memory. Source: transformers 5, models/llama/tokenization_llama.py. */
bool build_llama_steps(cJSON *root, LlamaSteps steps);

/* build_from_spm - of a sentencepiece model; llama: for the class LlamaTokenizer (NULL: as the model's own settings
 * say; then "named" holds its bos_token, eos_token and unk_token). NULL on failure. Source: transformers 5,
 * convert_slow_tokenizer.py, tokenization_utils_tokenizers.py. */
cJSON *build_from_spm(const File *file, const LlamaSteps *llama, bool legacy, Error *e);

/* build_from_gpt2 - of vocab.json and merges.txt; qwen2: for the class Qwen2Tokenizer. NULL on failure. */
cJSON *build_from_gpt2(const char *vocab_path, const char *merges_path, bool qwen2, bool add_prefix_space, Error *e);

/* build_from_scores - of a vocabulary that merges by scores as llama.cpp does: MODEL_SCORE. NULL on failure. */
struct Tokenizer;
cJSON *build_from_scores(const struct Tokenizer *t, Error *e);

/* build_add - adds item to object under key; false, and item is gone, when out of memory. build_decoder - spaces for
 * U+2581, then tokens of bytes; NULL when out of memory. */
bool build_add(cJSON *object, const char *key, cJSON *item);
cJSON *build_decoder(void);

/* build_spaces - root's normalizer: U+2581 for each space, and with prefix one before each text. build_words - the list
 * of root's pre_tokenizer. build_split - one more of it: the matches are words of their own. False or NULL when out of
 * memory. */
bool build_spaces(cJSON *root, bool prefix);
cJSON *build_words(cJSON *root);
bool build_split(cJSON *list, const char *expression);

/* build_add_token - one more of root's added_tokens; flags (an object with lstrip and so on, or NULL) are copied, and
 * special replaces theirs when it is not -1. False when out of memory. */
bool build_add_token(cJSON *root, int id, const char *content, const cJSON *flags, int special);

/* json_steps - the steps of a tokenizer.json: each kind is a row of a table, name and reader. What would change ids or
 * text and is not known here is refused by its name. */
#pragma once
#include "io/json.h"
#include "tokenizer/decode.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretokenize.h"

/* json_get - the value of a key; NULL when it is absent or null. json_text - when it is a text. */
const cJSON *json_get(const cJSON *object, const char *key);
const char *json_text(const cJSON *object, const char *key);

/* Each adds the steps of one part, which may be NULL or a Sequence. `what` in messages is FILE. */
int read_normalizer(Normalizer *z, const cJSON *part, const char *file, Error *e);
int read_pre_tokenizer(Pretokenizer *p, const cJSON *part, const char *file, Error *e);
int read_decoder(Decoder *d, const cJSON *part, const char *file, Error *e);

/* read_post_processor - the ids that come before and behind a text ([max] each); n_vocab: ids there are.
 * Those of a pair of texts do not count. */
int read_post_processor(int *before, int *n_before, int *after, int *n_after, int max, int n_vocab, const cJSON *part,
                        const char *file, Error *e);

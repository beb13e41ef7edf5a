/* formats - what the readers of the single formats share. Internal to src/checkpoint. */
#pragma once
#include "checkpoint/checkpoint.h"

/* The readers: the file is mapped (ck->files[0]) or, for a directory, not yet. Each fills config,
 * arch, bos, eos and the tensor table. */
int llama2c_open(Checkpoint *ck, Error *e);
int gguf_model_open(Checkpoint *ck, Error *e);
int hf_open(Checkpoint *ck, Error *e);

/* checkpoint_map - maps one more file into ck->files; NULL on failure. */
File *checkpoint_map(Checkpoint *ck, const char *path, Error *e);

/* checkpoint_own - keeps a malloc'ed block until the checkpoint is closed; NULL (and p freed) when
 * that fails. checkpoint_alloc - a new one. */
void *checkpoint_own(Checkpoint *ck, void *p, Error *e);
void *checkpoint_alloc(Checkpoint *ck, size_t count, size_t item_bytes, Error *e);

/* checkpoint_add - one more row of the tensor table. */
int checkpoint_add(Checkpoint *ck, Field field, int layer, const char *name, Mat mat, Error *e);

/* ---- names.c: canonical <-> Hugging Face <-> GGUF ----------------------------------------------
 */

typedef enum { NAMES_HF, NAMES_GGUF, NAMES_GPT2, NAME_STYLES } NameStyle;

enum { FIELD_QKV = FIELD_COUNT, FIELD_QKV_BIAS }; /* GPT-2's fused projection: three fields in one */

/* name_find - the field and layer that a tensor name of that style stands for; -1: none. */
int name_find(const char *name, size_t n, NameStyle style, int *layer);

/* name_of - the file name of a field; NULL when the style has none. */
const char *name_of(char out[80], Field field, int layer, NameStyle style);

const char *field_name(Field field); /* "wq" */

/* ---- bind.c
 * --------------------------------------------------------------------------------------- */

/* config_check - counts positive and in range, heads divisible, products that fit. */
int config_check(const Config *c, const char *path, Error *e);

/* field_shape - rows and columns that a field must have. */
void field_shape(int *rows, int *cols, Field field, const Config *c);

/* checkpoint_vector - a tensor's values as f32: in place when they are aligned f32, else a copy. */
const float *checkpoint_vector(Checkpoint *ck, const Mat *m, Error *e);

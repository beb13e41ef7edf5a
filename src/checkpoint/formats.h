/* formats - what the readers of the single formats share. Internal to src/checkpoint. */
#pragma once
#include "checkpoint/arch.h"

/* The readers: the file is mapped (ck->files[0]) or, for a directory, not yet. Each fills config,
 * arch, bos, eos and the tensor table. */
int llama2c_open(Checkpoint *ck, Error *e);
int gguf_model_open(Checkpoint *ck, Error *e);
int hf_open(Checkpoint *ck, Error *e);

/* checkpoint_open_as - checkpoint_open of a model whose family is known, whatever the file calls it; NULL: by its name.
 */
int checkpoint_open_as(Checkpoint *ck, const char *path, const Arch *family, Error *e);

/* checkpoint_map - maps one more file into ck->files; NULL on failure. */
File *checkpoint_map(Checkpoint *ck, const char *path, Error *e);

/* checkpoint_own - keeps a malloc'ed block until the checkpoint is closed; NULL (and p freed) when
 * that fails. checkpoint_alloc - a new one. */
void *checkpoint_own(Checkpoint *ck, void *p, Error *e);
void *checkpoint_alloc(Checkpoint *ck, size_t count, size_t item_bytes, Error *e);

/* checkpoint_add - one more tensor, as the field or, of a fused one (FIELD_QKV...), as each of the fields in it, which
 * lie in it as `split` says. The rows of a tensor of all experts are those of all of them. */
int checkpoint_add(Checkpoint *ck, const FieldPlace *at, const File *file, const char *name, Mat mat, Split split,
                   Error *e);

/* config_check - counts positive and in range, heads divisible, products that fit. */
int config_check(const Config *c, const char *path, Error *e);

/* checkpoint_vector - a tensor's values as f32: in place when they are aligned f32, else a copy. */
const float *checkpoint_vector(Checkpoint *ck, const Mat *m, Error *e);

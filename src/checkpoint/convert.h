/* convert - writes a checkpoint as GGUF, llama2.c .bin or a Hugging Face directory. */
#pragma once
#include "checkpoint/checkpoint.h"

typedef struct {
    const char *output; /* ends in .gguf or .bin; anything else is a directory to make */
    int type;           /* DType of the matrices; -1: as they are, where the format can hold it */
    int kv_heads;       /* 0: as they are; else K and V heads are averaged in groups */
} ConvertOptions;

/* checkpoint_convert - written under a temporary name and renamed when whole: a failure leaves nothing.
 * Rows of q and k are reordered where the target pairs features the other way. *carried says whether the
 * tokenizer went along. */
int checkpoint_convert(const Checkpoint *ck, const Config *config, const Weights *weights,
                       const ConvertOptions *options, bool *carried, Error *e);

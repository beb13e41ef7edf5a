/* hf - what config.json says beyond the Config, and tensors in their published form. Internal to src/checkpoint. */
#pragma once
#include "checkpoint/formats.h"
#include "io/safetensors.h"

enum { BIASES_QKV, BIASES_OUT, BIASES_MLP, BIASES };

typedef struct {
    bool bias[BIASES];            /* the projections have one */
    const char *bias_key[BIASES]; /* the key that says so; NULL: the family */
    bool mxfp4;                   /* quantization_config: the experts are blocks and scales */
} HfConfig;

int hf_config_read(Checkpoint *ck, const char *path, HfConfig *hf, Error *e);
/* hf_generation_read - adds the end tokens of a generation_config.json. */
int hf_generation_read(Checkpoint *ck, const char *path, Error *e);

/* ---- Blocks and scales (mxfp4.c) ----------------------------------------------------------------- */

typedef struct {
    FieldPlace at;
    char name[80];      /* without the ending */
    SafeTensor half[2]; /* blocks U8 [n_experts, rows, cols / 32, 16], scales U8 [n_experts, rows, cols / 32] */
} Mxfp4Pair;

typedef struct {
    size_t n;
    Mxfp4Pair *pairs; /* [n] owned */
} Mxfp4;

/* mxfp4_half - 0: the name is that of blocks, 1: of scales, -1: of neither. mxfp4_name_length - without that ending. */
int mxfp4_half(const char *name);
size_t mxfp4_name_length(const char *name, int half);

/* mxfp4_add - keeps a half; with the other one they become a tensor of the checkpoint. mxfp4_close - frees the pairs; a
 * half without the other one fails, unless e is NULL. */
int mxfp4_add(Mxfp4 *all, Checkpoint *ck, const FieldPlace *at, int half, const SafeTensor *t, const File *file,
              Error *e);
int mxfp4_close(Mxfp4 *all, const Checkpoint *ck, Error *e);

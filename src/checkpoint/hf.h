/* hf - what config.json says beyond the Config. Internal to src/checkpoint. */
#pragma once
#include "checkpoint/formats.h"

enum { BIASES_QKV, BIASES_OUT, BIASES_MLP, BIASES };

typedef struct {
    bool bias[BIASES];            /* the projections have one */
    const char *bias_key[BIASES]; /* the key that says so; NULL: the family */
} HfConfig;

int hf_config_read(Checkpoint *ck, const char *path, HfConfig *hf, Error *e);
/* hf_generation_read - adds the end tokens of a generation_config.json. */
int hf_generation_read(Checkpoint *ck, const char *path, Error *e);

/* hf - what config.json says beyond the Config. Internal to src/checkpoint. */
#pragma once
#include "checkpoint/formats.h"

typedef struct {
    bool gpt2;
    bool attention_bias, mlp_bias;
} HfConfig;

int hf_config_read(Checkpoint *ck, const char *path, HfConfig *hf, Error *e);
/* hf_generation_read - adds the end tokens of a generation_config.json. */
int hf_generation_read(Checkpoint *ck, const char *path, Error *e);

/* mix - which type each matrix of a written model gets. */
#pragma once
#include "checkpoint/arch.h"

typedef struct Mix Mix;

/* mix_named - "q8_0" and the like: that type for every matrix; "q4_k_m" and the other names of llama-quantize: the type
 * for most, more bits for the tensors that need them. NULL: no such mix. mix_names: all of them, for a message. */
const Mix *mix_named(const char *name);
const char *mix_name(const Mix *m);
const char *mix_names(char *out, size_t n);

DType mix_base(const Mix *m);
int mix_file_type(const Mix *m); /* general.file_type of a GGUF */

/* mix_type - the type of a layer's field (layer -1: of none) whose rows have `cols` values; vectors are F32 anyway. A
 * row that the type's blocks do not fit gets a type with smaller blocks and no fewer bits. Source: llama.cpp,
 * llama-quant.cpp, without its exceptions for Falcon. Test: tests/test_convert.sh */
DType mix_type(const Mix *m, Field f, int layer, int cols, const Config *c);

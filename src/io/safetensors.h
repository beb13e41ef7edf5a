/* safetensors - the container format: a JSON header, then raw tensors. Knows nothing of models.
 * Source: the format description of huggingface/safetensors. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"

typedef struct {
    char *name;                /* owned, NUL-terminated, valid UTF-8 */
    char dtype[8];             /* "F32", "BF16", "I64", ... one of the format's own */
    int n_dims;                /* 0..8 */
    int64_t dims[8];           /* row-major: dims[0] is the slowest */
    const unsigned char *data; /* inside the mapping; may be unaligned */
    size_t bytes;
} SafeTensor;

typedef struct {
    const File *file;
    size_t n;
    SafeTensor *tensors; /* [n] owned */
} SafeTensors;

int safetensors_open(SafeTensors *st, const File *file, Error *e);
void safetensors_close(SafeTensors *st);
const SafeTensor *safetensors_find(const SafeTensors *st, const char *name); /* NULL: absent */

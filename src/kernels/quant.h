/* quant - the storage types of a weight, their blocks, and one table row for each.
 * Source of the block layouts: ggml (ggml-common.h) and the `gguf` Python module. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q8_GROUP, /* llama2.c v2: int8 values, then one f32 scale for each group of values */
    DTYPE_COUNT
} DType;

enum { QK = 32 }; /* values in a block of Q8_0, Q4_0, Q4_1 */

typedef struct {
    uint16_t d;    /* f16 scale */
    int8_t q[QK];  /* value = d * q */
} BlockQ8_0;

typedef struct {
    uint16_t d;         /* f16 scale */
    uint8_t q[QK / 2];  /* low nibbles are values 0..15, high nibbles 16..31; value = d * (q - 8) */
} BlockQ4_0;

typedef struct {
    uint16_t d, m;      /* f16 scale and minimum; value = d * q + m */
    uint8_t q[QK / 2];
} BlockQ4_1;

typedef struct {
    const char *name;   /* "f32", "q4_1", ... as printed */
    int ggml_type;      /* number in a GGUF file, -1: never there */
    int block_values;   /* values in a block; a row holds a whole number of blocks */
    int block_bytes;
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];

/* dtype_row_bytes - bytes of a row of n values; n must be a multiple of block_values. */
size_t dtype_row_bytes(DType t, size_t n);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* round to nearest even */
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* round to nearest even; NaN stays NaN */

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
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_MXFP4,
    DTYPE_Q8_K,
    DTYPE_IQ2_XXS,
    DTYPE_IQ2_XS,
    DTYPE_IQ2_S,
    DTYPE_IQ3_XXS,
    DTYPE_IQ3_S,
    DTYPE_IQ1_S,
    DTYPE_IQ1_M,
    DTYPE_TQ1_0,
    DTYPE_TQ2_0,
    DTYPE_Q8_GROUP, /* llama2.c v2: int8 values, then one f32 scale for each group of values */
    DTYPE_COUNT
} DType;

enum { QK = 32, QK_K = 256 }; /* values in a block of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4; of all others */

typedef struct {
    uint16_t d;   /* f16 scale */
    int8_t q[QK]; /* value = d * q */
} BlockQ8_0;

typedef struct {
    uint16_t d;        /* f16 scale */
    uint8_t q[QK / 2]; /* low nibbles are values 0..15, high nibbles 16..31; value = d * (q - 8) */
} BlockQ4_0;

typedef struct {
    uint16_t d, m; /* f16 scale and minimum; value = d * q + m */
    uint8_t q[QK / 2];
} BlockQ4_1;

typedef struct {
    uint16_t d;        /* f16 scale */
    uint8_t high[4];   /* bit i, lowest first, is bit 4 of value i */
    uint8_t q[QK / 2]; /* as in BlockQ4_0; value = d * (q - 16) */
} BlockQ5_0;

typedef struct {
    uint16_t d, m; /* f16 scale and minimum; value = d * q + m */
    uint8_t high[4];
    uint8_t q[QK / 2];
} BlockQ5_1;

/* The K types keep 8 (16) scales of a few bits in one block, themselves scaled by d. */
typedef struct {
    uint16_t d, m;       /* f16 scales of the scales and of the minima; value = d * scale * q - m * minimum */
    uint8_t scales[12];  /* 8 scales and 8 minima of 6 bits: scale_min_k() */
    uint8_t q[QK_K / 2]; /* 64 values at a time: the low nibbles of 32 bytes, then their high ones */
} BlockQ4_K;

typedef struct {
    uint16_t d, m;
    uint8_t scales[12];
    uint8_t high[QK]; /* bit j of byte i is bit 4 of value 32 j + i */
    uint8_t q[QK_K / 2];
} BlockQ5_K;

typedef struct {
    uint8_t q[QK_K / 2];    /* 128 values at a time: the low nibbles of 64 bytes, then their high ones */
    uint8_t high[QK_K / 4]; /* 128 values at a time: bits 2 j, 2 j + 1 of byte i are bits 4, 5 of value 32 j + i */
    int8_t scales[QK_K / 16];
    uint16_t d; /* f16; value = d * scale * (q - 32), a scale for 16 values */
} BlockQ6_K;

typedef struct {
    uint8_t scales[QK_K / 16]; /* of 16 values each: low nibble the scale, high nibble the minimum */
    uint8_t q[QK_K / 4];       /* 128 values at a time: bits 2 j, 2 j + 1 of byte i are value 32 j + i */
    uint16_t d, m;             /* f16; value = d * scale * q - m * minimum */
} BlockQ2_K;

typedef struct {
    uint8_t high[QK];    /* bit j of byte i is bit 2 of value 32 j + i */
    uint8_t q[QK_K / 4]; /* as in BlockQ2_K */
    uint8_t scales[12];  /* 16 scales of 6 bits: scale_3k() */
    uint16_t d;          /* f16; value = d * (scale - 32) * (q - 4) */
} BlockQ3_K;

/* The nibbles of IQ4_NL, IQ4_XS and MXFP4 are numbers of a codebook's values: codebook_iq4, codebook_mxfp4. */
typedef struct {
    uint16_t d;        /* f16; value = d * codebook_iq4[q] */
    uint8_t q[QK / 2]; /* nibbles as in BlockQ4_0 */
} BlockIQ4_NL;

typedef struct {
    uint16_t d;                /* f16; value = d * (scale - 32) * codebook_iq4[q], a scale for 32 values */
    uint16_t scales_high;      /* bits 2 j, 2 j + 1 are bits 4, 5 of scale j */
    uint8_t scales[QK_K / 64]; /* nibble j is the rest of scale j */
    uint8_t q[QK_K / 2];       /* 32 values at a time, as in BlockIQ4_NL */
} BlockIQ4_XS;

typedef struct {
    uint8_t exponent;  /* value = 2^(exponent - 128) * codebook_mxfp4[q] */
    uint8_t q[QK / 2]; /* as in BlockIQ4_NL */
} BlockMXFP4;

extern const int8_t codebook_iq4[16], codebook_mxfp4[16]; /* the second: twice the values of E2M1 */

/* scale_3k - scale, -32 to 31, of the 16 values from 16 j on in a block of Q3_K. */
int scale_3k(const uint8_t scales[12], int j);

/* scale_mxfp4 - 2^(exponent - 128), half of what the format's exponent means, as the codebook is doubled. */
float scale_mxfp4(uint8_t exponent);

/* scale_min_k - scale and minimum, 0 to 63, of the 32 values from 32 j on in a block of Q4_K or Q5_K. */
void scale_min_k(int *scale, int *min, const uint8_t scales[12], int j);

typedef struct {
    const char *name; /* "f32", "q4_1", ... as printed */
    int ggml_type;    /* number in a GGUF file, -1: never there */
    int block_values; /* values in a block; a row holds a whole number of blocks */
    int block_bytes;
    bool int8; /* multiplied as it is with int8 activations; other types are dequantized on the way */
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];

/* dtype_row_bytes - bytes of a row of n values; n must be a multiple of block_values. */
size_t dtype_row_bytes(DType t, size_t n);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* round to nearest even */
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* round to nearest even; NaN stays NaN */

/* dequantize - one block of a quantized type to f32. The specification of every type: the gguf module's values, bit for
 * bit. Source: ggml's block layouts (ggml-common.h) and gguf's quants.py. Test: tests/test_quant.c */
#pragma once
#include "kernels/quant.h"

/* Writes the block's block_values floats; the bytes of a mapped file may be unaligned. */
typedef void DequantizeBlock(float *out, const uint8_t *block);

/* dequantize_block - by type; NULL for those without blocks. */
extern DequantizeBlock *const dequantize_block[DTYPE_COUNT];

/* Scalars out of unaligned bytes. */
uint16_t u16_of(const uint8_t *p);
float f16_of(const uint8_t *p);

/* The types of 1 to 3 bits whose groups of values are looked up in a grid (dequantize_iq.c). */
DequantizeBlock dequantize_iq2_xxs, dequantize_iq2_xs, dequantize_iq2_s, dequantize_iq3_xxs, dequantize_iq3_s,
    dequantize_iq1_s, dequantize_iq1_m;

/* grid - what those look up: an entry is 8 values of 2 bits, or 4 of 4 bits, lowest first, which are numbers of the
 * grid's few values. Written by scripts/quant_grids.py from the gguf module's tables. */
extern const uint16_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq3_xxs[256], grid_iq3_s[512],
    grid_iq1[2048];

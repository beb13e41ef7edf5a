/* lanes8 - the names of simd_body.h for a level whose widest vectors have 8 floats: V is V8. */
#pragma once

enum { LANES = 8, TILE_ROWS = 6, TILE_COLS = 16 };
typedef V8 V;
typedef I8 I;

#define v_zero           v8_zero
#define v_set1           v8_set1
#define v_load           v8_load
#define v_store          v8_store
#define v_add            v8_add
#define v_sub            v8_sub
#define v_mul            v8_mul
#define v_div            v8_div
#define v_max            v8_max
#define v_min            v8_min
#define v_fma            v8_fma
#define v_of_ints        v8_of_ints
#define v_from_f16       v8_from_f16
#define v_from_s8        v8_from_s8
#define v_to_f16         v8_to_f16
#define v_zero_below     v8_zero_below
#define v_keep_nan       v8_keep_nan
#define v_scale_exponent v8_scale_exponent
#define i_zero           i8_zero
#define i_set1           i8_set1
#define i_load           i8_load
#define i_store          i8_store
#define i_set8           i8_set8
#define i_same16         i8_same16
#define i_and            i8_and
#define i_or             i8_or
#define i_xor            i8_xor
#define i_add            i8_add
#define i_min            i8_min
#define i_max            i8_max
#define i_shuffle8       i8_shuffle8
#define i_unpacklo32     i8_unpacklo32
#define i_unpackhi32     i8_unpackhi32
#define i_unpacklo64     i8_unpacklo64
#define i_unpackhi64     i8_unpackhi64
#define i_srl16          i8_srl16
#define i_sll16          i8_sll16
#define i_srl32          i8_srl32
#define i_sll32          i8_sll32
#define i_sra32          i8_sra32
#define i_each_dword     i8_each_dword
#define i_where          i8_where
#define v_of_bits        v8_of_bits
#define v_of_f16         v8_of_f16
#define i_pieces         i8_pieces
#define i_dwords         i8_dwords

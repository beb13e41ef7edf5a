/* Conversions of f16 and bf16, exhaustive where that is possible; one block of each type by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "kernels/mat.h"
#include "kernels/quantize.h"

#include <cmocka.h> /* last: it makes a macro of fail */

static void f16_round_trips(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_true(isnan(f16_to_f32(f32_to_f16(f))));
        } else {
            assert_int_equal(f32_to_f16(f), h);
        }
    }
    assert_int_equal(f32_to_f16(65519.f), 0x7bff); /* largest that rounds down to 65504 */
    assert_int_equal(f32_to_f16(65520.f), 0x7c00);
    assert_int_equal(f32_to_f16(1.0f + 0x1p-11f), 0x3c00); /* half way: to even */
    assert_int_equal(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
}

static void bf16_rounds_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(f32_to_bf16(f), h);
    }
    assert_int_equal(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

static void blocks_by_hand(void **state) {
    (void)state;
    float out[QK];
    BlockQ8_0 q8 = {f32_to_f16(0.5f), {0}};
    for (int i = 0; i < QK; i++) q8.q[i] = (int8_t)(i * 8 - 128);
    Mat w = {DTYPE_Q8_0, 1, QK, sizeof q8, &q8, NULL, 0};
    mat_dequantize_row(out, &w, 0);
    for (int i = 0; i < QK; i++) assert_true(out[i] == 0.5f * (float)(i * 8 - 128));

    BlockQ4_0 q4 = {f32_to_f16(2.0f), {0}};
    for (int i = 0; i < QK / 2; i++) q4.q[i] = (uint8_t)(i | (15 - i) << 4);
    w = (Mat){DTYPE_Q4_0, 1, QK, sizeof q4, &q4, NULL, 0};
    mat_dequantize_row(out, &w, 0);
    for (int i = 0; i < QK / 2; i++) {
        assert_true(out[i] == 2.0f * (float)(i - 8));
        assert_true(out[i + QK / 2] == 2.0f * (float)(7 - i));
    }

    BlockQ4_1 q41 = {f32_to_f16(2.0f), f32_to_f16(-3.0f), {0}};
    memcpy(q41.q, q4.q, sizeof q4.q);
    w = (Mat){DTYPE_Q4_1, 1, QK, sizeof q41, &q41, NULL, 0};
    mat_dequantize_row(out, &w, 0);
    for (int i = 0; i < QK / 2; i++) {
        assert_true(out[i] == 2.0f * (float)i - 3.0f);
        assert_true(out[i + QK / 2] == 2.0f * (float)(15 - i) - 3.0f);
    }

    unsigned char q8k[292] = {0}; /* the gguf module has no values of it: it occurs between products only */
    float scale = -0.375f, of_256[QK_K];
    memcpy(q8k, &scale, sizeof scale);
    for (int i = 0; i < QK_K; i++) q8k[4 + i] = (unsigned char)i;
    w = (Mat){DTYPE_Q8_K, 1, QK_K, sizeof q8k, q8k, NULL, 0};
    mat_dequantize_row(of_256, &w, 0);
    for (int i = 0; i < QK_K; i++) assert_true(of_256[i] == scale * (float)(i < 128 ? i : i - 256));

    int8_t values[8] = {1, 2, 3, 4, -5, -6, -7, -128};
    float scales[4] = {1, 10, 100, 1000};
    w = (Mat){DTYPE_Q8_GROUP, 2, 4, 4, values, scales, 2};
    mat_dequantize_row(out, &w, 1);
    assert_true(out[0] == -500 && out[1] == -600 && out[2] == -7000 && out[3] == -128000);
    Mat last = mat_rows(&w, 1, 1);
    mat_dequantize_row(out, &last, 0);
    assert_true(out[3] == -128000);
}

/* A NaN among the weights must stay NaN. */
static void blocks_refuse_what_is_no_number(void **state) {
    (void)state;
    static const DType blocks[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    unsigned char out[QK * sizeof(float)];
    float x[QK] = {1, -2};
    for (int t = 0; t < 3; t++) {
        assert_true(dtype_quantize(out, x, QK, blocks[t]));
        for (int k = 0; k < 3; k++) {
            x[17] = bad[k];
            assert_false(dtype_quantize(out, x, QK, blocks[t]));
        }
        x[17] = 0;
    }
}

/* The types whose scales are searched for: the error of a bell curve's values, in parts of their own size, is at most a
 * little more than what ggml's quantizers leave (measured: 0.28, 0.144, 0.068, 0.035, 0.0178, 0.071), and blocks of
 * zeros and of one value survive. */
static void searched_scales(void **state) {
    (void)state;
    static const struct {
        DType type;
        double most;
    } types[] = {{DTYPE_Q2_K, 0.33}, {DTYPE_Q3_K, 0.17},  {DTYPE_Q4_K, 0.08},
                 {DTYPE_Q5_K, 0.04}, {DTYPE_Q6_K, 0.022}, {DTYPE_IQ4_NL, 0.085}};
    enum { N = 64 * QK_K };
    static float x[N], y[N];
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int j = 0; j < 12; j++) { /* the sum of twelve uniform values is nearly normal */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            x[i] += (float)(int32_t)(seed >> 32) * 0x1p-32f;
        }
    }
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        static unsigned char packed[N];
        Mat w = {types[t].type, 1, N, sizeof packed, packed, NULL, 0};
        assert_true(dtype_can_quantize(types[t].type));
        assert_true(dtype_quantize(packed, x, N, types[t].type));
        mat_dequantize_row(y, &w, 0);
        double error = 0, size = 0;
        for (int i = 0; i < N; i++) {
            error += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
            size += (double)x[i] * (double)x[i];
        }
        if (!(sqrt(error / size) <= types[t].most))
            fail_msg("%s: error %.4f, expected at most %g", dtype_info[types[t].type].name, sqrt(error / size),
                     types[t].most);
        static const float flat[] = {0, 1, -1, 1e-30f, 1000};
        for (size_t k = 0; k < sizeof flat / sizeof *flat; k++) {
            float same[QK_K], back[QK_K];
            for (int i = 0; i < QK_K; i++) same[i] = flat[k];
            w.cols = QK_K;
            assert_true(dtype_quantize(packed, same, QK_K, types[t].type));
            mat_dequantize_row(back, &w, 0);
            for (int i = 0; i < QK_K; i++)
                if (!(fabsf(back[i] - flat[k]) <= 0.01f * fabsf(flat[k]) + 1e-20f))
                    fail_msg("%s: %g became %g", dtype_info[types[t].type].name, (double)flat[k], (double)back[i]);
            same[77] = NAN;
            assert_false(dtype_quantize(packed, same, QK_K, types[t].type));
        }
        w.cols = N;
    }
}

/* Random blocks against the gguf module's values (scripts/quant_blocks.py). */
static void blocks_as_gguf_reads_them(void **state) {
    (void)state;
    Error e = {""};
    cJSON *table = json_read("tests/fixtures/quant_blocks.json", &e);
    if (!table) fail_msg("%s", e.text);
    int types = 0;
    for (const cJSON *type = table->child; type; type = type->next, types++) {
        int t = 0;
        while (t < DTYPE_COUNT && strcmp(dtype_info[t].name, type->string) != 0) t++;
        if (t == DTYPE_COUNT) fail_msg("%s: expected a type of this program", type->string);
        const char *hex = cJSON_GetObjectItem(type, "bytes")->valuestring;
        const cJSON *value = cJSON_GetObjectItem(type, "values")->child;
        unsigned char block[512];
        float out[QK_K];
        size_t bytes = dtype_row_bytes((DType)t, QK_K);
        assert_int_equal(strlen(hex), 2 * bytes);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &block[i]), 1);
        Mat w = {(DType)t, 1, QK_K, bytes, block, NULL, 0};
        mat_dequantize_row(out, &w, 0);
        for (int i = 0; i < QK_K; i++, value = value->next)
            if (out[i] != (float)value->valuedouble)
                fail_msg("%s value %d: expected %.9g, found %.9g", type->string, i, value->valuedouble, (double)out[i]);
    }
    assert_int_equal(types, 22);
    cJSON_Delete(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_round_trips),
        cmocka_unit_test(bf16_rounds_to_even),
        cmocka_unit_test(blocks_refuse_what_is_no_number),
        cmocka_unit_test(blocks_by_hand),
        cmocka_unit_test(searched_scales),
        cmocka_unit_test(blocks_as_gguf_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every kernel at every level of this machine against the scalar one: odd lengths, ends of rows, extreme values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffn.h"
#include "norm.h"
#include "kv_cache.h"

#include <cmocka.h>

#include "tests/skip.h"

static uint64_t seed = 1;
static uint32_t random_bits(void) { /* splitmix64 */
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}
static float random_unit(void) { return (float)(int32_t)random_bits() * 0x1p-31f; }

/* The level that the test was started for, or skip: the summary counts what this machine cannot run. */
static const Kernels *level(void **state) {
    const Kernels *k = kernels_named(*state);
    if (!k) SKIP("kernels of instruction sets that this CPU does not have");
    return k;
}

static void put_f16(uint8_t *at, float x) {
    uint16_t h = f32_to_f16(x);
    memcpy(at, &h, sizeof h);
}

/* Scales of about 0.1 and minima of about 1, in the place where each type has them. */
static void random_scales(uint8_t *block, DType t) {
    size_t d = 0, min = 2, bytes = (size_t)dtype_info[t].block_bytes;
    float f = random_unit();
    uint16_t bf = f32_to_bf16(f);
    switch (t) {
    case DTYPE_F32:
    case DTYPE_Q8_K: memcpy(block, &f, 4); return;
    case DTYPE_BF16: memcpy(block, &bf, 2); return;
    case DTYPE_F16: put_f16(block, f); return;
    case DTYPE_Q8_GROUP: return;
    case DTYPE_MXFP4: *block = (uint8_t)(120 + random_bits() % 8); return;
    case DTYPE_IQ1_M: /* four bits in each of its last words */
        for (size_t i = 0; i < 4; i++) block[bytes - 7 + 2 * i] = (uint8_t)((block[bytes - 7 + 2 * i] & 15) | 0x20);
        return;
    case DTYPE_Q2_K: d = bytes - 4, min = bytes - 2; break;
    case DTYPE_Q3_K:
    case DTYPE_Q6_K:
    case DTYPE_TQ1_0:
    case DTYPE_TQ2_0: d = bytes - 2; break;
    default: break;
    }
    put_f16(block + d, random_unit() * 0.1f);
    if (t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K || t == DTYPE_Q2_K)
        put_f16(block + min, random_unit());
}

/* A random matrix of a type. Extreme: every integer at an end of its range, signs mixed. */
static Mat matrix(DType t, int rows, int cols, bool extreme) {
    size_t stride = dtype_row_bytes(t, (size_t)cols);
    uint8_t *data = malloc((size_t)rows * stride + 1);
    Mat w = {t, rows, cols, stride, data + 1, NULL, 0}; /* one byte off any alignment, as in a mapped file */
    uint8_t *p = data + 1;
    for (size_t i = 0; i < (size_t)rows * stride; i++) {
        static const uint8_t ends[] = {0x80, 0x7f, 0x81, 0xff, 0x00};
        p[i] = extreme ? ends[random_bits() % 5] : (uint8_t)random_bits();
        if (extreme && i % 3 == 0) p[i] = 0x80;
    }
    for (int r = 0; r < rows; r++) {
        for (int b = 0; b < cols / dtype_info[t].block_values; b++) {
            uint8_t *block = p + (size_t)r * stride + (size_t)(b * dtype_info[t].block_bytes);
            random_scales(block, t);
        }
    }
    if (t == DTYPE_Q8_GROUP) {
        w.group = cols % 64 == 0 ? 64 : cols;
        size_t n = (size_t)rows * (size_t)cols / (size_t)w.group;
        float *scales = malloc(n * sizeof *scales);
        for (size_t i = 0; i < n; i++) scales[i] = random_unit() * 0.1f;
        w.scales = scales;
    }
    return w;
}

static void matrix_free(Mat *w) {
    free((uint8_t *)(uintptr_t)w->data - 1);
    free((void *)(uintptr_t)w->scales);
}

/* An Rows with its 8-bit form made by k, in rows padded to `tile`. */
static Rows act(const Kernels *k, float *x, int n, int dim, int tile) {
    Rows a = {.kernels = k, .x = x, .n = n, .dim = dim, .tile = tile, .blocks = dim % QK ? 0 : dim / QK};
    size_t blocks = (size_t)((n + tile - 1) / tile * tile) * (size_t)a.blocks + 16;
    a.q = calloc(blocks, QK);
    a.d = calloc(blocks, sizeof *a.d);
    a.sum = calloc(blocks, sizeof *a.sum);
    a.d_sum = calloc(blocks, sizeof *a.d_sum);
    for (size_t i = 0; i < 16; i++) a.d[blocks - 1 - i] = a.d_sum[blocks - 1 - i] = NAN; /* nobody's */
    for (int r = 0; r < n && a.blocks; r++) {
        size_t at = (size_t)(r / tile * tile) * (size_t)a.blocks + (size_t)(r % tile);
        k->quantize(a.q + at * QK, a.d + at, a.sum + at, a.d_sum + at, tile, x + (size_t)r * (size_t)dim, a.blocks);
    }
    return a;
}

static void act_free(Rows *a) {
    free(a->q);
    free(a->d);
    free(a->sum);
    free(a->d_sum);
}

/* What the product must be, in double: with the 8-bit activations for quantized weights, with f32 otherwise. The
 * second value is the sum of magnitudes, which rounding errors are measured by. */
static double product(double *size, const Mat *w, int r, const Rows *a, int row) {
    float *piece = malloc((size_t)w->cols * sizeof *piece);
    mat_dequantize_row(piece, w, r);
    double sum = 0;
    *size = 1e-30;
    for (int c = 0; c < w->cols; c++) {
        size_t at = ((size_t)(row / a->tile) * (size_t)a->blocks + (size_t)(c / QK)) * (size_t)a->tile +
                    (size_t)(row % a->tile);
        double x = mat_is_quantized(w) && a->kernels->int8 ? (double)a->d[at] * a->q[at * QK + (size_t)(c % QK)]
                                                           : (double)a->x[(size_t)row * (size_t)a->dim + (size_t)c];
        sum += (double)piece[c] * x;
        *size += fabs((double)piece[c] * x);
    }
    if (w->dtype != DTYPE_Q8_0 && mat_is_quantized(w)) *size *= 8; /* the offset is a product of its own */
    free(piece);
    return sum;
}

static void check_product(const Kernels *k, DType t, int rows, int cols, int n, bool extreme) {
    if (cols % dtype_info[t].block_values) return;
    Mat w = matrix(t, rows, cols, extreme);
    float *x = malloc((size_t)n * (size_t)cols * sizeof *x), *y = malloc((size_t)n * (size_t)(rows + 3) * sizeof *y);
    for (int i = 0; i < n * cols; i++) x[i] = extreme ? (random_bits() & 1 ? 1000.0f : -1000.0f) : random_unit();
    if (cols >= 2 * QK)
        for (int i = 0; i < QK; i++) x[i] = 0; /* a block of zeros has scale 0 */
    for (int way = 0; way < 3; way++) {        /* gemv; gemv that adds up as gemm does; gemm */
        Rows a = act(k, x, n, cols, way == 2 ? ROWS_TILE : 1);
        a.exact = way == 1;
        for (int add = 0; add < 2; add++) {
            for (int i = 0; i < n * (rows + 3); i++) y[i] = 5;
            int from = rows > 4 ? 1 : 0, to = rows > 20 ? rows - 1 : rows;
            if (way == 2) k->gemm(y, (size_t)(rows + 3), &w, from, to, &a, add);
            for (int i = 0; i < n && way < 2; i++) k->gemv(y + i * (rows + 3), &w, from, to, &a, i, add);
            for (int i = 0; i < n; i++) {
                for (int r = 0; r < rows + 3; r++) {
                    float found = y[i * (rows + 3) + r];
                    if (r < from || r >= to) {
                        assert_true(found == 5); /* nothing beside its columns is touched */
                        continue;
                    }
                    double size, expected = product(&size, &w, r, &a, i) + (add ? 5 : 0);
                    if (!(fabs((double)found - expected) <= 4e-6 * (size + 5)))
                        fail_msg("%s %s rows %d cols %d n %d way %d: expected %.9g, found %.9g", k->name,
                                 dtype_info[t].name, rows, cols, n, way, expected, (double)found);
                }
            }
        }
        act_free(&a);
    }
    free(x);
    free(y);
    matrix_free(&w);
}

static void products(void **state) {
    const Kernels *k = level(state);
    static const int shapes[][3] = {{1, 32, 1},    {4, 64, 1},   {5, 288, 2},    {17, 320, 3},  {33, 96, 9},
                                    {40, 544, 13}, {70, 64, 17}, {3, 7, 5},      {19, 45, 4},   {36, 2112, 10},
                                    {4, 256, 1},   {19, 512, 2}, {37, 2304, 11}, {300, 1024, 9}};
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int extreme = 0; extreme < 2; extreme++)
                check_product(k, (DType)t, shapes[i][0], shapes[i][1], shapes[i][2], extreme);
}

/* One row to nine: every size of a tile, with whole panels and what is left of one. */
static void few_rows(void **state) {
    const Kernels *k = level(state);
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int n = 1; n <= 9; n++) {
            check_product(k, (DType)t, 75, 768, n, false);
            check_product(k, (DType)t, 34, 288, n, true);
        }
}

/* An element has the same bits in a product of many rows and alone, whatever columns are made with it. */
static void gemm_is_exact(void **state) {
    const Kernels *k = level(state);
    enum { ROWS = 53, MOST = 2304, N = 11 };
    static const int cols[] = {MOST, 1024, 544, 352, 224, 96, 32, 45, 7}, cuts[] = {0, 3, 16, 50};
    static float x[N * MOST], all[N * ROWS], one[ROWS];
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
            if (cols[c] % dtype_info[t].block_values) continue;
            Mat w = matrix((DType)t, ROWS, cols[c], false);
            for (int i = 0; i < N * cols[c]; i++) x[i] = random_unit();
            Rows a = act(k, x, N, cols[c], ROWS_TILE);
            a.exact = !k->int8; /* blas adds up in one order only where it has to */
            for (int add = 0; add < 2; add++) {
                for (int i = 0; i < N * ROWS; i++) all[i] = (float)i / 7;
                k->gemm(all, ROWS, &w, 0, ROWS, &a, add);
                for (int i = 0; i < N; i++) {
                    Rows b = act(k, x + i * cols[c], 1, cols[c], 1);
                    b.exact = true;
                    int cut = cuts[i % 4]; /* two parts, as two threads would */
                    for (int r = 0; r < ROWS; r++) one[r] = (float)(i * ROWS + r) / 7;
                    k->gemv(one, &w, 0, cut, &b, 0, add);
                    k->gemv(one, &w, cut, ROWS, &b, 0, add);
                    for (int r = 0; r < ROWS; r++)
                        if (memcmp(one + r, all + i * ROWS + r, sizeof *one))
                            fail_msg("%s %s cols %d row %d: %.9g in a product of many, %.9g alone", k->name,
                                     dtype_info[t].name, cols[c], r, (double)all[i * ROWS + r], (double)one[r]);
                    act_free(&b);
                }
            }
            act_free(&a);
            matrix_free(&w);
        }
}

static void activations_in_8_bits(void **state) {
    const Kernels *k = level(state);
    enum { BLOCKS = 5 };
    static const float sizes[] = {1, 1e-30f, 3e37f, 0, 1e-40f}; /* 127 / 1e-40 is infinite */
    for (int step = 1; step <= 8; step += 7) {
        float x[BLOCKS * QK], d[2][BLOCKS * 8] = {{0}}, wm[2][BLOCKS * 8] = {{0}};
        int8_t q[2][BLOCKS * 8 * QK] = {{0}};
        int16_t sum[2][BLOCKS * 8][2] = {{{0}}};
        for (int i = 0; i < BLOCKS * QK; i++) x[i] = random_unit() * sizes[i / QK];
        kernels_ref.quantize(q[0], d[0], sum[0], wm[0], step, x, BLOCKS);
        k->quantize(q[1], d[1], sum[1], wm[1], step, x, BLOCKS);
        assert_memory_equal(q[0], q[1], sizeof q[0]);
        assert_memory_equal(d[0], d[1], sizeof d[0]);
        assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
        assert_memory_equal(wm[0], wm[1], sizeof wm[0]);
    }
}

static void exp_within_2_ulp(void **state) {
    const Kernels *k = level(state);
    double worst = 0;
    for (double x = -87.3; x < 88.37; x += 0.00037) {
        float in = (float)x, out;
        k->exp(&out, &in, 1);
        double exact = exp((double)in), ulp = ldexp(1, ilogb(exact) - 23);
        worst = fmax(worst, fabs((double)out - exact) / ulp);
    }
    printf("exp at %s: %.3f ulp at most\n", k->name, worst);
    assert_true(worst <= 2);
    float special[] = {-INFINITY, -1000, -88, 0, -0.0f}, y[5];
    k->exp(y, special, 5);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] >= 0 && y[2] < FLT_MIN && y[3] == 1 && y[4] == 1);
}

static void close_to(const float *a, const float *b, int n, float tolerance) {
    for (int i = 0; i < n; i++) assert_true(fabsf(a[i] - b[i]) <= tolerance * (fabsf(b[i]) + 1e-6f));
}

static void elementwise(void **state) {
    const Kernels *k = level(state);
    enum { N = 71 };
    for (int n = 1; n <= N; n++) {
        float x[N], u[N], a[N], b[N];
        uint16_t h[2][N];
        for (int i = 0; i < n; i++) {
            x[i] = random_unit() * (i % 7 ? 6 : 60);
            u[i] = random_unit();
        }
        memcpy(a, x, sizeof a);
        memcpy(b, x, sizeof b);
        swiglu(k, a, u, (size_t)n);
        swiglu(&kernels_ref, b, u, (size_t)n);
        close_to(a, b, n, 2e-6f);
        memcpy(a, x, sizeof a);
        memcpy(b, x, sizeof b);
        gelu(k, a, (size_t)n);
        gelu(&kernels_ref, b, (size_t)n);
        for (int i = 0; i < n; i++) assert_true(fabsf(a[i] - b[i]) <= 2e-6f * (1 + fabsf(b[i])));
        Norm w = {NORM_RMSNORM, 1e-5f, u, NULL, 0};
        rmsnorm(k, a, x, &w, n);
        rmsnorm(&kernels_ref, b, x, &w, n);
        close_to(a, b, n, 1e-6f);
        k->to_f16(h[0], x, (size_t)n);
        kernels_ref.to_f16(h[1], x, (size_t)n);
        assert_memory_equal(h[0], h[1], (size_t)n * sizeof **h);
        k->from_f16(a, h[0], (size_t)n);
        kernels_ref.from_f16(b, h[0], (size_t)n);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        for (int valid = 1; valid <= n; valid += 5) {
            float max[2] = {0.5f, 0.5f}, total[2] = {3, 3};
            memcpy(a, x, sizeof a);
            memcpy(b, x, sizeof b);
            float keep = k->softmax_step(a, valid, n, &max[0], &total[0]);
            float expected = kernels_ref.softmax_step(b, valid, n, &max[1], &total[1]);
            close_to(&keep, &expected, 1, 2e-6f);
            close_to(total, total + 1, 1, 2e-6f);
            assert_true(max[0] == max[1]);
            close_to(a, b, n, 2e-6f);
        }
    }
}

/* An infinite or NaN activation makes its block's products NaN, never values; a NaN score or
 * sink makes the softmax NaN. */
static void nan_stays_nan(void **state) {
    const Kernels *k = level(state);
    const float payload = -nanf("0x1fffff"), bad[] = {NAN, -NAN, payload, INFINITY, -INFINITY};
    enum { N = 71 };
    for (size_t i = 0; i < 3; i++) {
        for (int n = 1; n <= N; n++) {
            float s[N], max = 0.5f, denom = 3;
            for (int j = 0; j < n; j++) s[j] = random_unit();
            s[(n * 7) % n] = s[n / 2] = bad[i];
            k->softmax_step(s, n, n, &max, &denom);
            assert_true(isnan(s[n / 2]) && isnan(denom));
            for (int j = 0; j < n; j++) s[j] = random_unit();
            s[n - 1] = bad[i];
            k->exp(s, s, (size_t)n);
            assert_true(isnan(s[n - 1]) && (n == 1 || isfinite(s[0])));
            float up[N];
            for (int j = 0; j < n; j++) s[j] = up[j] = random_unit();
            s[n / 2] = bad[i];
            swiglu(k, s, up, (size_t)n);
            assert_true(isnan(s[n / 2]));
            gelu(k, s, (size_t)n);
            assert_true(isnan(s[n / 2]));
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* as an attention sink, where the softmax begins */
        float s[N] = {0.5f}, max = bad[i], denom = 1, keep = k->softmax_step(s, N, N, &max, &denom);
        if (max == 0.5f && bad[i] < 0) assert_true(keep == 0 && isfinite(denom));
        else assert_true(isnan(keep) && isnan(denom));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int at = 0; at < QK; at++) {
            float x[2 * QK], d[2], d_sum[2];
            int8_t q[2 * QK];
            int16_t sum[2][2];
            for (int j = 0; j < 2 * QK; j++) x[j] = random_unit();
            x[at] = bad[i];
            k->quantize(q, d, sum, d_sum, 1, x, 2);
            assert_true(isnan(d[0]) && isnan(d_sum[0]) && sum[0][0] == 0 && sum[0][1] == 0);
            for (int j = 0; j < QK; j++) assert_int_equal(q[j], 0);
            assert_true(isfinite(d[1]) && isfinite(d_sum[1]));
        }
    }
}

static void tiles(void **state) {
    const Kernels *k = level(state);
    enum { K = 37, STRIDE = 40 };
    static float a[8][K], b[K * STRIDE], c[8][32];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < K; j++) a[i][j] = random_unit();
    for (int i = 0; i < K * STRIDE; i++) b[i] = random_unit();
    for (int m = 1; m <= k->tile_rows; m++) {
        const float *rows[8];
        float *out[8];
        for (int i = 0; i < 8; i++) {
            rows[i] = a[i];
            out[i] = c[i];
            for (int j = 0; j < 32; j++) c[i][j] = 1;
        }
        k->tile(out, rows, m, &(TileB){b, STRIDE * sizeof *b, TILE_F32}, 0, K, true);
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < k->tile_cols; j++) {
                double sum = 1;
                for (int l = 0; l < K; l++) sum += (double)a[i][l] * (double)b[l * STRIDE + j];
                assert_true(fabs((double)c[i][j] - sum) < 1e-5);
            }
        }
        for (int i = m; i < 8; i++) assert_true(c[i][0] == 1);
    }
}

/* Keys and values as the cache has them give the same bits as unpacked. */
static void tiles_of_the_cache(void **state) {
    const Kernels *k = level(state);
    enum { D = 64, MOST = 8 };
    static float q[MOST][D], room[D * KV_BLOCK], packed[MOST][32], unpacked[MOST][32];
    const float *rows[MOST];
    float *c[MOST], *want[MOST];
    for (int i = 0; i < MOST; i++) {
        for (int j = 0; j < D; j++) q[i][j] = random_unit();
        rows[i] = q[i], c[i] = packed[i], want[i] = unpacked[i];
    }
    for (KvType type = KV_F32; type <= KV_Q8_0; type++) {
        static _Alignas(64) unsigned char memory[1 << 16];
        Arena arena = {.base = memory, .size = sizeof memory};
        KvCache cache = {
            .type = type, .n_layers = 1, .n_ctx = 2 * KV_BLOCK, .n_kv_heads = 1, .head_dim = D, .kernels = k};
        kv_cache_take(&cache, &arena);
        for (int pos = 0; pos < KV_BLOCK; pos++) {
            float x[D];
            for (int j = 0; j < D; j++) x[j] = random_unit();
            kv_cache_write_key(&cache, 0, 0, pos, x);
            kv_cache_write_value(&cache, 0, 0, pos, x);
        }
        for (int m = 1; m <= k->tile_rows; m++)
            for (int values = 0; values < 2; values++)
                for (int col = 0; col < (values ? D : KV_BLOCK); col += k->tile_cols) {
                    const int n = values ? KV_BLOCK - 3 : D;
                    TileB as_is =
                        values ? kv_values(room, false, D, &cache, 0, 0, 0, n) : kv_keys(room, false, &cache, 0, 0, 0);
                    k->tile(c, rows, m, &as_is, col, n, false);
                    TileB floats =
                        values ? kv_values(room, true, D, &cache, 0, 0, 0, n) : kv_keys(room, true, &cache, 0, 0, 0);
                    assert_int_equal(floats.form, TILE_F32);
                    k->tile(want, rows, m, &floats, col, n, false);
                    for (int i = 0; i < m; i++)
                        assert_memory_equal(c[i], want[i], (size_t)k->tile_cols * sizeof(float));
                }
    }
}

int main(void) {
    char ref[] = "ref";
    const struct CMUnitTest of_ref[] = {cmocka_unit_test_prestate(nan_stays_nan, ref)};
    int failures = cmocka_run_group_tests_name(ref, of_ref, NULL, NULL);
    for (const KernelLevel *l = kernel_levels; l->kernels; l++) {
        if (l->kernels == &kernels_ref) continue;
        void *name = (void *)(uintptr_t)l->kernels->name;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(products, name),           cmocka_unit_test_prestate(few_rows, name),
            cmocka_unit_test_prestate(gemm_is_exact, name),      cmocka_unit_test_prestate(activations_in_8_bits, name),
            cmocka_unit_test_prestate(nan_stays_nan, name),      cmocka_unit_test_prestate(exp_within_2_ulp, name),
            cmocka_unit_test_prestate(elementwise, name),        cmocka_unit_test_prestate(tiles, name),
            cmocka_unit_test_prestate(tiles_of_the_cache, name),
        };
        failures += cmocka_run_group_tests_name(l->kernels->name, tests, NULL, NULL);
    }
    return failures;
}

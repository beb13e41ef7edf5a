/* quantize_k - the types of 256 values, and IQ4_NL. ggml's formats leave open how scales are found: here a group's
 * scale (and minimum) is the weighted least-squares fit to its integers, and the integers are those of the best of
 * several scales near the one that covers the range. Weights make large values count more, as large weights matter
 * more. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/quantize.h"

static int to_range(float x, int low, int high) {
    float rounded = rintf(x);
    return rounded <= (float)low ? low : rounded >= (float)high ? high : (int)rounded;
}

/* Integers q in [low, high] and the returned scale with x ~ scale * q; low < -high. Errors are weighted with x^2. */
static float fit_scale(const float *x, int n, int low, int high) {
    enum { STEPS = 9 };
    float largest = largest_of(x, n), best = -1, scale = 0;
    if (fabsf(largest) < 1e-15f) return 0;
    for (int step = -STEPS; step <= STEPS; step++) { /* the largest becomes about low */
        float inverse = ((float)low + 0.1f * (float)step) / largest, xq = 0, qq = 0;
        for (int i = 0; i < n; i++) {
            float q = (float)to_range(x[i] * inverse, low, high), weight = x[i] * x[i];
            xq += weight * x[i] * q;
            qq += weight * q * q;
        }
        if (qq > 0 && xq * xq > best * qq) {
            best = xq * xq / qq;
            scale = xq / qq;
        }
    }
    return scale;
}

/* x ~ scale * q - min with q in [0, high] and min >= 0. */
static float fit_scale_min(float *min, const float *x, int n, int high) {
    enum { STEPS = 20 };
    float smallest = fminf(x[0], 0), largest = x[0], squares = 0, best = FLT_MAX, scale = 0;
    for (int i = 0; i < n; i++) {
        smallest = fminf(smallest, x[i]);
        largest = fmaxf(largest, x[i]);
        squares += x[i] * x[i];
    }
    *min = -smallest;
    float mean = sqrtf(squares / (float)n), range = largest - smallest;
    if (range < 1e-15f) return 0;
    for (int step = 0; step <= STEPS; step++) {
        float inverse = ((float)high - 1 + 0.1f * (float)step) / range;
        double w = 0, wx = 0, wq = 0, wqq = 0, wxq = 0, wxx = 0;
        for (int i = 0; i < n; i++) {
            double weight = (double)(mean + fabsf(x[i])), v = (double)x[i];
            double q = to_range((x[i] - smallest) * inverse, 0, high);
            w += weight, wx += weight * v, wq += weight * q;
            wqq += weight * q * q, wxq += weight * v * q, wxx += weight * v * v;
        }
        double det = w * wqq - wq * wq, a = 0, b = 1; /* x ~ a q + b */
        if (det > 1e-9 * w * wqq) a = (w * wxq - wx * wq) / det, b = (wqq * wx - wq * wxq) / det;
        if (b > 0) a = wqq > 0 ? wxq / wqq : 0, b = 0; /* all integers are equal, or the minimum would be positive */
        double error = wxx + a * a * wqq + b * b * w - 2 * a * wxq - 2 * b * wx + 2 * a * b * wq;
        if (error < (double)best) {
            best = (float)error;
            scale = (float)a;
            *min = (float)-b;
        }
    }
    return scale;
}

/* Integers of x under the scale and minimum that a reader will compute. */
static void integers(uint8_t *q, const float *x, int n, float scale, float min, int low, int high) {
    for (int i = 0; i < n; i++) q[i] = (uint8_t)(scale != 0 ? to_range((x[i] + min) / scale, low, high) - low : -low);
}

/* Scales and minima of groups of n values, as integers up to `most` times the f16 d and m; then the values' own. */
static bool scales_and_minima(uint8_t *q, int *scales, int *minima, uint16_t *d, uint16_t *m, const float *x, int n,
                              int most, int high) {
    float scale[16], min[16];
    const int groups = QK_K / n;
    for (int j = 0; j < groups; j++) scale[j] = fit_scale_min(&min[j], x + j * n, n, high);
    *d = f32_to_f16(fabsf(largest_of(scale, groups)) / (float)most);
    *m = f32_to_f16(fabsf(largest_of(min, groups)) / (float)most);
    float of_d = f16_to_f32(*d), of_m = f16_to_f32(*m);
    for (int j = 0; j < groups; j++) {
        scales[j] = of_d > 0 ? to_range(scale[j] / of_d, 0, most) : 0;
        minima[j] = of_m > 0 ? to_range(min[j] / of_m, 0, most) : 0;
        integers(q + j * n, x + j * n, n, of_d * (float)scales[j], of_m * (float)minima[j], 0, high);
    }
    return is_finite_f16(*d) && is_finite_f16(*m);
}

/* What scale_min_k reads. */
static void pack_scale_min_k(uint8_t packed[12], const int *scales, const int *minima) {
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scales[j] | scales[j + 4] >> 4 << 6);
        packed[j + 4] = (uint8_t)(minima[j] | minima[j + 4] >> 4 << 6);
        packed[j + 8] = (uint8_t)((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
    }
}

/* The low four bits of 2 n values at a time: the nibbles of n bytes. */
static void pack_nibbles(uint8_t *packed, const uint8_t *q, int n) {
    for (int i = 0; i < QK_K / 2; i++) {
        const uint8_t *from = q + i / n * 2 * n + i % n;
        packed[i] = (uint8_t)((from[0] & 15) | (from[n] & 15) << 4);
    }
}

/* Bits `shift` and above of 128 values at a time, two of each: four values to a byte. */
static void pack_two_bits(uint8_t *packed, const uint8_t *q, int shift) {
    memset(packed, 0, QK_K / 4);
    for (int i = 0; i < QK_K; i++) packed[i / 128 * QK + i % QK] |= (uint8_t)((q[i] >> shift & 3) << i % 128 / QK * 2);
}

bool quantize_q4_k(void *out, const float *x) {
    BlockQ4_K *b = out;
    uint8_t q[QK_K];
    int scales[8], minima[8];
    bool fits = scales_and_minima(q, scales, minima, &b->d, &b->m, x, QK, 63, 15);
    pack_scale_min_k(b->scales, scales, minima);
    pack_nibbles(b->q, q, QK);
    return fits;
}

bool quantize_q5_k(void *out, const float *x) {
    BlockQ5_K *b = out;
    uint8_t q[QK_K];
    int scales[8], minima[8];
    bool fits = scales_and_minima(q, scales, minima, &b->d, &b->m, x, QK, 63, 31);
    pack_scale_min_k(b->scales, scales, minima);
    pack_nibbles(b->q, q, QK);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < QK_K; i++) b->high[i % QK] |= (uint8_t)(q[i] >> 4 << i / QK);
    return fits;
}

bool quantize_q2_k(void *out, const float *x) {
    BlockQ2_K *b = out;
    uint8_t q[QK_K];
    int scales[16], minima[16];
    bool fits = scales_and_minima(q, scales, minima, &b->d, &b->m, x, 16, 15, 3);
    for (int j = 0; j < 16; j++) b->scales[j] = (uint8_t)(scales[j] | minima[j] << 4);
    pack_two_bits(b->q, q, 0);
    return fits;
}

/* Scales of 16 values without a minimum: the largest becomes lowest_scale. */
static bool signed_scales(uint8_t *q, int *scales, uint16_t *d, const float *x, int lowest_scale, int low, int high) {
    float scale[16];
    for (int j = 0; j < 16; j++) scale[j] = fit_scale(x + j * 16, 16, low, high);
    *d = f32_to_f16(largest_of(scale, 16) / (float)lowest_scale);
    float of_d = f16_to_f32(*d);
    for (int j = 0; j < 16; j++) {
        scales[j] = of_d != 0 ? to_range(scale[j] / of_d, lowest_scale, -lowest_scale - 1) : 0;
        integers(q + j * 16, x + j * 16, 16, of_d * (float)scales[j], 0, low, high);
    }
    return is_finite_f16(*d);
}

bool quantize_q3_k(void *out, const float *x) {
    BlockQ3_K *b = out;
    uint8_t q[QK_K];
    int scales[16];
    bool fits = signed_scales(q, scales, &b->d, x, -32, -4, 3);
    memset(b->scales, 0, sizeof b->scales);
    for (int j = 0; j < 16; j++) { /* what scale_3k reads */
        int s = scales[j] + 32;
        b->scales[j % 8] |= (uint8_t)((s & 15) << j / 8 * 4);
        b->scales[8 + j % 4] |= (uint8_t)(s >> 4 << j / 4 * 2);
    }
    pack_two_bits(b->q, q, 0);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < QK_K; i++) b->high[i % QK] |= (uint8_t)(q[i] >> 2 << i / QK);
    return fits;
}

bool quantize_q6_k(void *out, const float *x) {
    BlockQ6_K *b = out;
    uint8_t q[QK_K];
    int scales[16];
    bool fits = signed_scales(q, scales, &b->d, x, -128, -32, 31);
    for (int j = 0; j < 16; j++) b->scales[j] = (int8_t)scales[j];
    pack_nibbles(b->q, q, 64);
    pack_two_bits(b->high, q, 4);
    return fits;
}

/* Number of the codebook's nearest value: of the 15 midpoints, how many are below x. */
static int nearest(float x) {
    int n = 0;
    for (int i = 0; i < 15; i++) n += x > 0.5f * (float)(codebook_iq4[i] + codebook_iq4[i + 1]);
    return n;
}

bool quantize_iq4_nl(void *out, const float *x) {
    enum { STEPS = 7 };
    BlockIQ4_NL *b = out;
    float largest = largest_of(x, QK), best = -1, scale = 0;
    for (int step = -STEPS; step <= STEPS && fabsf(largest) >= 1e-15f; step++) {
        float inverse = ((float)codebook_iq4[0] + (float)step) / largest, xq = 0, qq = 0;
        for (int i = 0; i < QK; i++) {
            float q = (float)codebook_iq4[nearest(x[i] * inverse)], weight = x[i] * x[i];
            xq += weight * x[i] * q;
            qq += weight * q * q;
        }
        if (qq > 0 && xq * xq > best * qq) {
            best = xq * xq / qq;
            scale = xq / qq;
        }
    }
    b->d = f32_to_f16(scale);
    float d = f16_to_f32(b->d), inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < QK / 2; i++)
        b->q[i] = (uint8_t)(nearest(x[i] * inverse) | nearest(x[i + QK / 2] * inverse) << 4);
    return is_finite_f16(b->d);
}

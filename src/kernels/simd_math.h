/* simd_math - elementwise loops, the softmax and the int8 form of activations, in vectors of LANES floats.
 * A part of simd_body.h. */
#pragma once

/* e^x as 2^n * e^r with |r| <= ln 2 / 2, where a polynomial of degree 7 is exact to a rounding. ln 2 is taken
 * off in two parts, the first with few enough bits that n times it is exact (Cody & Waite; coefficients as in
 * Cephes' expf). Below the smallest normal number the result is 0, above 88.37 that of 88.37; NaN stays NaN. */
INLINE V v_exp(V x) {
    const V low = v_set1(-87.33654f), magic = v_set1(12582912.f); /* 1.5 * 2^23: adding it rounds to integers */
    V clamped = v_min(v_set1(88.37626f), v_max(low, x));
    V shifted = v_fma(clamped, v_set1(1.44269504f), magic);
    V n = v_sub(shifted, magic);
    V r = v_fma(n, v_set1(-0.693359375f), clamped);
    r = v_fma(n, v_set1(2.12194440e-4f), r);
    V p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set1(1));
    return v_keep_nan(v_zero_below(v_scale_exponent(p, shifted), x, low), x);
}

INLINE V v_sigmoid(V x) { return v_div(v_set1(1), v_add(v_set1(1), v_exp(v_sub(v_zero(), x)))); }

INLINE float v_sum(V x) {
    float lane[LANES], sum = 0;
    v_store(lane, x);
    for (int i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

INLINE float v_largest(V x) {
    float lane[LANES], max;
    v_store(lane, x);
    max = lane[0];
    for (int i = 1; i < LANES; i++) max = lane[i] > max ? lane[i] : max;
    return max;
}

static void exps(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_exp(v_load(x + i)));
    if (i == n) return;
    float rest[LANES] = {0};
    memcpy(rest, x + i, (n - i) * sizeof *x);
    v_store(rest, v_exp(v_load(rest)));
    memcpy(y + i, rest, (n - i) * sizeof *x);
}

INLINE V v_swiglu(V gate, V up) { return v_mul(v_mul(gate, v_sigmoid(gate)), up); }

static void swiglu(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(gate + i, v_swiglu(v_load(gate + i), v_load(up + i)));
    if (i == n) return;
    float g[LANES] = {0}, u[LANES] = {0};
    memcpy(g, gate + i, (n - i) * sizeof *g);
    memcpy(u, up + i, (n - i) * sizeof *u);
    v_store(g, v_swiglu(v_load(g), v_load(u)));
    memcpy(gate + i, g, (n - i) * sizeof *g);
}

/* gelu_tanh: (1 + tanh u) / 2 is the sigmoid of 2u. */
INLINE V v_gelu(V x) {
    V cubed = v_mul(v_mul(x, x), x);
    V u = v_mul(v_fma(cubed, v_set1(0.044715f), x), v_set1(2 * 0.7978845608028654f));
    return v_mul(x, v_sigmoid(u));
}

static void gelu(float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(x + i, v_gelu(v_load(x + i)));
    if (i == n) return;
    float rest[LANES] = {0};
    memcpy(rest, x + i, (n - i) * sizeof *x);
    v_store(rest, v_gelu(v_load(rest)));
    memcpy(x + i, rest, (n - i) * sizeof *x);
}

static float sum_squares(const float *x, int n) {
    V sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            V v = v_load(x + i + j * LANES);
            sum[j] = v_fma(v, v, sum[j]);
        }
    double total = (double)v_sum(sum[0]) + (double)v_sum(sum[1]) + (double)v_sum(sum[2]) + (double)v_sum(sum[3]);
    for (; i < n; i++) total += (double)x[i] * (double)x[i];
    return (float)total;
}

static void from_f16(float *y, const uint16_t *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_from_f16(x + i));
    for (; i < n; i++) y[i] = half_to_float(x[i]);
}

static void to_f16(uint16_t *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_to_f16(y + i, v_load(x + i));
    for (; i < n; i++) y[i] = float_to_half(x[i]);
}

static float softmax_step(float *s, int valid, int n, float *max, float *denom) {
    for (int i = valid; i < n; i++) s[i] = -3e38f; /* e^that is 0 */
    V largest = v_set1(*max);
    int i = 0;
    for (; i + LANES <= n; i += LANES) largest = v_max(largest, v_load(s + i));
    float larger = v_largest(largest);
    for (; i < n; i++) larger = s[i] > larger ? s[i] : larger;
    float change = *max - larger, rescale = 1;
    if (change != 0) exps(&rescale, &change, 1); /* NaN where the maximum so far is, or is infinite */
    V minus = v_set1(-larger), sum = v_zero();
    float rest = 0;
    for (i = 0; i + LANES <= n; i += LANES) {
        V e = v_exp(v_add(v_load(s + i), minus));
        v_store(s + i, e);
        sum = v_add(sum, e);
    }
    for (; i < n; i++) {
        s[i] -= larger;
        exps(s + i, s + i, 1);
        rest += s[i];
    }
    *max = larger;
    *denom = *denom * rescale + v_sum(sum) + rest;
    return rescale;
}

INLINE int sum_of(const int16_t *half) { return half[0] + half[1]; }

static void quantize(int8_t *q, float *d, int16_t (*sum)[2], float *d_sum, int step, const float *x, int blocks) {
    for (int b = 0; b < blocks; b++, q += step * QK, d += step, sum += step, d_sum += step, x += QK) {
        V8 v[4];
        for (int i = 0; i < 4; i++) v[i] = v8_load(x + 8 * i);
        const float max = largest_magnitude(v);
        if (!(max <= FLT_MAX)) { /* infinite or NaN: no product with it may look like a value */
            memset(q, 0, QK);
            *d = *d_sum = NAN;
            memset(sum, 0, sizeof *sum);
            continue;
        }
        *d = max / 127;
        round_block(q, *sum, v, 127 / max <= FLT_MAX ? 127 / max : 0); /* 0, and what is as good as 0 */
        *d_sum = *d * (float)sum_of(*sum);
    }
}

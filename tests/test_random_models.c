/* 200 small models of random shapes, types and settings, against a forward pass of this file in double precision:
 * widths that no kernel likes, odd head counts, vocabularies of one token, every dtype, every CPU level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quantize.h"
#include "model.h"
#include "random.h"
#include "verify/explain.h"

#include <cmocka.h> /* last: it makes fail a macro */

enum { MODELS = 200, MAX_LAYERS = 2, MAX_OWNED = 128, MAX_TOKENS = 12 };

typedef struct {
    Config c;
    Weights w;
    Layer layers[MAX_LAYERS];
    void *owned[MAX_OWNED];
    int n_owned;
    bool quantized;
} Sample;

static int pick(int from, int to) { return from + (int)((random_unit() + 1) / 2 * (float)(to - from + 1)); }
static bool chance(int percent) { return pick(1, 100) <= percent; }

static void *owned(Sample *m, size_t bytes) {
    void *p = calloc(1, bytes);
    assert_true(p && m->n_owned < MAX_OWNED);
    return m->owned[m->n_owned++] = p;
}

/* n values of size `scale` around `middle`. */
static float *vector(Sample *m, int n, float scale, float middle) {
    float *x = owned(m, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = middle + scale * random_unit();
    return x;
}

static void put_f16(char *at, float x) {
    uint16_t h = f32_to_f16(x);
    memcpy(at, &h, sizeof h);
}

/* Blocks that nothing here writes: any bytes are values, once the scales are sane ones. */
static void random_blocks(char *data, DType t, size_t blocks, float scale) {
    size_t bytes = dtype_row_bytes(t, (size_t)dtype_info[t].block_values);
    for (size_t i = 0; i < blocks * bytes; i++) data[i] = (char)pick(0, 255);
    for (size_t b = 0; b < blocks; b++) {
        char *at = data + b * bytes;
        if (t == DTYPE_Q5_0) put_f16(at, scale / 16);
        if (t == DTYPE_Q5_1) put_f16(at, scale / 16), put_f16(at + 2, -scale);
        if (t == DTYPE_Q4_K) put_f16(at, scale / 480), put_f16(at + 2, scale / 63);
        if (t == DTYPE_Q5_K) put_f16(at, scale / 960), put_f16(at + 2, scale / 63);
        if (t == DTYPE_Q6_K) put_f16(at + bytes - 2, scale / 2048);
        if (t == DTYPE_Q2_K) put_f16(at + bytes - 4, scale / 24), put_f16(at + bytes - 2, scale / 15);
        if (t == DTYPE_Q3_K) put_f16(at + bytes - 2, scale / 64);
        if (t == DTYPE_IQ4_NL) put_f16(at, scale / 127);
        if (t == DTYPE_IQ4_XS) put_f16(at, scale / 2048);
        if (t == DTYPE_MXFP4) *at = (char)(128 + ilogbf(scale) - 4);
        if (t >= DTYPE_IQ2_XXS && t <= DTYPE_IQ1_S) put_f16(at, scale / 512);
        if (t == DTYPE_IQ1_M)
            for (size_t i = 1; i < 8; i += 2) at[bytes - i] = (char)((at[bytes - i] & 15) | (i == 1 ? 0x10 : 0));
        if (t == DTYPE_TQ1_0 || t == DTYPE_TQ2_0) put_f16(at + bytes - 2, scale);
        if (t == DTYPE_Q8_K) memcpy(at, &(float){scale / 128}, sizeof(float));
    }
}

static Mat matrix(Sample *m, int rows, int cols) {
    DType t = (DType)pick(0, DTYPE_COUNT - 1);
    if (t == DTYPE_Q8_GROUP ? cols % QK != 0 : cols % dtype_info[t].block_values != 0) t = (DType)pick(0, DTYPE_BF16);
    float scale = 1 / sqrtf((float)cols);
    size_t n = (size_t)rows * (size_t)cols,
           row_bytes = t == DTYPE_Q8_GROUP ? (size_t)cols : dtype_row_bytes(t, (size_t)cols);
    char *data = owned(m, (size_t)rows * row_bytes);
    Mat w = {.dtype = t, .rows = rows, .cols = cols, .stride_bytes = row_bytes, .data = data};
    if (t == DTYPE_Q8_GROUP) {
        w.group = QK;
        w.scales = vector(m, (int)(n / QK), scale / 254, scale / 127);
        for (size_t i = 0; i < n; i++) data[i] = (char)pick(-127, 127);
    } else if (dtype_can_quantize(t)) {
        float *x = malloc((size_t)cols * sizeof *x);
        assert_non_null(x);
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < cols; i++) x[i] = scale * random_unit();
            assert_true(dtype_quantize(data + (size_t)r * row_bytes, x, (size_t)cols, t));
        }
        free(x);
    } else {
        random_blocks(data, t, n / (size_t)dtype_info[t].block_values, scale);
    }
    m->quantized |= mat_is_quantized(&w);
    return w;
}

static const float *maybe(Sample *m, int percent, int n, float middle) {
    return chance(percent) ? vector(m, n, 0.3f, middle) : NULL;
}

static void draw_config(Config *c) {
    static const int head_dims[] = {2, 4, 6, 8, 10, 16, 18, 32, 34, 64, 66, 80, 128, 256},
                     vocabularies[] = {1, 2, 33, 50, 257};
    bool whole = chance(40); /* widths that quantized blocks divide */
    *c = (Config){.dim = whole ? pick(1, 2) * 256 : pick(1, 100),
                  .hidden_dim = whole ? pick(1, 3) * 256 : pick(1, 130),
                  .n_layers = pick(1, MAX_LAYERS),
                  .n_kv_heads = pick(1, 5),
                  .vocab_size = vocabularies[pick(0, 4)],
                  .n_ctx = 16,
                  .norm = chance(25) ? NORM_LAYERNORM : NORM_RMSNORM,
                  .ffn = (FfnKind)pick(FFN_GELU, FFN_XIELU),
                  .pos = chance(25) ? POS_LEARNED : POS_ROPE,
                  .norm_eps = 1e-5f,
                  .tied = chance(30)};
    c->n_heads = c->n_kv_heads * pick(1, 4);
    c->head_dim = c->pos == POS_ROPE ? head_dims[pick(0, whole ? 13 : 10)] : pick(1, 40);
    while (c->n_heads * c->head_dim > 1024) c->n_heads = c->n_kv_heads = 1;
    c->rope =
        (RopeConfig){.theta = chance(50) ? 10000 : 500000,
                     .rotary_dim = chance(70) ? c->head_dim : 2 * pick(1, c->head_dim / 2 > 0 ? c->head_dim / 2 : 1),
                     .pairing = chance(50) ? ROPE_HALF : ROPE_PAIRS,
                     .scaling = chance(25) ? ROPE_SCALING_LINEAR : ROPE_SCALING_NONE,
                     .factor = 4};
    if (chance(30)) { /* what sets families apart */
        c->rope_local = c->rope;
        c->rope_local.theta = 100;
        if (chance(50)) c->embedding_scale = 1.7f;
        if (chance(50)) c->residual_scale = 0.6f;
        if (chance(50)) c->logit_scale = 0.5f;
        if (chance(50)) c->logit_softcap = 3;
        if (chance(50)) c->norm_offset = 1;
        c->no_pre_norm = chance(20);
        c->parallel = chance(30);
        if (chance(50)) c->attn.scale = 0.2f;
        if (chance(50)) c->attn.softcap = 2;
        if (chance(50)) c->attn.clamp = 0.8f;
        if (chance(50)) c->attn.temperature = 0.3f, c->attn.temperature_ctx = 3;
        c->attn.qk_norm = (QkNorm)pick(QK_NORM_NONE, QK_NORM_WHOLE);
    }
}

static void draw(Sample *m) {
    *m = (Sample){0};
    Config *c = &m->c;
    draw_config(c);
    int q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    float middle = 1 - c->norm_offset;
    bool plain = c->embedding_scale == 0 && c->residual_scale == 0 && !c->rope_local.rotary_dim;
    m->w.layers = m->layers;
    m->w.tok_emb = matrix(m, c->vocab_size, c->dim);
    if (c->pos == POS_LEARNED) m->w.pos_emb = matrix(m, c->n_ctx, c->dim);
    m->w.lm_head = c->tied ? m->w.tok_emb : matrix(m, c->vocab_size, c->dim);
    m->w.lm_head_bias = maybe(m, 10, c->vocab_size, 0);
    m->w.final_norm = vector(m, c->dim, 0.3f, middle);
    if (c->norm == NORM_LAYERNORM) m->w.final_norm_bias = maybe(m, 50, c->dim, 0);
    for (Layer *l = m->layers; l < m->layers + c->n_layers; l++) {
        AttentionWeights *a = &l->attn;
        a->wq = matrix(m, q_dim, c->dim), a->wk = matrix(m, kv_dim, c->dim), a->wv = matrix(m, kv_dim, c->dim);
        a->wo = matrix(m, c->dim, q_dim);
        a->bq = maybe(m, 25, q_dim, 0), a->bk = maybe(m, 25, kv_dim, 0), a->bv = maybe(m, 25, kv_dim, 0);
        a->bo = maybe(m, 25, c->dim, 0);
        if (ffn_is_gated(c->ffn))
            l->ffn.w_gate = matrix(m, c->hidden_dim, c->dim), l->ffn.b_gate = maybe(m, 20, c->hidden_dim, 0);
        l->ffn.w_up = matrix(m, c->hidden_dim, c->dim), l->ffn.b_up = maybe(m, 20, c->hidden_dim, 0);
        l->ffn.w_down = matrix(m, c->dim, c->hidden_dim), l->ffn.b_down = maybe(m, 20, c->dim, 0);
        l->ffn.xielu.alpha_p = 0.4f, l->ffn.xielu.alpha_n = 0.3f, l->ffn.xielu.beta = 0.5f, l->ffn.xielu.eps = -1e-6f;
        l->attn_norm = vector(m, c->dim, 0.3f, middle);
        if (!c->parallel || chance(50)) l->ffn_norm = vector(m, c->dim, 0.3f, middle);
        if (plain) continue;
        l->attn_post_norm = maybe(m, 50, c->dim, middle), l->ffn_post_norm = maybe(m, 50, c->dim, middle);
        a->rope = (RopeUse)pick(ROPE_MAIN, ROPE_NONE);
        a->window = chance(50) ? pick(1, 6) : 0;
        a->sinks = maybe(m, 40, c->n_heads, 0);
        int n = c->attn.qk_norm == QK_NORM_NONE ? 0 : c->attn.qk_norm >= QK_NORM_EACH_HEAD ? 1 : -1;
        if (n) a->q_norm = vector(m, n > 0 ? q_dim : c->head_dim, 0.3f, middle);
        if (n) a->k_norm = vector(m, n > 0 ? kv_dim : c->head_dim, 0.3f, middle);
    }
}

static void undraw(Sample *m) {
    for (int i = 0; i < m->n_owned; i++) free(m->owned[i]);
}

/* ---- The forward pass in double ------------------------------------------------------------------ */

static double *doubles(size_t n) {
    double *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static void times(double *y, const Mat *w, const float *bias, const double *x) {
    float *row = malloc((size_t)w->cols * sizeof *row);
    assert_non_null(row);
    for (int r = 0; r < w->rows; r++) {
        mat_dequantize_row(row, w, r);
        y[r] = bias ? (double)bias[r] : 0;
        for (int i = 0; i < w->cols; i++) y[r] += (double)row[i] * x[i];
    }
    free(row);
}

static void normed(double *y, const double *x, int n, const Config *c, const float *weight, const float *bias) {
    double mean = 0, squares = 0;
    for (int i = 0; i < n && c->norm == NORM_LAYERNORM; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    double root = sqrt(squares / n + (double)c->norm_eps);
    for (int i = 0; i < n; i++) {
        y[i] = (x[i] - mean) / root * (weight ? (double)weight[i] + (double)c->norm_offset : 1);
        if (bias) y[i] += (double)bias[i];
    }
}

static void rotated(double *head, const RopeConfig *r, int pos) {
    for (int i = 0; i < r->rotary_dim / 2; i++) {
        double angle = pos / pow(r->theta, 2.0 * i / r->rotary_dim);
        if (r->scaling == ROPE_SCALING_LINEAR) angle /= r->factor;
        int a = r->pairing == ROPE_HALF ? i : 2 * i, b = r->pairing == ROPE_HALF ? i + r->rotary_dim / 2 : a + 1;
        double x = head[a], y = head[b];
        head[a] = x * cos(angle) - y * sin(angle);
        head[b] = x * sin(angle) + y * cos(angle);
    }
}

/* q or k [heads, d]: norm, clamp, RoPE. */
static void finish_heads(double *x, int heads, const Config *c, const AttentionWeights *w, const float *norm, int pos) {
    int d = c->head_dim, n = heads * d;
    const RopeConfig *rope = w->rope == ROPE_LOCAL ? &c->rope_local : &c->rope;
    if (norm && c->attn.qk_norm == QK_NORM_WHOLE) normed(x, x, n, c, norm, NULL);
    for (int h = 0; h < heads; h++) {
        double *head = x + h * d;
        if (norm && c->attn.qk_norm == QK_NORM_HEAD) normed(head, head, d, c, norm, NULL);
        if (norm && c->attn.qk_norm == QK_NORM_EACH_HEAD) normed(head, head, d, c, norm + h * d, NULL);
        for (int i = 0; i < d && c->attn.clamp > 0; i++)
            head[i] = fmax(-(double)c->attn.clamp, fmin((double)c->attn.clamp, head[i]));
        if (c->pos == POS_ROPE && w->rope != ROPE_NONE) rotated(head, rope, pos);
        if (norm && c->attn.qk_norm == QK_NORM_AFTER_ROPE) normed(head, head, d, c, norm, NULL);
    }
}

static void attended(double *out, const double *q, const double *k, const double *v, const Config *c,
                     const AttentionWeights *w, int pos) {
    int d = c->head_dim, kv_dim = c->n_kv_heads * d;
    double p[MAX_TOKENS], cap = (double)c->attn.softcap;
    double scale = c->attn.scale > 0 ? (double)c->attn.scale : 1 / sqrt(d);
    if (c->attn.temperature > 0) scale *= 1 + (double)c->attn.temperature * log(1 + pos / c->attn.temperature_ctx);
    for (int h = 0; h < c->n_heads; h++) {
        int at = h / (c->n_heads / c->n_kv_heads) * d, from = w->window && pos >= w->window ? pos - w->window + 1 : 0;
        double sum = w->sinks ? exp((double)w->sinks[h]) : 0;
        for (int s = from; s <= pos; s++) {
            p[s] = 0;
            for (int i = 0; i < d; i++) p[s] += q[h * d + i] * k[s * kv_dim + at + i];
            p[s] *= scale;
            if (cap > 0) p[s] = cap * tanh(p[s] / cap);
            sum += p[s] = exp(p[s]);
        }
        for (int i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (int s = from; s <= pos; s++) out[h * d + i] += p[s] / sum * v[s * kv_dim + at + i];
        }
    }
}

static double activated(double z, FfnKind kind, const FfnWeights *w) {
    double beta = (double)w->xielu.beta, p = log1p(exp((double)w->xielu.alpha_p));
    switch (kind) {
    case FFN_SWIGLU: return z / (1 + exp(-z));
    case FFN_GELU:
    case FFN_GEGLU: return z / 2 * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * pow(z, 3))));
    case FFN_GELU_ERF:
    case FFN_GEGLU_ERF: return z / 2 * erfc(-z / sqrt(2));
    case FFN_RELU2: return z > 0 ? z * z : 0;
    case FFN_XIELU:
        if (z > 0) return beta * z + p * z * z;
        return beta * z + (beta + log1p(exp((double)w->xielu.alpha_n))) * (expm1(fmin(z, (double)w->xielu.eps)) - z);
    case FFN_SWIGLU_OSS: fail_msg("found an activation of experts, which test_moe.c checks");
    }
    return z;
}

static void fed_forward(double *out, const double *x, const Config *c, const FfnWeights *w) {
    double *gate = doubles((size_t)c->hidden_dim), *up = doubles((size_t)c->hidden_dim);
    bool gated = ffn_is_gated(c->ffn);
    if (gated) times(gate, &w->w_gate, w->b_gate, x);
    times(up, &w->w_up, w->b_up, x);
    for (int i = 0; i < c->hidden_dim; i++)
        up[i] = gated ? activated(gate[i], c->ffn, w) * up[i] : activated(up[i], c->ffn, w);
    times(out, &w->w_down, w->b_down, up);
    free(gate);
    free(up);
}

static void added(double *x, double *y, const Config *c, const float *post_norm) {
    if (post_norm) normed(y, y, c->dim, c, post_norm, NULL);
    for (int i = 0; i < c->dim; i++) x[i] += y[i] * (c->residual_scale > 0 ? (double)c->residual_scale : 1);
}

/* logits [n, vocab_size] */
static void forward_in_double(double *logits, const Sample *m, const int *tokens, int n) {
    const Config *c = &m->c;
    int d = c->head_dim, q_dim = c->n_heads * d, kv_dim = c->n_kv_heads * d;
    size_t cache = (size_t)(MAX_TOKENS * kv_dim);
    double *x = doubles((size_t)c->dim), *xn = doubles((size_t)c->dim), *y = doubles((size_t)c->dim),
           *fn = doubles((size_t)c->dim);
    double *q = doubles((size_t)q_dim), *heads = doubles((size_t)q_dim);
    double *k = doubles(MAX_LAYERS * cache), *v = doubles(MAX_LAYERS * cache);
    float *row = malloc((size_t)c->dim * sizeof *row);
    assert_non_null(row);
    for (int t = 0; t < n; t++) {
        mat_dequantize_row(row, &m->w.tok_emb, tokens[t]);
        for (int i = 0; i < c->dim; i++) x[i] = (double)row[i];
        if (c->pos == POS_LEARNED) mat_dequantize_row(row, &m->w.pos_emb, t);
        for (int i = 0; i < c->dim && c->pos == POS_LEARNED; i++) x[i] += (double)row[i];
        for (int i = 0; i < c->dim && c->embedding_scale > 0; i++) x[i] *= (double)c->embedding_scale;
        for (int l = 0; l < c->n_layers; l++) {
            const Layer *w = &m->layers[l];
            double *kt = k + (size_t)l * cache, *vt = v + (size_t)l * cache;
            memcpy(xn, x, (size_t)c->dim * sizeof *x);
            if (!c->no_pre_norm) normed(xn, x, c->dim, c, w->attn_norm, w->attn_norm_bias);
            memcpy(fn, xn, (size_t)c->dim * sizeof *x);
            if (c->parallel && w->ffn_norm && !c->no_pre_norm) normed(fn, x, c->dim, c, w->ffn_norm, w->ffn_norm_bias);
            times(q, &w->attn.wq, w->attn.bq, xn);
            times(kt + t * kv_dim, &w->attn.wk, w->attn.bk, xn);
            times(vt + t * kv_dim, &w->attn.wv, w->attn.bv, xn);
            finish_heads(q, c->n_heads, c, &w->attn, w->attn.q_norm, t);
            finish_heads(kt + t * kv_dim, c->n_kv_heads, c, &w->attn, w->attn.k_norm, t);
            for (int i = 0; i < kv_dim && c->attn.clamp > 0; i++)
                vt[t * kv_dim + i] = fmax(-(double)c->attn.clamp, fmin((double)c->attn.clamp, vt[t * kv_dim + i]));
            attended(heads, q, kt, vt, c, &w->attn, t);
            times(y, &w->attn.wo, w->attn.bo, heads);
            added(x, y, c, w->attn_post_norm);
            if (!c->parallel) memcpy(fn, x, (size_t)c->dim * sizeof *x);
            if (!c->parallel && !c->no_pre_norm) normed(fn, x, c->dim, c, w->ffn_norm, w->ffn_norm_bias);
            fed_forward(y, fn, c, &w->ffn);
            added(x, y, c, w->ffn_post_norm);
        }
        normed(xn, x, c->dim, c, m->w.final_norm, m->w.final_norm_bias);
        double *out = logits + t * c->vocab_size, cap = (double)c->logit_softcap;
        times(out, &m->w.lm_head, m->w.lm_head_bias, xn);
        for (int i = 0; i < c->vocab_size; i++) {
            if (c->logit_scale > 0) out[i] *= (double)c->logit_scale;
            if (cap > 0) out[i] = cap * tanh(out[i] / cap);
        }
    }
    double *all[] = {x, xn, y, fn, q, heads, k, v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(row);
}

/* ---- The test ------------------------------------------------------------------------------------ */

/* Largest difference of the logits over their largest value. */
static double difference(const Sample *m, const double *expected, const int *tokens, int n, const Kernels *kernels,
                         bool precise) {
    const Config *c = &m->c;
    Model model;
    State s;
    Error e = {0};
    double worst = 0, size = 1;
    int prefill = pick(1, n), vocab = c->vocab_size;
    model_init(&model, c, &m->w);
    if (precise) model.int8 = false; /* --precise */
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = pick(1, 3), .kv_type = KV_F32, .kernels = kernels};
    if (state_init(&s, &model, &options, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < n * vocab; i++) size = fmax(size, fabs(expected[i]));
    for (int t = 0; t < n; t++) {
        if (t == 0) model_forward(&model, &s, tokens, prefill, 0);
        else if (t >= prefill) model_forward(&model, &s, tokens + t, 1, t);
        const float *found = model_logits(&model, &s, t < prefill ? t : 0);
        for (int i = 0; i < vocab; i++) {
            double error = fabs((double)found[i] - expected[t * vocab + i]);
            if (!(error <= worst)) worst = error;
        }
    }
    state_close(&s);
    return worst / size;
}

static void random_models_agree_with_double(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        Sample m;
        int tokens[MAX_TOKENS], n = pick(1, MAX_TOKENS);
        draw(&m);
        for (int t = 0; t < n; t++) tokens[t] = pick(0, m.c.vocab_size - 1);
        double *expected = doubles((size_t)(n * m.c.vocab_size));
        forward_in_double(expected, &m, tokens, n);
        for (int l = 0; kernel_levels[l / 2].kernels; l++) {
            const Kernels *kernels = kernels_named(kernel_levels[l / 2].kernels->name);
            bool precise = l % 2;
            if (!kernels || (precise && !(m.quantized && kernels->int8))) continue; /* the same as without it */
            double found = difference(&m, expected, tokens, n, kernels, precise);
            double tolerance = kernels->int8 && m.quantized && !precise ? 0.1 : 1e-4;
            if (!(found <= tolerance))
                fail_msg("model %d at %s: off by %g: dim %d, hidden %d, %d layers, %d/%d heads of %d, vocabulary %d, "
                         "norm %d, ffn %d, pos %d, parallel %d, qk_norm %d, no_pre_norm %d, %d tokens",
                         i, kernels->name, found, m.c.dim, m.c.hidden_dim, m.c.n_layers, m.c.n_heads, m.c.n_kv_heads,
                         m.c.head_dim, m.c.vocab_size, m.c.norm, m.c.ffn, m.c.pos, m.c.parallel, m.c.attn.qk_norm,
                         m.c.no_pre_norm, n);
        }
        free(expected);
        undraw(&m);
    }
}

/* q and k in the order that references have. */
static void as_half(Trace *t, const Config *c) {
    float line[1024];
    for (int layer = 0; layer < c->n_layers; layer++)
        for (Step step = STEP_Q; step <= STEP_K_ROT; step++) {
            int cols = trace_cols(c, step);
            if (step != STEP_V)
                explain_reorder(t->x[trace_slot(layer, step, c->n_layers)], t->n, cols, cols / c->head_dim,
                                c->rope.rotary_dim, true, line);
        }
}

/* verify's own formulas follow every setting too: with a run of the model itself as reference, a value that is spoiled
 * in one tensor is told to be this run's fault, whichever tensor it is. */
static void verify_knows_the_formulas(void **state) {
    (void)state;
    for (int i = 0; i < MODELS / 4; i++) {
        Sample m;
        Model model;
        Trace ref, run, ours;
        Error e = {0};
        int tokens[MAX_TOKENS], n = pick(3, MAX_TOKENS);
        draw(&m);
        if (m.c.pos == POS_LEARNED) m.c.attn.clamp = 0, m.c.attn.qk_norm = QK_NORM_NONE; /* of no family */
        for (Layer *l = m.layers; l < m.layers + MAX_LAYERS && m.c.pos == POS_LEARNED; l++)
            l->attn.q_norm = l->attn.k_norm = NULL;
        for (int t = 0; t < n; t++) tokens[t] = pick(0, m.c.vocab_size - 1);
        model_init(&model, &m.c, &m.w);
        Trace *const traces[] = {&ref, &run, &ours};
        for (int t = 0; t < 3; t++)
            if (trace_run(traces[t], &model, tokens, n, 1, &kernels_ref, NULL, NULL, &e)) fail_msg("%s", e.text);
        if (m.c.pos == POS_ROPE && m.c.rope.pairing == ROPE_PAIRS) as_half(&ref, &m.c);
        for (int slot = 0; slot < ref.n_slots; slot++) {
            Verify v;
            if (!ref.x[slot]) continue;
            for (int k = 0; k < ref.n_slots; k++) /* as it was before it was compared */
                if (run.x[k]) memcpy(ours.x[k], run.x[k], (size_t)(n * run.cols[k]) * sizeof(float));
            ours.x[slot][(n - 1) * ours.cols[slot]] += 30;
            if (verify_compare(&v, &model, &ours, &ref, &e)) fail_msg("%s", e.text);
            if (v.first_bad < 0 || (!strstr(v.cause, "this run's is off") && !strstr(v.cause, " here ")))
                fail_msg("model %d (pos %d, qk_norm %d, clamp %g): %s: %s", i, m.c.pos, m.c.attn.qk_norm,
                         (double)m.c.attn.clamp, v.first_bad < 0 ? "none" : v.rows[v.first_bad].name, v.cause);
            verify_close(&v);
        }
        for (int t = 0; t < 3; t++) trace_close(traces[t]);
        undraw(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_models_agree_with_double),
                                       cmocka_unit_test(verify_knows_the_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "verify/verify.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

static const char *const step_name[STEP_COUNT] = {"embed", "attn_norm",  "q",        "k",        "v",
                                                  "q_rot", "k_rot",      "attn_out", "ffn_norm", "ffn_out",
                                                  "out",   "final_norm", "logits"};
enum { PER_LAYER = STEP_OUT - STEP_ATTN_NORM + 1 };

/* ---- Traces --------------------------------------------------------------------------------------- */

int trace_slot(int layer, Step step, int n_layers) {
    if (step == STEP_EMBED) return 0;
    if (step >= STEP_FINAL_NORM) return 1 + PER_LAYER * n_layers + (step - STEP_FINAL_NORM);
    return 1 + PER_LAYER * layer + (step - STEP_ATTN_NORM);
}

static void slot_name(char out[48], int slot, int n_layers, int *layer, Step *step) {
    *layer = -1;
    if (slot == 0) *step = STEP_EMBED;
    else if (slot > PER_LAYER * n_layers) *step = (Step)(STEP_FINAL_NORM + slot - 1 - PER_LAYER * n_layers);
    else *step = (Step)(STEP_ATTN_NORM + (slot - 1) % PER_LAYER), *layer = (slot - 1) / PER_LAYER;
    if (*layer < 0) snprintf(out, 48, "%s", step_name[*step]);
    else snprintf(out, 48, "layers.%d.%s", *layer, step_name[*step]);
}

static int step_cols(const Config *c, Step step) {
    switch (step) {
    case STEP_Q:
    case STEP_Q_ROT: return c->n_heads * c->head_dim;
    case STEP_K:
    case STEP_V:
    case STEP_K_ROT: return c->n_kv_heads * c->head_dim;
    case STEP_LOGITS: return c->vocab_size;
    default: return c->dim;
    }
}

static int trace_make(Trace *t, int n, int n_layers, Error *e) {
    *t = (Trace){.n = n, .n_slots = 3 + PER_LAYER * n_layers, .n_layers = n_layers};
    t->x = calloc((size_t)t->n_slots, sizeof *t->x);
    t->cols = calloc((size_t)t->n_slots, sizeof *t->cols);
    t->tokens = calloc((size_t)n + 1, sizeof *t->tokens);
    if (t->x && t->cols && t->tokens) return 0;
    return fail(e, "verify: memory: expected some, found none");
}

void trace_close(Trace *t) {
    for (int i = 0; t->x && i < t->n_slots; i++) free(t->x[i]);
    free(t->x);
    free(t->cols);
    free(t->tokens);
    *t = (Trace){0};
}

static float *trace_take(Trace *t, int slot, int cols) {
    if (!t->x[slot]) t->x[slot] = calloc((size_t)t->n * (size_t)cols, sizeof(float));
    t->cols[slot] = cols;
    return t->x[slot];
}

static int read_tokens(Trace *t, const SafeTensor *tokens, const Config *c, const char *path, Error *e) {
    bool wide = strcmp(tokens->dtype, "I64") == 0;
    for (int i = 0; i < t->n; i++) {
        int64_t id = 0;
        int32_t narrow = 0;
        if (wide) memcpy(&id, tokens->data + 8 * (size_t)i, sizeof id);
        else memcpy(&narrow, tokens->data + 4 * (size_t)i, sizeof narrow), id = narrow;
        if (id < 0 || id >= c->vocab_size)
            return fail(e, "%s: tokens: expected ids below the model's %d, found %lld", path, c->vocab_size,
                        (long long)id);
        t->tokens[i] = (int)id;
    }
    return 0;
}

static int read_slot(Trace *t, int slot, const SafeTensors *st, const Config *c, const char *path, Error *e) {
    char name[48];
    int layer;
    Step step;
    slot_name(name, slot, t->n_layers, &layer, &step);
    const SafeTensor *x = safetensors_find(st, name);
    if (!x) return 0;
    int cols = step_cols(c, step);
    int64_t found = 1;
    for (int i = 1; i < x->n_dims; i++) found *= x->dims[i];
    if (strcmp(x->dtype, "F32") != 0 || x->n_dims < 2 || x->dims[0] != t->n || found != cols)
        return fail(e, "%s: %s: expected F32 of %d rows of %d values, found %s of %lld rows of %lld", path, name, t->n,
                    cols, x->dtype, x->n_dims ? (long long)x->dims[0] : 0, (long long)found);
    float *to = trace_take(t, slot, cols);
    if (!to) return fail(e, "verify: memory: expected some, found none");
    memcpy(to, x->data, x->bytes);
    return 0;
}

int trace_read(Trace *t, const char *path, const Config *c, Error *e) {
    File file = {0};
    SafeTensors st = {0};
    int status = -1;
    *t = (Trace){0};
    if (file_map(&file, path, e) || safetensors_open(&st, &file, e)) goto done;
    const SafeTensor *tokens = safetensors_find(&st, "tokens");
    bool integers = tokens && (strcmp(tokens->dtype, "I32") == 0 || strcmp(tokens->dtype, "I64") == 0);
    if (!integers || tokens->n_dims != 1 || tokens->dims[0] < 1 || tokens->dims[0] > 1 << 24) {
        fail(e, "%s: tokens: expected a list of I32 or I64 (as scripts/hf_reference.py writes it), found %s", path,
             tokens ? "something else" : "none");
        goto done;
    }
    if (trace_make(t, (int)tokens->dims[0], c->n_layers, e) || read_tokens(t, tokens, c, path, e)) goto done;
    for (int slot = 0; slot < t->n_slots; slot++)
        if (read_slot(t, slot, &st, c, path, e)) goto done;
    if (!t->x[trace_slot(0, STEP_LOGITS, c->n_layers)]) {
        fail(e, "%s: logits: expected the tensor, found none", path);
        goto done;
    }
    status = 0;
done:
    safetensors_close(&st);
    file_close(&file);
    if (status) trace_close(t);
    return status;
}

typedef struct {
    Trace *t;
    bool failed;
} Recorder;

static void record(void *arg, const char *name, int layer, const float *x, int rows, int cols, size_t stride, int pos) {
    Recorder *r = arg;
    for (Step step = 0; step < STEP_COUNT; step++) {
        if (strcmp(step_name[step], name) != 0) continue;
        float *to = trace_take(r->t, trace_slot(layer, step, r->t->n_layers), cols);
        r->failed |= !to;
        for (int i = 0; to && i < rows; i++)
            memcpy(to + (size_t)(pos + i) * (size_t)cols, x + (size_t)i * stride, (size_t)cols * sizeof *x);
    }
}

int trace_run(Trace *t, const Model *m, const int *tokens, int n, int n_threads, Error *e) {
    State s = {0};
    Recorder r = {t, false};
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = n_threads, .kv_type = KV_F32};
    *t = (Trace){0};
    if (m->config.pos == POS_LEARNED && n > m->config.n_ctx)
        return fail(e, "verify: tokens: expected at most the model's context of %d, found %d", m->config.n_ctx, n);
    if (trace_make(t, n, m->config.n_layers, e) || state_fits(m, &options, "verify", e) ||
        state_init(&s, m, &options, e)) {
        trace_close(t);
        return -1;
    }
    memcpy(t->tokens, tokens, (size_t)n * sizeof *tokens);
    s.tap = record;
    s.tap_arg = &r;
    /* Where the angles depend on the length of the whole text, so does every key: one batch, as in the reference. */
    const RopeConfig *rope = &m->config.rope;
    bool by_length =
        m->config.pos == POS_ROPE && (rope->scaling == ROPE_SCALING_DYNAMIC || rope->scaling == ROPE_SCALING_LONGROPE);
    t->n_prefill = by_length || n == 1 ? n : n > 2 * VERIFY_DECODED ? n - VERIFY_DECODED : (n + 1) / 2;
    model_forward(m, &s, tokens, t->n_prefill, 0);
    for (int row = 0; row < t->n_prefill; row++) model_logits(m, &s, row);
    for (int pos = t->n_prefill; pos < n; pos++) {
        model_forward(m, &s, tokens + pos, 1, pos);
        model_logits(m, &s, 0);
    }
    state_close(&s);
    if (!r.failed) return 0;
    trace_close(t);
    return fail(e, "verify: memory: expected some, found none");
}

/* ---- Comparing ------------------------------------------------------------------------------------ */

static double largest(const float *x, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

/* Largest difference; infinite when a value is no number. */
static double distance(const float *a, const float *b, size_t n) {
    double max = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= max)) max = isnan(d) ? INFINITY : d;
    }
    return max;
}

/* float32 sums in another order: 1e-4 of the tensor's size; a sum over the whole vocabulary's rows gets 1e-3. */
static double tolerance_of(Step step, double size) { return (step == STEP_LOGITS ? 1e-3 : 1e-4) * fmax(1, size); }

/* fits - a hypothesis reproduces the tensor. Wider than the tolerance, far narrower than any of the mistakes. */
static bool fits(const float *a, const float *b, size_t n) {
    return distance(a, b, n) <= 5e-4 * fmax(1e-3, largest(b, n));
}

/* Rows of wq or wk between the two pairings' orders, `n_heads` heads of `cols` features in all, of which the first
 * `rotary` of each are paired. to_half: (2i, 2i + 1) -> (i, i + rotary/2); else back. */
static void reorder(float *x, int n, int cols, int n_heads, int rotary, bool to_half) {
    int d = cols / n_heads, half = rotary / 2;
    float head[2 * ROPE_MAX_PAIRS];
    for (int h = 0; h < n * n_heads; h++) {
        float *at = x + (size_t)h * (size_t)d;
        memcpy(head, at, (size_t)rotary * sizeof *head);
        for (int i = 0; i < half; i++) {
            if (to_half) at[i] = head[2 * i], at[i + half] = head[2 * i + 1];
            else at[2 * i] = head[i], at[2 * i + 1] = head[i + half];
        }
    }
}

/* ---- Likely causes -------------------------------------------------------------------------------- */

typedef struct {
    const Model *m;
    const Trace *ours, *ref;
    bool stored_in_pairs; /* the order that q really has here, whatever the config says */
    char *cause;          /* [400] */
    float *scratch;       /* [n, widest tensor] for a hypothesis */
    bool no_memory;       /* a hypothesis could not be tried */
} Case;

static const float *of(const Trace *t, int layer, Step step) { return t->x[trace_slot(layer, step, t->n_layers)]; }
static size_t size_of(const Case *c, Step step) { return (size_t)c->ref->n * (size_t)step_cols(&c->m->config, step); }

/* say - the cause is found. Returns true. */
static bool __attribute__((format(printf, 2, 3))) say(Case *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->cause, sizeof((Verify *)0)->cause, format, args);
    va_end(args);
    return true;
}

/* y[n, rows] = x[n, cols] W^T + bias, in double; bias may be NULL. */
static void multiply(Case *c, float *y, const Mat *w, const float *bias, const float *x, int n) {
    float *row = malloc((size_t)w->cols * sizeof *row);
    c->no_memory |= !row;
    for (int r = 0; row && r < w->rows; r++) {
        mat_dequantize_row(row, w, r);
        for (int t = 0; t < n; t++) {
            double sum = bias ? (double)bias[r] : 0;
            for (int i = 0; i < w->cols; i++)
                sum += (double)row[i] * (double)x[(size_t)t * (size_t)w->cols + (size_t)i];
            y[(size_t)t * (size_t)w->rows + (size_t)r] = (float)sum;
        }
    }
    free(row);
}

#define NOT_TRANSPOSED                                                                                                 \
    "Conv1D not transposed: the bytes of %s, taken as [in, out], make the reference's output; here they are read as "  \
    "[out, in]"

/* What the parts of one matrix [out, in] are when its bytes are [in, out], as GPT-2's Conv1D keeps them. The data is
 * malloc'ed; NULL: no memory. */
static Mat bytes_transposed(Case *c, const Mat *const *parts, int n) {
    int in = parts[0]->cols, out = 0;
    for (int i = 0; i < n; i++) out += parts[i]->rows;
    size_t at = 0, row_bytes = (size_t)in * sizeof(float);
    float *data = malloc((size_t)out * row_bytes), *row = malloc(row_bytes);
    if (!data || !row) {
        c->no_memory = true;
        free(data);
        data = NULL;
    }
    for (int i = 0; data && i < n; i++)
        for (int r = 0; r < parts[i]->rows; r++) {
            mat_dequantize_row(row, parts[i], r);
            for (int j = 0; j < in; j++, at++) data[at % (size_t)out * (size_t)in + at / (size_t)out] = row[j];
        }
    free(row);
    return (Mat){.dtype = DTYPE_F32, .rows = out, .cols = in, .stride_bytes = row_bytes, .data = data};
}

/* First token that went through our model alone, after the prefill; 0: none did. */
static int decoded_at(const Case *c) { return c->ours->n_prefill < c->ours->n ? c->ours->n_prefill : 0; }
#define DECODE_OFFSET                                                                                                  \
    "position off by one in decode: from token %d on, which go through the model one at a time, token t %s position "  \
    "t%+d"

/* Are rows [from, to) of x their tokens' embedding plus the position embedding of t + offset? */
static bool embedded_at(const Case *c, const float *x, int from, int to, int offset) {
    const Config *k = &c->m->config;
    float *sum = c->scratch, *p = c->scratch + k->dim;
    for (int t = from; t < to; t++) {
        if (t + offset < 0 || t + offset >= k->n_ctx) continue;
        mat_dequantize_row(sum, &c->m->weights.tok_emb, c->ref->tokens[t]);
        mat_dequantize_row(p, &c->m->weights.pos_emb, t + offset);
        for (int i = 0; i < k->dim; i++) sum[i] += p[i];
        if (!fits(sum, x + (size_t)t * (size_t)k->dim, (size_t)k->dim)) return false;
    }
    return true;
}

static bool explain_embed(Case *c) {
    const Config *k = &c->m->config;
    const float *ref = of(c->ref, 0, STEP_EMBED), *ours = of(c->ours, 0, STEP_EMBED);
    if (k->pos == POS_LEARNED) {
        for (int offset = -2; offset <= 2; offset++) {
            if (offset == 0) continue;
            if (c->ref->n > 4 && embedded_at(c, ref, 2, c->ref->n - 2, offset))
                return say(c, "position offset: the reference adds the position embedding of t%+d to token t", offset);
            if (embedded_at(c, ref, 0, c->ref->n, 0) && decoded_at(c) &&
                embedded_at(c, ours, decoded_at(c), c->ref->n, offset))
                return say(c, DECODE_OFFSET, decoded_at(c), "gets the position embedding of", offset);
        }
    }
    double top = 0, bottom = 0;
    size_t n = size_of(c, STEP_EMBED);
    for (size_t i = 0; i < n; i++) top += (double)ref[i] * (double)ours[i], bottom += (double)ours[i] * (double)ours[i];
    for (size_t i = 0; i < n; i++) c->scratch[i] = (float)((double)ours[i] * top / bottom);
    if (fits(c->scratch, ref, n))
        return say(c, "embedding scale: the reference multiplies the embedding by %.6g", top / bottom);
    return say(c,
               "tok_emb: the token embeddings are not the reference's: another checkpoint, or rows in another order");
}

/* input of the norm: what the reference's residual stream was there. */
static void norm_input(const Case *c, int layer, Step step, float *x) {
    int last = c->m->config.n_layers - 1;
    size_t n = size_of(c, STEP_OUT);
    const float *before = step == STEP_FINAL_NORM ? of(c->ref, last, STEP_OUT)
                          : layer == 0            ? of(c->ref, 0, STEP_EMBED)
                                                  : of(c->ref, layer - 1, STEP_OUT);
    const float *attended = step == STEP_FFN_NORM ? of(c->ref, layer, STEP_ATTN_OUT) : NULL;
    for (size_t i = 0; i < n; i++) x[i] = (before ? before[i] : 0) + (attended ? attended[i] : 0);
}

static bool explain_norm(Case *c, int layer, Step step, const char *name) {
    const Config *k = &c->m->config;
    const Weights *w = &c->m->weights;
    const float *weight = step == STEP_FINAL_NORM  ? w->final_norm
                          : step == STEP_ATTN_NORM ? w->layers[layer].attn_norm
                                                   : w->layers[layer].ffn_norm;
    const float *bias = step == STEP_FINAL_NORM  ? w->final_norm_bias
                        : step == STEP_ATTN_NORM ? w->layers[layer].attn_norm_bias
                                                 : w->layers[layer].ffn_norm_bias;
    const float *ref = of(c->ref, layer, step);
    size_t n = size_of(c, step), dim = (size_t)k->dim;
    float *x = c->scratch, *y = c->scratch + n, *other = y + n;
    norm_input(c, layer, step, x);
    NormKind kinds[2] = {k->norm, k->norm == NORM_RMSNORM ? NORM_LAYERNORM : NORM_RMSNORM};
    static const double eps[] = {0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
    for (int t = 0; t < c->ref->n; t++)
        norm(y + (size_t)t * dim, x + (size_t)t * dim, kinds[1], weight, bias, k->dim, k->norm_eps);
    if (fits(y, ref, n))
        return say(c, "norm kind: the reference's is %s, this model's %s",
                   kinds[1] == NORM_RMSNORM ? "RMSNorm" : "LayerNorm",
                   kinds[0] == NORM_RMSNORM ? "RMSNorm" : "LayerNorm");
    double best = tolerance_of(step, largest(ref, n)), best_eps = -1;
    for (size_t i = 0; i < sizeof eps / sizeof *eps; i++) {
        for (int t = 0; t < c->ref->n; t++)
            norm(y + (size_t)t * dim, x + (size_t)t * dim, k->norm, weight, bias, k->dim, (float)eps[i]);
        double error = distance(y, ref, n);
        if (error <= best && fabs(eps[i] - (double)k->norm_eps) > 1e-3 * eps[i]) best = error, best_eps = eps[i];
    }
    if (best_eps >= 0)
        return say(c, "eps: the reference's norm fits eps %g, this model has %g", best_eps, (double)k->norm_eps);
    for (size_t i = 0; i < dim; i++) other[i] = weight[i] + 1;
    for (int t = 0; t < c->ref->n; t++)
        norm(y + (size_t)t * dim, x + (size_t)t * dim, k->norm, other, bias, k->dim, k->norm_eps);
    if (fits(y, ref, n))
        return say(c, "norm weight: the reference multiplies by 1 + weight (as Gemma does), this model by the weight");
    for (size_t i = 0; i < dim; i++) other[i] = 1;
    for (int t = 0; t < c->ref->n; t++)
        norm(y + (size_t)t * dim, x + (size_t)t * dim, k->norm, other, NULL, k->dim, k->norm_eps);
    if (fits(y, ref, n)) return say(c, "norm weight: the reference applies none, this model does");
    /* The weight that the reference must have: ref / normed, the same at every position if that is all there is. */
    bool same = true, ones = true;
    for (size_t i = 0; i < dim; i++) {
        double top = 0, bottom = 1e-30;
        for (int t = 0; t < c->ref->n; t++) {
            double normed = (double)y[(size_t)t * dim + i];
            top += normed * (double)ref[(size_t)t * dim + i], bottom += normed * normed;
        }
        for (int t = 0; t < c->ref->n; t++)
            same &= fabs(top / bottom * (double)y[(size_t)t * dim + i] - (double)ref[(size_t)t * dim + i]) <=
                    1e-3 * largest(ref, n);
        ones &= fabs((double)weight[i] - 1) < 1e-6;
    }
    if (same && ones)
        return say(c, "norm weight missing: all ones here, and the reference's output divided by the normed input is "
                      "one and the same other vector at every position");
    if (same)
        return say(c,
                   "norm weight: %s has another weight in the reference (its output over the normed input is the same "
                   "vector at every position)",
                   name);
    return say(c, "norm: neither another eps, another weight nor the other norm explains %s", name);
}

/* Which count of heads was the matrix reordered with? */
static bool wrong_head_count(Case *c, const float *ours, const float *ref, int cols, int right, const char *matrix) {
    int n = c->ref->n, d = c->m->config.head_dim;
    size_t size = (size_t)n * (size_t)cols;
    for (int count = 1; count <= cols / 2; count++) {
        if (cols % count || cols / count % 2) continue;
        for (int to_half = 0; to_half < 2; to_half++) {
            for (int first = 0; first < 3;
                 first++) { /* nothing, or the right reordering in either direction, before it */
                memcpy(c->scratch, ours, size * sizeof *ours);
                if (first) reorder(c->scratch, n, cols, right, d, first == 1);
                reorder(c->scratch, n, cols, count, cols / count, to_half);
                if (!fits(c->scratch, ref, size)) continue;
                if (count == right)
                    return say(c, "%s: its rows are in the order of the other pairing than those of the other matrices",
                               matrix);
                return say(c,
                           "heads permuted with the wrong count: the rows of %s were reordered as %d heads of %d, it "
                           "has %d of %d",
                           matrix, count, cols / count, right, d);
            }
        }
    }
    return false;
}

static bool other_order(Case *c, const float *ours, const float *ref, int cols, const char *matrix) {
    int d = c->m->config.head_dim, heads = cols / d, n = c->ref->n, moved = -1, to = -1;
    for (int h = 0; h < heads; h++) {
        int match = -1;
        for (int g = 0; g < heads && match < 0; g++) {
            double worst = 0;
            for (int t = 0; t < n; t++)
                worst = fmax(worst, distance(ours + (size_t)t * (size_t)cols + (size_t)(h * d),
                                             ref + (size_t)t * (size_t)cols + (size_t)(g * d), (size_t)d));
            if (worst <= 5e-4 * largest(ref, (size_t)n * (size_t)cols)) match = g;
        }
        if (match < 0) return false;
        if (match != h && moved < 0) moved = h, to = match;
    }
    if (moved < 0) return false;
    return say(c,
               "GQA mapping: the heads of %s are in another order: head %d here is the reference's head %d, so queries "
               "meet the wrong keys",
               matrix, moved, to);
}

/* One pair of features turned by rope_apply's rule, half-split, of any trace's tensor. */
static void turn(const Case *c, float *x, int cols, const double *inv_freq, double scale, int offset) {
    const Config *k = &c->m->config;
    float cosine[ROPE_MAX_PAIRS], sine[ROPE_MAX_PAIRS];
    RopeTable one = {.n_ctx = 1,
                     .head_dim = k->head_dim,
                     .rotary_dim = k->rope.rotary_dim,
                     .pairing = ROPE_HALF,
                     .cos = cosine,
                     .sin = sine};
    for (int t = 0; t < c->ref->n; t++) {
        rope_row(cosine, sine, inv_freq, scale, k->rope.rotary_dim / 2, t + offset);
        rope_apply(x + (size_t)t * (size_t)cols, 1, cols / k->head_dim, cols, &one, 0);
    }
}

/* The same with the frequencies and the order of features of this model, as it would turn a tensor of its own. */
static void turn_stored(const Case *c, float *x, int cols) {
    const Config *k = &c->m->config;
    double inv_freq[ROPE_MAX_PAIRS], scale;
    rope_inv_freq(inv_freq, &scale, &k->rope, c->ref->n);
    if (c->stored_in_pairs) reorder(x, c->ref->n, cols, cols / k->head_dim, k->rope.rotary_dim, true);
    turn(c, x, cols, inv_freq, scale, 0);
    if (c->stored_in_pairs) reorder(x, c->ref->n, cols, cols / k->head_dim, k->rope.rotary_dim, false);
}

static bool explain_projection(Case *c, int layer, Step step) {
    const Config *k = &c->m->config;
    const Layer *l = &c->m->weights.layers[layer];
    const char *matrix = step == STEP_Q ? "wq" : step == STEP_K ? "wk" : "wv";
    const float *ours = of(c->ours, layer, step), *ref = of(c->ref, layer, step);
    int cols = step_cols(k, step), n = c->ref->n;
    size_t size = size_of(c, step);
    if (step == STEP_V && k->pos == POS_ROPE) {
        for (int who = 0; who < 2; who++) {
            memcpy(c->scratch, who ? ref : ours, size * sizeof *ours);
            turn_stored(c, c->scratch, cols);
            if (fits(c->scratch, who ? ours : ref, size))
                return say(c, "V rotated: turned by RoPE, %s v is the other's; v must never be turned",
                           who ? "the reference's" : "this model's");
        }
    }
    if (other_order(c, ours, ref, cols, matrix)) return true;
    if (wrong_head_count(c, ours, ref, cols, cols / k->head_dim, matrix)) return true;
    bool constant = true;
    for (int t = 1; t < n && constant; t++)
        for (int i = 0; i < cols && constant; i++) {
            double d0 = (double)ref[i] - (double)ours[i], d = (double)ref[(size_t)t * (size_t)cols + (size_t)i] -
                                                              (double)ours[(size_t)t * (size_t)cols + (size_t)i];
            constant = fabs(d - d0) <= 5e-4 * largest(ref, size);
        }
    if (constant && n > 1)
        return say(c,
                   "bias of %s: the difference is one and the same vector at every position: a bias is missing or not "
                   "the reference's",
                   matrix);
    const float *in = of(c->ref, layer, STEP_ATTN_NORM), *bias = step == STEP_Q   ? l->attn.bq
                                                                 : step == STEP_K ? l->attn.bk
                                                                                  : l->attn.bv;
    if (!in) return say(c, "%s: other weights", matrix);
    Mat all = bytes_transposed(c, (const Mat *[]){&l->attn.wq, &l->attn.wk, &l->attn.wv}, 3);
    int first_row = step == STEP_Q ? 0 : step == STEP_K ? l->attn.wq.rows : l->attn.wq.rows + l->attn.wk.rows;
    const Mat part = mat_rows(&all, first_row, cols);
    if (all.data) multiply(c, c->scratch, &part, bias, in, n);
    bool fitting = all.data && fits(c->scratch, ref, size);
    free((void *)(uintptr_t)all.data);
    if (fitting) return say(c, NOT_TRANSPOSED, "wq, wk and wv");
    int bad = 0, first = -1;
    for (int i = 0; i < cols; i++) {
        double worst = 0;
        for (int t = 0; t < n; t++)
            worst = fmax(worst, fabs((double)ours[(size_t)t * (size_t)cols + (size_t)i] -
                                     (double)ref[(size_t)t * (size_t)cols + (size_t)i]));
        if (worst > 5e-4 * largest(ref, size)) {
            if (first < 0) first = i;
            bad++;
        }
    }
    return say(c,
               "%s: its input is the reference's, its output is not: %d of its %d rows differ, the first is row %d: "
               "other weights",
               matrix, bad, cols, first);
}

static bool rotation_fits(const Case *c, int layer, Step step, const double *inv_freq, double scale, int offset) {
    Step before = step == STEP_Q_ROT ? STEP_Q : STEP_K;
    size_t size = size_of(c, step);
    memcpy(c->scratch, of(c->ref, layer, before), size * sizeof(float));
    turn(c, c->scratch, step_cols(&c->m->config, step), inv_freq, scale, offset);
    return fits(c->scratch, of(c->ref, layer, step), size);
}

/* The frequencies the reference turned with, out of its tensors before and after: the angle of each pair between
 * position 0 and 1 gives a first value, every further position one more digit. */
static void measure(const Case *c, int layer, Step step, double *freq, double *scale) {
    const Config *k = &c->m->config;
    const float *x = of(c->ref, layer, step == STEP_Q_ROT ? STEP_Q : STEP_K), *y = of(c->ref, layer, step);
    int cols = step_cols(k, step), d = k->head_dim, pairs = k->rope.rotary_dim / 2;
    double before = 0, after = 0;
    for (int i = 0; i < pairs; i++) {
        double start = 0;
        freq[i] = 0;
        for (int t = 0; t < c->ref->n; t++) {
            double dot = 0, cross = 0;
            for (int h = 0; h < cols / d; h++) {
                size_t at = (size_t)t * (size_t)cols + (size_t)(h * d + i);
                double a = (double)x[at], b = (double)x[at + (size_t)pairs], u = (double)y[at],
                       v = (double)y[at + (size_t)pairs];
                dot += a * u + b * v, cross += a * v - b * u;
                before += a * a + b * b, after += u * u + v * v;
            }
            double angle = atan2(cross, dot);
            if (t == 0) start = angle;
            else freq[i] += remainder(angle - start - t * freq[i], 2 * M_PI) / t;
        }
    }
    *scale = sqrt(after / before);
}

static bool explain_rotation(Case *c, int layer, Step step) {
    const Config *k = &c->m->config;
    const RopeConfig *rope = &k->rope;
    Step before = step == STEP_Q_ROT ? STEP_Q : STEP_K;
    const char *what = step == STEP_Q_ROT ? "q" : "k";
    int n = c->ref->n, pairs = rope->rotary_dim / 2;
    if (!of(c->ref, layer, before) || n < 2)
        return say(c, "RoPE: the reference lacks %s before it, or has one position only", what);
    double ours[ROPE_MAX_PAIRS], our_scale, found[ROPE_MAX_PAIRS], scale, guess[ROPE_MAX_PAIRS], ignored;
    rope_inv_freq(ours, &our_scale, rope, n);
    if (rotation_fits(c, layer, step, ours, our_scale, 0)) {
        bool pairing_wrong = c->stored_in_pairs != (rope->pairing == ROPE_PAIRS);
        if (pairing_wrong)
            return say(
                c,
                "pairing wrong: q and k differ only after RoPE, only at positions >= 1; the other pairing (%s) matches",
                c->stored_in_pairs ? "pairs" : "half");
        const float *raw = of(c->ours, layer, before), *turned = of(c->ours, layer, step);
        if (distance(raw, turned, size_of(c, step)) == 0)
            return step == STEP_K_ROT
                       ? say(c, "keys unrotated: q is turned and k is not: it went into the cache before RoPE")
                   : layer
                       ? say(c, "RoPE in layer 0 only: from layer %d on q is not turned; RoPE belongs in every layer",
                             layer)
                       : say(c, "RoPE missing: q is not turned");
        size_t first = (size_t)decoded_at(c) * (size_t)step_cols(k, step);
        for (int offset = -2; offset <= 2; offset++) {
            memcpy(c->scratch, raw, size_of(c, step) * sizeof *raw);
            turn(c, c->scratch, step_cols(k, step), ours, our_scale, offset);
            if (first && fits(c->scratch + first, turned + first, size_of(c, step) - first))
                return say(c, DECODE_OFFSET, decoded_at(c), "is turned to", offset);
        }
        return say(
            c, "rotation: these frequencies turn the reference's own %s into its %s_rot, here they were not applied so",
            what, what);
    }
    for (int offset = 1; offset <= 8; offset++)
        for (int sign = -1; sign <= 1; sign += 2)
            if (rotation_fits(c, layer, step, ours, our_scale, sign * offset))
                return say(c, "position offset: the reference turns token t to position t%+d", sign * offset);
    for (int i = 0; i < pairs; i++) guess[i] = -ours[i];
    if (rotation_fits(c, layer, step, guess, our_scale, 0))
        return say(c, "direction: the reference turns the other way round");
    measure(c, layer, step, found, &scale);
    if (rotation_fits(c, layer, step, ours, scale, 0))
        return say(c,
                   "attention factor: the reference's cos and sin carry %.6g, here %.6g: scaling missing or with "
                   "another factor",
                   scale, our_scale);
    RopeConfig plain = *rope;
    plain.scaling = ROPE_SCALING_NONE;
    plain.freq_factors = NULL;
    plain.attention_factor = 0;
    rope_inv_freq(guess, &ignored, &plain, n);
    bool scaled_here = rope->scaling != ROPE_SCALING_NONE || rope->freq_factors;
    if (scaled_here && rotation_fits(c, layer, step, guess, 1, 0))
        return say(c, "scaling: the reference turns with theta %g and no scaling; this model scales", rope->theta);
    double slowed = guess[pairs - 1] / found[pairs - 1]; /* by how much the slowest pair was scaled */
    for (int i = 0; i < pairs; i++) guess[i] = guess[i] / slowed;
    if (pairs > 1 && rotation_fits(c, layer, step, guess, scale, 0))
        return say(c,
                   "scaling %s: every frequency of the reference is divided by %.6g (linear scaling with that factor)",
                   scaled_here ? "wrong" : "missing", slowed);
    /* A base of its own: ln f is a straight line through 0. The second pair gives the slope, the rest must follow. */
    for (int i = 1; i < pairs; i++) {
        double theta = pow(found[i], -(double)rope->rotary_dim / (2.0 * i));
        if (!isfinite(theta)) continue;
        RopeConfig based = plain;
        based.theta = theta;
        rope_inv_freq(guess, &ignored, &based, n);
        if (rotation_fits(c, layer, step, guess, scale, 0))
            return say(c,
                       "theta wrong: the reference turns with theta %.6g, this model with %.6g (a base that grows with "
                       "the text is dynamic scaling)",
                       theta, rope->theta);
    }
    if (!rotation_fits(c, layer, step, found, scale, 0))
        return say(c, "RoPE: the reference's %s_rot is no rotation of its %s by pairs (i, i + %d)", what, what, pairs);
    rope_inv_freq(guess, &ignored, &plain, n);
    int first = 0;
    while (first < pairs - 1 && fabs(guess[first] / found[first] - 1) < 1e-3) first++;
    return say(c,
               "scaling %s: in the reference the first %d of %d pairs keep their frequency, the others are slowed, the "
               "last by %.4g; attention factor %.6g (a rule like llama3, yarn or longrope)",
               scaled_here ? "wrong" : "missing", first, pairs, slowed, scale);
}

/* A way to compute attention, right or wrong. */
typedef struct {
    bool interleaved, causal;
    double factor;
    Step key; /* STEP_K_ROT or STEP_K */
    const float *v;
    const char *what;
} Attempt;

/* Attention in double from the reference's q_rot, k_rot, v, up to and including wo. */
static void attend_by(Case *c, int layer, const Attempt *a, const Mat *wo, float *out) {
    const Config *k = &c->m->config;
    const Layer *l = &c->m->weights.layers[layer];
    int n = c->ref->n, d = k->head_dim, q_dim = k->n_heads * d, kv_dim = k->n_kv_heads * d;
    const float *q = of(c->ref, layer, k->pos == POS_ROPE ? STEP_Q_ROT : STEP_Q), *key = of(c->ref, layer, a->key);
    float *heads = calloc((size_t)n * (size_t)q_dim, sizeof *heads);
    double *p = calloc((size_t)n, sizeof *p);
    c->no_memory |= !heads || !p;
    for (int t = 0; heads && p && t < n; t++) {
        for (int h = 0; h < k->n_heads; h++) {
            int g = a->interleaved ? h % k->n_kv_heads : h / (k->n_heads / k->n_kv_heads), end = a->causal ? t + 1 : n;
            const float *qh = q + (size_t)t * (size_t)q_dim + (size_t)(h * d);
            double max = -INFINITY, sum = 0;
            for (int s = 0; s < end; s++) {
                p[s] = 0;
                for (int i = 0; i < d; i++)
                    p[s] += (double)qh[i] * (double)key[(size_t)s * (size_t)kv_dim + (size_t)(g * d + i)];
                p[s] *= a->factor;
                max = fmax(max, p[s]);
            }
            for (int s = 0; s < end; s++) sum += p[s] = exp(p[s] - max);
            for (int i = 0; i < d; i++) {
                double x = 0;
                for (int s = 0; s < end; s++)
                    x += p[s] * (double)a->v[(size_t)s * (size_t)kv_dim + (size_t)(g * d + i)];
                heads[(size_t)t * (size_t)q_dim + (size_t)(h * d + i)] = (float)(x / sum);
            }
        }
    }
    if (heads) multiply(c, out, wo, l->attn.bo, heads, n);
    free(heads);
    free(p);
}

static bool explain_attention(Case *c, int layer) {
    const Config *k = &c->m->config;
    const float *ours = of(c->ours, layer, STEP_ATTN_OUT), *ref = of(c->ref, layer, STEP_ATTN_OUT);
    size_t n = size_of(c, STEP_ATTN_OUT);
    bool rope = k->pos == POS_ROPE;
    if (!of(c->ref, layer, rope ? STEP_Q_ROT : STEP_Q) || !of(c->ref, layer, rope ? STEP_K_ROT : STEP_K) ||
        !of(c->ref, layer, STEP_V))
        return say(c, "attention: the reference lacks q, k or v of this layer");
    double usual = 1 / sqrt(k->head_dim);
    const float *v = of(c->ref, layer, STEP_V);
    float *x = c->scratch, *turned_v = malloc(size_of(c, STEP_V) * sizeof *v);
    if (!turned_v) return c->no_memory = true;
    memcpy(turned_v, v, size_of(c, STEP_V) * sizeof *v);
    if (rope) turn_stored(c, turned_v, step_cols(k, STEP_V));
    Step key = rope ? STEP_K_ROT : STEP_K;
    const Attempt right = {false, true, usual, key, v, ""},
                  wrong[] = {
                      {false, true, usual, key, turned_v,
                       "V rotated: v is turned by RoPE too; it must never be turned"},
                      {false, true, usual, STEP_K, v,
                       "keys unrotated: they are read from the cache as they were before RoPE"},
                      {true, true, usual, key, v,
                       "GQA mapping: query head h reads KV head h % n_kv_heads; it must be h / (n_heads / n_kv_heads)"},
                      {false, false, usual, key, v, "causal mask: tokens see what comes after them"},
                      {false, true, 1, key, v, "score scale: the scores are not divided by sqrt(head_dim)"},
                      {false, true, 1 / sqrt((double)k->dim / k->n_heads), key, v,
                       "score scale: the scores are divided by sqrt(dim / n_heads), head_dim differs from it"},
                      {false, true, usual * usual, key, v,
                       "score scale: the scores are divided by head_dim, not by its square root"},
                  };
    const Mat *wo = &c->m->weights.layers[layer].attn.wo;
    attend_by(c, layer, &right, wo, x);
    bool reference_is_usual = fits(x, ref, n), said = false;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong && !said; i++) {
        attend_by(c, layer, &wrong[i], wo, x);
        said = fits(x, reference_is_usual ? ours : ref, n) &&
               say(c, "%s: %s", reference_is_usual ? "here" : "in the reference", wrong[i].what);
    }
    Mat other = bytes_transposed(c, &wo, 1);
    if (other.data && !said && !reference_is_usual) {
        attend_by(c, layer, &right, &other, x);
        said = fits(x, ref, n) && say(c, NOT_TRANSPOSED, "wo");
    }
    free((void *)(uintptr_t)other.data);
    free(turned_v);
    if (said) return true;
    if (reference_is_usual)
        return say(c,
                   "attention: the weights here, given the reference's q, k and v, make its output; this run did not");
    return say(c,
               "wo: q, k and v are the reference's, the output is not: other weights, or its columns in another order");
}

static bool explain_ffn(Case *c, int layer) {
    const Config *k = &c->m->config;
    const Layer *l = &c->m->weights.layers[layer];
    const float *in = of(c->ref, layer, STEP_FFN_NORM), *ref = of(c->ref, layer, STEP_FFN_OUT);
    size_t n = size_of(c, STEP_FFN_OUT), hidden = (size_t)c->ref->n * (size_t)k->hidden_dim;
    if (!in || k->ffn != FFN_SWIGLU) return say(c, "FFN: other weights, biases or another activation");
    float *gate = malloc(hidden * sizeof *gate), *up = malloc(hidden * sizeof *up), *h = malloc(hidden * sizeof *h);
    bool said = false;
    c->no_memory |= !gate || !up || !h;
    for (int which = 0; gate && up && h && which < 3 && !said; which++) {
        multiply(c, gate, which == 1 ? &l->ffn.w_up : &l->ffn.w_gate, NULL, in, c->ref->n);
        multiply(c, up, which == 1 ? &l->ffn.w_gate : &l->ffn.w_up, NULL, in, c->ref->n);
        memcpy(h, gate, hidden * sizeof *h);
        if (which == 2) gelu(h, hidden);
        for (size_t i = 0; i < hidden; i++)
            up[i] *= which == 2 ? h[i] : (float)((double)gate[i] / (1 + exp(-(double)gate[i])));
        multiply(c, c->scratch, &l->ffn.w_down, NULL, up, c->ref->n);
        if (!fits(c->scratch, ref, n)) continue;
        said = which == 0
                   ? say(c, "FFN: the weights here, given the reference's input, make its output; this run did not")
               : which == 1 ? say(c, "FFN: w_gate and w_up are exchanged")
                            : say(c, "activation: the reference's gate goes through GELU, here through SiLU");
    }
    free(gate);
    free(up);
    free(h);
    return said || say(c, "FFN: its input is the reference's, its output is not: other weights");
}

static bool explain_logits(Case *c) {
    const Weights *w = &c->m->weights;
    const float *in = of(c->ref, 0, STEP_FINAL_NORM), *ref = of(c->ref, 0, STEP_LOGITS);
    size_t n = size_of(c, STEP_LOGITS);
    if (!in)
        return say(c,
                   "logits: the reference holds nothing but logits; write it without --logits-only to find the cause");
    multiply(c, c->scratch, &w->lm_head, NULL, in, c->ref->n);
    if (fits(c->scratch, ref, n))
        return say(c, "logits: the head here, given the reference's final_norm, makes its logits; this run did not");
    multiply(c, c->scratch, &w->tok_emb, NULL, in, c->ref->n);
    if (fits(c->scratch, ref, n))
        return say(c, "lm_head: the reference's head is the token embedding (tied), here it has its own weights");
    return say(c, "lm_head: its input is the reference's, the logits are not: other weights");
}

static void explain(Case *c, int layer, Step step, const char *name) {
    switch (step) {
    case STEP_EMBED: explain_embed(c); break;
    case STEP_ATTN_NORM:
    case STEP_FFN_NORM:
    case STEP_FINAL_NORM: explain_norm(c, layer, step, name); break;
    case STEP_Q:
    case STEP_K:
    case STEP_V: explain_projection(c, layer, step); break;
    case STEP_Q_ROT:
    case STEP_K_ROT: explain_rotation(c, layer, step); break;
    case STEP_ATTN_OUT: explain_attention(c, layer); break;
    case STEP_FFN_OUT: explain_ffn(c, layer); break;
    case STEP_OUT: say(c, "residual: both branches are the reference's, their sum is not"); break;
    case STEP_LOGITS: explain_logits(c); break;
    case STEP_COUNT: break;
    }
}

/* ---- The whole ------------------------------------------------------------------------------------ */

/* In which order are the features of q here? Told by the reference's q, not by what the config claims, so that a wrong
 * claim shows where it does its harm: after RoPE. */
static bool order_is_pairs(const Model *m, const Trace *ours, const Trace *ref, float *scratch) {
    const Config *c = &m->config;
    const float *expected = of(ref, 0, STEP_Q), *raw = of(ours, 0, STEP_Q);
    bool claimed = c->rope.pairing == ROPE_PAIRS;
    if (!expected) return claimed;
    int cols = step_cols(c, STEP_Q);
    size_t n = (size_t)ref->n * (size_t)cols;
    memcpy(scratch, raw, n * sizeof *raw);
    reorder(scratch, ref->n, cols, c->n_heads, c->rope.rotary_dim, true);
    if (fits(raw, expected, n)) return false;
    if (fits(scratch, expected, n)) return true;
    return claimed;
}

int verify_compare(Verify *v, const Model *m, Trace *ours, const Trace *ref, Error *e) {
    const Config *c = &m->config;
    *v = (Verify){.first_bad = -1};
    v->rows = calloc((size_t)ref->n_slots, sizeof *v->rows);
    int widest = c->vocab_size > 3 * c->dim ? c->vocab_size : 3 * c->dim;
    if (c->n_heads * c->head_dim > widest) widest = c->n_heads * c->head_dim;
    Case k = {.m = m, .ours = ours, .ref = ref, .cause = v->cause};
    k.scratch = malloc((size_t)ref->n * (size_t)widest * sizeof *k.scratch + 2 * (size_t)c->dim * sizeof *k.scratch);
    if (!v->rows || !k.scratch) {
        free(k.scratch);
        verify_close(v);
        return fail(e, "verify: memory: expected some, found none");
    }
    if (c->pos == POS_ROPE && (k.stored_in_pairs = order_is_pairs(m, ours, ref, k.scratch)))
        for (int layer = 0; layer < c->n_layers; layer++)
            for (Step step = STEP_Q; step <= STEP_K_ROT; step++)
                if (step != STEP_V)
                    reorder(ours->x[trace_slot(layer, step, c->n_layers)], ref->n, step_cols(c, step),
                            step_cols(c, step) / c->head_dim, c->rope.rotary_dim, true);
    for (int slot = 0; slot < ref->n_slots; slot++) {
        if (!ref->x[slot] || !ours->x[slot]) continue;
        VerifyRow *row = &v->rows[v->n];
        int layer;
        Step step;
        slot_name(row->name, slot, ref->n_layers, &layer, &step);
        size_t cols = (size_t)ref->cols[slot], n = (size_t)ref->n * cols;
        double size = largest(ref->x[slot], n);
        row->tolerance = tolerance_of(step, size);
        for (int t = 0; t < ref->n; t++) {
            double error = distance(ours->x[slot] + (size_t)t * cols, ref->x[slot] + (size_t)t * cols, cols);
            if (error > row->max_abs) row->max_abs = error, row->worst_pos = t;
        }
        row->max_rel = row->max_abs / fmax(size, 1e-30);
        if (row->max_abs > row->tolerance && v->first_bad < 0) {
            v->first_bad = v->n;
            explain(&k, layer, step, row->name);
        }
        v->n++;
    }
    free(k.scratch);
    if (!k.no_memory) return 0;
    verify_close(v);
    return fail(e, "verify: memory: expected some, found none");
}

void verify_close(Verify *v) {
    free(v->rows);
    v->rows = NULL;
}

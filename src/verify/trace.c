#include "verify/trace.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/safetensors.h"

static const char *const step_name[STEP_COUNT] = {"embed",          "attn_norm", "q",        "k",          "v",
                                                  "q_rot",          "k_rot",     "attn_out", "ffn_norm",   "router",
                                                  "router_weights", "ffn_out",   "out",      "final_norm", "logits"};
enum { PER_LAYER = STEP_OUT - STEP_ATTN_NORM + 1 };

int trace_slot(int layer, Step step, int n_layers) {
    if (step == STEP_EMBED) return 0;
    if (step >= STEP_FINAL_NORM) return 1 + PER_LAYER * n_layers + (step - STEP_FINAL_NORM);
    return 1 + PER_LAYER * layer + (step - STEP_ATTN_NORM);
}

void trace_name(char out[TRACE_NAME], int slot, int n_layers, int *layer, Step *step) {
    *layer = -1;
    if (slot == 0) *step = STEP_EMBED;
    else if (slot > PER_LAYER * n_layers) *step = (Step)(STEP_FINAL_NORM + slot - 1 - PER_LAYER * n_layers);
    else *step = (Step)(STEP_ATTN_NORM + (slot - 1) % PER_LAYER), *layer = (slot - 1) / PER_LAYER;
    if (*layer < 0) snprintf(out, TRACE_NAME, "%s", step_name[*step]);
    else snprintf(out, TRACE_NAME, "layers.%d.%s", *layer, step_name[*step]);
}

int trace_cols(const Config *c, Step step) {
    switch (step) {
    case STEP_Q:
    case STEP_Q_ROT: return c->n_heads * c->head_dim;
    case STEP_K:
    case STEP_V:
    case STEP_K_ROT: return c->n_kv_heads * c->head_dim;
    case STEP_LOGITS: return c->vocab_size;
    case STEP_ROUTER:
    case STEP_ROUTER_WEIGHTS: return c->moe.n_experts;
    default: return c->dim;
    }
}

static int trace_open(Trace *t, int n, int n_layers, Error *e) {
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

static float *slot_data(Trace *t, int slot, int cols) {
    if (!t->x[slot]) t->x[slot] = calloc((size_t)t->n * (size_t)cols, sizeof(float));
    t->cols[slot] = cols;
    return t->x[slot];
}

/* ---- The reference file ------------------------------------------------------------------------ */

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

/* Values of one row: the product of all dimensions but the first; -1: more than any model has. */
static int64_t row_values(const SafeTensor *x) {
    int64_t values = 1;
    for (int i = 1; i < x->n_dims; i++)
        if (__builtin_mul_overflow(values, x->dims[i], &values)) return -1;
    return values;
}

static int read_slot(Trace *t, int slot, const SafeTensors *st, const Config *c, const char *path, Error *e) {
    char name[TRACE_NAME];
    int layer;
    Step step;
    trace_name(name, slot, t->n_layers, &layer, &step);
    const SafeTensor *x = safetensors_find(st, name);
    if (!x) return 0;
    int cols = trace_cols(c, step);
    bool shaped = x->n_dims >= 2 && x->dims[0] == t->n && row_values(x) == cols;
    if (strcmp(x->dtype, "F32") != 0 || !shaped || x->bytes != (size_t)t->n * (size_t)cols * sizeof(float))
        return fail(e, "%s: %s: expected F32 of %d rows of %d values, found %s of %lld rows of %lld", path, name, t->n,
                    cols, x->dtype, x->n_dims ? (long long)x->dims[0] : 0, (long long)row_values(x));
    float *to = slot_data(t, slot, cols);
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
    if (trace_open(t, (int)tokens->dims[0], c->n_layers, e) || read_tokens(t, tokens, c, path, e)) goto done;
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

/* ---- A run of the model ------------------------------------------------------------------------ */

typedef struct {
    Trace *t;
    bool failed;
    void (*progress)(void *arg, int done, int total); /* or NULL */
    void *arg;
    long long done; /* rows of tensors */
} Recorder;

static void record(void *arg, const char *name, int layer, const float *x, int rows, int cols, int from, int to,
                   int pos) {
    Recorder *r = arg;
    for (Step step = 0; step < STEP_COUNT; step++) {
        if (strcmp(step_name[step], name) != 0) continue;
        float *values = slot_data(r->t, trace_slot(layer, step, r->t->n_layers), cols);
        r->failed |= !values;
        for (int i = 0; values && i < rows; i++)
            memcpy(values + (size_t)(pos + i) * (size_t)cols + from, x + (size_t)i * (size_t)cols + from,
                   (size_t)(to - from) * sizeof *x);
        r->done += rows;
    }
    /* Thousandths: rows of tensors may be more than an int counts. Over ranks a tensor comes in parts. */
    long long all = (long long)r->t->n * r->t->n_slots, part = r->done < all ? 1000 * r->done / all : 1000;
    if (r->progress) r->progress(r->arg, (int)part, 1000);
}

/* The recorded tensors are taken one by one while the model runs: their sum is compared with what there is before. */
static int trace_fits(const Config *c, int n, Error *e) {
    double values = 0;
    for (Step step = 0; step < STEP_COUNT; step++)
        values += (double)trace_cols(c, step) * (step > STEP_EMBED && step < STEP_FINAL_NORM ? c->n_layers : 1);
    double bytes = values * n * sizeof(float), left = (double)memory_available("");
    if (bytes <= left) return 0;
    return fail(e, "verify: memory: expected %.0f MiB for the tensors of %d tokens, found %.0f MiB free",
                bytes / 0x1p20, n, left / 0x1p20);
}

int trace_run(Trace *t, const Model *m, const int *tokens, int n, int n_threads, const Kernels *kernels,
              void (*progress)(void *arg, int done, int total), void *arg, Error *e) {
    State s = {0};
    Recorder r = {t, false, progress, arg, 0};
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = n_threads, .kv_type = KV_F32, .kernels = kernels};
    *t = (Trace){0};
    if (m->config.pos == POS_LEARNED && n > m->config.n_ctx)
        return fail(e, "verify: tokens: expected at most the model's context of %d, found %d", m->config.n_ctx, n);
    if (trace_fits(&m->config, n, e) || trace_open(t, n, m->config.n_layers, e) ||
        state_fits(m, &options, "verify", e) || state_init(&s, m, &options, e)) {
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

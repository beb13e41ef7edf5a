#include "checkpoint/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/formats.h"
#include "kernels/quantize.h"

/* Writer - the file under its temporary name; the first failed write is remembered by stdio. */
typedef struct {
    const Checkpoint *ck;
    Config config; /* of the target: pairing and KV heads may differ from the source's */
    const Config *source;
    const Weights *weights;
    int type;
    FILE *file;
    const char *path;
    float *row, *sum; /* [widest] */
    unsigned char *packed;
    const volatile sig_atomic_t *stop;
    Error *e;
} Writer;

static bool stopped(const Writer *w) { return w->stop && *w->stop; }

static bool is_vector(Field f) {
    int rows, cols;
    Config c = {.dim = 2, .hidden_dim = 2, .n_heads = 1, .n_kv_heads = 1, .head_dim = 2, .vocab_size = 2, .n_ctx = 2};
    field_shape(&rows, &cols, f, &c);
    return rows == 1;
}

/* The field's matrix (a vector as one row); data NULL: the model does not have it. */
static Mat source_mat(const Writer *w, Field f, int layer) {
    const Weights *g = w->weights;
    const Layer *l = layer < 0 ? NULL : &g->layers[layer];
    const float *v = NULL;
    int rows, cols;
    switch (f) {
    case FIELD_TOK_EMB: return g->tok_emb;
    case FIELD_POS_EMB: return g->pos_emb;
    case FIELD_LM_HEAD: return w->config.tied ? (Mat){0} : g->lm_head;
    case FIELD_WQ: return l->attn.wq;
    case FIELD_WK: return l->attn.wk;
    case FIELD_WV: return l->attn.wv;
    case FIELD_WO: return l->attn.wo;
    case FIELD_W_GATE: return l->ffn.w_gate;
    case FIELD_W_UP: return l->ffn.w_up;
    case FIELD_W_DOWN: return l->ffn.w_down;
    case FIELD_FINAL_NORM: v = g->final_norm; break;
    case FIELD_FINAL_NORM_BIAS: v = g->final_norm_bias; break;
    case FIELD_ATTN_NORM: v = l->attn_norm; break;
    case FIELD_ATTN_NORM_BIAS: v = l->attn_norm_bias; break;
    case FIELD_FFN_NORM: v = l->ffn_norm; break;
    case FIELD_FFN_NORM_BIAS: v = l->ffn_norm_bias; break;
    case FIELD_BQ: v = l->attn.bq; break;
    case FIELD_BK: v = l->attn.bk; break;
    case FIELD_BV: v = l->attn.bv; break;
    case FIELD_BO: v = l->attn.bo; break;
    case FIELD_B_GATE: v = l->ffn.b_gate; break;
    case FIELD_B_UP: v = l->ffn.b_up; break;
    case FIELD_B_DOWN: v = l->ffn.b_down; break;
    case FIELD_COUNT: break;
    }
    field_shape(&rows, &cols, f, w->source);
    return (Mat){.dtype = DTYPE_F32, .rows = 1, .cols = cols, .stride_bytes = (size_t)cols * 4, .data = v};
}

/* Feature j of a head in the target's order is this feature in the source's. */
static int source_feature(const Writer *w, int j) {
    const RopeConfig *to = &w->config.rope, *from = &w->source->rope;
    int d = from->rotary_dim;
    if (w->source->pos != POS_ROPE || to->pairing == from->pairing || j >= d) return j;
    return to->pairing == ROPE_PAIRS ? j / 2 + j % 2 * (d / 2) : j % (d / 2) * 2 + j / (d / 2);
}

static bool reordered(const Writer *w, Field f) {
    bool qk = f == FIELD_WQ || f == FIELD_WK || f == FIELD_BQ || f == FIELD_BK;
    return qk && w->source->pos == POS_ROPE && w->config.rope.pairing != w->source->rope.pairing;
}

static bool pooled(const Writer *w, Field f) {
    return w->config.n_kv_heads != w->source->n_kv_heads &&
           (f == FIELD_WK || f == FIELD_WV || f == FIELD_BK || f == FIELD_BV);
}

/* Row r of the target's matrix, in f32: the mean over the pooled heads of the reordered source row.
 */
static void target_row(const Writer *w, Field f, const Mat *m, int r) {
    int d = w->source->head_dim, n = pooled(w, f) ? w->source->n_kv_heads / w->config.n_kv_heads : 1;
    bool heads = pooled(w, f) || reordered(w, f);
    if (!heads) {
        mat_dequantize_row(w->sum, m, r);
        return;
    }
    int head = r / d, feature = reordered(w, f) ? source_feature(w, r % d) : r % d;
    memset(w->sum, 0, (size_t)m->cols * sizeof *w->sum);
    for (int i = 0; i < n; i++) {
        mat_dequantize_row(w->row, m, (head * n + i) * d + feature);
        for (int c = 0; c < m->cols; c++) w->sum[c] += w->row[c] / (float)n;
    }
}

/* The same for a bias: its features are the rows. */
static void target_vector(const Writer *w, Field f, const Mat *m, int cols) {
    const float *v = m->data;
    int d = w->source->head_dim, n = pooled(w, f) ? w->source->n_kv_heads / w->config.n_kv_heads : 1;
    for (int j = 0; j < cols; j++) {
        if (!pooled(w, f) && !reordered(w, f)) {
            w->sum[j] = v[j];
            continue;
        }
        int head = j / d, feature = reordered(w, f) ? source_feature(w, j % d) : j % d;
        w->sum[j] = 0;
        for (int i = 0; i < n; i++) w->sum[j] += v[(head * n + i) * d + feature] / (float)n;
    }
}

static DType target_type(const Writer *w, Field f, const Mat *m) {
    if (is_vector(f)) return DTYPE_F32;
    DType t = w->type >= 0 ? (DType)w->type : m->dtype;
    bool as_it_is = t == m->dtype && !reordered(w, f) && !pooled(w, f);
    if (!dtype_can_quantize(t) && !(as_it_is && t != DTYPE_Q8_GROUP)) t = DTYPE_Q8_0;
    /* Learned positions are few, and rows that no block fits stay as they are read: in f32. */
    return f == FIELD_POS_EMB || m->cols % dtype_info[t].block_values ? DTYPE_F32 : t;
}

static void write_bytes(Writer *w, const void *p, size_t n) { fwrite(p, 1, n, w->file); }

/* The bytes of a mapped file as they are, but read here: when the file has shrunk, that is a bus error, of which run.c
 * makes a clear line, while write() would speak of a bad address. */
static void write_mapped(Writer *w, const unsigned char *p, size_t n) {
    unsigned char piece[4096];
    while (n) {
        size_t m = n < sizeof piece ? n : sizeof piece;
        memcpy(piece, p, m);
        write_bytes(w, piece, m);
        p += m;
        n -= m;
    }
}

static int refuse_row(Writer *w, Field f, int row, DType type) {
    return fail(w->e, "%s: %s row %d: expected values that %s can hold, found larger ones or no numbers", w->ck->path,
                field_name(f), row, dtype_info[type].name);
}

static int write_tensor(Writer *w, Field f, int layer, DType type) {
    Mat m = source_mat(w, f, layer);
    int rows, cols;
    field_shape(&rows, &cols, f, &w->config);
    size_t bytes = dtype_row_bytes(type, (size_t)cols);
    for (int r = 0; r < rows; r++) {
        if (stopped(w)) return -1;
        if (!is_vector(f) && type == m.dtype && !reordered(w, f) && !pooled(w, f)) {
            write_mapped(w, (const unsigned char *)m.data + (size_t)r * m.stride_bytes, bytes);
            continue;
        }
        if (is_vector(f)) target_vector(w, f, &m, cols);
        else target_row(w, f, &m, r);
        if (!dtype_quantize(w->packed, w->sum, (size_t)cols, type)) return refuse_row(w, f, r, type);
        write_bytes(w, w->packed, bytes);
    }
    return 0;
}

/* Calls visit for each tensor that the model has, the layers' in order. */
static int each_tensor(Writer *w, int (*visit)(Writer *w, Field f, int layer, void *arg), void *arg) {
    for (int layer = -1; layer < w->config.n_layers; layer++) {
        int first = layer < 0 ? 0 : FIELD_ATTN_NORM, last = layer < 0 ? FIELD_ATTN_NORM : FIELD_COUNT;
        for (int f = first; f < last; f++)
            if (source_mat(w, (Field)f, layer).data && visit(w, (Field)f, layer, arg)) return -1;
    }
    return 0;
}

/* ---- GGUF
 * ------------------------------------------------------------------------------------------ */

typedef struct {
    unsigned char *data;
    size_t n, room;
    bool failed;
} Buffer;

static void put(Buffer *b, const void *p, size_t n) {
    if (b->n + n > b->room) {
        size_t room = 2 * b->room + n + 4096;
        unsigned char *more = realloc(b->data, room);
        if (!more) {
            b->failed = true;
            return;
        }
        b->data = more;
        b->room = room;
    }
    memcpy(b->data + b->n, p, n);
    b->n += n;
}

static void put_u32(Buffer *b, uint32_t x) { put(b, &x, sizeof x); }
static void put_u64(Buffer *b, uint64_t x) { put(b, &x, sizeof x); }
static void put_str(Buffer *b, const char *s) {
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static void key_u32(Buffer *b, size_t *n, const char *key, int x) {
    put_str(b, key);
    put_u32(b, GGUF_U32);
    put_u32(b, (uint32_t)x);
    (*n)++;
}

static void key_f32(Buffer *b, size_t *n, const char *key, double x) {
    float f = (float)x;
    put_str(b, key);
    put_u32(b, GGUF_F32);
    put(b, &f, sizeof f);
    (*n)++;
}

static void key_str(Buffer *b, size_t *n, const char *key, const char *s) {
    put_str(b, key);
    put_u32(b, GGUF_STRING);
    put_str(b, s);
    (*n)++;
}

typedef struct {
    Buffer infos;
    uint64_t offset;
    size_t n;
} Table;

enum { GGUF_ALIGNMENT = 32 };
static uint64_t aligned(uint64_t n) { return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT; }

static void table_row(Table *t, const char *name, int rows, int cols, int ggml, size_t bytes) {
    put_str(&t->infos, name);
    put_u32(&t->infos, rows == 1 ? 1 : 2);
    put_u64(&t->infos, (uint64_t)cols);
    if (rows != 1) put_u64(&t->infos, (uint64_t)rows);
    put_u32(&t->infos, (uint32_t)ggml);
    put_u64(&t->infos, t->offset);
    t->offset = aligned(t->offset + bytes);
    t->n++;
}

static int add_info(Writer *w, Field f, int layer, void *arg) {
    char name[80];
    int rows, cols;
    Mat m = source_mat(w, f, layer);
    DType type = target_type(w, f, &m);
    field_shape(&rows, &cols, f, &w->config);
    table_row(arg, name_of(name, f, layer, NAMES_GGUF), rows, cols, dtype_info[type].ggml_type,
              (size_t)rows * dtype_row_bytes(type, (size_t)cols));
    return 0;
}

static void pad(Writer *w, size_t n) {
    static const char zeros[GGUF_ALIGNMENT];
    write_bytes(w, zeros, (size_t)(aligned(n) - n));
}

static int add_data(Writer *w, Field f, int layer, void *arg) {
    Mat m = source_mat(w, f, layer);
    DType type = target_type(w, f, &m);
    int rows, cols;
    (void)arg;
    field_shape(&rows, &cols, f, &w->config);
    if (write_tensor(w, f, layer, type)) return -1;
    pad(w, (size_t)rows * dtype_row_bytes(type, (size_t)cols));
    return 0;
}

static bool starts_with(Str s, const char *text) {
    size_t n = strlen(text);
    return s.n >= n && memcmp(s.s, text, n) == 0;
}

static int write_gguf(Writer *w) {
    const Config *c = &w->config;
    const RopeConfig *r = &c->rope;
    if (c->norm != NORM_RMSNORM || c->ffn != FFN_SWIGLU || c->pos != POS_ROPE)
        return fail(w->e, "%s: architecture: expected a LLaMA for GGUF, found %s", w->ck->path, w->ck->arch);
    if (r->rotary_dim != c->head_dim)
        return fail(w->e, "%s: rotary dimension: expected head_dim %d for GGUF llama, found %d", w->ck->path,
                    c->head_dim, r->rotary_dim);
    if (r->scaling == ROPE_SCALING_DYNAMIC || (r->scaling == ROPE_SCALING_YARN && (r->mscale != 0 || !r->truncate)))
        return fail(w->e, "%s: rope scaling: expected a rule that GGUF can hold, found another", w->ck->path);
    Buffer kv = {0};
    Table table = {0};
    size_t n_kv = 0;
    float freqs[ROPE_MAX_PAIRS];
    int status = -1, pairs = r->rotary_dim / 2;
    key_str(&kv, &n_kv, "general.architecture", "llama");
    key_u32(&kv, &n_kv, "llama.block_count", c->n_layers);
    key_u32(&kv, &n_kv, "llama.context_length", c->n_ctx);
    key_u32(&kv, &n_kv, "llama.embedding_length", c->dim);
    key_u32(&kv, &n_kv, "llama.feed_forward_length", c->hidden_dim);
    key_u32(&kv, &n_kv, "llama.attention.head_count", c->n_heads);
    key_u32(&kv, &n_kv, "llama.attention.head_count_kv", c->n_kv_heads);
    key_u32(&kv, &n_kv, "llama.attention.key_length", c->head_dim);
    key_u32(&kv, &n_kv, "llama.attention.value_length", c->head_dim);
    key_f32(&kv, &n_kv, "llama.attention.layer_norm_rms_epsilon", (double)c->norm_eps);
    key_f32(&kv, &n_kv, "llama.rope.freq_base", r->theta);
    key_u32(&kv, &n_kv, "llama.rope.dimension_count", r->rotary_dim);
    key_u32(&kv, &n_kv, "llama.vocab_size", c->vocab_size);
    if (r->scaling == ROPE_SCALING_LINEAR || r->scaling == ROPE_SCALING_YARN) {
        key_str(&kv, &n_kv, "llama.rope.scaling.type", r->scaling == ROPE_SCALING_LINEAR ? "linear" : "yarn");
        key_f32(&kv, &n_kv, "llama.rope.scaling.factor", r->factor);
        if (r->scaling == ROPE_SCALING_YARN) {
            key_u32(&kv, &n_kv, "llama.rope.scaling.original_context_length", r->original_ctx);
            key_f32(&kv, &n_kv, "llama.rope.scaling.yarn_beta_fast", r->beta_fast);
            key_f32(&kv, &n_kv, "llama.rope.scaling.yarn_beta_slow", r->beta_slow);
            if (r->attention_factor > 0)
                key_f32(&kv, &n_kv, "llama.rope.scaling.attn_factor",
                        r->attention_factor / (r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1));
        }
    } else if (r->scaling == ROPE_SCALING_LONGROPE) {
        key_str(&kv, &n_kv, "llama.rope.scaling.type", "longrope");
        key_u32(&kv, &n_kv, "llama.rope.scaling.original_context_length", r->original_ctx);
        if (r->attention_factor > 0) key_f32(&kv, &n_kv, "llama.rope.scaling.attn_factor", r->attention_factor);
    }
    const Gguf *g = w->ck->format == FORMAT_GGUF ? &w->ck->gguf : NULL;
    for (size_t i = 0; g && i < g->n_kv; i++) { /* names, licence, vocabulary: byte for byte */
        Str key = g->kv[i].key;
        bool keep = starts_with(key, "tokenizer.") ||
                    (starts_with(key, "general.") && !starts_with(key, "general.architecture") &&
                     !starts_with(key, "general.alignment") && !starts_with(key, "general.file_type") &&
                     !starts_with(key, "general.quantization_version"));
        if (!keep) continue;
        const unsigned char *from = (const unsigned char *)key.s - 8;
        const unsigned char *to = i + 1 < g->n_kv ? (const unsigned char *)g->kv[i + 1].key.s - 8 : g->kv_end;
        put(&kv, from, (size_t)(to - from));
        n_kv++;
    }
    /* Llama 3.1's rule travels as one divisor a pair, LongRoPE's as its two sets. */
    const float *extra[2] = {NULL, NULL};
    const char *extra_name[2] = {"rope_freqs.weight", NULL};
    if (r->scaling == ROPE_SCALING_LLAMA3) {
        double scaled[ROPE_MAX_PAIRS], plain[ROPE_MAX_PAIRS], factor;
        RopeConfig none = *r;
        none.scaling = ROPE_SCALING_NONE;
        none.freq_factors = NULL;
        rope_inv_freq(scaled, &factor, r, 0);
        rope_inv_freq(plain, &factor, &none, 0);
        for (int i = 0; i < pairs; i++) freqs[i] = (float)(plain[i] / scaled[i]);
        extra[0] = freqs;
    } else if (r->scaling == ROPE_SCALING_LONGROPE) {
        extra[0] = r->long_factor;
        extra_name[0] = "rope_factors_long.weight";
        extra[1] = r->short_factor;
        extra_name[1] = "rope_factors_short.weight";
    } else {
        extra[0] = r->freq_factors;
    }
    for (int i = 0; i < 2; i++)
        if (extra[i]) table_row(&table, extra_name[i], 1, pairs, 0, (size_t)pairs * sizeof(float));
    each_tensor(w, add_info, &table);
    if (kv.failed || table.infos.failed) {
        fail(w->e, "%s: memory: expected some, found none", w->path);
        goto done;
    }
    uint32_t version = 3;
    uint64_t n_tensors = table.n, count = n_kv;
    write_bytes(w, "GGUF", 4);
    write_bytes(w, &version, sizeof version);
    write_bytes(w, &n_tensors, sizeof n_tensors);
    write_bytes(w, &count, sizeof count);
    write_bytes(w, kv.data, kv.n);
    write_bytes(w, table.infos.data, table.infos.n);
    pad(w, 24 + kv.n + table.infos.n);
    for (int i = 0; i < 2; i++) {
        if (!extra[i]) continue;
        write_bytes(w, extra[i], (size_t)pairs * sizeof(float));
        pad(w, (size_t)pairs * sizeof(float));
    }
    status = each_tensor(w, add_data, NULL);
done:
    free(kv.data);
    free(table.infos.data);
    return status;
}

/* ---- llama2.c .bin
 * ---------------------------------------------------------------------------------- */

static int write_bin_list(Writer *w, const Field *list, int n, int group) {
    for (int i = 0; i < n; i++) {
        int layers = list[i] < FIELD_ATTN_NORM ? 1 : w->config.n_layers;
        for (int l = 0; l < layers; l++) {
            int layer = list[i] < FIELD_ATTN_NORM ? -1 : l, rows, cols;
            if (!group || is_vector(list[i])) {
                if (write_tensor(w, list[i], layer, DTYPE_F32)) return -1;
                continue;
            }
            /* int8 values of all rows, then the scales of all groups: two passes over the rows */
            Mat m = source_mat(w, list[i], layer);
            field_shape(&rows, &cols, list[i], &w->config);
            for (int pass = 0; pass < 2; pass++) {
                for (int r = 0; r < rows; r++) {
                    if (stopped(w)) return -1;
                    target_row(w, list[i], &m, r);
                    if (!floats_finite(w->sum, (size_t)cols)) return refuse_row(w, list[i], r, DTYPE_Q8_0);
                    for (int c = 0; c < cols; c += group) {
                        float max = 0;
                        for (int k = 0; k < group; k++) max = fmaxf(max, fabsf(w->sum[c + k]));
                        float scale = max / 127;
                        int8_t *q = (int8_t *)w->packed;
                        for (int k = 0; k < group; k++) q[k] = scale > 0 ? (int8_t)roundf(w->sum[c + k] / scale) : 0;
                        if (pass == 0) write_bytes(w, q, (size_t)group);
                        else write_bytes(w, &scale, sizeof scale);
                    }
                }
            }
        }
    }
    return 0;
}

static int write_bin(Writer *w) {
    static const Field v0[] = {FIELD_TOK_EMB,  FIELD_ATTN_NORM, FIELD_WQ,     FIELD_WK,   FIELD_WV,        FIELD_WO,
                               FIELD_FFN_NORM, FIELD_W_GATE,    FIELD_W_DOWN, FIELD_W_UP, FIELD_FINAL_NORM};
    static const Field norms[] = {FIELD_ATTN_NORM, FIELD_FFN_NORM, FIELD_FINAL_NORM};
    static const Field mats[] = {FIELD_TOK_EMB, FIELD_WQ,     FIELD_WK,     FIELD_WV,
                                 FIELD_WO,      FIELD_W_GATE, FIELD_W_DOWN, FIELD_W_UP};
    static const Field head[] = {FIELD_LM_HEAD};
    const Config *c = &w->config;
    const RopeConfig *r = &c->rope;
    const char *path = w->ck->path;
    if (c->norm != NORM_RMSNORM || c->ffn != FFN_SWIGLU || c->pos != POS_ROPE)
        return fail(w->e, "%s: architecture: expected a LLaMA for .bin, found %s", path, w->ck->arch);
    if (r->theta != 10000 || r->scaling != ROPE_SCALING_NONE || r->freq_factors)
        return fail(w->e, "%s: rope: expected theta 10000 without scaling for .bin, found theta %g%s", path, r->theta,
                    r->scaling != ROPE_SCALING_NONE || r->freq_factors ? " and scaling" : "");
    if (c->norm_eps != 1e-5f)
        return fail(w->e, "%s: norm eps: expected 1e-05 for .bin, found %g", path, (double)c->norm_eps);
    if (c->head_dim * c->n_heads != c->dim || r->rotary_dim != c->head_dim)
        return fail(w->e, "%s: head_dim: expected dim / n_heads = %d for .bin, found %d", path, c->dim / c->n_heads,
                    c->head_dim);
    if (w->weights->layers[0].attn.bq || w->weights->layers[0].ffn.b_up)
        return fail(w->e, "%s: biases: expected none for .bin, found some", path);
    if (w->type > DTYPE_F32 && w->type != DTYPE_Q8_0)
        return fail(w->e, "--type: expected f32 or q8_0 for .bin, found %s", dtype_info[w->type].name);
    int group = w->type == DTYPE_Q8_0 ? 64 : 0;
    while (group && (c->dim % group || c->hidden_dim % group)) group /= 2;
    if (w->type == DTYPE_Q8_0 && group < 2)
        return fail(w->e, "%s: dim: expected an even one for groups of int8, found %d", path, c->dim);
    int32_t header[7] = {c->dim, c->hidden_dim, c->n_layers, c->n_heads, c->n_kv_heads, c->vocab_size, c->n_ctx};
    if (!group) {
        if (!c->tied) header[5] = -header[5];
        write_bytes(w, header, sizeof header);
        if (write_bin_list(w, v0, 11, 0)) return -1;
        float zero = 0; /* the tables of cos and sin, which llama2.c skips */
        for (size_t i = 0; i < (size_t)c->n_ctx * (size_t)c->head_dim; i++) write_bytes(w, &zero, sizeof zero);
    } else {
        unsigned char start[256] = {0};
        const uint32_t magic = 0x616b3432, version = 2;
        const int32_t size = group;
        memcpy(start, &magic, 4);
        memcpy(start + 4, &version, 4);
        memcpy(start + 8, header, sizeof header);
        start[36] = c->tied;
        memcpy(start + 37, &size, 4);
        write_bytes(w, start, sizeof start);
        if (write_bin_list(w, norms, 3, 0) || write_bin_list(w, mats, 8, group)) return -1;
    }
    return c->tied ? 0 : write_bin_list(w, head, 1, group);
}

/* ---- Hugging Face directory ---------------------------------------------------------------------
 */

static const char *st_dtype(DType t) { return t == DTYPE_F16 ? "F16" : t == DTYPE_BF16 ? "BF16" : "F32"; }

static DType hf_type(const Writer *w, Field f, const Mat *m) {
    DType t = target_type(w, f, m);
    return t == DTYPE_F16 || t == DTYPE_BF16 ? t : DTYPE_F32;
}

static int add_header(Writer *w, Field f, int layer, void *arg) {
    Table *t = arg;
    char name[80], entry[256];
    int rows, cols;
    Mat m = source_mat(w, f, layer);
    DType type = hf_type(w, f, &m);
    field_shape(&rows, &cols, f, &w->config);
    size_t bytes = (size_t)rows * dtype_row_bytes(type, (size_t)cols);
    int n = snprintf(entry, sizeof entry, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->n++ ? "," : "{",
                     name_of(name, f, layer, NAMES_HF), st_dtype(type));
    if (!is_vector(f)) n += snprintf(entry + n, sizeof entry - (size_t)n, "%d,", rows);
    n += snprintf(entry + n, sizeof entry - (size_t)n, "%d],\"data_offsets\":[%llu,%llu]}", cols,
                  (unsigned long long)t->offset, (unsigned long long)(t->offset + bytes));
    put(&t->infos, entry, (size_t)n);
    t->offset += bytes;
    return 0;
}

static int add_values(Writer *w, Field f, int layer, void *arg) {
    Mat m = source_mat(w, f, layer);
    (void)arg;
    return write_tensor(w, f, layer, hf_type(w, f, &m));
}

static int write_safetensors(Writer *w) {
    Table t = {0};
    each_tensor(w, add_header, &t);
    put(&t.infos, "}", 1);
    while (t.infos.n % 8) put(&t.infos, " ", 1);
    int status = t.infos.failed ? fail(w->e, "%s: memory: expected some, found none", w->path) : 0;
    if (!status) {
        uint64_t n = t.infos.n;
        write_bytes(w, &n, sizeof n);
        write_bytes(w, t.infos.data, t.infos.n);
        status = each_tensor(w, add_values, NULL);
    }
    free(t.infos.data);
    return status;
}

static void print_list(FILE *f, const char *key, const float *x, int n) {
    fprintf(f, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) fprintf(f, "%s%.9g", i ? ", " : "", (double)x[i]);
    fputs("]", f);
}

static int write_config(Writer *w) {
    static const char *const rule[] = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};
    const Config *c = &w->config;
    const RopeConfig *r = &c->rope;
    const Layer *l = &w->weights->layers[0];
    FILE *f = w->file;
    bool llama = c->norm == NORM_RMSNORM && c->ffn == FFN_SWIGLU && c->pos == POS_ROPE;
    if (c->pos == POS_ROPE && r->freq_factors)
        return fail(w->e, "%s: rope_freqs: expected a rule that config.json can name, found one divisor a pair",
                    w->ck->path);
    int n_ctx = r->scaling == ROPE_SCALING_DYNAMIC ? r->original_ctx : c->n_ctx;
    fprintf(f, "{\n \"architectures\": [\"%s\"],\n \"model_type\": \"%s\",\n \"hidden_act\": \"silu\",\n",
            llama ? "LlamaForCausalLM" : "LlamaSwapForCausalLM", llama ? "llama" : "llama_swap");
    if (!llama)
        fprintf(f, " \"norm\": \"%s\",\n \"ffn\": \"%s\",\n \"positions\": \"%s\",\n",
                c->norm == NORM_RMSNORM ? "rmsnorm" : "layernorm", c->ffn == FFN_SWIGLU ? "swiglu" : "gelu",
                c->pos == POS_ROPE ? "rope" : "learned");
    fprintf(f, " \"hidden_size\": %d,\n \"intermediate_size\": %d,\n \"num_hidden_layers\": %d,\n", c->dim,
            c->hidden_dim, c->n_layers);
    fprintf(f, " \"num_attention_heads\": %d,\n \"num_key_value_heads\": %d,\n \"head_dim\": %d,\n", c->n_heads,
            c->n_kv_heads, c->head_dim);
    fprintf(f, " \"vocab_size\": %d,\n \"max_position_embeddings\": %d,\n \"rms_norm_eps\": %.9g,\n", c->vocab_size,
            n_ctx, (double)c->norm_eps);
    fprintf(f, " \"tie_word_embeddings\": %s,\n \"attention_bias\": %s,\n \"mlp_bias\": %s,\n",
            c->tied ? "true" : "false", l->attn.bq ? "true" : "false", l->ffn.b_up ? "true" : "false");
    if (w->ck->bos >= 0) fprintf(f, " \"bos_token_id\": %d,\n", w->ck->bos);
    if (w->ck->n_eos) fprintf(f, " \"eos_token_id\": %d,\n", w->ck->eos[0]);
    fprintf(f, " \"rope_theta\": %.17g", c->pos == POS_ROPE ? r->theta : 10000.0);
    if (c->pos == POS_ROPE && r->scaling != ROPE_SCALING_NONE) {
        fprintf(f, ",\n \"rope_scaling\": {\"rope_type\": \"%s\", \"factor\": %.17g", rule[r->scaling], r->factor);
        if (r->scaling >= ROPE_SCALING_YARN) fprintf(f, ", \"original_max_position_embeddings\": %d", r->original_ctx);
        if (r->scaling == ROPE_SCALING_LLAMA3)
            fprintf(f, ", \"low_freq_factor\": %.17g, \"high_freq_factor\": %.17g", r->low_freq_factor,
                    r->high_freq_factor);
        if (r->attention_factor > 0) fprintf(f, ", \"attention_factor\": %.17g", r->attention_factor);
        if (r->scaling == ROPE_SCALING_YARN) {
            fprintf(f, ", \"beta_fast\": %.17g, \"beta_slow\": %.17g", r->beta_fast, r->beta_slow);
            if (r->mscale != 0) fprintf(f, ", \"mscale\": %.17g", r->mscale);
            if (r->mscale_all_dim != 0) fprintf(f, ", \"mscale_all_dim\": %.17g", r->mscale_all_dim);
            if (!r->truncate) fputs(", \"truncate\": false", f);
        }
        if (r->scaling == ROPE_SCALING_LONGROPE) {
            print_list(f, "short_factor", r->short_factor, r->rotary_dim / 2);
            print_list(f, "long_factor", r->long_factor, r->rotary_dim / 2);
        }
        fputs("}", f);
    }
    if (c->pos == POS_ROPE && r->rotary_dim != c->head_dim)
        fprintf(f, ",\n \"partial_rotary_factor\": %.17g", (double)r->rotary_dim / c->head_dim);
    fputs("\n}\n", f);
    return 0;
}

/* ---- Temporary names
 * ------------------------------------------------------------------------------ */

/* Runs body on a new file; on any failure the file is gone. */
static int write_file(Writer *w, const char *path, int (*body)(Writer *w)) {
    w->path = path;
    w->file = fopen(path, "wbx");
    if (!w->file) return fail(w->e, "%s: file: expected to create it, found %s", path, strerror(errno));
    int status = body(w);
    if (!status && (fflush(w->file) || ferror(w->file) || fsync(fileno(w->file))))
        status = fail(w->e, "%s: writing: expected success, found %s", path, strerror(errno ? errno : EIO));
    if (fclose(w->file) && !status)
        status = fail(w->e, "%s: writing: expected success, found %s", path, strerror(errno));
    if (status) unlink(path);
    return status;
}

static int copy_body(Writer *w) {
    const File *from = (const File *)(const void *)w->packed;
    write_mapped(w, from->data, from->size);
    return 0;
}

/* What a directory may hold: the model, and the tokenizer's files of a Hugging Face directory, which go along. */
static const char *const names[] = {
    "config.json", "model.safetensors",     "tokenizer.json",          "tokenizer.model",       "vocab.json",
    "merges.txt",  "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"};
enum { N_NAMES = sizeof names / sizeof *names, FIRST_TOKENIZER_FILE = 2, AFTER_VOCABULARIES = 5 };

static int copy_tokenizer(Writer *w, const char *from_dir, const char *to_dir, bool *carried) {
    for (int i = FIRST_TOKENIZER_FILE; i < N_NAMES; i++) {
        char from[8192], to[8192];
        File file;
        snprintf(from, sizeof from, "%s/%s", from_dir, names[i]);
        snprintf(to, sizeof to, "%s/%s", to_dir, names[i]);
        if (access(from, F_OK) != 0) continue;
        if (file_map(&file, from, w->e)) return -1;
        unsigned char *packed = w->packed;
        w->packed = (unsigned char *)&file;
        int status = write_file(w, to, copy_body);
        w->packed = packed;
        file_close(&file);
        if (status) return -1;
        *carried |= i < AFTER_VOCABULARIES;
    }
    return 0;
}

void convert_remove(const char *temporary) {
    if (!*temporary || unlink(temporary) == 0) return;
    int directory = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    for (int i = 0; i < N_NAMES; i++) unlinkat(directory, names[i], 0);
    close(directory);
    rmdir(temporary);
}

static int write_directory(Writer *w, const char *temporary, bool *carried) {
    char file[8192];
    if (mkdir(temporary, 0755))
        return fail(w->e, "%s: directory: expected to create it, found %s", temporary, strerror(errno));
    snprintf(file, sizeof file, "%s/config.json", temporary);
    int status = write_file(w, file, write_config);
    snprintf(file, sizeof file, "%s/model.safetensors", temporary);
    if (!status) status = write_file(w, file, write_safetensors);
    if (!status && w->ck->format == FORMAT_HF_DIR) status = copy_tokenizer(w, w->ck->path, temporary, carried);
    return status;
}

/* A signal handler may look at any time, and half of the name is that of another file: its first byte comes last. */
static void publish(char *to, const char *name) {
    if (!to) return;
    memcpy(to + 1, name + 1, strlen(name));
    atomic_signal_fence(memory_order_seq_cst);
    to[0] = name[0];
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int convert_named(Writer *w, const char *temporary, const char *output, bool *carried) {
    const Gguf *g = w->ck->format == FORMAT_GGUF ? &w->ck->gguf : NULL;
    if (ends_with(output, ".gguf")) {
        *carried = g && gguf_find(g, "tokenizer.ggml.tokens");
        return write_file(w, temporary, write_gguf);
    }
    return ends_with(output, ".bin") ? write_file(w, temporary, write_bin) : write_directory(w, temporary, carried);
}

int checkpoint_convert(const Checkpoint *ck, const Config *config, const Weights *weights, const ConvertOptions *o,
                       bool *carried, Error *e) {
    Writer w = {
        .ck = ck, .config = *config, .source = config, .weights = weights, .type = o->type, .stop = o->stop, .e = e};
    RopeConfig *rope = &w.config.rope;
    if (rope->scaling == ROPE_SCALING_NTK) { /* another base and nothing else: every format holds it */
        rope->theta = rope_base(rope, 0);
        rope->scaling = ROPE_SCALING_NONE;
    }
    const char *output = o->output;
    char temporary[CONVERT_NAME];
    struct stat st;
    *carried = false;
    size_t length = strlen(output);
    while (length > 1 && output[length - 1] == '/') length--;
    if (length == 0 || length > CONVERT_NAME - 32) return fail(e, "--output: expected a name, found %zu bytes", length);
    bool single = ends_with(output, ".gguf") || ends_with(output, ".bin");
    if (!single && stat(output, &st) == 0 && rmdir(output))
        return fail(e, "%s: directory: expected a new or empty one, found %s", output, strerror(errno));
    if (single && stat(output, &st) == 0 && S_ISDIR(st.st_mode))
        return fail(e, "%s: file: expected a file's name, found a directory", output);
    if (ck->format != FORMAT_HF_DIR && single && stat(output, &st) == 0) {
        struct stat mine;
        if (stat(ck->path, &mine) == 0 && mine.st_ino == st.st_ino && mine.st_dev == st.st_dev)
            return fail(e, "%s: output: expected another file than the input, found the same", output);
    }
    if (!strcmp(ck->arch, "gpt2"))
        return fail(e, "%s: architecture: expected a LLaMA or a llama_swap to write, found gpt2", ck->path);
    if (!single && o->type > DTYPE_BF16)
        return fail(e, "--type: expected f32, f16 or bf16 for a Hugging Face directory, found %s",
                    dtype_info[o->type].name);
    if (config->pos == POS_ROPE) w.config.rope.pairing = single ? ROPE_PAIRS : ROPE_HALF;
    if (o->kv_heads) {
        if (config->n_kv_heads % o->kv_heads)
            return fail(e, "--kv-heads: expected a divisor of the %d heads there are, found %d", config->n_kv_heads,
                        o->kv_heads);
        w.config.n_kv_heads = o->kv_heads;
    }
    size_t widest = (size_t)config->dim;
    if (widest < (size_t)config->hidden_dim) widest = (size_t)config->hidden_dim;
    if (widest < (size_t)config->n_heads * (size_t)config->head_dim)
        widest = (size_t)config->n_heads * (size_t)config->head_dim;
    w.row = malloc(widest * sizeof(float));
    w.sum = malloc(widest * sizeof(float));
    w.packed = malloc(widest * sizeof(float) + 64);
    snprintf(temporary, sizeof temporary, "%.*s.%ld.part", (int)length, output, (long)getpid());
    publish(o->temporary, temporary);
    int status = w.row && w.sum && w.packed ? convert_named(&w, temporary, output, carried)
                                            : fail(e, "%s: memory: expected some, found none", output);
    char final[CONVERT_NAME];
    snprintf(final, sizeof final, "%.*s", (int)length, output);
    if (!status && rename(temporary, final))
        status = fail(e, "%s: file: expected to rename it, found %s", output, strerror(errno));
    if (status) convert_remove(temporary);
    if (o->temporary) o->temporary[0] = 0;
    free(w.row);
    free(w.sum);
    free(w.packed);
    return status;
}

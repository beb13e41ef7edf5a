#include "convert/writer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/quantize.h"

bool writer_stopped(const Writer *w) { return w->options->stop && *w->options->stop; }

void write_bytes(Writer *w, const void *p, size_t n) { fwrite(p, 1, n, w->file); }

void write_mapped(Writer *w, const unsigned char *p, size_t n) {
    unsigned char piece[4096];
    while (n) {
        size_t m = n < sizeof piece ? n : sizeof piece;
        memcpy(piece, p, m);
        write_bytes(w, piece, m);
        p += m;
        n -= m;
    }
}

void put(Buffer *b, const void *p, size_t n) {
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

/* c as a layer sees it. */
static Config at_layer(const Writer *w, const Config *c, int layer) {
    return layer >= 0 && c->moe.n_experts && !w->weights->layers[layer].moe.experts ? dense_config(*c) : *c;
}

/* The field as the source has it; data NULL: the model does not have it. */
static Mat source_mat(const Writer *w, Field f, int layer, int expert) {
    const Config c = at_layer(w, w->source, layer);
    if (f == FIELD_LM_HEAD && w->config.tied) return (Mat){0};
    return field_mat(w->weights, &c, f, layer, expert);
}

/* Feature j of a head in the target's order is this feature in the source's. */
static int source_feature(const Writer *w, int j) {
    const RopeConfig *to = &w->config.rope, *from = &w->source->rope;
    int d = from->rotary_dim;
    if (w->source->pos != POS_ROPE || to->pairing == from->pairing || j >= d) return j;
    return to->pairing == ROPE_PAIRS ? j / 2 + j % 2 * (d / 2) : j % (d / 2) * 2 + j / (d / 2);
}

static bool reordered(const Writer *w, Field f) {
    return field_by_pairs(f) && w->source->pos == POS_ROPE && w->config.rope.pairing != w->source->rope.pairing;
}

static bool pooled(const Writer *w, Field f) { return field_of_kv(f) && w->config.n_kv_heads != w->source->n_kv_heads; }

/* Row r of the target is the mean of *n rows of the source, this one and those head_dim apart. */
static int source_row(const Writer *w, Field f, int r, int *n) {
    int d = w->source->head_dim;
    *n = pooled(w, f) ? w->source->n_kv_heads / w->config.n_kv_heads : 1;
    if (*n == 1 && !reordered(w, f)) return r;
    return r / d * *n * d + (reordered(w, f) ? source_feature(w, r % d) : r % d);
}

void target_row(const Writer *w, Field f, const Mat *m, int r) {
    int n, from = source_row(w, f, r, &n);
    if (n == 1) {
        mat_dequantize_row(w->sum, m, from);
        return;
    }
    memset(w->sum, 0, (size_t)m->cols * sizeof *w->sum);
    for (int i = 0; i < n; i++) {
        mat_dequantize_row(w->row, m, from + i * w->source->head_dim);
        for (int c = 0; c < m->cols; c++) w->sum[c] += w->row[c] / (float)n;
    }
}

/* The same for a bias: its features are the rows. */
static void target_vector(const Writer *w, Field f, const Mat *m, int cols) {
    const float *v = m->data;
    int d = w->source->head_dim, n = pooled(w, f) ? w->source->n_kv_heads / w->config.n_kv_heads : 1;
    float offset = field_is_norm(f) ? w->source->norm_offset - w->config.norm_offset : 0;
    for (int j = 0; j < cols; j++) {
        if (!pooled(w, f) && !reordered(w, f)) {
            w->sum[j] = v[j] + offset;
            continue;
        }
        int head = j / d, feature = reordered(w, f) ? source_feature(w, j % d) : j % d;
        w->sum[j] = offset;
        for (int i = 0; i < n; i++) w->sum[j] += v[(head * n + i) * d + feature] / (float)n;
    }
}

static DType target_type(const Writer *w, Field f, int layer, const Mat *m) {
    const Mix *mix = w->options->mix;
    if (field_is_vector(f) || f == FIELD_POS_EMB ||
        (w->style == STYLE_GGUF && (f == FIELD_ROUTER || f == FIELD_SHARED_SCALE)))
        return DTYPE_F32; /* small, and what a router decides is not */
    DType t = mix ? mix_type(mix, f, layer, m->cols, w->source) : m->dtype;
    if (!mix && (t == DTYPE_Q8_GROUP || (pooled(w, f) && !dtype_can_quantize(t)))) t = DTYPE_Q8_0;
    if (w->style != STYLE_GGUF && t != DTYPE_F16 && t != DTYPE_BF16) return DTYPE_F32; /* safetensors has no others */
    return m->cols % dtype_info[t].block_values ? DTYPE_F32 : t;
}

int refuse_row(Writer *w, Field f, int row, DType type) {
    return fail(w->e, "%s: %s row %d: expected values that %s can hold, found larger ones or NaN", w->ck->path,
                field_name(f), row, dtype_info[type].name);
}

/* Rows [from, to) of field i of a target; of a vector, values. */
static int write_rows(Writer *w, const Target *t, int i, int expert, int from, int to) {
    Field f = t->field[i];
    DType type = t->type;
    Mat m = source_mat(w, f, t->layer, expert);
    const Config c = at_layer(w, &w->config, t->layer);
    int rows, cols;
    field_shape(&rows, &cols, f, &c);
    size_t bytes = dtype_row_bytes(type, (size_t)cols);
    if (field_is_vector(f)) {
        target_vector(w, f, &m, cols);
        size_t n = (size_t)(to - from);
        if (!dtype_quantize(w->packed, w->sum + from, n, type)) return refuse_row(w, f, 0, type);
        write_bytes(w, w->packed, dtype_row_bytes(type, n));
        return 0;
    }
    for (int r = from; r < to; r++) {
        if (writer_stopped(w)) return -1;
        w->done += bytes;
        if (w->options->progress && w->total) w->options->progress(w->options->progress_arg, w->done, w->total);
        int n, source = source_row(w, f, r, &n);
        if (type == m.dtype && n == 1) { /* whole rows keep their bits, whatever their order */
            write_mapped(w, (const unsigned char *)m.data + (size_t)source * m.stride_bytes, bytes);
            continue;
        }
        target_row(w, f, &m, r);
        if (!dtype_quantize(w->packed, w->sum, (size_t)cols, type)) return refuse_row(w, f, r, type);
        write_bytes(w, w->packed, bytes);
    }
    return 0;
}

static int write_field(Writer *w, const Target *t, int i, int expert) {
    const Config c = at_layer(w, &w->config, t->layer);
    int rows, cols;
    field_shape(&rows, &cols, t->field[i], &c);
    return write_rows(w, t, i, expert, 0, field_is_vector(t->field[i]) ? cols : rows);
}

/* q, k and v in groups: the heads of q that share a KV head, then its k, then its v. */
static int write_groups(Writer *w, const Target *t) {
    int d = w->config.head_dim, shared = w->config.n_heads / w->config.n_kv_heads;
    for (int kv = 0; kv < w->config.n_kv_heads; kv++)
        for (int i = 0; i < 3; i++) {
            int n = i ? d : shared * d;
            if (write_rows(w, t, i, 0, kv * n, (kv + 1) * n)) return -1;
        }
    return 0;
}

static bool in_columns(const Writer *w, const Target *t) {
    return t->n_experts && w->style != STYLE_GGUF && w->family->split == SPLIT_COLUMNS;
}

/* A matrix of an expert as [in, out], where the outputs of several fields alternate. */
static int write_columns(Writer *w, const Target *t, int expert) {
    size_t in = (size_t)(t->vector ? 1 : t->cols), out = (size_t)(t->vector ? t->cols : t->rows),
           each = out / (size_t)t->n;
    float *values = malloc(in * out * sizeof *values);
    if (!values) return fail(w->e, "%s: memory: expected some, found none", w->path);
    int status = 0;
    for (int i = 0; i < t->n; i++) {
        Mat m = source_mat(w, t->field[i], t->layer, expert);
        for (size_t r = 0; r < each; r++) {
            size_t column = r * (size_t)t->n + (size_t)i;
            if (t->vector) {
                values[column] = ((const float *)m.data)[r];
                continue;
            }
            mat_dequantize_row(w->sum, &m, (int)r);
            for (size_t c = 0; c < in; c++) values[c * out + column] = w->sum[c];
        }
    }
    for (size_t c = 0; c < in && !status; c++) {
        if (writer_stopped(w)) status = -1;
        else if (!dtype_quantize(w->packed, values + c * out, out, t->type))
            status = refuse_row(w, t->field[0], (int)c, t->type);
        else write_bytes(w, w->packed, dtype_row_bytes(t->type, out));
    }
    free(values);
    return status;
}

int write_target(Writer *w, const Target *t) {
    int d = w->config.head_dim;
    if (t->of_head) return write_rows(w, t, 0, 0, t->expert * d, (t->expert + 1) * d);
    if (t->n == 3 && w->style != STYLE_GGUF && w->family->split == SPLIT_GROUPS) return write_groups(w, t);
    for (int expert = 0; expert < t->n_experts || expert == 0; expert++) {
        if (in_columns(w, t)) {
            if (write_columns(w, t, expert)) return -1;
            continue;
        }
        for (int i = 0; i < t->n; i++)
            if (write_field(w, t, i, t->n_experts ? expert : t->expert)) return -1;
    }
    return 0;
}

int target_shape(int dims[3], const Writer *w, const Target *t) {
    int n = 0;
    bool columns = in_columns(w, t), norms = t->field[0] == FIELD_Q_NORM || t->field[0] == FIELD_K_NORM;
    if (norms && w->style == STYLE_GGUF && t->cols > w->config.head_dim &&
        w->config.attn.qk_norm == QK_NORM_EACH_HEAD) {
        dims[0] = t->cols / w->config.head_dim; /* llama.cpp wants a row for each head */
        dims[1] = w->config.head_dim;
        return 2;
    }
    if (t->n_experts) dims[n++] = t->n_experts;
    if (!t->vector) dims[n++] = columns ? t->cols : t->rows;
    dims[n++] = columns && !t->vector ? t->rows : t->cols;
    return n;
}

size_t target_bytes(const Target *t) {
    size_t rows = (size_t)(t->vector ? 1 : t->rows) * (size_t)(t->n_experts ? t->n_experts : 1);
    return rows * dtype_row_bytes(t->type, (size_t)t->cols);
}

/* The fields of one tensor of a file. */
static int fields_of(Field out[3], int field) {
    out[0] = (Field)field;
    if (field < FIELD_COUNT) return 1;
    const FusedField *f = &fused_fields[field - FIELD_COUNT];
    memcpy(out, f->field, sizeof f->field);
    return f->n;
}

/* The field whose name a field's tensor gets: in Falcon's GGUF with two norms they have each other's. */
static int named_as(const Writer *w, int field) {
    bool two = (w->family->traits & ARCH_SWAPPED_NORMS) && w->style == STYLE_GGUF && w->weights->layers[0].ffn_norm;
    if (!two) return field;
    switch (field) {
    case FIELD_ATTN_NORM: return FIELD_FFN_NORM;
    case FIELD_FFN_NORM: return FIELD_ATTN_NORM;
    case FIELD_ATTN_NORM_BIAS: return FIELD_FFN_NORM_BIAS;
    case FIELD_FFN_NORM_BIAS: return FIELD_ATTN_NORM_BIAS;
    default: return field;
    }
}

/* A family has its experts' tensors one by one, or those of a layer in one: a GGUF always so. */
static bool other_layout(const Writer *w, const Target *t, int field) {
    char part[80];
    bool apart = w->style != STYLE_GGUF && field_path(part, w->family, w->style, t->field[0], t->layer, 0);
    return field_of_expert(t->field[0]) && (field < FIELD_COUNT) != apart;
}

static bool target_of(const Writer *w, Target *t, int field, int layer, int expert) {
    *t = (Target){.layer = layer, .expert = expert, .of_head = field_of_head(field)};
    t->n = fields_of(t->field, field);
    char part[80];
    if (!field_path(t->name, w->family, w->style, named_as(w, field), layer, expert)) return false;
    if (other_layout(w, t, field)) return false;
    const Config c = at_layer(w, &w->config, layer);
    if (field_of_expert(t->field[0]) && field >= FIELD_COUNT) t->n_experts = w->config.moe.n_experts;
    for (int i = 0; i < t->n; i++) {
        Mat m = source_mat(w, t->field[i], layer, expert);
        int rows, cols;
        if (!m.data) return false;
        /* a tensor of several fields is for a family that has no names for the fields */
        if (t->n > 1 && field_path(part, w->family, w->style, t->field[i], layer, expert)) return false;
        field_shape(&rows, &cols, t->field[i], &c);
        DType type = target_type(w, t->field[i], layer, &m);
        t->vector = field_is_vector(t->field[i]);
        t->rows = t->vector ? 1 : t->rows + rows;
        t->cols = t->vector ? t->cols + cols : cols;
        if (t->of_head) t->cols = w->config.head_dim;
        if (i == 0 || dtype_row_bytes(type, (size_t)cols) > dtype_row_bytes(t->type, (size_t)cols)) t->type = type;
    }
    return true;
}

static int add_bytes(Writer *w, const Target *t, void *arg) {
    (void)arg;
    w->total += t->vector ? 0 : target_bytes(t);
    return 0;
}

void writer_count(Writer *w) { each_target(w, add_bytes, NULL); }

int each_target(Writer *w, int (*visit)(Writer *w, const Target *t, void *arg), void *arg) {
    for (int layer = -1; layer < w->config.n_layers; layer++)
        for (int f = 0; f < FIELD_END; f++) {
            bool of_layers = f >= FIELD_ATTN_NORM;
            int n = field_of_expert(f)   ? w->config.moe.n_experts
                    : f == FIELD_Q_NORMS ? w->config.n_heads
                    : f == FIELD_K_NORMS ? w->config.n_kv_heads
                                         : 1;
            for (int expert = 0; expert < n && of_layers == (layer >= 0); expert++) {
                Target t;
                if (target_of(w, &t, f, layer, expert) && visit(w, &t, arg)) return -1;
            }
        }
    return 0;
}

/* llama2c - karpathy/llama2.c's .bin: v0 (28-byte header), v1 (f32) and v2 (int8 in groups), which
 * begin with "ak42". Source: export.py there. The file names no theta and no eps: 10000 and 1e-5.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/formats.h"

enum { MAGIC = 0x616b3432, HEADER_V0 = 28, HEADER = 256, INTS = 7 };

/* Reader - walks the tensors in file order, twice: the first pass only measures, so that a file of
 * another size than its header says is refused before anything in it is touched. */
typedef struct {
    Checkpoint *ck;
    const File *file;
    bool measuring;
    size_t at; /* SIZE_MAX: the sum did not fit */
    int group; /* 0: f32; else int8 values in groups of this many */
    Error *e;
} Reader;

/* The next count items; NULL while measuring and when the size overflows. */
static const unsigned char *take(Reader *r, size_t count, size_t item_bytes) {
    size_t from = r->at, bytes;
    if (!size_mul(&bytes, count, item_bytes) || !size_add(&r->at, from, bytes)) r->at = SIZE_MAX;
    return r->measuring ? NULL : r->file->data + from;
}

/* One tensor of one layer (or of none). */
static int read_one(Reader *r, Field field, int layer) {
    int rows, cols;
    field_shape(&rows, &cols, field, &r->ck->config);
    const char *name = field_name(field);
    Mat m = {.dtype = DTYPE_F32, .rows = rows, .cols = cols, .stride_bytes = (size_t)cols * sizeof(float)};
    size_t n = (size_t)rows * (size_t)cols;
    if (r->group && rows > 1) {
        if (cols % r->group)
            return fail(r->e, "%s: %s: expected rows of a multiple of the group size %d, found %d", r->file->path, name,
                        r->group, cols);
        m.dtype = DTYPE_Q8_GROUP;
        m.group = r->group;
        m.stride_bytes = (size_t)cols;
        m.data = take(r, n, 1);
        m.scales = (const float *)(const void *)take(r, n / (size_t)r->group, sizeof(float));
    } else {
        m.data = take(r, n, sizeof(float));
    }
    if (r->measuring) return 0;
    return checkpoint_add(r->ck, &(FieldPlace){field, layer, 0}, r->file, name, m, SPLIT_BLOCKS, r->e);
}

/* The tensor of every layer, one after the other. */
static int read_layers(Reader *r, Field field) {
    for (int i = 0; i < r->ck->config.n_layers; i++)
        if (read_one(r, field, i)) return -1;
    return 0;
}

static int read_list(Reader *r, const Field *list, int n) {
    for (int i = 0; i < n; i++)
        if (list[i] < FIELD_ATTN_NORM ? read_one(r, list[i], -1) : read_layers(r, list[i])) return -1;
    return 0;
}

static int read_config(Checkpoint *ck, const int32_t x[INTS], Error *e) {
    Config *c = &ck->config;
    const char *path = ck->path;
    static const char *name[INTS] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
    for (int i = 0; i < INTS; i++)
        if (x[i] <= 0)
            return fail(e, "%s: %s: expected a positive number, found %d (is this a llama2.c file?)", path, name[i],
                        x[i]);
    if (x[0] % x[3]) return fail(e, "%s: n_heads: expected a divisor of dim %d, found %d", path, x[0], x[3]);
    int head_dim = x[0] / x[3];
    *c = (Config){.dim = x[0],
                  .hidden_dim = x[1],
                  .n_layers = x[2],
                  .n_heads = x[3],
                  .n_kv_heads = x[4],
                  .head_dim = head_dim,
                  .vocab_size = x[5],
                  .n_ctx = x[6],
                  .norm = NORM_RMSNORM,
                  .ffn = FFN_SWIGLU,
                  .pos = POS_ROPE,
                  .norm_eps = 1e-5f,
                  .rope = {.theta = 10000, .rotary_dim = head_dim, .pairing = ROPE_PAIRS, .factor = 1}};
    return config_check(c, path, e);
}

static int open_v0(Reader *r, const int32_t x[INTS]) {
    static const Field order[] = {FIELD_TOK_EMB,  FIELD_ATTN_NORM, FIELD_WQ,     FIELD_WK,   FIELD_WV,        FIELD_WO,
                                  FIELD_FFN_NORM, FIELD_W_GATE,    FIELD_W_DOWN, FIELD_W_UP, FIELD_FINAL_NORM};
    Config *c = &r->ck->config;
    int32_t size[INTS];
    memcpy(size, x, sizeof size);
    if (size[5] == INT32_MIN)
        return fail(r->e, "%s: vocab_size: expected a number that has an absolute value, found %d", r->file->path,
                    size[5]);
    size[5] = abs(size[5]);
    if (read_config(r->ck, size, r->e)) return -1;
    c->tied = x[5] > 0; /* a negative vocab_size: the head has weights of its own */
    r->at = HEADER_V0;
    if (read_list(r, order, sizeof order / sizeof *order)) return -1;
    /* The tables of cos and sin that old files carry are not used. */
    take(r, (size_t)c->n_ctx * (size_t)c->head_dim, sizeof(float));
    return c->tied ? 0 : read_one(r, FIELD_LM_HEAD, -1);
}

static int open_v1_v2(Reader *r, int version) {
    static const Field norms[] = {FIELD_ATTN_NORM, FIELD_FFN_NORM, FIELD_FINAL_NORM};
    static const Field mats[] = {FIELD_TOK_EMB, FIELD_WQ,     FIELD_WK,     FIELD_WV,
                                 FIELD_WO,      FIELD_W_GATE, FIELD_W_DOWN, FIELD_W_UP};
    int32_t x[INTS], group;
    memcpy(x, r->file->data + 8, sizeof x);
    if (read_config(r->ck, x, r->e)) return -1;
    unsigned char shared = r->file->data[36];
    if (shared > 1) return fail(r->e, "%s: shared_classifier: expected 0 or 1, found %d", r->file->path, shared);
    r->ck->config.tied = shared;
    r->at = HEADER;
    r->group = 0;
    if (read_list(r, norms, 3)) return -1;
    if (version == 2) {
        memcpy(&group, r->file->data + 37, sizeof group); /* not aligned */
        if (group < 1 || group > 1 << 20)
            return fail(r->e, "%s: group_size: expected 1 to %d, found %d", r->file->path, 1 << 20, group);
        r->group = group;
    }
    if (read_list(r, mats, 8)) return -1;
    return shared ? 0 : read_one(r, FIELD_LM_HEAD, -1);
}

static int open_version(Reader *r) {
    int32_t x[INTS];
    memcpy(x, r->file->data, sizeof x);
    return r->ck->version ? open_v1_v2(r, r->ck->version) : open_v0(r, x);
}

int llama2c_open(Checkpoint *ck, Error *e) {
    const File *f = &ck->files[0];
    Reader r = {.ck = ck, .file = f, .measuring = true, .e = e};
    uint32_t magic = 0;
    if (f->size >= sizeof magic) memcpy(&magic, f->data, sizeof magic);
    size_t header = magic == MAGIC ? HEADER : HEADER_V0;
    if (f->size < header) return fail(e, "%s: header: expected %zu bytes, found %zu", f->path, header, f->size);
    ck->family = arch_find(STYLE_HF, "llama", 5, f->path, e);
    ck->arch = ck->family->name;
    if (magic == MAGIC) {
        int32_t version;
        memcpy(&version, f->data + 4, sizeof version);
        if (version != 1 && version != 2) return fail(e, "%s: version: expected 1 or 2, found %d", f->path, version);
        ck->version = version;
    }
    if (open_version(&r)) return -1;
    if (r.at == SIZE_MAX)
        return fail(e, "%s: size: expected one that memory can hold, found more in the header", f->path);
    if (r.at > f->size)
        return fail(e, "%s: size: expected %zu bytes for this header, found %zu: truncated by %zu bytes", f->path, r.at,
                    f->size, r.at - f->size);
    if (r.at < f->size)
        return fail(e, "%s: size: expected %zu bytes for this header, found %zu: %zu too many", f->path, r.at, f->size,
                    f->size - r.at);
    r.measuring = false;
    return open_version(&r);
}

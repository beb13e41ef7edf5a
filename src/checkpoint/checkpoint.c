#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/formats.h"

File *checkpoint_map(Checkpoint *ck, const char *path, Error *e) {
    File *more = realloc(ck->files, (size_t)(ck->n_files + 1) * sizeof *more);
    if (!more) {
        fail(e, "%s: memory: expected some, found none", path);
        return NULL;
    }
    ck->files = more;
    if (file_map(&ck->files[ck->n_files], path, e)) return NULL;
    return &ck->files[ck->n_files++];
}

void *checkpoint_own(Checkpoint *ck, void *p, Error *e) {
    void **more = p ? realloc(ck->owned, (ck->n_owned + 1) * sizeof *more) : NULL;
    if (!more) {
        free(p);
        fail(e, "%s: memory: expected some, found none", ck->path);
        return NULL;
    }
    ck->owned = more;
    return ck->owned[ck->n_owned++] = p;
}

void *checkpoint_alloc(Checkpoint *ck, size_t count, size_t item_bytes, Error *e) {
    return checkpoint_own(ck, calloc(count ? count : 1, item_bytes), e);
}

static int add_one(Checkpoint *ck, Field field, int layer, const File *file, const char *name, Mat mat, Error *e) {
    if (ck->n_tensors == ck->tensors_room) {
        size_t room = ck->tensors_room ? 2 * ck->tensors_room : 64;
        Tensor *more = realloc(ck->tensors, room * sizeof *more);
        if (!more) return fail(e, "%s: memory: expected some, found none", ck->path);
        ck->tensors = more;
        ck->tensors_room = room;
    }
    Tensor *t = &ck->tensors[ck->n_tensors++];
    *t = (Tensor){.field = field, .layer = layer, .file = file->path, .mat = mat};
    snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
}

/* Rows of q (which = 0), k or v out of groups, in an order of their own: a copy. */
static int gather(Checkpoint *ck, Mat *m, int which, Error *e) {
    const Config *c = &ck->config;
    size_t each = m->stride_bytes, head = (size_t)c->head_dim * each;
    int shared = c->n_heads / c->n_kv_heads, count = which ? 1 : shared, first = which ? shared + which - 1 : 0;
    char *copy = checkpoint_alloc(ck, (size_t)(c->n_kv_heads * count), head, e);
    if (!copy) return -1;
    for (int kv = 0; kv < c->n_kv_heads; kv++)
        memcpy(copy + (size_t)(kv * count) * head, (const char *)m->data + (size_t)(kv * (shared + 2) + first) * head,
               (size_t)count * head);
    m->data = copy;
    m->rows = c->n_kv_heads * count * c->head_dim;
    return 0;
}

int checkpoint_add(Checkpoint *ck, int field, int layer, const File *file, const char *name, Mat mat, Split split,
                   Error *e) {
    const Config *c = &ck->config;
    int q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, ffn = c->hidden_dim;
    const struct {
        int fused, n;
        Field field[3];
        int rows[3];
    } parts[] = {{FIELD_QKV, 3, {FIELD_WQ, FIELD_WK, FIELD_WV}, {q, kv, kv}},
                 {FIELD_QKV_BIAS, 3, {FIELD_BQ, FIELD_BK, FIELD_BV}, {q, kv, kv}},
                 {FIELD_GATE_UP, 2, {FIELD_W_GATE, FIELD_W_UP}, {ffn, ffn}}};
    if (field < FIELD_COUNT) return add_one(ck, (Field)field, layer, file, name, mat, e);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].fused != field) continue;
        bool vector = field == FIELD_QKV_BIAS, groups = split == SPLIT_GROUPS && field != FIELD_GATE_UP;
        int rows = vector ? mat.cols : mat.rows, from = 0, all = parts[i].rows[0] + parts[i].rows[1] + parts[i].rows[2];
        if (rows != all || (vector && (mat.rows != 1 || dtype_info[mat.dtype].block_values != 1)))
            return fail(e, "%s: %s: shape: expected %d outputs, found %d", file->path, name, all, rows);
        if (vector) { /* a column, while it is split */
            mat.rows = mat.cols;
            mat.cols = 1;
            mat.stride_bytes = dtype_row_bytes(mat.dtype, 1);
        }
        for (int j = 0; j < parts[i].n; from += parts[i].rows[j++]) {
            Mat part = groups ? mat : mat_rows(&mat, from, parts[i].rows[j]);
            if (groups && gather(ck, &part, j, e)) return -1;
            if (vector) {
                part.cols = part.rows;
                part.rows = 1;
            }
            if (add_one(ck, parts[i].field[j], layer, file, name, part, e)) return -1;
        }
    }
    return 0;
}

bool path_ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static int sniff_and_open(Checkpoint *ck, Error *e) {
    struct stat st;
    if (stat(ck->path, &st) == 0 && S_ISDIR(st.st_mode)) {
        ck->format = FORMAT_HF_DIR;
        return hf_open(ck, e);
    }
    const File *f = checkpoint_map(ck, ck->path, e);
    if (!f) return -1;
    if (f->size >= 4 && (memcmp(f->data, "GGUF", 4) == 0 || memcmp(f->data, "FUGG", 4) == 0)) {
        ck->format = FORMAT_GGUF;
        return gguf_model_open(ck, e);
    }
    /* A safetensors header is an object: "{" follows its eight bytes of length. */
    if ((f->size >= 9 && f->data[8] == '{') || path_ends_with(ck->path, ".safetensors")) {
        ck->format = FORMAT_SAFETENSORS;
        return hf_open(ck, e);
    }
    const char *is = file_diagnose(f);
    if (is) return fail(e, "%s: format: expected llama2.c .bin, GGUF or safetensors, found %.120s", ck->path, is);
    if (path_ends_with(ck->path, ".gguf")) {
        ck->format = FORMAT_GGUF;
        return gguf_model_open(ck, e);
    }
    ck->format = FORMAT_LLAMA2C;
    return llama2c_open(ck, e);
}

int checkpoint_open_as(Checkpoint *ck, const char *path, const Arch *family, Error *e) {
    *ck = (Checkpoint){.bos = -1, .family = family};
    ck->path = strdup(path);
    if (!ck->path) return fail(e, "%s: memory: expected some, found none", path);
    if (sniff_and_open(ck, e) || config_check(&ck->config, ck->path, e)) {
        checkpoint_close(ck);
        return -1;
    }
    return 0;
}

int checkpoint_open(Checkpoint *ck, const char *path, Error *e) { return checkpoint_open_as(ck, path, NULL, e); }

void checkpoint_close(Checkpoint *ck) {
    gguf_close(&ck->gguf);
    for (int i = 0; i < ck->n_more_parts; i++) gguf_close(&ck->more_parts[i]);
    free(ck->more_parts);
    for (int i = 0; i < ck->n_files; i++) file_close(&ck->files[i]);
    for (size_t i = 0; i < ck->n_owned; i++) free(ck->owned[i]);
    free(ck->files);
    free(ck->owned);
    free(ck->tensors);
    free(ck->layers);
    free(ck->layer_kinds);
    free(ck->path);
    *ck = (Checkpoint){0};
}

const char *checkpoint_format_name(CheckpointFormat f) {
    static const char *name[] = {"llama2c", "gguf", "safetensors", "huggingface"};
    return name[f];
}

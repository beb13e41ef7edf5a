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

static int add_one(Checkpoint *ck, const Tensor *one, const File *file, const char *name, Error *e) {
    if (ck->n_tensors == ck->tensors_room) {
        size_t room = ck->tensors_room ? 2 * ck->tensors_room : 64;
        Tensor *more = realloc(ck->tensors, room * sizeof *more);
        if (!more) return fail(e, "%s: memory: expected some, found none", ck->path);
        ck->tensors = more;
        ck->tensors_room = room;
    }
    Tensor *t = &ck->tensors[ck->n_tensors++];
    *t = *one;
    t->file = file->path;
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

/* An expert's matrix out of columns: rows x cols values of m, transposed, from row `from` and column `column` on, every
 * `step`-th column: a copy. */
static int transpose(Checkpoint *ck, Mat *m, int rows, int cols, int from, int column, int step, Error *e) {
    size_t each = dtype_row_bytes(m->dtype, 1);
    char *copy = checkpoint_alloc(ck, (size_t)rows * (size_t)cols, each, e);
    if (!copy) return -1;
    for (int c = 0; c < cols; c++) {
        const char *source = (const char *)m->data + (size_t)(from + c) * m->stride_bytes;
        for (int r = 0; r < rows; r++)
            memcpy(copy + ((size_t)r * (size_t)cols + (size_t)c) * each, source + (size_t)(column + r * step) * each,
                   each);
    }
    *m = (Mat){.dtype = m->dtype, .rows = rows, .cols = cols, .stride_bytes = (size_t)cols * each, .data = copy};
    return 0;
}

/* A tensor that holds a field, or two, of every expert of a layer. */
static int add_experts(Checkpoint *ck, const FusedField *f, int layer, const File *file, const char *name, Mat mat,
                       Split split, Error *e) {
    const Config c = layer_config(ck, layer);
    int rows, cols, n = c.moe.n_experts;
    field_shape(&rows, &cols, f->field[0], &c);
    bool vector = field_is_vector(f->field[0]), columns = split == SPLIT_COLUMNS;
    int high = vector ? 1 : columns ? cols : f->n * rows, wide = vector ? f->n * cols : columns ? f->n * rows : cols;
    if (!n) return fail(e, "%s: %s: expected no such tensor with this config, found one", file->path, name);
    if (mat.rows != n * high || mat.cols != wide)
        return vector ? fail(e, "%s: %s: shape: expected [%d, %d], found [%d, %d]", file->path, name, n, wide, mat.rows,
                             mat.cols)
                      : fail(e, "%s: %s: shape: expected [%d, %d, %d], found %d rows of %d values", file->path, name, n,
                             high, wide, mat.rows, mat.cols);
    if ((vector || columns) && dtype_info[mat.dtype].block_values != 1)
        return fail(e, "%s: %s: type: expected F32, F16 or BF16, found %s", file->path, name,
                    dtype_info[mat.dtype].name);
    for (int expert = 0; expert < n; expert++)
        for (int j = 0; j < f->n; j++) {
            Mat part = mat;
            if (columns && vector && transpose(ck, &part, cols, 1, expert, j, f->n, e)) return -1;
            if (columns && !vector && transpose(ck, &part, rows, cols, expert * cols, j, f->n, e)) return -1;
            if (!columns && !vector) part = mat_rows(&mat, expert * high + j * rows, rows);
            if (!columns && vector)
                part.data = (const char *)mat.data + (size_t)expert * mat.stride_bytes +
                            dtype_row_bytes(mat.dtype, (size_t)(j * cols));
            part.rows = rows;
            part.cols = cols;
            if (add_one(ck, &(Tensor){.field = f->field[j], .layer = layer, .expert = expert, .mat = part}, file, name,
                        e))
                return -1;
        }
    return 0;
}

/* The norm of one head of q or k: a row of [heads, head_dim]. */
static int add_head(Checkpoint *ck, Field field, const FieldPlace *at, const File *file, const char *name,
                    const Mat *mat, Error *e) {
    const Config *c = &ck->config;
    int heads = field_of_kv(field) ? c->n_kv_heads : c->n_heads;
    if (mat->rows != 1 || mat->cols != c->head_dim || at->expert >= heads)
        return fail(e, "%s: %s: shape: expected [%d] of each of %d heads, found %d x %d values", file->path, name,
                    c->head_dim, heads, mat->rows, mat->cols);
    Tensor *t = ck->tensors + ck->n_tensors;
    while (t > ck->tensors && (t[-1].field != field || t[-1].layer != at->layer)) t--;
    if (t == ck->tensors) {
        size_t row = (size_t)c->head_dim * sizeof(float);
        Mat all = {.dtype = DTYPE_F32, .cols = c->head_dim, .stride_bytes = row};
        all.data = checkpoint_alloc(ck, (size_t)heads, row, e);
        if (!all.data || add_one(ck, &(Tensor){.field = field, .layer = at->layer, .mat = all}, file, name, e))
            return -1;
        t = ck->tensors + ck->n_tensors;
    }
    Mat *all = &t[-1].mat;
    all->rows++; /* as many as there are; all of them when it is bound */
    mat_dequantize_row((float *)(uintptr_t)all->data + at->expert * c->head_dim, mat, 0);
    return 0;
}

int checkpoint_add(Checkpoint *ck, const FieldPlace *at, const File *file, const char *name, Mat mat, Split split,
                   Error *e) {
    int field = at->field, layer = at->layer, all = 0, n_rows[3], cols;
    if (field < FIELD_COUNT)
        return add_one(ck, &(Tensor){.field = (Field)field, .layer = layer, .expert = at->expert, .mat = mat}, file,
                       name, e);
    const FusedField *f = &fused_fields[field - FIELD_COUNT];
    const Config c = layer_config(ck, layer);
    if (field_of_expert(f->field[0])) return add_experts(ck, f, layer, file, name, mat, split, e);
    if (field_of_head(field)) return add_head(ck, f->field[0], at, file, name, &mat, e);
    bool vector = field_is_vector(f->field[0]), groups = split == SPLIT_GROUPS && f->n == 3;
    for (int j = 0; j < f->n; j++) {
        field_shape(&n_rows[j], &cols, f->field[j], &c);
        if (vector) n_rows[j] = cols;
        all += n_rows[j];
    }
    int rows = vector ? mat.cols : mat.rows, from = 0;
    if (rows != all || (vector && (mat.rows != 1 || dtype_info[mat.dtype].block_values != 1)))
        return fail(e, "%s: %s: shape: expected %d outputs, found %d", file->path, name, all, rows);
    if (vector) { /* a column, while it is split */
        mat.rows = mat.cols;
        mat.cols = 1;
        mat.stride_bytes = dtype_row_bytes(mat.dtype, 1);
    }
    for (int j = 0; j < f->n; from += n_rows[j++]) {
        Mat part = groups ? mat : mat_rows(&mat, from, n_rows[j]);
        if (groups && gather(ck, &part, j, e)) return -1;
        if (vector) {
            part.cols = part.rows;
            part.rows = 1;
        }
        if (add_one(ck, &(Tensor){.field = f->field[j], .layer = layer, .mat = part}, file, name, e)) return -1;
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
    free(ck->experts);
    free(ck->layer_kinds);
    free(ck->path);
    *ck = (Checkpoint){0};
}

const char *checkpoint_format_name(CheckpointFormat f) {
    static const char *name[] = {"llama2c", "gguf", "safetensors", "huggingface"};
    return name[f];
}

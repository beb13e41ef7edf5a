/* hf - a Hugging Face directory (config.json, shards and their index) or one safetensors file with
 * its config.json beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/hf.h"
#include "io/json.h"

typedef struct {
    Checkpoint *ck;
    HfConfig config;
    Mxfp4 mxfp4;
    Error *e;
} Loader;

static int dtype_of(const char *dtype) {
    static const struct {
        const char *name;
        DType dtype;
    } known[] = {{"F32", DTYPE_F32}, {"F16", DTYPE_F16}, {"BF16", DTYPE_BF16}};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(dtype, known[i].name) == 0) return (int)known[i].dtype;
    return -1;
}

/* GPT-2's Conv1D keeps [in, out]; every product here wants [out, in]. The mapped pages are given
 * back. */
static int transpose(Loader *l, Mat *m, const SafeTensor *t) {
    size_t in = (size_t)m->rows, out = (size_t)m->cols, each = dtype_row_bytes(m->dtype, 1);
    unsigned char *copy = checkpoint_alloc(l->ck, in * out, each, l->e);
    if (!copy) return -1;
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) memcpy(copy + (o * in + i) * each, t->data + (i * out + o) * each, each);
    file_release(NULL, t->data, t->bytes);
    m->data = copy;
    m->rows = (int)out;
    m->cols = (int)in;
    m->stride_bytes = in * each;
    return 0;
}

/* Buffers and heads of other tasks that files carry are no weights; anything else inside the model is. */
static bool ignorable(const Arch *a, const char *name) {
    static const char *const buffers[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (path_ends_with(name, buffers[i])) return true;
    for (int f = 0; f < FIELD_END; f++) { /* begins as one of the model's own, up to the first dot */
        char known[80];
        if (!field_path(known, a, a->style, f, 0, 0)) continue;
        size_t n = strcspn(known, ".") + 1;
        if (strncmp(name, known, n) == 0) return false;
    }
    return true;
}

/* Is the field a bias of projections that have none? Returns which, or -1. */
static int unexpected_bias(const HfConfig *config, int field) {
    int which = field == FIELD_BO                                ? BIASES_OUT
                : field >= FIELD_BQ && field <= FIELD_BV         ? BIASES_QKV
                : field == FIELD_QKV_BIAS                        ? BIASES_QKV
                : field >= FIELD_B_GATE && field <= FIELD_B_DOWN ? BIASES_MLP
                                                                 : -1;
    return which >= 0 && !config->bias[which] ? which : -1;
}

static int add_tensor(Loader *l, const File *file, const SafeTensor *t) {
    Checkpoint *ck = l->ck;
    const Arch *a = ck->family;
    const char *name = t->name, *path = file->path;
    if (a->style == STYLE_GPT2 && strncmp(name, "transformer.", 12) == 0) name += 12;
    FieldPlace at;
    int half = l->config.mxfp4 ? mxfp4_half(name) : -1;
    if (!field_find(&at, a, a->style, name, half < 0 ? strlen(name) : mxfp4_name_length(name, half))) {
        if (ignorable(a, name)) return 0;
        return fail(l->e, "%s: %s: expected a tensor this program knows, found another", path, t->name);
    }
    if (half >= 0) return mxfp4_add(&l->mxfp4, ck, &at, half, t, file, l->e);
    int field = at.field, bias = unexpected_bias(&l->config, field);
    if (bias >= 0 && l->config.bias_key[bias])
        return fail(l->e, "%s: %s: expected no bias (%s is false), found one", path, t->name, l->config.bias_key[bias]);
    if (bias >= 0) return fail(l->e, "%s: %s: expected no bias in a %s, found one", path, t->name, ck->arch);
    int dtype = dtype_of(t->dtype);
    if (dtype < 0) return fail(l->e, "%s: %s: dtype: expected F32, F16 or BF16, found %s", path, t->name, t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 1 || t->dims[i] > INT32_MAX)
            return fail(l->e, "%s: %s: shape: expected sizes from 1, found %lld", path, t->name, (long long)t->dims[i]);
    bool number = t->n_dims == 0 && field >= FIELD_XIELU_ALPHA_P && field <= FIELD_XIELU_EPS;
    int most = field >= FIELD_EXPERTS_GATE ? 3 : 2;
    if ((t->n_dims < 1 && !number) || t->n_dims > most)
        return fail(l->e, "%s: %s: shape: expected %s dimensions, found %d", path, t->name,
                    most == 3 ? "2 or 3" : "1 or 2", t->n_dims);
    Mat m = {.dtype = (DType)dtype, .data = t->data};
    m.rows = t->n_dims >= 2 ? (int)t->dims[0] : 1;
    int n_experts = ck->config.moe.n_experts;
    if (t->n_dims == 3 && (t->dims[0] != n_experts || __builtin_mul_overflow(m.rows, (int)t->dims[1], &m.rows)))
        return fail(l->e, "%s: %s: shape: expected matrices of %d experts, found %lld x %lld x %lld values", path,
                    t->name, n_experts, (long long)t->dims[0], (long long)t->dims[1], (long long)t->dims[2]);
    m.cols = number ? 1 : (int)t->dims[t->n_dims - 1];
    m.stride_bytes = dtype_row_bytes(m.dtype, (size_t)m.cols);
    bool conv1d = (a->traits & ARCH_CONV1D) && at.layer >= 0 && t->n_dims == 2;
    if (conv1d && transpose(l, &m, t)) return -1;
    return checkpoint_add(ck, &at, file, t->name, m, a->split, l->e);
}

/* Place - what the index says of one tensor. */
typedef struct {
    const char *shard, *tensor;
} Place;

static int compare_places(const void *a, const void *b) {
    const Place *x = a, *y = b;
    int order = strcmp(x->shard, y->shard);
    return order ? order : strcmp(x->tensor, y->tensor);
}

/* Adds a file's tensors; with an index they must be those of the n places, all of this shard and sorted. */
static int add_file(Loader *l, const File *file, const Place *places, size_t n) {
    SafeTensors st;
    if (safetensors_open(&st, file, l->e)) return -1;
    int status = -1;
    for (size_t i = 0; i < st.n && places; i++) {
        Place wanted = {places->shard, st.tensors[i].name};
        if (!bsearch(&wanted, places, n, sizeof *places, compare_places)) {
            fail(l->e, "%s: %s: expected the index to map it here, found it does not", file->path, wanted.tensor);
            goto done;
        }
    }
    if (st.n < n) { /* no name is there twice, neither here nor in the index */
        fail(l->e, "%s: tensors: expected all that the index maps here, found %zu missing", file->path, n - st.n);
        goto done;
    }
    for (size_t i = 0; i < st.n; i++)
        if (add_tensor(l, file, &st.tensors[i])) goto done;
    status = 0;
done:
    safetensors_close(&st);
    return status;
}

static int read_places(Place *places, const cJSON *map, const char *index_path, Error *e) {
    const cJSON *entry;
    cJSON_ArrayForEach(entry, map) {
        if (!cJSON_IsString(entry))
            return fail(e, "%s: %.60s: expected a file name, found something else", index_path, entry->string);
        const char *name = entry->valuestring;
        if (!name[0] || strchr(name, '/') || strchr(name, '\\') || name[0] == '.')
            return fail(e, "%s: %.60s: expected a file in the same directory, found %.60s", index_path, entry->string,
                        name);
        *places++ = (Place){name, entry->string};
    }
    return 0;
}

static int open_shards(Loader *l, const char *dir, const char *index_path) {
    cJSON *root = json_read(index_path, l->e);
    if (!root) return -1;
    Place *places = NULL;
    int status = -1;
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(root, "weight_map");
    size_t n = (size_t)cJSON_GetArraySize(map);
    if (!cJSON_IsObject(map) || n == 0) {
        fail(l->e, "%s: weight_map: expected an object with tensors, found %s", index_path,
             map ? "something else" : "none");
        goto done;
    }
    if (!(places = malloc(n * sizeof *places))) {
        fail(l->e, "%s: memory: expected some, found none", index_path);
        goto done;
    }
    if (read_places(places, map, index_path, l->e)) goto done;
    qsort(places, n, sizeof *places, compare_places);
    for (size_t from = 0, to; from < n; from = to) {
        char path[4096];
        for (to = from + 1; to < n && strcmp(places[to].shard, places[from].shard) == 0;) to++;
        snprintf(path, sizeof path, "%s/%s", dir, places[from].shard);
        const File *file = checkpoint_map(l->ck, path, l->e);
        if (!file || add_file(l, file, places + from, to - from)) goto done;
    }
    status = 0;
done:
    free(places);
    cJSON_Delete(root);
    return status;
}

/* The biases that the config promises must be there. */
static int check_biases(const Loader *l) {
    static const Field promised[BIASES][3] = {
        {FIELD_BQ, FIELD_BK, FIELD_BV}, {FIELD_BO, FIELD_BO, FIELD_BO}, {FIELD_B_GATE, FIELD_B_UP, FIELD_B_DOWN}};
    bool found[FIELD_COUNT] = {false};
    for (size_t i = 0; i < l->ck->n_tensors; i++) found[l->ck->tensors[i].field] = true;
    for (int which = 0; which < BIASES; which++)
        for (int i = 0; i < 3 && l->config.bias[which]; i++) {
            Field f = promised[which][i];
            if (found[f] || !field_allowed(f, l->ck->family, &l->ck->config)) continue;
            const char *key = l->config.bias_key[which];
            return fail(l->e, "%s: %s: expected the bias (%s%s), found none", l->ck->path, field_name(f),
                        key ? key : l->ck->arch, key ? " is true" : " has it");
        }
    return 0;
}

static int load(Loader *l, Error *e) {
    Checkpoint *ck = l->ck;
    char dir[2048], path[2100];
    if (snprintf(dir, sizeof dir, "%s", ck->path) >= (int)sizeof dir)
        return fail(e, "%.100s: path: expected at most %zu bytes, found more", ck->path, sizeof dir - 1);
    if (ck->format == FORMAT_SAFETENSORS) {
        char *slash = strrchr(dir, '/');
        if (slash) *slash = 0;
        else strcpy(dir, ".");
    }
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (ck->format == FORMAT_SAFETENSORS) { /* a broken file is named before a missing config */
        SafeTensors st;
        if (safetensors_open(&st, &ck->files[0], e)) return -1;
        safetensors_close(&st);
    }
    if (hf_config_read(ck, path, &l->config, e)) return -1;
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    if (access(path, F_OK) == 0 && hf_generation_read(ck, path, e)) return -1;

    if (ck->format == FORMAT_SAFETENSORS) return add_file(l, &ck->files[0], NULL, 0) ? -1 : 0;
    /* A whole file goes before an index, as in transformers: the index beside it is of another time. */
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (access(path, F_OK) == 0) {
        const File *file = checkpoint_map(ck, path, e);
        return !file || add_file(l, file, NULL, 0) ? -1 : 0;
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    if (access(path, F_OK) == 0) return open_shards(l, dir, path) ? -1 : 0;
    snprintf(path, sizeof path, "%s/pytorch_model.bin", dir);
    if (access(path, F_OK) == 0)
        return fail(e,
                    "%s: weights: expected model.safetensors, found a PyTorch pickle (convert it: "
                    "save_pretrained(..., safe_serialization=True))",
                    ck->path);
    return fail(e, "%s: weights: expected model.safetensors or its index, found neither", ck->path);
}

int hf_open(Checkpoint *ck, Error *e) {
    Loader l = {.ck = ck, .e = e};
    int status = load(&l, e);
    if (mxfp4_close(&l.mxfp4, ck, status ? NULL : e)) status = -1;
    return status ? -1 : check_biases(&l);
}

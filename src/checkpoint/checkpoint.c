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

int checkpoint_add(Checkpoint *ck, Field field, int layer, const char *name, Mat mat, Error *e) {
    if (ck->n_tensors == ck->tensors_room) {
        size_t room = ck->tensors_room ? 2 * ck->tensors_room : 64;
        Tensor *more = realloc(ck->tensors, room * sizeof *more);
        if (!more) return fail(e, "%s: memory: expected some, found none", ck->path);
        ck->tensors = more;
        ck->tensors_room = room;
    }
    Tensor *t = &ck->tensors[ck->n_tensors++];
    *t = (Tensor){.field = field, .layer = layer, .mat = mat};
    snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
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
    if ((f->size >= 9 && f->data[8] == '{') || strstr(ck->path, ".safetensors")) {
        ck->format = FORMAT_SAFETENSORS;
        return hf_open(ck, e);
    }
    const char *is = file_diagnose(f);
    if (is) return fail(e, "%s: format: expected llama2.c .bin, GGUF or safetensors, found %.120s", ck->path, is);
    if (strstr(ck->path, ".gguf")) {
        ck->format = FORMAT_GGUF;
        return gguf_model_open(ck, e);
    }
    ck->format = FORMAT_LLAMA2C;
    return llama2c_open(ck, e);
}

int checkpoint_open(Checkpoint *ck, const char *path, Error *e) {
    *ck = (Checkpoint){.bos = -1};
    ck->path = strdup(path);
    if (!ck->path) return fail(e, "%s: memory: expected some, found none", path);
    if (sniff_and_open(ck, e) || config_check(&ck->config, ck->path, e)) {
        checkpoint_close(ck);
        return -1;
    }
    return 0;
}

void checkpoint_close(Checkpoint *ck) {
    gguf_close(&ck->gguf);
    for (int i = 0; i < ck->n_files; i++) file_close(&ck->files[i]);
    for (size_t i = 0; i < ck->n_owned; i++) free(ck->owned[i]);
    free(ck->files);
    free(ck->owned);
    free(ck->tensors);
    free(ck->layers);
    free(ck->path);
    *ck = (Checkpoint){0};
}

const char *checkpoint_format_name(CheckpointFormat f) {
    static const char *name[] = {"llama2c", "gguf", "safetensors", "huggingface"};
    return name[f];
}

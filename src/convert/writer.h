/* writer - what the writers of the single formats share. Internal to src/convert. */
#pragma once
#include <stdio.h>

#include "checkpoint/arch.h"
#include "convert/convert.h"

/* Writer - the file under its temporary name; the first failed write is remembered by stdio. */
typedef struct {
    const Checkpoint *ck;
    const Arch *family; /* of the target: its names, keys and pairing */
    Style style;
    Config config; /* of the target: pairing and KV heads may differ from the source's */
    const Config *source;
    const Weights *weights;
    FILE *file;
    const char *path;
    float *row, *sum; /* [widest] */
    unsigned char *packed;
    const File *copied; /* the file that copy_body copies */
    const char *text;   /* what text_body writes */
    const ConvertOptions *options;
    uint64_t done, total; /* bytes of tensors */
    Error *e;
} Writer;

/* Target - one tensor of the target: a field, or several one after the other where the family keeps them in one; or
 * those of every expert of a layer. */
typedef struct {
    char name[80];
    int layer, expert, n, rows, cols;
    int n_experts; /* 0: rows are all rows, else those of each */
    Field field[3];
    DType type; /* of its values */
    bool vector;
    bool of_head; /* one head of the field: `expert` is which */
} Target;

/* writer_count - w->total of the file to be written, for the progress. */
void writer_count(Writer *w);

bool writer_stopped(const Writer *w);
void write_bytes(Writer *w, const void *p, size_t n);

/* write_mapped - the bytes of a mapped file as they are, but read here: when the file has shrunk, that is a bus error,
 * of which run.c makes a clear line, while write() would speak of a bad address. */
void write_mapped(Writer *w, const unsigned char *p, size_t n);

/* target_row - row r of the target's matrix, in w->sum: the mean over the pooled heads of the reordered source row. */
void target_row(const Writer *w, Field f, const Mat *m, int r);

/* refuse_row - fails: the row has values that the type cannot hold. */
int refuse_row(Writer *w, Field f, int row, DType type);

/* each_target - calls visit for each tensor of the target, the layers' in order. `only` limits the types: the wanted
 * one or, where it is none of them, F32. */
int each_target(Writer *w, int (*visit)(Writer *w, const Target *t, void *arg), void *arg);
int write_target(Writer *w, const Target *t);

/* target_shape - its dimensions, the last one that of a row; returns how many. target_bytes - of its values. */
int target_shape(int dims[3], const Writer *w, const Target *t);
size_t target_bytes(const Target *t);

/* config_facts - the numbers of the target that its files say. check_sayable - refuses what they cannot say. */
void config_facts(Facts *f, const Writer *w);
int check_sayable(const Writer *w);

/* The formats: each writes w->file whole. */
int write_gguf(Writer *w);
int write_llama2c(Writer *w);
int write_safetensors(Writer *w);
int write_config(Writer *w);

/* Buffer - bytes that grow. */
typedef struct {
    unsigned char *data;
    size_t n, room;
    bool failed;
} Buffer;

void put(Buffer *b, const void *p, size_t n);

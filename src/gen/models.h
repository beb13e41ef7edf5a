/* models - checkpoints by name: those in the directories of RUN_MODELS and in the cache of Hugging Face's hub. Nothing
 * is read but names, and refs/main, which says what snapshot is meant. Test: tests/test_models.sh */
#pragma once
#include "base/error.h"

typedef struct {
    char *name; /* "SmolLM2-135M.Q4_1", "org/model" */
    char *path;
} FoundModel;

typedef struct {
    FoundModel *list; /* [n] by name */
    int n;
} ModelList;

/* models_scan - a directory that is not there holds none. */
int models_scan(ModelList *m, Error *e);
void models_close(ModelList *m);

/* models_find - *path is the one model whose name is `name`, begins with it, or has it inside, whatever its case; in
 * this order. NULL when there is none. Fails when several are. Malloc'ed. */
int models_find(char **path, const char *name, Error *e);

/* models_snapshot - the snapshot of a directory of the hub's cache (models--org--name); NULL when it is none. */
char *models_snapshot(const char *directory);

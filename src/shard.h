/* shard - a rank's part of a model: tensor parallelism. Source: Megatron-LM, arXiv:1909.08053, section 3.
 * q, k, v, gate, up and the head are cut by rows, which are views of the mapped file; wo and down by columns, which are
 * copied; of a mixture's experts each rank has some whole, and its router. Then each block needs one sum over the ranks
 * (add_product), and each rank caches its own KV heads alone. */
#pragma once
#include "io/file.h"
#include "model.h"

typedef struct {
    void **copies; /* [n_copies] columns of wo and down */
    int n_copies;
    Layer *layers;
    const File *files; /* [n_files] that the weights are mapped from */
    int n_files;
} Shard;

/* shard_slice - the slice of rank `rank` of `size`: whole groups of query heads with their KV head; where there are
 * more ranks than KV heads, ranks share one and split its group. Cuts of the FFN keep to the blocks of down's type.
 * Fails when a rank would have no head, no feature, no expert or no token. */
int shard_slice(Slice *s, const Config *c, const Weights *w, int rank, int size, Error *e);

/* shard_model - cuts m down to the slice of comm's rank; of the files nothing else stays mapped. */
int shard_model(Shard *s, Model *m, Comm *comm, const File *files, int n_files, Error *e);
void shard_close(Shard *s);

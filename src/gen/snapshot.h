/* snapshot - a conversation in a file: its tokens, their keys and values, its messages. A second start reads it back
 * and computes only what is new. The file is of one model, one KV type and one version of the format; any other is
 * refused. It is written under another name, synced and renamed: whatever happens, the old or the new one is there,
 * whole. Test: tests/test_snapshot.c */
#pragma once
#include "chat/turns.h"
#include "gen/generate.h"

/* snapshot_write - turns NULL: none. */
int snapshot_write(const char *path, const Generator *g, const Turns *turns, Error *e);

/* snapshot_read - fills the cache of g, and turns with the messages (NULL: they are skipped). On failure the messages
 * stay, and the cache is empty at worst. A file that is not there is a failure. */
int snapshot_read(const char *path, Generator *g, Turns *turns, Error *e);

/* snapshot_open - snapshot_read when the file is there; refuses a path that snapshot_write could not write. */
int snapshot_open(const char *path, Generator *g, Turns *turns, Error *e);

/* snapshot_model_hash - of the configuration and of samples of every matrix. */
uint64_t snapshot_model_hash(const Model *m);

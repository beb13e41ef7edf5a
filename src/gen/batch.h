/* batch - many prompts over one model: as many at once as the State has room for, each with its own cache, sampler and
 * text. A pass takes a token of each text that is written and fills up with tokens of prompts; a text that ends makes
 * room for the next prompt at once (continuous batching: Orca, OSDI 2022, section 3). What a prompt begins with and
 * another has read already is copied from its cache, and waited for while it is being read. Test: tests/test_batch.sh
 */
#pragma once
#include "gen/record.h"

/* Job - one prompt and, in the end, its result. */
typedef struct {
    Options o;   /* of this text */
    int *ids, n; /* [n] the prompt; owned */
    char *text;  /* its bytes [size], or NULL; owned */
    size_t size;
    const char *id; /* JSON */
    FILE *out;      /* where the object of --json goes */
    int number;     /* in the order of the prompts; those before are read first */
    Error error;    /* why there is no result; "" */
    bool dropped;   /* Ctrl-C came before its end */
} Job;

typedef struct {
    int n_read, n_copied, n_written; /* tokens: of prompts, of them copied from another text's cache, of texts */
    double seconds;
} BatchCount;

/* batch_run - answers all jobs. next - the next one, NULL when there are none left; done - it has its result or its
 * error, and is the caller's again. Ctrl-C leaves the jobs that are not done. The session's State has o->parallel
 * texts. */
typedef struct {
    Job *(*next)(void *arg, Error *e);
    void (*done)(void *arg, Job *job);
    void *arg;
} BatchJobs;
int batch_run(Session *s, const BatchJobs *jobs, BatchCount *count, Error *e);

/* comm - the ranks that run one model together. Of none.c (one process) and mpi.c (MPI_COMM_WORLD) a build compiles
 * one. All calls come from one thread of a rank (MPI_THREAD_FUNNELED). A rank that waits longer than the time limit
 * inside a pass ends the whole job with one line: no rank hangs. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    uint64_t messages, bytes; /* sent by this rank */
    uint64_t received;        /* bytes */
    double wait_seconds;      /* spent in comm_sum and comm_receive during passes */
} CommCount;

typedef struct {
    int rank, size;
    bool bf16;       /* payload of comm_sum: bf16, half the bytes, instead of f32 */
    CommCount count; /* since comm_open */
    float *room;     /* receive buffer of comm_sum, grown by comm_reserve */
    size_t room_floats;
} Comm;

/* comm_open - joins the other ranks, before argv is read. comm_close - leaves them; with a code other than 0 and 130 a
 * follower ends the whole job. Returns the exit code. */
int comm_open(Comm *c, int *argc, char ***argv, Error *e);
int comm_close(Comm *c, int code);

/* comm_reserve - room for sums of n floats at most. Allocates; comm_sum does not. */
int comm_reserve(Comm *c, size_t n, Error *e);

/* comm_sum - x[n] = the sum of all ranks' x, added in the order of the ranks: the same bits on every rank and in every
 * run. Short vectors are exchanged whole (size - 1 messages of n values from each rank); long ones as a reduce-scatter
 * and an allgather of n / size values each (2 (size - 1) messages), which is the least that any allreduce sends.
 * Thakur, Rabenseifner, Gropp 2005, section 4.  Returns 0 at once for one rank. */
void comm_sum(Comm *c, float *x, size_t n);

/* comm_sum_begin, comm_sum_end - the same in two halves, so that work can be done between them: the first sends, the
 * second waits and adds. One sum is under way at a time. */
void comm_sum_begin(Comm *c, float *x, size_t n);
void comm_sum_end(Comm *c);

/* comm_send, comm_receive - bytes from one rank to another, in order. comm_receive returns the size of the message,
 * which is cut at `room`. `patient`: there is no time limit, and the waiting rank sleeps (rank 0 waits for a person).
 */
void comm_send(Comm *c, int to, const void *data, size_t bytes);
size_t comm_receive(Comm *c, int from, void *data, size_t room, bool patient);

/* share_of - where rank i's share of n begins; it ends where the next one's begins. */
static inline int share_of(int n, int i, int size) { return (int)((int64_t)n * i / size); }

/* comm_name - the library under it, for --version and bench. */
const char *comm_name(void);

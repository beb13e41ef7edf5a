/* team - the threads of one forward pass.
 *
 * The forward pass is written once and run by every thread of the team (SPMD): each op takes a
 * `const Thread *t`, does its own share of the rows, and meets the others at team_barrier. OpenMP
 * supplies the threads, and OpenBLAS (its OpenMP build) draws on the same pool. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Team Team;

typedef struct {
    Team *team;
    int id, n;       /* 0 <= id < n */
    unsigned *loops; /* index of the next dynamically scheduled loop of this thread */
} Thread;

/* team_open - a team of n >= 1 threads; NULL when out of memory. */
Team *team_open(int n);
void team_close(Team *team);
int team_size(const Team *team);

/* team_run - calls body(t, arg) on every thread of the team and returns when all have returned. While other programs
 * take the cores of some of them, on one thread alone: then t->n is 1. */
void team_run(Team *team, void (*body)(const Thread *t, void *arg), void *arg);

/* team_run_alone - the same on the calling thread alone. */
void team_run_alone(Team *team, void (*body)(const Thread *t, void *arg), void *arg);

/* team_barrier - returns once every thread of the team has called it. Spins, then yields. */
void team_barrier(const Thread *t);

/* Tally - a completion counter. team_done - increments it (release: what this thread has written is visible to whoever
 * sees the count). team_await - waits until it reaches `wanted` (acquire); spins, then yields. */
typedef struct {
    atomic_uint done;
} Tally;
void team_done(Tally *tally);
void team_await(const Thread *t, Tally *tally, unsigned wanted);

/* team_next - dynamic scheduling: hands out the pieces 0 .. n - 1 of a loop, each to one thread; a core that is slowed
 * down by others takes fewer. Every thread calls it until it returns false, for the same loops in the same order. No
 * barrier. */
bool team_next(const Thread *t, int n, int *piece);

/* team_share - this thread's part [*from, *to) of n items, cut at multiples of `grain`. */
void team_share(const Thread *t, size_t n, size_t grain, size_t *from, size_t *to);

/* team_default_size - physical cores that this process may use (affinity mask, cgroup quota). */
int team_default_size(void);

/* team_processors - hardware threads that this process may use: more threads than that wait for each other. */
int team_processors(void);

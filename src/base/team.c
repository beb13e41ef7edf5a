#include "team.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"

#include "cgroup.h"
#include "system.h"

/* A barrier of threads that all run takes less than a microsecond; one that waits longer gives its core away. A
 * pause is 40 to 140 cycles. */
enum { SPINS = 400 };

/* Oversubscription: a thread whose core is taken by others holds up every barrier, for milliseconds. When barrier waits
 * cost more than the threads gain, back off: run on one thread for BACKOFF times the time lost. */
enum { BACKOFF = 10 };
static const double LEAST_WAIT = 1e-3; /* seconds */

struct Team {
    int n;
    double alone_until;                   /* now() */
    _Alignas(64) _Atomic uint64_t waited; /* nanoseconds of this run, the threads' sum, after their spins */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint phase;
    _Alignas(64) _Atomic uint64_t loop; /* which loop is being handed out, and its next piece in the low half */
};

Team *team_open(int n) {
    Team *team = aligned_alloc(64, sizeof *team);
    if (!team) return NULL;
    team->n = n > 1 ? n : 1;
    team->alone_until = 0;
    atomic_init(&team->waited, 0);
    atomic_init(&team->arrived, 0);
    atomic_init(&team->phase, 0);
    atomic_init(&team->loop, 0);
    return team;
}

void team_close(Team *team) { free(team); }

int team_size(const Team *team) { return team->n; }

void team_run_alone(Team *team, void (*body)(const Thread *t, void *arg), void *arg) {
    unsigned loops = 0;
    atomic_store_explicit(&team->loop, 0, memory_order_relaxed);
    body(&(Thread){team, 0, 1, &loops}, arg);
}

/* ThreadSanitizer does not see how OpenMP hands work over, but it sees our barrier: with one before and one after,
 * everything in the body is checked, and nothing needs to be suppressed. */
#ifdef __SANITIZE_THREAD__
enum { BARRIER_AROUND = 1 };
__attribute__((no_sanitize_thread))
#else
enum { BARRIER_AROUND = 0 };
#endif
void team_run(Team *team, void (*body)(const Thread *t, void *arg), void *arg) {
    unsigned loops = 0;
    atomic_store_explicit(&team->loop, 0, memory_order_relaxed);
    atomic_store_explicit(&team->waited, 0, memory_order_relaxed);
    double start = team->n == 1 ? 0 : now(), done = 0;
    int granted = 1; /* OpenMP may grant fewer threads than the team has */
    if (team->n == 1 || start < team->alone_until) {
        team_run_alone(team, body, arg);
        return;
    }
#pragma omp parallel num_threads(team->n) firstprivate(loops)
    {
#pragma omp single
        granted = omp_get_num_threads();
        Thread t = {team, omp_get_thread_num(), granted, &loops};
        if (BARRIER_AROUND) team_barrier(&t);
        body(&t, arg);
        if (t.id == 0) done = now();
        if (BARRIER_AROUND) team_barrier(&t);
    }
    /* One thread takes n times as long as a run without the waiting. */
    double end = now(), waited = end - done + 1e-9 * (double)team->waited / (granted - 1 + (granted == 1));
    if (waited > LEAST_WAIT && waited * granted > (end - start) * (granted - 1))
        team->alone_until = end + BACKOFF * waited;
}

/* Waits until *count reaches `wanted`; both may wrap around. */
static void await(const Thread *t, atomic_uint *count, unsigned wanted) {
    double start = 0;
    for (int spins = 0; (int)(wanted - atomic_load_explicit(count, memory_order_acquire)) > 0; spins++) {
        if (spins < SPINS) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        } else {
            if (spins == SPINS) start = now();
            sched_yield();
        }
    }
    if (start > 0) atomic_fetch_add_explicit(&t->team->waited, (uint64_t)(1e9 * (now() - start)), memory_order_relaxed);
}

void team_barrier(const Thread *t) {
    Team *team = t->team;
    if (t->n == 1) return;
    unsigned phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == t->n - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
    } else {
        await(t, &team->phase, phase + 1);
    }
}

void team_done(Tally *tally) { atomic_fetch_add_explicit(&tally->done, 1, memory_order_release); }

void team_await(const Thread *t, Tally *tally, unsigned wanted) { await(t, &tally->done, wanted); }

/* A thread leaves a loop only when all of its pieces are taken, so the word may then go on to the next loop; who comes
 * late to the old one finds it gone. */
bool team_next(const Thread *t, int n, int *piece) {
    uint64_t mine = *t->loops + 1, word = atomic_load_explicit(&t->team->loop, memory_order_relaxed);
    for (;;) {
        uint64_t loop = word >> 32, next = loop == mine ? word & 0xffffffff : 0;
        if (loop > mine || next >= (uint64_t)n) break;
        if (atomic_compare_exchange_weak_explicit(&t->team->loop, &word, mine << 32 | (next + 1), memory_order_relaxed,
                                                  memory_order_relaxed)) {
            *piece = (int)next;
            return true;
        }
    }
    ++*t->loops;
    return false;
}

void team_share(const Thread *t, size_t n, size_t grain, size_t *from, size_t *to) {
    size_t blocks = (n + grain - 1) / grain;
    size_t a = blocks * (size_t)t->id / (size_t)t->n * grain;
    size_t b = blocks * (size_t)(t->id + 1) / (size_t)t->n * grain;
    *from = a < n ? a : n;
    *to = b < n ? b : n;
}

int team_default_size(void) {
    size_t cores = system_cores(), quota = cgroup_cpus("");
    if (cores == 0) cores = (size_t)omp_get_num_procs();
    if (quota < cores) cores = quota;
    return cores > 0 ? (int)cores : 1;
}

int team_processors(void) {
    size_t processors = (size_t)omp_get_num_procs(), quota = cgroup_cpus("");
    if (quota < processors) processors = quota;
    return processors > 0 ? (int)processors : 1;
}

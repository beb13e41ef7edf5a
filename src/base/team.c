#include "team.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct Team {
    int n;
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_int phase;
};

Team *team_open(int n) {
    Team *team = aligned_alloc(64, sizeof *team);
    if (!team) return NULL;
    team->n = n > 1 ? n : 1;
    atomic_init(&team->arrived, 0);
    atomic_init(&team->phase, 0);
    return team;
}

void team_close(Team *team) { free(team); }

int team_size(const Team *team) { return team->n; }

void team_run(Team *team, void (*body)(const Thread *t, void *arg), void *arg) {
    if (team->n == 1) {
        Thread t = {team, 0, 1};
        body(&t, arg);
        return;
    }
#pragma omp parallel num_threads(team->n)
    {
        /* OpenMP may grant fewer threads than asked for; the barrier then waits for those. */
#pragma omp single
        team->n = omp_get_num_threads();
        Thread t = {team, omp_get_thread_num(), team->n};
        body(&t, arg);
    }
}

void team_barrier(const Thread *t) {
    Team *team = t->team;
    if (t->n == 1) return;
    int phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == t->n - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&team->phase, memory_order_acquire) == phase; spins++) {
        if (spins < 4096) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        } else {
            sched_yield();
        }
    }
}

void team_share(const Thread *t, size_t n, size_t grain, size_t *from, size_t *to) {
    size_t blocks = (n + grain - 1) / grain;
    size_t a = blocks * (size_t)t->id / (size_t)t->n * grain;
    size_t b = blocks * (size_t)(t->id + 1) / (size_t)t->n * grain;
    *from = a < n ? a : n;
    *to = b < n ? b : n;
}

int team_default_size(void) {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
    int n = CPU_COUNT(&mask);
    return n > 0 ? n : 1;
}

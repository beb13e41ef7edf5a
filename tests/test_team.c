/* test_team - sharing out work: every piece to exactly one thread, whatever the number of threads. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "base/cgroup.h"
#include "base/team.h"

#include <cmocka.h>

enum { LOOPS = 300, LARGEST = 40 };

typedef struct {
    atomic_int taken[LOOPS][LARGEST];
    atomic_int wrong;
} Count;

static int pieces_of(int loop) { return loop * 7 % (LARGEST + 1); } /* 0 too */

static void take_all(const Thread *t, void *arg) {
    Count *c = arg;
    for (int loop = 0; loop < LOOPS; loop++) {
        int piece;
        while (team_next(t, pieces_of(loop), &piece)) {
            if (piece < 0 || piece >= pieces_of(loop)) atomic_fetch_add(&c->wrong, 1);
            else atomic_fetch_add(&c->taken[loop][piece], 1);
        }
        team_barrier(t);
    }
}

/* No barrier between the loops: the threads are up to several loops apart. */
static void take_all_at_once(const Thread *t, void *arg) {
    Count *c = arg;
    for (int loop = 0; loop < LOOPS; loop++) {
        int piece;
        while (team_next(t, pieces_of(loop), &piece)) atomic_fetch_add(&c->taken[loop][piece], 1);
    }
}

static void check(void (*body)(const Thread *, void *)) {
    static Count c;
    for (int n = 1; n <= 4; n++) {
        Team *team = team_open(n);
        assert_non_null(team);
        for (int run = 0; run < 5; run++) { /* a team starts from the first loop in every run */
            c = (Count){0};
            team_run(team, body, &c);
            assert_int_equal(c.wrong, 0);
            for (int loop = 0; loop < LOOPS; loop++)
                for (int i = 0; i < LARGEST; i++) assert_int_equal(c.taken[loop][i], i < pieces_of(loop));
        }
        team_close(team);
    }
}

static void test_pieces(void **state) {
    (void)state;
    check(take_all);
}

static void test_pieces_without_barriers(void **state) {
    (void)state;
    check(take_all_at_once);
}

typedef struct {
    int made[LOOPS][LARGEST], sum[LOOPS]; /* plain: who reads them has waited for whoever wrote */
    Tally tally[LOOPS];
} Stages;

/* Two stages without a barrier between: the second needs what all pieces of a loop of the first have made. */
static void make_and_use(const Thread *t, void *arg) {
    Stages *s = arg;
    int i;
    for (int loop = 0; loop < LOOPS; loop++)
        while (team_next(t, pieces_of(loop), &i)) {
            s->made[loop][i] = loop + i;
            team_done(&s->tally[loop]);
        }
    while (team_next(t, LOOPS, &i)) {
        team_await(t, &s->tally[i], (unsigned)pieces_of(i));
        for (int j = 0; j < pieces_of(i); j++) s->sum[i] += s->made[i][j];
    }
}

static void test_stages(void **state) {
    (void)state;
    static Stages s;
    for (int n = 1; n <= 4; n++) {
        Team *team = team_open(n);
        assert_non_null(team);
        for (int run = 0; run < 20; run++) {
            memset(&s, 0, sizeof s);
            team_run(team, make_and_use, &s);
            for (int loop = 0; loop < LOOPS; loop++) {
                int m = pieces_of(loop);
                assert_int_equal(s.sum[loop], m * loop + m * (m - 1) / 2);
            }
        }
        team_close(team);
    }
}

static void hold_up(const Thread *t, void *arg) {
    int *threads = arg;
    if (t->id == 0) *threads = t->n;
    if (t->id == 1) usleep(20000);
    team_barrier(t);
}

/* A thread that holds up the others is left out for a while; then all are back. */
static void test_alone(void **state) {
    (void)state;
    int threads = 0;
    Team *team = team_open(2);
    team_run(team, hold_up, &threads);
    assert_int_equal(threads, 2);
    for (int i = 0; i < 50 && threads == 2; i++) team_run(team, hold_up, &threads); /* the first, unless we slept too */
    assert_int_equal(threads, 1);
    for (int i = 0; i < 600 && threads == 1; i++) { /* 20 ms of waiting and what the machine adds, ten times */
        usleep(10000);
        team_run(team, hold_up, &threads);
    }
    assert_int_equal(threads, 2);
    team_close(team);
}

static void count(const Thread *t, void *arg) {
    if (t->id == 0) *(int *)arg = t->n;
}

/* OpenMP grants one thread within a parallel region; the next run has all of them again. */
static void test_fewer_granted(void **state) {
    (void)state;
    Team *team = team_open(3);
    int within = 0, after = 0;
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
#pragma omp master
    team_run(team, count, &within);
    team_run(team, count, &after);
    assert_int_equal(within, 1);
    assert_int_equal(after, 3);
    assert_int_equal(team_size(team), 3);
    team_close(team);
}

/* This one stands before libc's. A machine of 2000 processors: the kernel refuses a mask of 1024. */
static bool large_machine;
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
    if (!large_machine) return (int)syscall(SYS_sched_getaffinity, pid, size, mask) < 0 ? -1 : 0;
    if (size < 2000 / 8) {
        errno = EINVAL;
        return -1;
    }
    memset(mask, 0, size);
    CPU_SET_S(1500, size, mask);
    CPU_SET_S(1502, size, mask);
    return 0;
}

static void test_more_than_1024_processors(void **state) {
    (void)state;
    large_machine = true;
    int size = team_default_size();
    large_machine = false;
    assert_int_equal(size, cgroup_cpus("") < 2 ? cgroup_cpus("") : 2);
}

static void test_share(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++)
        for (size_t n = 0; n < 200; n += 7)
            for (size_t grain = 1; grain <= 32; grain *= 2) {
                size_t end = 0;
                for (int id = 0; id < threads; id++) {
                    Thread t = {.id = id, .n = threads};
                    size_t from, to;
                    team_share(&t, n, grain, &from, &to);
                    assert_int_equal(from, end);
                    assert_true(from % grain == 0 || from == n);
                    end = to;
                }
                assert_int_equal(end, n);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_pieces_without_barriers),
                                       cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_share),
                                       cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_fewer_granted),
                                       cmocka_unit_test(test_more_than_1024_processors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

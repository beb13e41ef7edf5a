/* mpi - ranks are the processes of MPI_COMM_WORLD (Open MPI, or any library with the interface of MPI 3). */
#include "dist/comm.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_RANKS = 256,
    TAG_DATA = 1,
    TAG_WHOLE,
    TAG_PART,
    TAG_SUMMED,
    WHOLE_BYTES =
        32 << 10,       /* a vector is exchanged whole while that costs about so many bytes more: one latency less */
    LIMIT_SECONDS = 60, /* within a pass; RUN_TIMEOUT sets another */
    SPIN = 2000         /* tests before a patient wait begins to sleep */
};

/* The sum under way, of the one communicator there is. */
static struct {
    float *x;
    size_t n;
    bool whole;
    int n_requests;
    MPI_Request requests[2 * MAX_RANKS];
} sum;

static double limit_seconds(void) {
    const char *text = getenv("RUN_TIMEOUT");
    double limit = text ? atof(text) : 0;
    return limit > 0 ? limit : LIMIT_SECONDS;
}

static _Noreturn void give_up(const Comm *c, const char *why) {
    fprintf(stderr, "run: rank %d of %d: messages: expected them within %g s, found %s\n", c->rank, c->size,
            limit_seconds(), why);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void wait_all(Comm *c, int n, MPI_Request *requests) {
    double start = MPI_Wtime();
    int done = 0;
    for (long tests = 0; MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !done; tests++) {
        if (tests % 64 == 63) sched_yield(); /* ranks may share cores */
        if (tests % 1024 == 1023 && MPI_Wtime() - start > limit_seconds()) give_up(c, "none (a rank stopped?)");
    }
    c->count.wait_seconds += MPI_Wtime() - start;
}

int comm_open(Comm *c, int *argc, char ***argv, Error *e) {
    int level = 0;
    *c = (Comm){.size = 1};
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return fail(e, "MPI: threads: expected MPI_THREAD_FUNNELED, found less");
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->size);
    const char *payload = getenv("RUN_PAYLOAD");
    c->bf16 = payload && strcmp(payload, "bf16") == 0;
    if (payload && !c->bf16 && strcmp(payload, "f32") != 0)
        return fail(e, "RUN_PAYLOAD: expected f32 or bf16, found \"%.20s\"", payload);
    if (c->size <= MAX_RANKS) return 0;
    return fail(e, "MPI: ranks: expected at most %d, found %d", MAX_RANKS, c->size);
}

int comm_close(Comm *c, int code) {
    free(c->room);
    c->room = NULL;
    if (c->rank && code && code != 130) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
}

/* So many of n floats at most are exchanged whole: n if all are. Between two ranks no other way sends fewer bytes. */
static size_t whole_floats(const Comm *c, size_t n) {
    size_t most = c->size > 2 ? WHOLE_BYTES / sizeof(float) / (size_t)(c->size - 2) : n;
    return n < most ? n : most;
}

int comm_reserve(Comm *c, size_t n, Error *e) {
    size_t floats = whole_floats(c, n) * (size_t)c->size;
    if (floats < 2 * n) floats = 2 * n;
    if (c->size == 1 || floats <= c->room_floats) return 0;
    float *larger = realloc(c->room, floats * sizeof *larger);
    if (!larger) return fail(e, "messages: memory: expected %zu bytes, found less", floats * sizeof *larger);
    c->room = larger;
    c->room_floats = floats;
    return 0;
}

/* ---- comm_sum: the payload is f32, or bf16 rounded to nearest even ------------------------------- */

static size_t width(const Comm *c) { return c->bf16 ? sizeof(uint16_t) : sizeof(float); }

static void put(const Comm *c, void *payload, const float *x, size_t n) {
    if (!c->bf16) {
        memcpy(payload, x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if ((bits & 0x7fffffff) <= 0x7f800000) bits += 0x7fff + (bits >> 16 & 1); /* not of a NaN: it stays one */
        ((uint16_t *)payload)[i] = (uint16_t)(bits >> 16);
    }
}

/* x = payload, or x += payload */
static void get(const Comm *c, float *x, const void *payload, size_t n, bool add) {
    for (size_t i = 0; i < n; i++) {
        float value;
        if (c->bf16) {
            uint32_t bits = (uint32_t)((const uint16_t *)payload)[i] << 16;
            memcpy(&value, &bits, sizeof value);
        } else {
            value = ((const float *)payload)[i];
        }
        x[i] = add ? x[i] + value : value;
    }
}

static size_t part_of(const Comm *c, size_t n, int rank) { return n * (size_t)rank / (size_t)c->size; }

/* Slot `i` of the receive buffer; a slot holds `n` values. */
static char *slot(const Comm *c, size_t n, size_t i) { return (char *)c->room + i * n * width(c); }

static void exchange(Comm *c, int other, const void *send, size_t send_n, void *receive, size_t receive_n, int tag) {
    int w = (int)width(c);
    MPI_Irecv(receive, (int)receive_n * w, MPI_BYTE, other, tag, MPI_COMM_WORLD, &sum.requests[sum.n_requests++]);
    MPI_Isend(send, (int)send_n * w, MPI_BYTE, other, tag, MPI_COMM_WORLD, &sum.requests[sum.n_requests++]);
    c->count.messages++;
    c->count.bytes += send_n * (size_t)w;
    c->count.received += receive_n * (size_t)w;
}

void comm_sum_begin(Comm *c, float *x, size_t n) {
    if (c->size == 1) return;
    sum.x = x, sum.n = n, sum.n_requests = 0, sum.whole = whole_floats(c, n) == n;
    if (sum.whole) {
        char *mine = slot(c, n, (size_t)c->rank);
        put(c, mine, x, n);
        for (int i = 0; i < c->size; i++)
            if (i != c->rank) exchange(c, i, mine, n, slot(c, n, (size_t)i), n, TAG_WHOLE);
        return;
    }
    size_t from = part_of(c, n, c->rank),
           mine = part_of(c, n, c->rank + 1) - from;            /* the part that this rank adds up */
    char *send = slot(c, 1, 0), *receive = send + n * width(c); /* [n], [size, mine] */
    put(c, send, x, n);
    for (int i = 0; i < c->size; i++) {
        size_t to = part_of(c, n, i);
        if (i != c->rank)
            exchange(c, i, send + to * width(c), part_of(c, n, i + 1) - to, receive + (size_t)i * mine * width(c), mine,
                     TAG_PART);
    }
}

void comm_sum_end(Comm *c) {
    if (c->size == 1) return;
    size_t n = sum.n;
    wait_all(c, sum.n_requests, sum.requests);
    if (sum.whole) {
        for (int i = 0; i < c->size; i++) get(c, sum.x, slot(c, n, (size_t)i), n, i > 0);
        return;
    }
    size_t from = part_of(c, n, c->rank), mine = part_of(c, n, c->rank + 1) - from;
    char *send = slot(c, 1, 0), *receive = send + n * width(c);
    for (int i = 0; i < c->size; i++) {
        const char *payload = i == c->rank ? send + from * width(c) : receive + (size_t)i * mine * width(c);
        get(c, sum.x + from, payload, mine, i > 0);
    }
    put(c, send + from * width(c), sum.x + from, mine);
    sum.n_requests = 0;
    for (int i = 0; i < c->size; i++) {
        size_t to = part_of(c, n, i);
        if (i != c->rank)
            exchange(c, i, send + from * width(c), mine, receive + to * width(c), part_of(c, n, i + 1) - to,
                     TAG_SUMMED);
    }
    wait_all(c, sum.n_requests, sum.requests);
    for (int i = 0; i < c->size; i++) {
        size_t to = part_of(c, n, i);
        get(c, sum.x + to, (i == c->rank ? send : receive) + to * width(c), part_of(c, n, i + 1) - to, false);
    }
}

void comm_sum(Comm *c, float *x, size_t n) {
    comm_sum_begin(c, x, n);
    comm_sum_end(c);
}

/* ---- One rank to another ------------------------------------------------------------------------ */

void comm_send(Comm *c, int to, const void *data, size_t bytes) {
    MPI_Request request;
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, TAG_DATA, MPI_COMM_WORLD, &request);
    c->count.messages++;
    c->count.bytes += bytes;
    wait_all(c, 1, &request);
}

size_t comm_receive(Comm *c, int from, void *data, size_t room, bool patient) {
    MPI_Message message;
    MPI_Status status;
    int there = 0, bytes = 0;
    double start = MPI_Wtime();
    for (long tests = 0;; tests++) {
        MPI_Improbe(from, TAG_DATA, MPI_COMM_WORLD, &there, &message, &status);
        if (there) break;
        if (patient && tests > SPIN) usleep(tests > 10 * SPIN ? 1000 : 50);
        else sched_yield();
        if (!patient && tests % 1024 == 1023 && MPI_Wtime() - start > limit_seconds()) give_up(c, "none");
    }
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if ((size_t)bytes > room) give_up(c, "one that is too long");
    MPI_Mrecv(data, bytes, MPI_BYTE, &message, &status);
    if (!patient) c->count.wait_seconds += MPI_Wtime() - start;
    c->count.received += (uint64_t)bytes;
    return (size_t)bytes;
}

const char *comm_name(void) {
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = 0;
    return name;
}

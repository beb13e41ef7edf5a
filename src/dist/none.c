/* none - one process: every sum is done already, and there is nobody to send to. */
#include "dist/comm.h"

int comm_open(Comm *c, int *argc, char ***argv, Error *e) {
    (void)argc, (void)argv, (void)e;
    *c = (Comm){.size = 1};
    return 0;
}

int comm_close(Comm *c, int code) {
    (void)c;
    return code;
}

int comm_reserve(Comm *c, size_t n, Error *e) {
    (void)c, (void)n, (void)e;
    return 0;
}

void comm_sum(Comm *c, float *x, size_t n) { (void)c, (void)x, (void)n; }

void comm_sum_begin(Comm *c, float *x, size_t n) { (void)c, (void)x, (void)n; }

void comm_sum_end(Comm *c) { (void)c; }

void comm_send(Comm *c, int to, const void *data, size_t bytes) { (void)c, (void)to, (void)data, (void)bytes; }

size_t comm_receive(Comm *c, int from, void *data, size_t room, bool patient) {
    (void)c, (void)from, (void)data, (void)room, (void)patient;
    return 0;
}

const char *comm_name(void) { return "none"; }

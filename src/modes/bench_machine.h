/* bench_machine - what this machine can do, for -m bench: how fast memory is read, and how fast products are computed.
 */
#pragma once
#include "gen/options.h"

typedef struct Machine Machine;

/* Rates - bytes and operations a second (a multiply-add is two); 0: not measured, or there is none. */
typedef struct {
    double read;      /* of memory, by the streams that decode reads by */
    double blas, own; /* f32 products of OpenBLAS and of our kernels */
    double int8;      /* the int8 product's instructions on registers alone (int8_peak.h) */
    const char *core; /* the CPU that OpenBLAS takes this one for */
} Rates;

/* machine_open - for the threads of a team. NULL when out of memory. machine_rates - measures all there are. */
Machine *machine_open(Team *team, Error *e);
void machine_close(Machine *m);
Rates machine_rates(Machine *m);

double machine_read(Machine *m);
double machine_f32(Machine *m, bool own);
double machine_int8(Machine *m);

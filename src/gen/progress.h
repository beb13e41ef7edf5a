/* progress - how far a long step is, on one line of a terminal that is wiped in the end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *log;        /* NULL: nobody is told */
    const char *what; /* "prefill" */
    double start, last;
    bool shown;
} Progress;

/* progress_begin - quiet, or a log that is no terminal: nothing will be shown. */
void progress_begin(Progress *p, FILE *log, const char *what, bool quiet);

/* progress_show - done of total; printed once a second has passed, ten times a second at most. At most 39 columns. */
void progress_show(Progress *p, int done, int total);

/* progress_bytes - the same in bytes, with the time that is left at the rate until now. At most 39 columns. */
void progress_bytes(Progress *p, uint64_t done, uint64_t total);

/* progress_end - wipes the line. */
void progress_end(Progress *p);

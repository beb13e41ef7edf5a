/* bench_print - what -m bench has measured, as a table, JSON or CSV, beside an earlier measurement. */
#pragma once
#include "io/json.h"
#include "modes/bench_machine.h"

typedef struct {
    char name[32];
    double median, min, max; /* tokens a second */
    double fraction;         /* of what the limit allows, median */
    const char *limit;       /* what limits it */
    double messages, bytes;  /* that rank 0 sends for a token */
    double received;         /* bytes */
    double waiting;          /* share of the time in which it waits for the other ranks */
    double before;           /* the median of the earlier measurement; 0: it has no such test */
} BenchResult;

/* bench_read - the earlier measurement of --compare, as -m bench --json printed it. NULL on failure. bench_find - its
 * tokens a second in a test; 0: it has none. */
cJSON *bench_read(const char *path, Error *e);
double bench_find(const cJSON *earlier, const char *test);

void bench_print(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates,
                 const cJSON *earlier);

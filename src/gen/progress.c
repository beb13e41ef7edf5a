#include "gen/progress.h"

#include <unistd.h>

#include "base/clock.h"

enum { BAR = 16, COLUMNS = 39 };

void progress_begin(Progress *p, FILE *log, const char *what, bool quiet) {
    *p = (Progress){.log = !quiet && isatty(fileno(log)) ? log : NULL, .what = what, .start = now()};
}

void progress_show(Progress *p, int done, int total) {
    double t = now();
    if (!p->log || total <= 0 || t - p->start < 1 || t - p->last < 0.1) return;
    int full = (int)((long long)BAR * done / total);
    fprintf(p->log, "\r%-11.11s %3d%% [%.*s%*s]", p->what, (int)(100LL * done / total), full, "################",
            BAR - full, "");
    fflush(p->log);
    p->last = t;
    p->shown = true;
}

void progress_bytes(Progress *p, uint64_t done, uint64_t total) {
    double t = now(), passed = t - p->start;
    if (!p->log || !done || done > total || passed < 1 || t - p->last < 0.1) return;
    double left = passed * (double)(total - done) / (double)done;
    char line[64];
    snprintf(line, sizeof line, "%-7.7s %3d%% %.0f of %.0f MB, %.0f s left", p->what, (int)(100 * done / total),
             (double)done / 1e6, (double)total / 1e6, left);
    fprintf(p->log, "\r%-*.*s", COLUMNS, COLUMNS, line);
    fflush(p->log);
    p->last = t;
    p->shown = true;
}

void progress_end(Progress *p) {
    if (p->shown) fprintf(p->log, "\r%*s\r", COLUMNS, "");
    if (p->shown) fflush(p->log);
    p->shown = false;
}

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

void progress_end(Progress *p) {
    if (p->shown) fprintf(p->log, "\r%*s\r", COLUMNS, "");
    if (p->shown) fflush(p->log);
    p->shown = false;
}

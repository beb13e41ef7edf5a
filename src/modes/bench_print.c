#include "modes/bench_print.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* ---- An earlier measurement ---- */

static const cJSON *results_of(const cJSON *earlier) { return cJSON_GetObjectItemCaseSensitive(earlier, "results"); }

static const char *name_of(const cJSON *result) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, "test"));
}

static double rate_of(const cJSON *result) {
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(result, "tok_s");
    return cJSON_IsNumber(rate) && rate->valuedouble > 0 && rate->valuedouble < INFINITY ? rate->valuedouble : 0;
}

cJSON *bench_read(const char *path, Error *e) {
    cJSON *earlier = json_read(path, e);
    const cJSON *results = results_of(earlier), *result;
    bool good = cJSON_IsArray(results) && cJSON_GetArraySize(results) > 0;
    cJSON_ArrayForEach(result, results) good = good && name_of(result) && rate_of(result) > 0;
    if (good || !earlier) return earlier;
    fail(e, "%s: results: expected tests with their tok_s as -m bench --json prints them, found others", path);
    cJSON_Delete(earlier);
    return NULL;
}

double bench_find(const cJSON *earlier, const char *test) {
    const cJSON *result;
    cJSON_ArrayForEach(result, results_of(earlier)) if (strcmp(name_of(result), test) == 0) return rate_of(result);
    return 0;
}

/* Says what would make the ratios another thing than they seem. */
static void note_differences(const Options *o, const BenchResult *r, int n, int threads, const cJSON *earlier) {
    const cJSON *then = cJSON_GetObjectItemCaseSensitive(earlier, "threads");
    const char *cpu = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(earlier, "cpu"));
    int found = 0;
    for (int i = 0; i < n; i++) found += r[i].before > 0;
    if (o->quiet || !earlier) return;
    if (found == 0) fprintf(o->log, "%s: has none of these tests\n", o->compare);
    else if (cJSON_IsNumber(then) && then->valuedouble != threads)
        fprintf(o->log, "%s: was measured with %.0f threads, this with %d\n", o->compare, then->valuedouble, threads);
    if (found && cpu && strcmp(cpu, kernels_best()->name) != 0)
        fprintf(o->log, "%s: was measured with %.20s kernels, this with %s\n", o->compare, cpu, kernels_best()->name);
}

/* ---- Formats ---- */

static double best_f32(const Rates *rates) { return rates->blas > rates->own ? rates->blas : rates->own; }

static void print_json(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates) {
    fprintf(out,
            "{\"threads\": %d, \"cpu\": \"%s\", \"read_gb_s\": %.2f, \"sgemm_gflops\": %.1f, "
            "\"openblas_gflops\": %.1f, \"openblas_cpu\": \"%s\", \"int8_gops\": %.1f, \"results\": [",
            threads, kernels_best()->name, rates->read / 1e9, best_f32(rates) / 1e9, rates->blas / 1e9, rates->core,
            rates->int8 / 1e9);
    for (int i = 0; i < n; i++) {
        fprintf(out,
                "%s{\"test\": \"%s\", \"tok_s\": %.3f, \"min\": %.3f, \"max\": %.3f, \"fraction_of_limit\": %.4f, "
                "\"limit\": \"%s\"",
                i ? ", " : "", r[i].name, r[i].median, r[i].min, r[i].max, r[i].fraction, r[i].limit);
        if (r[i].before > 0)
            fprintf(out, ", \"before\": %.3f, \"ratio\": %.4f", r[i].before, r[i].median / r[i].before);
        if (o->comm)
            fprintf(out, ", \"messages\": %.2f, \"bytes\": %.0f, \"received\": %.0f, \"waiting\": %.3f", r[i].messages,
                    r[i].bytes, r[i].received, r[i].waiting);
        fputc('}', out);
    }
    fputs("]}\n", out);
}

static void print_csv(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates) {
    fprintf(out,
            "test,threads,cpu,tok_s,min,max,fraction_of_limit,read_gb_s,sgemm_gflops,openblas_gflops,int8_gops%s\n",
            o->compare ? ",before,ratio" : "");
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s,%d,%s,%.3f,%.3f,%.3f,%.4f,%.2f,%.1f,%.1f,%.1f", r[i].name, threads, kernels_best()->name,
                r[i].median, r[i].min, r[i].max, r[i].fraction, rates->read / 1e9, best_f32(rates) / 1e9,
                rates->blas / 1e9, rates->int8 / 1e9);
        if (r[i].before > 0) fprintf(out, ",%.3f,%.4f", r[i].before, r[i].median / r[i].before);
        else if (o->compare) fputs(",,", out);
        fputc('\n', out);
    }
}

/* A share as a bar of 20 places. */
static void print_bar(FILE *out, double share) {
    enum { PLACES = 20 };
    int full = share > 1 ? PLACES : share > 0 ? (int)lround(share * PLACES) : 0;
    for (int i = 0; i < PLACES; i++) fputc(i < full ? '#' : '.', out);
}

static void print_table(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates) {
    fprintf(out, "%d threads, %s kernels\nmemory reads %.1f GB/s; products in f32 %.0f GFLOP/s (OpenBLAS for %s: %.0f)",
            threads, kernels_best()->name, rates->read / 1e9, rates->own / 1e9, rates->core, rates->blas / 1e9);
    if (rates->int8 > 0) fprintf(out, ", in int8 %.0f GOP/s", rates->int8 / 1e9);
    fprintf(out, "\n\n%-13s %9s %9s %9s", "test", "tok/s", "min", "max");
    if (o->compare) fprintf(out, " %9s %7s", "before", "ratio");
    fputs("  share of the limit\n", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%-13s %9.1f %9.1f %9.1f", r[i].name, r[i].median, r[i].min, r[i].max);
        if (r[i].before > 0) fprintf(out, " %9.1f %7.2f", r[i].before, r[i].median / r[i].before);
        else if (o->compare) fprintf(out, " %9s %7s", "-", "-");
        fputs("  ", out);
        print_bar(out, r[i].fraction);
        fprintf(out, " %3.0f%% of %s\n", 100 * r[i].fraction, r[i].limit);
        if (o->comm)
            fprintf(out,
                    "  a token: %.2f messages and %.0f bytes from rank 0 of %d, which gets %.0f and waits %.0f%% of "
                    "the time\n",
                    r[i].messages, r[i].bytes, o->comm->size, r[i].received, 100 * r[i].waiting);
    }
}

void bench_print(FILE *out, const Options *o, const BenchResult *r, int n, int threads, const Rates *rates,
                 const cJSON *earlier) {
    if (o->json) print_json(out, o, r, n, threads, rates);
    else if (o->csv) print_csv(out, o, r, n, threads, rates);
    else print_table(out, o, r, n, threads, rates);
    note_differences(o, r, n, threads, earlier);
}

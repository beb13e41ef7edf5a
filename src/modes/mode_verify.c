/* mode_verify - the model against a reference's intermediates; see verify.h. */
#include <stdlib.h>

#include "gen/progress.h"
#include "modes/modes.h"
#include "gen/follow.h"
#include "verify/verify.h"

static void print_json(FILE *out, const Verify *v) {
    fprintf(out, "{\"ok\": %s, \"first\": ", v->first_bad < 0 ? "true" : "false");
    if (v->first_bad < 0) fputs("null, \"cause\": null", out);
    else fprintf(out, "\"%s\", \"cause\": \"%s\"", v->rows[v->first_bad].name, v->cause);
    fputs(", \"tensors\": [", out);
    for (int i = 0; i < v->n; i++) {
        const VerifyRow *r = &v->rows[i];
        fprintf(out, "%s{\"name\": \"%s\", ", i ? ", " : "", r->name);
        if (r->finite) fprintf(out, "\"max_abs\": %.6g, \"max_rel\": %.6g, ", r->max_abs, r->max_rel);
        else fputs("\"max_abs\": null, \"max_rel\": null, ", out);
        fprintf(out, "\"worst_position\": %d, \"tolerance\": %.6g, \"ok\": %s}", r->worst_pos, r->tolerance,
                r->ok ? "true" : "false");
    }
    fputs("]}\n", out);
}

static void print_table(FILE *out, const Verify *v, int n_tokens) {
    fprintf(out, "%-22s %12s %12s %9s %12s\n", "tensor", "max error", "relative", "position", "tolerance");
    for (int i = 0; i < v->n; i++) {
        const VerifyRow *r = &v->rows[i];
        const char *mark = i == v->first_bad ? "  <- first over" : r->ok ? "" : "  over";
        if (r->finite)
            fprintf(out, "%-22s %12.3g %12.3g %9d %12.3g%s\n", r->name, r->max_abs, r->max_rel, r->worst_pos,
                    r->tolerance, mark);
        else
            fprintf(out, "%-22s %12s %12s %9d %12.3g%s\n", r->name, "not finite", "", r->worst_pos, r->tolerance, mark);
    }
    if (v->first_bad < 0) fprintf(out, "\nall %d tensors of %d tokens are within tolerance\n", v->n, n_tokens);
    else fprintf(out, "\nfirst over tolerance: %s\nlikely cause: %s\n", v->rows[v->first_bad].name, v->cause);
}

static void show(void *progress, int done, int total) { progress_show(progress, done, total); }

int mode_verify(const Options *o, FILE *out, Error *e) {
    Session s = {0};
    Trace ours = {0}, ref = {0};
    Verify v = {0};
    int code = 1;
    if (!o->reference) {
        fail(e, "verify: expected -r REF.safetensors (scripts/hf_reference.py writes it), found none");
        return 2;
    }
    /* A reference is compared in its own arithmetic, that of the C kernels; --precise=off shows how far the int8
     * activations of the fast ones are off, RUN_CPU the fast ones with f32. */
    bool fast = getenv("RUN_CPU") || o->precise == SWITCH_OFF;
    const Kernels *kernels = fast ? kernels_best() : &kernels_ref;
    if (session_open(&s, o, 0, e)) return 1;
    if (session_ranks(&s, o, e)) goto done;
    int threads = o->threads ? o->threads : team_default_size();
    if (trace_read(&ref, o->reference, &s.model.config, e)) goto done;
    Progress progress;
    progress_begin(&progress, o->log, "verify", o->quiet);
    int status = trace_run(&ours, &s.model, ref.tokens, ref.n, threads, kernels, show, &progress, e);
    progress_end(&progress);
    if (status) goto done;
    if (verify_compare(&v, &s.model, &ours, &ref, e)) goto done;
    if (o->json) print_json(out, &v);
    else print_table(out, &v, ref.n);
    code = v.first_bad < 0 ? 0 : 1;
done:
    verify_close(&v);
    trace_close(&ours);
    trace_close(&ref);
    session_close(&s);
    return code;
}

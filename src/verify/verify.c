#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/explain.h"

double verify_tolerance(Step step, double size) { return (step == STEP_LOGITS ? 1e-3 : 1e-4) * fmax(1, size); }

/* In which order are the features of q here? Told by the reference's q, not by what the config claims, so that a wrong
 * claim shows where it does its harm: after RoPE. */
static bool order_is_pairs(const Case *k) {
    const Config *c = &k->m->config;
    const float *expected = explain_of(k->ref, 0, STEP_Q), *raw = explain_of(k->ours, 0, STEP_Q);
    bool claimed = c->rope.pairing == ROPE_PAIRS;
    if (!expected || !raw) return claimed;
    size_t n = explain_size(k, STEP_Q);
    memcpy(k->scratch, raw, n * sizeof *raw);
    explain_reorder(k->scratch, k->ref->n, trace_cols(c, STEP_Q), c->n_heads, c->rope.rotary_dim, true, k->line);
    if (explain_fits(raw, expected, n)) return false;
    if (explain_fits(k->scratch, expected, n)) return true;
    return claimed;
}

static void order_as_half(const Case *k, Trace *ours) {
    const Config *c = &k->m->config;
    for (int layer = 0; layer < c->n_layers; layer++)
        for (Step step = STEP_Q; step <= STEP_K_ROT; step++) {
            float *x = ours->x[trace_slot(layer, step, c->n_layers)];
            int cols = trace_cols(c, step);
            if (step != STEP_V && x)
                explain_reorder(x, ours->n, cols, cols / c->head_dim, c->rope.rotary_dim, true, k->line);
        }
}

/* Compares value by value: a NaN or an infinity on either side is an error of its own, whatever the other side has, and
 * does not enter the tolerance. Returns the index of the first one, or n. */
static size_t compare(VerifyRow *row, Step step, const float *ours, const float *ref, size_t rows, size_t cols) {
    size_t n = rows * cols, first = n;
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(ours[i]) || !isfinite(ref[i])) {
            if (first == n) first = i;
            continue;
        }
        double error = fabs((double)ours[i] - (double)ref[i]);
        size = fmax(size, fabs((double)ref[i]));
        if (error > row->max_abs) row->max_abs = error, row->worst_pos = (int)(i / cols);
    }
    row->finite = first == n;
    if (!row->finite) row->worst_pos = (int)(first / cols);
    row->tolerance = verify_tolerance(step, size);
    row->max_rel = row->max_abs / fmax(size, 1e-30);
    row->ok = row->finite && row->max_abs <= row->tolerance;
    return first;
}

static int case_open(Case *k, Error *e) {
    const Config *c = &k->m->config;
    size_t widest = (size_t)c->n_heads * (size_t)c->head_dim, n = (size_t)k->ref->n;
    if ((size_t)c->vocab_size > widest) widest = (size_t)c->vocab_size;
    if ((size_t)c->dim > widest) widest = (size_t)c->dim;
    if ((size_t)c->moe.n_experts > widest) widest = (size_t)c->moe.n_experts;
    k->scratch = malloc(n * widest * sizeof *k->scratch);
    k->line = malloc(widest * sizeof *k->line);
    k->position = malloc(n * sizeof *k->position);
    return k->scratch && k->line && k->position ? 0 : fail(e, "verify: memory: expected some, found none");
}

static void case_close(Case *k) {
    free(k->scratch);
    free(k->line);
    free(k->position);
}

int verify_compare(Verify *v, const Model *m, Trace *ours, const Trace *ref, Error *e) {
    Case k = {.m = m, .ours = ours, .ref = ref, .cause = v->cause};
    *v = (Verify){.first_bad = -1};
    v->rows = calloc((size_t)ref->n_slots, sizeof *v->rows);
    if (!v->rows) fail(e, "verify: memory: expected some, found none");
    if (!v->rows || case_open(&k, e)) {
        case_close(&k);
        verify_close(v);
        return -1;
    }
    if (m->config.pos == POS_ROPE && (k.stored_in_pairs = order_is_pairs(&k))) order_as_half(&k, ours);
    for (int slot = 0; slot < ref->n_slots; slot++) {
        if (!ref->x[slot] || !ours->x[slot]) continue;
        VerifyRow *row = &v->rows[v->n];
        trace_name(row->name, slot, ref->n_layers, &k.layer, &k.step);
        size_t cols = (size_t)ref->cols[slot], n = (size_t)ref->n;
        size_t bad = compare(row, k.step, ours->x[slot], ref->x[slot], n, cols);
        if (!row->ok && v->first_bad < 0) {
            v->first_bad = v->n;
            k.name = row->name;
            if (row->finite) explain(&k);
            else
                explain_say(&k, "not finite: %s, position %zu, value %zu: the reference has %g, this run %g", row->name,
                            bad / cols, bad % cols, (double)ref->x[slot][bad], (double)ours->x[slot][bad]);
        }
        v->n++;
    }
    case_close(&k);
    if (!k.no_memory) return 0;
    verify_close(v);
    return fail(e, "verify: memory: expected some, found none");
}

void verify_close(Verify *v) {
    free(v->rows);
    v->rows = NULL;
}

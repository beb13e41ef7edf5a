/* verify_fixture - a fixture's model with the reference that belongs to it, for the tests of verify. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "verify/verify.h"

#include <cmocka.h> /* last: it makes fail a macro */

#define FIXTURES "tests/fixtures/"

typedef struct {
    Checkpoint ck;
    Config config;
    Weights weights; /* its layers are ours to break */
    Layer layers[8];
    Trace ref;
    void *owned[16];
    int n_owned;
} Fixture;

/* reference NULL: the model alone. */
static void fixture_open(Fixture *f, const char *model, const char *reference) {
    char path[256];
    Error e = {0};
    *f = (Fixture){0};
    snprintf(path, sizeof path, FIXTURES "%s", model);
    if (checkpoint_open(&f->ck, path, &e) || checkpoint_bind(&f->ck, &f->config, &f->weights, &e))
        fail_msg("%s", e.text);
    assert_in_range(f->config.n_layers, 1, sizeof f->layers / sizeof *f->layers);
    memcpy(f->layers, f->weights.layers, (size_t)f->config.n_layers * sizeof *f->layers);
    f->weights.layers = f->layers;
    if (!reference) return;
    snprintf(path, sizeof path, FIXTURES "verify/%s.safetensors", reference);
    if (trace_read(&f->ref, path, &f->config, &e)) fail_msg("%s", e.text);
}

static void fixture_close(Fixture *f) {
    for (int i = 0; i < f->n_owned; i++) free(f->owned[i]);
    trace_close(&f->ref);
    checkpoint_close(&f->ck);
}

/* Zeros that live as long as the fixture. */
static inline float *keep(Fixture *f, size_t n) {
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    f->owned[f->n_owned++] = x;
    return x;
}

typedef void Doctor(Fixture *f, Trace *ours);

static inline void check(Fixture *f, Doctor *doctor, const char *tensor, const char *cause, int line) {
    Model m;
    Trace ours;
    Verify v;
    Error e = {0};
    model_init(&m, &f->config, &f->weights);
    if (trace_run(&ours, &m, f->ref.tokens, f->ref.n, 1, NULL, NULL, NULL, &e)) fail_msg("%s", e.text);
    if (doctor) doctor(f, &ours);
    if (verify_compare(&v, &m, &ours, &f->ref, &e)) fail_msg("%s", e.text);
    const char *found = v.first_bad < 0 ? "" : v.rows[v.first_bad].name;
    if (strcmp(found, tensor) != 0 || !strstr(v.cause, cause) || (*tensor == 0) != (v.cause[0] == 0))
        fail_msg("line %d: expected '%s', '%s', found '%s', '%s'", line, tensor, cause, found, v.cause);
    int held = 0; /* tensors that the reference has: all are compared */
    for (int slot = 0; slot < f->ref.n_slots; slot++) held += f->ref.x[slot] != NULL;
    assert_true(v.n == held && held > f->ref.n_slots / 2);
    if (strstr(cause, "pairing")) { /* position 0 is rotated by nothing: it must agree */
        const float *a = ours.x[trace_slot(0, STEP_Q_ROT, 2)], *b = f->ref.x[trace_slot(0, STEP_Q_ROT, 2)];
        for (int i = 0; i < ours.cols[trace_slot(0, STEP_Q_ROT, 2)]; i++) assert_true(fabsf(a[i] - b[i]) < 1e-4f);
        assert_true(v.rows[v.first_bad].worst_pos >= 1);
    }
    verify_close(&v);
    trace_close(&ours);
}
#define CHECK(f, tensor, cause) check(f, NULL, tensor, cause, __LINE__)

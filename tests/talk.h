/* talk - what the tests of conversations share: a model opened as the program opens it, and a generator on it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gen/generate.h"
#include "gen/session.h"

#include <cmocka.h> /* last: it makes a macro of fail */

typedef struct {
    Options o;
    Session s;
    Generator g;
} Talk;

static inline void talk_open(Talk *x, const char *path, KvType type, int batch, int n_ctx, bool deterministic) {
    Error e = {""};
    *x = (Talk){.o = {.checkpoint = path,
                      .steps = -1,
                      .batch = batch,
                      .threads = 1,
                      .ctx = n_ctx,
                      .kv_type = type,
                      .rope_scaling = -1,
                      .rope_pairing = -1,
                      .quiet = true,
                      .deterministic = deterministic,
                      .seed_given = true,
                      .log = stderr,
                      .sampler = {.top_p = 1, .repeat_penalty = 1}}};
    if (session_open(&x->s, &x->o, 0, &e) || session_state(&x->s, &x->o, 0, &e) ||
        generator_init(&x->g, &x->o, &x->s, &e))
        fail_msg("%s: %s", path, e.text);
}

static inline void talk_close(Talk *x) {
    generator_close(&x->g);
    session_close(&x->s);
}

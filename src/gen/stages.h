/* stages - which sampler removed each of the likeliest tokens. Test: tests/test_sampler.c */
#pragma once
#include "gen/sampler.h"

typedef struct {
    int id;
    float p;           /* before all samplers */
    float left;        /* after them; 0: removed */
    const char *stage; /* that removed it, as --samplers names it; NULL: none did */
} Staged;

/* stages_find - fills out[n] with the likeliest tokens of logits, and says what the samplers of s did to them.
 * accepted: the last token of s->recent was not there yet. XTC draws anew. Returns how many there are; -1 with e set.
 */
int stages_find(Staged *out, int n, const Sampler *s, const float *logits, bool accepted, Error *e);

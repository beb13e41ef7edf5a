/* mxfp4 - experts as gpt-oss is published: for each projection a tensor of nibbles and one of exponents -> rows of the
 * blocks that a GGUF has. Source: transformers, integrations/mxfp4.py; OCP Microscaling Formats, section 5.3.
 * Test: tests/test_fixtures.c, gpt_oss_mxfp4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/hf.h"

static const char *const endings[] = {"_blocks", "_scales"};

int mxfp4_half(const char *name) {
    for (int half = 0; half < 2; half++)
        if (path_ends_with(name, endings[half])) return half;
    return -1;
}

size_t mxfp4_name_length(const char *name, int half) { return strlen(name) - strlen(endings[half]); }

/* Nibbles 2 j and 2 j + 1 of a row are in byte j; in a block's byte j are those of values j and j + 16. */
static void pack(BlockMXFP4 *b, const unsigned char *pairs, unsigned char exponent) {
    b->exponent = exponent;
    for (int j = 0; j < QK / 2; j++) {
        int low = pairs[j / 2] >> j % 2 * 4 & 15, high = pairs[(j + QK / 2) / 2] >> j % 2 * 4 & 15;
        b->q[j] = (uint8_t)(low | high << 4);
    }
}

/* Rows of gate and up take turns; here an expert's gate lies before its up. */
static int add_both(Checkpoint *ck, const Mxfp4Pair *p, const File *file, Error *e) {
    const FusedField *f = &fused_fields[p->at.field - FIELD_COUNT];
    int rows, cols, n = ck->config.moe.n_experts, all;
    field_shape(&rows, &cols, f->field[0], &ck->config);
    size_t groups = (size_t)cols / QK, high = (size_t)rows * (size_t)f->n;
    const SafeTensor *t = p->half;
    const int64_t shape[] = {n, (int64_t)high, cols / QK, QK / 2};
    bool fits = cols % QK == 0 && t[0].n_dims == 4 && t[1].n_dims == 3;
    for (int i = 0; i < 4 && fits; i++) fits = t[0].dims[i] == shape[i] && (i == 3 || t[1].dims[i] == shape[i]);
    if (!fits || __builtin_mul_overflow(n, (int)high, &all))
        return fail(e, "%s: %s: shape: expected [%d, %d, %g, %d] and scales without the last, found another",
                    file->path, p->name, n, (int)high, (double)cols / QK, QK / 2);
    Mat m = {.dtype = DTYPE_MXFP4, .rows = all, .cols = cols};
    m.stride_bytes = dtype_row_bytes(m.dtype, (size_t)cols);
    BlockMXFP4 *blocks = checkpoint_alloc(ck, (size_t)all * groups, sizeof *blocks, e);
    if (!blocks) return -1;
    for (size_t r = 0; r < (size_t)all; r++) {
        size_t in = r % high, to = r - in + in % (size_t)f->n * (size_t)rows + in / (size_t)f->n;
        for (size_t g = 0; g < groups; g++)
            pack(&blocks[to * groups + g], t[0].data + (r * groups + g) * (QK / 2), t[1].data[r * groups + g]);
    }
    for (int half = 0; half < 2; half++) file_release(NULL, t[half].data, t[half].bytes);
    m.data = blocks;
    return checkpoint_add(ck, &p->at, file, p->name, m, SPLIT_BLOCKS, e);
}

int mxfp4_add(Mxfp4 *all, Checkpoint *ck, const FieldPlace *at, int half, const SafeTensor *t, const File *file,
              Error *e) {
    if (at->field != FIELD_EXPERTS_GATE_UP && at->field != FIELD_EXPERTS_DOWN)
        return fail(e, "%s: %s: expected blocks and scales of experts alone, found others", file->path, t->name);
    if (strcmp(t->dtype, "U8") != 0)
        return fail(e, "%s: %s: dtype: expected U8, found %s", file->path, t->name, t->dtype);
    Mxfp4Pair *p = all->pairs;
    while (p < all->pairs + all->n && (p->at.field != at->field || p->at.layer != at->layer)) p++;
    if (p == all->pairs + all->n) {
        Mxfp4Pair *more = realloc(all->pairs, (all->n + 1) * sizeof *more);
        if (!more) return fail(e, "%s: memory: expected some, found none", file->path);
        all->pairs = more;
        p = &more[all->n++];
        *p = (Mxfp4Pair){.at = *at};
        snprintf(p->name, sizeof p->name, "%.*s", (int)mxfp4_name_length(t->name, half), t->name);
    }
    if (p->half[half].data) return fail(e, "%s: %s: expected once, found twice", file->path, t->name);
    p->half[half] = *t;
    return p->half[!half].data ? add_both(ck, p, file, e) : 0;
}

int mxfp4_close(Mxfp4 *all, const Checkpoint *ck, Error *e) {
    int status = 0;
    for (int i = 0; i < 2 * (int)all->n && !status && e; i++) {
        const Mxfp4Pair *p = &all->pairs[i / 2];
        if (!p->half[i % 2].data)
            status = fail(e, "%s: %s%s: expected the tensor, found none", ck->path, p->name, endings[i % 2]);
    }
    free(all->pairs);
    *all = (Mxfp4){0};
    return status;
}

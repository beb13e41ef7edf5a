#include "checkpoint/mistake.h"

#include <math.h>
#include <string.h>

#include "checkpoint/formats.h"

const MistakeInfo mistakes[MISTAKE_COUNT] = {
    [MISTAKE_WRONG_PAIRING] = {"wrong-pairing",
                               "RoPE pairs the features the other way than the weights were trained with"},
    [MISTAKE_NO_ROPE] = {"no-rope", "nothing is rotated: the model has no positions"},
    [MISTAKE_ONE_FREQUENCY] = {"one-frequency", "every pair rotates one radian a token"},
    [MISTAKE_FLIPPED_FREQUENCIES] = {"flipped-frequencies", "the last pair is the fastest, the first the slowest"},
    [MISTAKE_REVERSED] = {"reversed", "queries and keys are rotated the other way than the weights were trained with"},
    [MISTAKE_REVERSED_KEY] = {"reversed-key", "keys are rotated the other way than queries"},
    [MISTAKE_SCORE_SCALE] = {"score-scale", "the scores are not divided by sqrt(head_dim)"},
    [MISTAKE_NO_MASK] = {"no-mask", "a token of the prompt sees those after it"},
    [MISTAKE_GQA_MODULO] = {"gqa-modulo", "query head h reads KV head h % n_kv_heads (GQA)"},
    [MISTAKE_V_ROTATED] = {"v-rotated", "RoPE rotates v too"},
    [MISTAKE_ROPE_LAYER0] = {"rope-layer0", "RoPE in layer 0 only, as if it were a position embedding"},
    [MISTAKE_KEYS_UNROTATED] = {"keys-unrotated", "keys go into the cache before RoPE rotates them"},
    [MISTAKE_DECODE_OFF_BY_ONE] = {"decode-off-by-one", "a token that is decoded gets the position before its own"},
    [MISTAKE_K_PERMUTED] = {"k-permuted", "the rows of wk are reordered as n_heads heads, not n_kv_heads (GQA)"},
    [MISTAKE_CONV1D] = {"conv1d", "GPT-2's Conv1D matrices are read as they lie, not transposed"},
    [MISTAKE_WPE_PAST_END] = {"wpe-past-end", "positions past the learned table take its last row (needs -c)"},
};

/* A matrix in f32 of its own; its rows are the caller's to fill. */
static float *own(Checkpoint *ck, Mat *m, Error *e) {
    float *data = checkpoint_alloc(ck, (size_t)m->rows * (size_t)m->cols, sizeof *data, e);
    if (data)
        *m = (Mat){.dtype = DTYPE_F32,
                   .rows = m->rows,
                   .cols = m->cols,
                   .stride_bytes = (size_t)m->cols * sizeof *data,
                   .data = data};
    return data;
}

/* Row r of a matrix that was reordered from half-split to adjacent pairs, as blocks of d rows, was this row before;
 * and the other way round. */
static int half_row(int r, int d) { return r / d * d + r % d % 2 * (d / 2) + r % d / 2; }
static int pairs_row(int r, int d) { return r / d * d + r % d % (d / 2) * 2 + r % d / (d / 2); }

/* A converter that reorders q as n_heads heads, and k as n_heads too: right for multi-head attention only. */
static int permute_k(Checkpoint *ck, const Config *c, Layer *l, Error *e) {
    int rows = l->attn.wk.rows, d = c->head_dim, block = rows / c->n_heads;
    Mat wk = l->attn.wk;
    const float *bk = l->attn.bk;
    float *data = own(ck, &l->attn.wk, e), *bias = bk ? checkpoint_alloc(ck, (size_t)rows, sizeof *bias, e) : NULL;
    if (!data || (bk && !bias)) return -1;
    for (int r = 0; r < rows; r++) {
        int from = c->rope.pairing == ROPE_PAIRS ? pairs_row(half_row(r, block), d) : half_row(pairs_row(r, d), block);
        mat_dequantize_row(data + (size_t)r * (size_t)wk.cols, &wk, from);
        if (bk) bias[r] = bk[from];
    }
    if (bk) l->attn.bk = bias;
    return 0;
}

/* Conv1D keeps [in, out]. Here those bytes are taken for [out, in], of the n matrices that are one in the file. */
static int keep_conv1d(Checkpoint *ck, Mat *const *parts, int n, Error *e) {
    size_t in = (size_t)parts[0]->cols, out = 0, row = 0;
    for (int i = 0; i < n; i++) out += (size_t)parts[i]->rows;
    float *file = checkpoint_alloc(ck, in * out, sizeof *file, e), *right = checkpoint_alloc(ck, in, sizeof *right, e);
    if (!file || !right) return -1;
    for (int i = 0; i < n; i++)
        for (int r = 0; r < parts[i]->rows; r++, row++) {
            mat_dequantize_row(right, parts[i], r);
            for (size_t j = 0; j < in; j++) file[j * out + row] = right[j];
        }
    for (int i = 0; i < n; file += (size_t)parts[i++]->rows * in)
        *parts[i] = (Mat){.dtype = DTYPE_F32,
                          .rows = parts[i]->rows,
                          .cols = (int)in,
                          .stride_bytes = in * sizeof *file,
                          .data = file};
    return 0;
}

/* A table of n_ctx rows, the last one again and again. */
static int stretch_positions(Checkpoint *ck, Config *c, Mat *table, int n_ctx, Error *e) {
    Mat short_one = *table;
    table->rows = n_ctx;
    float *data = own(ck, table, e);
    if (!data) return -1;
    for (int r = 0; r < n_ctx; r++)
        mat_dequantize_row(data + (size_t)r * (size_t)table->cols, &short_one, r < c->n_ctx ? r : c->n_ctx - 1);
    c->n_ctx = n_ctx;
    return 0;
}

/* What RoPE rotates in a layer: ROTATE_ masks, -1: as it should. */
static int rotated(Mistake mistake, int layer) {
    switch (mistake) {
    case MISTAKE_V_ROTATED: return ROTATE_Q | ROTATE_K | ROTATE_V;
    case MISTAKE_ROPE_LAYER0: return layer == 0 ? ROTATE_Q | ROTATE_K : 0;
    case MISTAKE_KEYS_UNROTATED: return ROTATE_Q;
    case MISTAKE_NO_ROPE: return 0;
    case MISTAKE_REVERSED_KEY: return ROTATE_Q | ROTATE_K | ROTATE_K_LOCAL;
    default: return -1;
    }
}

/* Mistakes of the angles. Factors divide the frequencies. */
static int bend_angles(Checkpoint *ck, Config *c, Mistake mistake, Error *e) {
    RopeConfig *r = &c->rope;
    int pairs = r->rotary_dim / 2;
    if (mistake == MISTAKE_WRONG_PAIRING) r->pairing = r->pairing == ROPE_HALF ? ROPE_PAIRS : ROPE_HALF;
    if (mistake == MISTAKE_ONE_FREQUENCY) {
        r->theta = 1;
        r->scaling = ROPE_SCALING_NONE;
        r->freq_factors = NULL;
    }
    bool flipped = mistake == MISTAKE_FLIPPED_FREQUENCIES;
    if (!flipped && mistake != MISTAKE_REVERSED && mistake != MISTAKE_REVERSED_KEY) return 0;
    float *factors = checkpoint_alloc(ck, (size_t)pairs, sizeof *factors, e);
    if (!factors) return -1;
    for (int i = 0; i < pairs; i++) {
        float given = r->freq_factors ? r->freq_factors[i] : 1;
        factors[i] = flipped ? (float)pow(r->theta, 2.0 * (pairs - 1 - 2 * i) / r->rotary_dim) * given : -given;
    }
    if (mistake == MISTAKE_REVERSED_KEY) c->rope_local = *r;
    (mistake == MISTAKE_REVERSED_KEY ? &c->rope_local : r)->freq_factors = factors;
    return 0;
}

int mistake_make(Checkpoint *ck, Config *c, Weights *w, Mistake mistake, int n_ctx, Error *e) {
    const char *name = mistakes[mistake].name;
    bool gpt2_file = strcmp(ck->arch, "gpt2") == 0 && ck->format != FORMAT_GGUF;
    bool angles = mistake == MISTAKE_WRONG_PAIRING || mistake == MISTAKE_ONE_FREQUENCY ||
                  mistake == MISTAKE_FLIPPED_FREQUENCIES || mistake == MISTAKE_REVERSED;
    bool masks = rotated(mistake, 0) >= 0, rope = masks || angles || mistake == MISTAKE_K_PERMUTED;
    if (mistake == MISTAKE_NONE) return 0;
    if (rope && c->pos != POS_ROPE)
        return fail(e, "%s: --break %s: expected a model with RoPE, found one with learned positions", ck->path, name);
    if (mistake == MISTAKE_ROPE_LAYER0 && c->n_layers == 1)
        return fail(e, "%s: --break %s: expected more than one layer, found one", ck->path, name);
    bool modulo = mistake == MISTAKE_GQA_MODULO;
    if (modulo && (c->n_kv_heads == c->n_heads || c->n_kv_heads == 1))
        return fail(e, "%s: --break %s: expected groups of heads, found %d heads and %d KV heads", ck->path, name,
                    c->n_heads, c->n_kv_heads);
    if (mistake == MISTAKE_REVERSED_KEY && c->rope_local.rotary_dim)
        return fail(e, "%s: --break %s: expected one table of angles, found two", ck->path, name);
    if (mistake == MISTAKE_K_PERMUTED && c->n_kv_heads == c->n_heads)
        return fail(e, "%s: --break %s: expected fewer KV heads than heads, found %d of each", ck->path, name,
                    c->n_heads);
    if (mistake == MISTAKE_K_PERMUTED && c->n_kv_heads * c->head_dim % (2 * c->n_heads))
        return fail(e, "%s: --break %s: expected an even number of rows of wk for each of %d heads, found %d rows",
                    ck->path, name, c->n_heads, c->n_kv_heads * c->head_dim);
    if (mistake == MISTAKE_CONV1D && !gpt2_file)
        return fail(e, "%s: --break %s: expected a GPT-2 as Hugging Face writes it, found %s", ck->path, name,
                    strcmp(ck->arch, "gpt2") ? ck->arch : "a GGUF, whose matrices are transposed already");
    if (mistake == MISTAKE_WPE_PAST_END && (c->pos != POS_LEARNED || n_ctx <= c->n_ctx)) {
        if (c->pos != POS_LEARNED)
            return fail(e, "%s: --break %s: expected a model with learned positions, found RoPE", ck->path, name);
        return fail(e, "%s: --break %s: expected -c above the model's %d positions, found %d", ck->path, name, c->n_ctx,
                    n_ctx ? n_ctx : c->n_ctx);
    }
    if (mistake == MISTAKE_DECODE_OFF_BY_ONE) c->decode_shift = -1;
    c->attn.interleaved = modulo;
    c->attn.see_ahead = mistake == MISTAKE_NO_MASK;
    c->attn.unscaled = mistake == MISTAKE_SCORE_SCALE;
    if (rope && bend_angles(ck, c, mistake, e)) return -1;
    if (masks) {
        unsigned char *rotate = checkpoint_alloc(ck, (size_t)c->n_layers, 1, e);
        for (int i = 0; rotate && i < c->n_layers; i++) rotate[i] = (unsigned char)rotated(mistake, i);
        c->rotate = rotate;
        return rotate ? 0 : -1;
    }
    if (mistake == MISTAKE_WPE_PAST_END) return stretch_positions(ck, c, &w->pos_emb, n_ctx, e);
    for (Layer *l = w->layers; l < w->layers + c->n_layers; l++) {
        if (mistake == MISTAKE_K_PERMUTED && permute_k(ck, c, l, e)) return -1;
        if (mistake == MISTAKE_CONV1D &&
            (keep_conv1d(ck, (Mat *[]){&l->attn.wq, &l->attn.wk, &l->attn.wv}, 3, e) ||
             keep_conv1d(ck, (Mat *[]){&l->attn.wo}, 1, e) || keep_conv1d(ck, (Mat *[]){&l->ffn.w_up}, 1, e) ||
             keep_conv1d(ck, (Mat *[]){&l->ffn.w_down}, 1, e)))
            return -1;
    }
    return 0;
}

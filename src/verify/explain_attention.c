/* explain, second part: the projections to q, k and v, and attention. */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "verify/explain.h"

/* ---- q, k, v ----------------------------------------------------------------------------------- */

/* Rows of the matrix in the order of another count of heads, or of the other pairing? */
static bool wrong_head_count(Case *c, const float *ours, const float *ref, int cols, const char *matrix) {
    int n = c->ref->n, d = c->m->config.head_dim, right = cols / d, rotary = c->m->config.rope.rotary_dim;
    size_t size = (size_t)n * (size_t)cols;
    if (c->m->config.pos != POS_ROPE) rotary = d;
    for (int count = 1; count <= cols / 2; count++) {
        if (cols % count || cols / count % 2) continue;
        for (int to_half = 0; to_half < 2; to_half++) {
            for (int first = 0; first < 3; first++) { /* nothing, or the right reordering either way, before it */
                memcpy(c->scratch, ours, size * sizeof *ours);
                if (first) explain_reorder(c->scratch, n, cols, right, rotary, first == 1, c->line);
                int of = count == right ? rotary : cols / count;
                explain_reorder(c->scratch, n, cols, count, of, to_half, c->line);
                if (!explain_fits(c->scratch, ref, size)) continue;
                if (count == right)
                    return explain_say(
                        c, "%s: its rows are in the order of the other pairing than those of the other matrices",
                        matrix);
                return explain_say(
                    c,
                    "heads permuted with the wrong count: the rows of %s were reordered as %d heads of %d, "
                    "it has %d of %d",
                    matrix, count, cols / count, right, d);
            }
        }
    }
    return false;
}

static bool other_order(Case *c, const float *ours, const float *ref, int cols, const char *matrix) {
    size_t d = (size_t)c->m->config.head_dim, width = (size_t)cols;
    int heads = cols / (int)d, n = c->ref->n, moved = -1, to = -1;
    double limit = 5e-4 * explain_largest(ref, (size_t)n * width);
    for (int h = 0; h < heads; h++) {
        int match = -1;
        for (int g = 0; g < heads && match < 0; g++) {
            double worst = 0;
            for (int t = 0; t < n && worst <= limit; t++)
                worst = fmax(worst, explain_distance(ours + (size_t)t * width + (size_t)h * d,
                                                     ref + (size_t)t * width + (size_t)g * d, d));
            if (worst <= limit) match = g;
        }
        if (match < 0) return false;
        if (match != h && moved < 0) moved = h, to = match;
    }
    if (moved < 0) return false;
    return explain_say(c,
                       "GQA mapping: the heads of %s are in another order: head %d here is the reference's head %d, so "
                       "queries meet the wrong keys",
                       matrix, moved, to);
}

/* Is the difference one vector, the same at every position? */
static bool constant_difference(const Case *c, const float *ours, const float *ref, size_t cols) {
    double limit = 5e-4 * explain_largest(ref, (size_t)c->ref->n * cols);
    for (int t = 1; t < c->ref->n; t++)
        for (size_t i = 0; i < cols; i++) {
            size_t at = (size_t)t * cols + i;
            double first = (double)ref[i] - (double)ours[i], here = (double)ref[at] - (double)ours[at];
            if (!(fabs(here - first) <= limit)) return false;
        }
    return c->ref->n > 1;
}

/* v as RoPE would rotate it. It is stored in the order of the config's pairing. */
static void rotate_v(Case *c, float *v) {
    const Config *k = &c->m->config;
    Rotation r;
    formula_rotation(&r, explain_rope(c), c->ref->n);
    for (int t = 0; t < c->ref->n; t++) c->position[t] = t;
    int cols = trace_cols(k, STEP_V);
    if (c->stored_in_pairs) explain_reorder(v, c->ref->n, cols, k->n_kv_heads, k->rope.rotary_dim, true, c->line);
    formula_rotate(v, c->ref->n, k->n_kv_heads, k->head_dim, &r, c->position);
    if (c->stored_in_pairs) explain_reorder(v, c->ref->n, cols, k->n_kv_heads, k->rope.rotary_dim, false, c->line);
}

static bool other_rows(Case *c, const float *ours, const float *ref, int cols, const char *matrix) {
    int bad = 0, first = -1, n = c->ref->n;
    double limit = 5e-4 * explain_largest(ref, (size_t)n * (size_t)cols);
    for (int i = 0; i < cols; i++) {
        double worst = 0;
        for (int t = 0; t < n; t++) {
            size_t at = (size_t)t * (size_t)cols + (size_t)i;
            worst = fmax(worst, fabs((double)ours[at] - (double)ref[at]));
        }
        if (!(worst > limit)) continue;
        if (first < 0) first = i;
        bad++;
    }
    return explain_say(
        c,
        "%s: its input is the reference's, its output is not: %d of its %d rows differ, the first is row "
        "%d: other weights",
        matrix, bad, cols, first);
}

static bool not_transposed(Case *c, const float *in, const float *bias, int first_row, int cols) {
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    Mat all = explain_transposed(c, (const Mat *[]){&w->wq, &w->wk, &w->wv}, 3);
    if (!all.data) return false;
    const Mat part = mat_rows(&all, first_row, cols);
    explain_multiply(c, c->scratch, &part, bias, in);
    bool fitting = explain_by(c, c->scratch);
    free((void *)(uintptr_t)all.data);
    return fitting;
}

void explain_projection(Case *c) {
    const Config *k = &c->m->config;
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    bool is_q = c->step == STEP_Q, is_k = c->step == STEP_K;
    const char *matrix = is_q ? "wq" : is_k ? "wk" : "wv";
    const Mat *mat = is_q ? &w->wq : is_k ? &w->wk : &w->wv;
    const float *bias = is_q ? w->bq : is_k ? w->bk : w->bv;
    const float *ours = explain_of(c->ours, c->layer, c->step), *ref = explain_of(c->ref, c->layer, c->step);
    const float *in = explain_of(c->ref, c->layer, STEP_ATTN_NORM);
    int cols = trace_cols(k, c->step), n = c->ref->n;
    size_t size = explain_size(c, c->step);
    bool pairs = k->pos == POS_ROPE && c->stored_in_pairs && c->step != STEP_V;
    if (in) {
        explain_multiply(c, c->scratch, mat, bias, in);
        if (pairs) explain_reorder(c->scratch, n, cols, cols / k->head_dim, k->rope.rotary_dim, true, c->line);
    }
    explain_judge(c, in ? c->scratch : NULL);
    for (int theirs = 0; c->step == STEP_V && k->pos == POS_ROPE && theirs < 2; theirs++) {
        memcpy(c->scratch, theirs ? ref : ours, size * sizeof *ours);
        rotate_v(c, c->scratch);
        if (explain_fits(c->scratch, theirs ? ours : ref, size)) {
            explain_say(c, "V rotated: rotated by RoPE, %s v is the other's; v must never be rotated",
                        theirs ? "the reference's" : "this model's");
            return;
        }
    }
    if (other_order(c, ours, ref, cols, matrix) || wrong_head_count(c, ours, ref, cols, matrix)) return;
    if (constant_difference(c, ours, ref, (size_t)cols)) {
        explain_say(c,
                    c->here ? "bias of %s: the difference is one vector, the same at every position: here the bias is "
                              "not added as the file has it"
                            : "bias of %s: the difference is one vector, the same at every position: a bias is missing "
                              "or not the reference's",
                    matrix);
    } else if (c->here) {
        explain_arithmetic(c, matrix);
    } else if (!in) {
        explain_say(c, "%s: the reference lacks its input, attn_norm", matrix);
    } else if (not_transposed(c, in, bias, is_q ? 0 : is_k ? w->wq.rows : w->wq.rows + w->wk.rows, cols)) {
        explain_say(c, NOT_TRANSPOSED, "wq, wk and wv");
    } else {
        other_rows(c, ours, ref, cols, matrix);
    }
}

/* ---- Attention --------------------------------------------------------------------------------- */

typedef struct {
    AttentionFormula f;
    const char *what;
} Attempt;

/* Up to and including wo. */
static void attempt(Case *c, const AttentionFormula *f, const Mat *wo, const float *bias, float *heads) {
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    c->no_memory |= formula_attention(heads, &c->m->config, w, c->ref->n, f) != 0;
    explain_multiply(c, c->scratch, wo, bias, heads);
}

static double attempt_error(Case *c, const AttentionFormula *f, float *heads) {
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    attempt(c, f, &w->wo, w->bo, heads);
    return explain_distance(c->scratch, c->target, explain_size(c, c->step));
}

/* The number, of those in powers of e, that comes closest to the target: the best of a grid, then halved steps. */
static double nearest(Case *c, AttentionFormula *f, double *number, double from, double to, float *heads) {
    enum { GRID = 40, HALVINGS = 24 };
    double best = from, error = INFINITY, step = (to - from) / GRID;
    for (int i = 0; i <= GRID; i++) {
        *number = exp(from + i * step);
        double e = attempt_error(c, f, heads);
        if (e < error) error = e, best = from + i * step;
    }
    for (int i = 0; i < HALVINGS; i++) {
        step /= 2;
        for (int side = -1; side <= 1; side += 2) {
            *number = exp(best + side * step);
            double e = attempt_error(c, f, heads);
            if (e < error) error = e, best += side * step;
        }
    }
    *number = exp(best);
    attempt_error(c, f, heads);
    return *number;
}

/* Another window, cap or scale than the model's. */
static bool other_number(Case *c, const AttentionFormula *right, float *heads) {
    const char *side = explain_side(c);
    AttentionFormula f = *right;
    for (f.window = 1; f.window < c->ref->n; f.window++) {
        if (f.window == right->window || (attempt_error(c, &f, heads), !explain_by(c, c->scratch))) continue;
        if (right->window)
            return explain_say(
                c, "window: %s a token sees the last %d positions, this model's layer %d has a window of %d", side,
                f.window, c->layer, right->window);
        return explain_say(c,
                           "window missing: %s a token sees the last %d positions alone, this model's layer %d has no "
                           "window",
                           side, f.window, c->layer);
    }
    f = *right;
    nearest(c, &f, &f.factor, log(right->factor) - 7, log(right->factor) + 7, heads);
    if (explain_by(c, c->scratch))
        return explain_say(c, "score scale: %s the scores are multiplied by %.5g, this model has %.5g", side, f.factor,
                           right->factor);
    f = *right;
    nearest(c, &f, &f.cap, log(0.05), log(500), heads);
    if (!explain_by(c, c->scratch)) return false;
    if (right->cap > 0)
        return explain_say(c, "soft cap: %s the scores are capped at %.4g, this model has %.4g", side, f.cap,
                           right->cap);
    return explain_say(c, "soft cap missing: %s the scores are capped at %.4g, this model has no cap", side, f.cap);
}

static bool explain_attention_of(Case *c, float *heads, float *v, float *rotated_v) {
    const Config *k = &c->m->config;
    const AttentionWeights *w = &c->m->weights.layers[c->layer].attn;
    bool rope = k->pos == POS_ROPE;
    const float *plain_q = explain_of(c->ref, c->layer, STEP_Q), *plain_k = explain_of(c->ref, c->layer, STEP_K);
    AttentionFormula f = {.window = w->window,
                          .cap = (double)k->attn.softcap,
                          .q = rope ? explain_of(c->ref, c->layer, STEP_Q_ROT) : plain_q,
                          .k = rope ? explain_of(c->ref, c->layer, STEP_K_ROT) : plain_k,
                          .v = explain_of(c->ref, c->layer, STEP_V),
                          .factor = k->attn.scale > 0 ? (double)k->attn.scale : 1 / sqrt(k->head_dim)};
    if (!f.q || !f.k || !f.v) return explain_say(c, "attention: the reference lacks q, k or v of this layer");
    memcpy(v, f.v, explain_size(c, STEP_V) * sizeof *v);
    explain_clamp(c, v, explain_size(c, STEP_V));
    f.v = v;
    attempt(c, &f, &w->wo, w->bo, heads);
    explain_judge(c, c->scratch);
    memcpy(rotated_v, v, explain_size(c, STEP_V) * sizeof *rotated_v);
    if (rope) rotate_v(c, rotated_v);
    enum {
        V,
        K,
        Q,
        GROUPS,
        NO_MASK,
        NO_MASK_HERE,
        AHEAD,
        BEHIND,
        NO_SUM,
        NO_ROOT,
        DIM,
        TWICE,
        NO_WINDOW,
        NO_CAP,
        NO_SINKS,
        KINDS
    };
    Attempt attempts[KINDS] = {
        [V] = {f, "V rotated: v is rotated by RoPE too; it must never be"},
        [K] = {f, "keys unrotated: they are read from the cache as they were before RoPE"},
        [Q] = {f, "queries unrotated: they are used as they were before RoPE"},
        [GROUPS] = {f, "GQA mapping: query head h reads KV head h % n_kv_heads; it must be h / (n_heads / n_kv_heads)"},
        [NO_MASK] = {f, "causal mask: tokens see what comes after them"},
        [NO_MASK_HERE] = {f, "causal mask: tokens of the prompt see what comes after them"},
        [AHEAD] = {f, "causal mask: off by one: a token sees the next one too"},
        [BEHIND] = {f, "causal mask: off by one: a token does not see itself"},
        [NO_SUM] = {f, "softmax: exp(score) is not divided by the sum over the positions"},
        [NO_ROOT] = {f, "score scale: the scores are not divided by sqrt(head_dim)"},
        [DIM] = {f, "score scale: the scores are divided by sqrt(dim / n_heads), head_dim differs from it"},
        [TWICE] = {f, "score scale: the scores are divided by head_dim, not by its square root"},
        [NO_WINDOW] = {f, "window missing: a token sees all before it, not the last ones alone"},
        [NO_CAP] = {f, "soft cap missing: the scores are not capped"},
        [NO_SINKS] = {f, "attention sinks missing: they take no weight"},
    };
    attempts[V].f.v = rotated_v;
    if (rope && plain_k) attempts[K].f.k = plain_k;
    if (rope && plain_q) attempts[Q].f.q = plain_q;
    attempts[GROUPS].f.interleaved = true;
    attempts[NO_MASK].f.ahead = INT_MAX / 2;
    attempts[NO_MASK_HERE].f.ahead = INT_MAX / 2;
    attempts[NO_MASK_HERE].f.together = c->ours->n_prefill;
    attempts[AHEAD].f.ahead = 1;
    attempts[BEHIND].f.ahead = -1;
    attempts[NO_SUM].f.no_softmax = true;
    attempts[NO_ROOT].f.factor = 1;
    attempts[DIM].f.factor = 1 / sqrt((double)k->dim / k->n_heads);
    attempts[TWICE].f.factor = 1.0 / k->head_dim;
    attempts[NO_WINDOW].f.window = 0;
    attempts[NO_CAP].f.cap = 0;
    attempts[NO_SINKS].f.no_sinks = true;
    for (int i = 0; i < KINDS; i++) {
        attempt(c, &attempts[i].f, &w->wo, w->bo, heads);
        if (explain_by(c, c->scratch)) return explain_say(c, "%s: %s", explain_side(c), attempts[i].what);
    }
    if (other_number(c, &f, heads)) return true;
    attempt(c, &f, &w->wo, NULL, heads);
    if (w->bo && explain_by(c, c->scratch)) return explain_say(c, "bias of wo: %s it is not added", explain_side(c));
    const Mat *wo = &w->wo;
    Mat other = explain_transposed(c, &wo, 1);
    if (other.data && wo->rows == wo->cols) attempt(c, &f, &other, w->bo, heads);
    bool transposed = other.data && wo->rows == wo->cols && !c->here && explain_by(c, c->scratch);
    free((void *)(uintptr_t)other.data);
    if (transposed) return explain_say(c, NOT_TRANSPOSED, "wo");
    if (c->here) return explain_arithmetic(c, "attention");
    return explain_say(
        c, "wo: q, k and v are the reference's, the output is not: other weights, or its columns in another order");
}

void explain_attention(Case *c) {
    float *heads = malloc(explain_size(c, STEP_Q) * sizeof *heads);
    float *v = malloc(2 * explain_size(c, STEP_V) * sizeof *v);
    if (heads && v) explain_attention_of(c, heads, v, v + explain_size(c, STEP_V));
    else c->no_memory = true;
    free(heads);
    free(v);
}

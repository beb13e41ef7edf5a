/* mode_rope - RoPE without a model around it: the frequencies of a configuration, a vector rotated to a position, the
 * score of a query and a key term by term, and the rotation as a matrix. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "modes/modes.h"
#include "gen/session.h"

enum { MAX_FEATURES = 2 * ROPE_MAX_PAIRS };

/* What the flags ask for: vectors hold head_dim numbers, counts are 0 without the flag. */
typedef struct {
    Config config;
    int n_x, n_q, n_k, n_short, n_long, pos, pos_k, seq_len;
    double scale, *inv_freq; /* [rotary_dim / 2] */
    float *x, *short_factor, *long_factor;
    double *q, *k;
} Rope;

static void rope_free(Rope *r) {
    free(r->inv_freq);
    free(r->x);
    free(r->short_factor);
    free(r->long_factor);
    free(r->q);
    free(r->k);
}

/* The numbers of "--flag a,b,c" in *x, malloc'ed, and how many in *n; nothing without the flag. */
static int parse_vector(double **x, int *n, const char *flag, const char *text, Error *e) {
    if (!text) return 0;
    *x = malloc(MAX_FEATURES * sizeof **x);
    if (!*x) return fail(e, "--%s: memory: expected some, found none", flag);
    for (const char *at = text;; at++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value) || (*end && *end != ','))
            return fail(e, "--%s: number %d: expected finite numbers like 1,0,0.5, found '%.40s'", flag, *n, at);
        if (*n == MAX_FEATURES) return fail(e, "--%s: expected at most %d numbers, found more", flag, MAX_FEATURES);
        (*x)[(*n)++] = value;
        if (!*end) return 0;
        at = end;
    }
}

static int parse_floats(float **x, int *n, const char *flag, const char *text, Error *e) {
    double *wide = NULL;
    int status = parse_vector(&wide, n, flag, text, e);
    if (!status && wide && !(*x = malloc(((size_t)*n + 1) * sizeof **x)))
        status = fail(e, "--%s: memory: expected some, found none", flag);
    for (int i = 0; !status && i < *n; i++) (*x)[i] = (float)wide[i];
    free(wide);
    return status;
}

static int parse_vectors(Rope *r, const Options *o, Error *e) {
    if (!o->q != !o->k) return fail(e, "--q and --k: expected both, found one");
    return parse_floats(&r->x, &r->n_x, "x", o->x, e) || parse_vector(&r->q, &r->n_q, "q", o->q, e) ||
           parse_vector(&r->k, &r->n_k, "k", o->k, e) ||
           parse_floats(&r->short_factor, &r->n_short, "rope-short", o->rope_short, e) ||
           parse_floats(&r->long_factor, &r->n_long, "rope-long", o->rope_long, e);
}

/* longrope's lists hold a factor for each rotated pair. */
static int set_factors(Rope *r, Error *e) {
    RopeConfig *c = &r->config.rope;
    int pairs = c->rotary_dim / 2;
    if (r->n_short && r->n_short != pairs)
        return fail(e, "--rope-short: expected rotary_dim / 2, %d numbers, found %d", pairs, r->n_short);
    if (r->n_long && r->n_long != pairs)
        return fail(e, "--rope-long: expected rotary_dim / 2, %d numbers, found %d", pairs, r->n_long);
    if (r->n_short) c->short_factor = r->short_factor;
    if (r->n_long) c->long_factor = r->long_factor;
    for (int i = 0; i < pairs; i++)
        if ((c->short_factor && c->short_factor[i] <= 0) || (c->long_factor && c->long_factor[i] <= 0))
            return fail(e, "longrope: factor of pair %d: expected above 0, found another", i);
    return 0;
}

/* The configuration: the checkpoint's if one is given, then the flags. */
static int configure(Rope *r, Session *s, const Options *o, Error *e) {
    const char *what = o->checkpoint ? o->checkpoint : "rope";
    Config *c = &r->config;
    int head_dim = o->head_dim ? o->head_dim : r->n_x ? r->n_x : r->n_q;
    if (o->checkpoint) {
        Options plain = *o; /* the flags are put over the Config once, at the end */
        plain.rope_theta = plain.rope_factor = 0;
        plain.rope_scaling = plain.rope_pairing = -1;
        plain.rope_original_ctx = 0;
        if (session_open(s, &plain, 0, e)) return -1;
        *c = s->model.config;
        if (c->pos != POS_ROPE) return fail(e, "%s: positions: expected RoPE, found learned ones", what);
        if (!o->head_dim) head_dim = c->head_dim;
        bool other = head_dim != c->head_dim || (o->rotary_dim && o->rotary_dim != c->rope.rotary_dim);
        if (other && (c->rope.short_factor || c->rope.freq_factors))
            return fail(e, "%s: --head-dim, --rotary-dim: expected %d and %d, for which the file has its own factors",
                        what, c->head_dim, c->rope.rotary_dim);
        if (head_dim != c->head_dim) c->rope.rotary_dim = head_dim;
    } else {
        /* The paper's pairing and base; the parameters of a rule are its usual ones. A factor must be given. */
        *c = (Config){.pos = POS_ROPE,
                      .rope = {.theta = 10000,
                               .pairing = ROPE_PAIRS,
                               .truncate = true,
                               .beta_fast = 32,
                               .beta_slow = 1,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4}};
        if (head_dim == 0) head_dim = 64;
        c->rope.rotary_dim = head_dim;
    }
    c->head_dim = head_dim;
    if (o->rotary_dim) c->rope.rotary_dim = o->rotary_dim;
    if (set_factors(r, e) || rope_override(c, o, what, e)) return -1;
    return rope_check(&c->rope, c->head_dim, what, e);
}

/* ---- The rotation in double: what a pocket calculator has --------------------------------------- */

static void pair_at(const RopeConfig *r, int i, int *a, int *b) {
    *a = r->pairing == ROPE_HALF ? i : 2 * i;
    *b = r->pairing == ROPE_HALF ? i + r->rotary_dim / 2 : 2 * i + 1;
}

/* Pair i as the complex number x[a] + i x[b], times exp(i * pos * inv_freq[i]) and the attention factor. */
static void rotate(double *x, const Rope *r, double pos) {
    for (int i = 0; i < r->config.rope.rotary_dim / 2; i++) {
        int a, b;
        pair_at(&r->config.rope, i, &a, &b);
        double complex z = (x[a] + I * x[b]) * cexp(I * (pos * r->inv_freq[i])) * r->scale;
        x[a] = creal(z);
        x[b] = cimag(z);
    }
}

/* The score of q at pos and k at pos_k; rotates both in place. */
static double score_at(double *q, double *k, const Rope *r, double pos, double pos_k) {
    double sum = 0;
    rotate(q, r, pos);
    rotate(k, r, pos_k);
    for (int i = 0; i < r->config.head_dim; i++) sum += q[i] * k[i];
    return sum;
}

/* The float form that the model runs. */
static void rotate_float(float *x, const Rope *r, int pos) {
    float cosine[ROPE_MAX_PAIRS], sine[ROPE_MAX_PAIRS];
    const RopeConfig *c = &r->config.rope;
    RopeTable one = {.n_ctx = 1,
                     .head_dim = r->config.head_dim,
                     .rotary_dim = c->rotary_dim,
                     .pairing = c->pairing,
                     .cos = cosine,
                     .sin = sine};
    rope_row(cosine, sine, r->inv_freq, r->scale, c->rotary_dim / 2, pos);
    rope_apply(x, 1, 1, r->config.head_dim, &one, 0);
}

/* ---- Printing ------------------------------------------------------------------------------------ */

static void print_vector(FILE *out, const char *format, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", out);
        fprintf(out, format, x[i] + 0.0); /* no minus before a zero */
    }
}

static void print_floats(FILE *out, const char *format, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", out);
        fprintf(out, format, (double)x[i]);
    }
}

static void print_table(FILE *out, const Rope *r) {
    const RopeConfig *c = &r->config.rope;
    fprintf(out, "head_dim %d, %d features rotated, theta %g, pairing %s\nscaling %s", r->config.head_dim,
            c->rotary_dim, c->theta, c->pairing == ROPE_HALF ? "half" : "pairs",
            c->scaling == ROPE_SCALING_NONE && c->freq_factors ? "baked into the file" : rope_scaling_name[c->scaling]);
    if (c->scaling != ROPE_SCALING_NONE) {
        if (c->factor > 0) fprintf(out, ", factor %g", c->factor);
        if (c->original_ctx) fprintf(out, ", original context %d", c->original_ctx);
    }
    if (c->scaling == ROPE_SCALING_DYNAMIC || c->scaling == ROPE_SCALING_LONGROPE)
        fprintf(out, ", sequence of %d", r->seq_len);
    fprintf(out, "\nattention factor %.6g (multiplied into cos and sin)\n\n", r->scale);
    fputs("pair  features    radians/token  wavelength, tokens  slowed by\n", out);
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        int a, b;
        pair_at(c, i, &a, &b);
        double slowed = pow(c->theta, -2.0 * i / c->rotary_dim) / r->inv_freq[i];
        fprintf(out, "%4d  %3d, %3d  %15.9g  %18.2f  ", i, a, b, r->inv_freq[i], 2 * M_PI / r->inv_freq[i]);
        if (fabs(slowed - 1) < 1e-9) fputs("-\n", out);
        else fprintf(out, "%.4g\n", slowed);
    }
}

/* "S = a + b - c": the score and its terms. */
static void print_sum(FILE *out, const double *q, const double *k, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += q[i] * k[i];
    fprintf(out, "%.4f", sum);
    for (int i = 0; i < n; i++) {
        double term = q[i] * k[i];
        if (i == 0) fprintf(out, " = %.4f", term);
        else fprintf(out, " %s %.4f", term < 0 ? "-" : "+", fabs(term));
    }
}

static void example_row(FILE *out, const Rope *r, const double *x, int pos, double *rotated) {
    for (int i = 0; i < r->config.head_dim; i++) rotated[i] = x[i];
    rotate(rotated, r, pos);
    fprintf(out, "  position %d: ", pos);
    print_vector(out, "%7.4f", rotated, r->config.head_dim);
    fputc('\n', out);
}

/* Small enough to follow with a pocket calculator. */
static void print_examples(FILE *out) {
    double eighth = M_PI / 4, inv_freq[2], rotated[3][4];
    Rope two = {
        .config = {.head_dim = 2, .rope = {.rotary_dim = 2, .pairing = ROPE_PAIRS}}, .scale = 1, .inv_freq = &eighth};
    Rope four = {.config = {.head_dim = 4, .rope = {.theta = 10000, .rotary_dim = 4, .pairing = ROPE_PAIRS}},
                 .inv_freq = inv_freq};
    const double x[4] = {1, 0, 1, 0};
    fputs("\nworked example: one pair, pi/4 radians a token, x = (1, 0)\n", out);
    for (int pos = 0; pos < 3; pos++) example_row(out, &two, x, pos, rotated[pos]);
    fputs("\nworked example: head_dim 4, theta 10000 (1 and 0.01 radians a token), x = (1, 0, 1, 0)\n", out);
    rope_inv_freq(inv_freq, &four.scale, &four.config.rope, 3);
    for (int pos = 0; pos < 3; pos++) example_row(out, &four, x, pos, rotated[pos]);
    static const struct {
        int m, n;
        const char *note;
    } scores[] = {{1, 0, ""}, {2, 1, "  (the same distance, the same score)"}, {2, 0, ""}};
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        fprintf(out, "  score of q at %d and k at %d: ", scores[i].m, scores[i].n);
        print_sum(out, rotated[scores[i].m], rotated[scores[i].n], 4);
        fprintf(out, "%s\n", scores[i].note);
    }
    fprintf(out, "  by the formula, cos(d) + cos(d / 100): %.4f at distance 1, %.4f at distance 2\n",
            cos(1) + cos(0.01), cos(2) + cos(0.02));
    fputs("  without RoPE, anywhere:     ", out);
    print_sum(out, x, x, 4);
    fputc('\n', out);
}

enum { SHIFT = 100 };

static void print_score(FILE *out, const Rope *r) {
    int n = r->config.head_dim;
    double plain = 0, q[MAX_FEATURES], k[MAX_FEATURES];
    for (int i = 0; i < n; i++) {
        q[i] = r->q[i];
        k[i] = r->k[i];
        plain += q[i] * k[i];
    }
    double score = score_at(q, k, r, r->pos, r->pos_k);
    fprintf(out, "\n%7s  %10s  %10s  %10s  %10s  %10s\n", "feature", "q", "k", "q rotated", "k rotated", "product");
    for (int i = 0; i < n; i++)
        fprintf(out, "%7d  %10.4f  %10.4f  %10.4f  %10.4f  %10.4f\n", i, r->q[i], r->k[i], q[i], k[i], q[i] * k[i]);
    fprintf(out, "\nscore of q at %d and k at %d (distance %d): ", r->pos, r->pos_k, r->pos - r->pos_k);
    if (n <= 8) print_sum(out, q, k, n);
    else fprintf(out, "%.4f", score);
    for (int i = 0; i < n; i++) {
        q[i] = r->q[i];
        k[i] = r->k[i];
    }
    double shifted = score_at(q, k, r, (double)r->pos + SHIFT, (double)r->pos_k + SHIFT);
    fprintf(out, "\nscore of q at %d and k at %d:  %.4f\n", r->pos + SHIFT, r->pos_k + SHIFT, shifted);
    fprintf(out, "without RoPE:  %.4f\n", plain);
}

static void print_score_json(FILE *out, const Rope *r) {
    int n = r->config.head_dim;
    double terms[MAX_FEATURES], q[MAX_FEATURES], k[MAX_FEATURES];
    for (int i = 0; i < n; i++) {
        q[i] = r->q[i];
        k[i] = r->k[i];
    }
    double score = score_at(q, k, r, r->pos, r->pos_k);
    fputs(", \"q_rotated\": [", out);
    print_vector(out, "%.9g", q, n);
    fputs("], \"k_rotated\": [", out);
    print_vector(out, "%.9g", k, n);
    for (int i = 0; i < n; i++) {
        terms[i] = q[i] * k[i];
        q[i] = r->q[i];
        k[i] = r->k[i];
    }
    fputs("], \"terms\": [", out);
    print_vector(out, "%.9g", terms, n);
    fprintf(out, "], \"score\": %.9g, \"shifted\": {\"pos\": %d, \"pos_k\": %d, \"score\": %.9g}", score,
            r->pos + SHIFT, r->pos_k + SHIFT, score_at(q, k, r, (double)r->pos + SHIFT, (double)r->pos_k + SHIFT));
}

/* R(pos) [d, d], row by row: column j is the j-th unit vector, rotated. */
static void matrix_of(double *m, const Rope *r, double pos) {
    int d = r->config.head_dim;
    double unit[MAX_FEATURES];
    for (int j = 0; j < d; j++) {
        for (int i = 0; i < d; i++) unit[i] = i == j;
        rotate(unit, r, pos);
        for (int i = 0; i < d; i++) m[i * d + j] = unit[i];
    }
}

/* The greatest |(A B - C)[i][j]|; A is taken transposed with at. */
static double product_error(const double *a, bool at, const double *b, const double *c, int d) {
    double worst = 0;
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++) {
            double sum = -c[i * d + j];
            for (int l = 0; l < d; l++) sum += (at ? a[l * d + i] : a[i * d + l]) * b[l * d + j];
            worst = fmax(worst, fabs(sum));
        }
    return worst;
}

enum { MATRIX_MAX = 16 }; /* a matrix that a screen holds */

/* The rotation as the block-diagonal matrix of the paper and as complex numbers, and the three laws of the proof. */
static void print_matrix(FILE *out, const Rope *r) {
    enum { SIZE = MATRIX_MAX * MATRIX_MAX };
    int d = r->config.head_dim;
    double m[SIZE], back[SIZE], one[SIZE], sum[SIZE], identity[SIZE], transposed[SIZE];
    Rope plain = *r; /* without the attention factor, which is no rotation */
    plain.scale = 1;
    matrix_of(m, &plain, r->pos);
    matrix_of(back, &plain, -(double)r->pos);
    matrix_of(one, &plain, 1);
    matrix_of(sum, &plain, (double)r->pos + 1);
    matrix_of(identity, &plain, 0);
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++) transposed[i * d + j] = m[j * d + i];
    fprintf(out, "\nR(%d), one 2 x 2 block a pair:\n", r->pos);
    for (int i = 0; i < d; i++) {
        for (int j = 0; j < d; j++) {
            if (m[i * d + j] == 0) fprintf(out, "%8s", ".");
            else fprintf(out, "%8.4f", m[i * d + j]);
        }
        fputc('\n', out);
    }
    fputs("\nthe same as complex numbers, exp(i angle), to multiply each pair with:\n", out);
    for (int i = 0; i < r->config.rope.rotary_dim / 2; i++) {
        double complex z = cexp(I * (r->pos * r->inv_freq[i]));
        fprintf(out, "  pair %d: angle %.4f, %.4f %c %.4fi\n", i, r->pos * r->inv_freq[i], creal(z),
                cimag(z) < 0 ? '-' : '+', fabs(cimag(z)));
    }
    fprintf(out, "\nlargest error of R^T R = 1:            %.1e  (lengths stay)\n",
            product_error(m, true, m, identity, d));
    fprintf(out, "largest error of R(m)^T = R(-m):       %.1e\n", product_error(transposed, false, identity, back, d));
    fprintf(out, "largest error of R(m) R(1) = R(m + 1): %.1e  (angles add)\n", product_error(m, false, one, sum, d));
}

static void print_json(FILE *out, const Rope *r) {
    const RopeConfig *c = &r->config.rope;
    fprintf(out, "{\"head_dim\": %d, \"theta\": %.9g, \"type\": \"%s\", \"attention_factor\": %.12g, \"inv_freq\": [",
            r->config.head_dim, c->theta, rope_scaling_name[c->scaling], r->scale);
    print_vector(out, "%.12g", r->inv_freq, c->rotary_dim / 2);
    fputs("], \"rotated\": [", out);
    print_floats(out, "%.9g", r->x, r->n_x);
    fputs("]", out);
    if (r->q) print_score_json(out, r);
    fputs("}\n", out);
}

static void print_text(FILE *out, const Rope *r, const Options *o) {
    print_table(out, r);
    if (r->x) {
        fprintf(out, "\nx rotated to position %d: ", r->pos);
        print_floats(out, "%.6g", r->x, r->n_x);
        fputc('\n', out);
    }
    if (r->q) print_score(out, r);
    if (!r->x && !r->q && o->pos >= 0 && r->config.head_dim <= MATRIX_MAX) print_matrix(out, r);
    if (!r->x && !r->q && o->pos < 0) print_examples(out);
}

int mode_rope(const Options *o, FILE *out, Error *e) {
    Session s = {0};
    Rope r = {.pos = o->pos < 0 ? 0 : o->pos, .pos_k = o->pos_k < 0 ? 0 : o->pos_k};
    int code = 1, last = r.pos > r.pos_k ? r.pos : r.pos_k, n = 0;
    r.seq_len = o->seq_len ? o->seq_len : last < INT32_MAX ? last + 1 : last;
    if (parse_vectors(&r, o, e) || configure(&r, &s, o, e)) goto done;
    n = r.config.head_dim;
    if ((r.x && r.n_x != n) || (r.q && (r.n_q != n || r.n_k != n))) {
        fail(e, "--%s: expected head_dim, %d numbers, found %d",
             r.x && r.n_x != n ? "x"
             : r.n_q != n      ? "q"
                               : "k",
             n,
             r.x && r.n_x != n ? r.n_x
             : r.n_q != n      ? r.n_q
                               : r.n_k);
        goto done;
    }
    if (r.q && last > INT32_MAX - SHIFT) {
        fail(e, "--pos, --pos-k: expected at most %d with --q, found %d", INT32_MAX - SHIFT, last);
        goto done;
    }
    r.inv_freq = malloc((size_t)(r.config.rope.rotary_dim / 2) * sizeof *r.inv_freq);
    if (!r.inv_freq) {
        fail(e, "rope: memory: expected some, found none");
        goto done;
    }
    rope_inv_freq(r.inv_freq, &r.scale, &r.config.rope, r.seq_len);
    if (r.x) rotate_float(r.x, &r, r.pos);
    if (o->json) print_json(out, &r);
    else print_text(out, &r, o);
    code = 0;
done:
    rope_free(&r);
    session_close(&s);
    return code;
}

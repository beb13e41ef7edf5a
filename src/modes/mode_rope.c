/* mode_rope - RoPE without a model around it: the frequencies of a configuration, what a scaling rule made of
 * them, and a vector turned to a position. */
#include <math.h>
#include <stdlib.h>

#include "modes/modes.h"
#include "gen/session.h"

static const char *const rule_name[] = {"none", "linear", "dynamic", "yarn", "llama3", "longrope"};

/* The numbers of "--x a,b,c"; returns how many, -1 on failure. At most `room` are stored. */
static int parse_vector(float *x, int room, const char *text, Error *e) {
    int n = 0;
    for (const char *at = text;; at++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value) || (*end && *end != ','))
            return fail(e, "--x: number %d: expected finite numbers like 1,0,0.5, found '%.40s'", n, at);
        if (n == room) return fail(e, "--x: expected at most %d numbers, found more", room);
        x[n++] = (float)value;
        if (!*end) return n;
        at = end;
    }
}

/* The configuration: the checkpoint's if one is given, then the flags. */
static int configure(Config *c, Session *s, const Options *o, int n_x, Error *e) {
    const char *what = o->checkpoint ? o->checkpoint : "rope";
    int head_dim = o->head_dim ? o->head_dim : n_x;
    if (o->checkpoint) {
        if (session_open(s, o, 0, e)) return -1;
        *c = s->model.config;
        if (c->pos != POS_ROPE) return fail(e, "%s: positions: expected RoPE, found learned ones", what);
        if (!o->head_dim || o->head_dim == c->head_dim) return 0;
        if (c->rope.short_factor || c->rope.freq_factors)
            return fail(e, "%s: --head-dim: expected %d, for which the file has its own factors, found %d", what,
                        c->head_dim, o->head_dim);
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
    }
    c->head_dim = c->rope.rotary_dim = head_dim;
    if (rope_override(c, o, what, e)) return -1;
    return rope_check(&c->rope, c->head_dim, what, e);
}

static void turn_to(float *x, const Config *c, const double *inv_freq, double scale, int pos) {
    float cosine[ROPE_MAX_PAIRS], sine[ROPE_MAX_PAIRS];
    RopeTable one = {.n_ctx = 1,
                     .head_dim = c->head_dim,
                     .rotary_dim = c->rope.rotary_dim,
                     .pairing = c->rope.pairing,
                     .cos = cosine,
                     .sin = sine};
    rope_row(cosine, sine, inv_freq, scale, c->rope.rotary_dim / 2, pos);
    rope_apply(x, 1, 1, c->head_dim, &one, 0);
}

static void print_vector(FILE *out, const char *format, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", out);
        fprintf(out, format, (double)x[i]);
    }
}

static void print_table(FILE *out, const Config *c, const double *inv_freq, double scale, int seq_len) {
    const RopeConfig *r = &c->rope;
    int pairs = r->rotary_dim / 2;
    fprintf(out, "head_dim %d, %d features turned, theta %g, pairing %s\nscaling %s", c->head_dim, r->rotary_dim,
            r->theta, r->pairing == ROPE_HALF ? "half" : "pairs",
            r->scaling == ROPE_SCALING_NONE && r->freq_factors ? "baked into the file" : rule_name[r->scaling]);
    if (r->scaling != ROPE_SCALING_NONE) {
        fprintf(out, ", factor %g", r->factor);
        if (r->original_ctx) fprintf(out, ", original context %d", r->original_ctx);
    }
    if (r->scaling == ROPE_SCALING_DYNAMIC || r->scaling == ROPE_SCALING_LONGROPE)
        fprintf(out, ", sequence of %d", seq_len);
    fprintf(out, "\nattention factor %.6g (multiplied into cos and sin)\n\n", scale);
    fputs("pair  features    radians/token  wavelength, tokens  slowed by\n", out);
    for (int i = 0; i < pairs; i++) {
        int a = r->pairing == ROPE_HALF ? i : 2 * i, b = r->pairing == ROPE_HALF ? i + pairs : 2 * i + 1;
        double slowed = pow(r->theta, -2.0 * i / r->rotary_dim) / inv_freq[i];
        fprintf(out, "%4d  %3d, %3d  %15.9g  %18.2f  ", i, a, b, inv_freq[i], 2 * M_PI / inv_freq[i]);
        if (fabs(slowed - 1) < 1e-9) fputs("-\n", out);
        else fprintf(out, "%.4g\n", slowed);
    }
}

static void example_row(FILE *out, const Config *c, const double *inv_freq, const float *x, int pos, float *turned) {
    for (int i = 0; i < c->head_dim; i++) turned[i] = x[i];
    turn_to(turned, c, inv_freq, 1, pos);
    fprintf(out, "  position %d: ", pos);
    print_vector(out, "%7.4f", turned, c->head_dim);
    fputc('\n', out);
}

static double score(const float *q, const float *k, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)q[i] * (double)k[i];
    return sum;
}

/* Small enough to follow with a pocket calculator. */
static void print_examples(FILE *out) {
    Config two = {.head_dim = 2, .rope = {.theta = 10000, .rotary_dim = 2, .pairing = ROPE_PAIRS}};
    Config four = {.head_dim = 4, .rope = {.theta = 10000, .rotary_dim = 4, .pairing = ROPE_PAIRS}};
    double eighth = M_PI / 4, inv_freq[ROPE_MAX_PAIRS], scale;
    float x[4] = {1, 0, 1, 0}, turned[3][4];
    fputs("\nworked example: one pair, pi/4 radians a token, x = (1, 0)\n", out);
    for (int pos = 0; pos < 3; pos++) example_row(out, &two, &eighth, x, pos, turned[pos]);
    fputs("\nworked example: head_dim 4, theta 10000 (1 and 0.01 radians a token), x = (1, 0, 1, 0)\n", out);
    rope_inv_freq(inv_freq, &scale, &four.rope, 3);
    for (int pos = 0; pos < 3; pos++) example_row(out, &four, inv_freq, x, pos, turned[pos]);
    fprintf(out, "  score of q at 1 and k at 0: %.4f\n", score(turned[1], turned[0], 4));
    fprintf(out, "  score of q at 2 and k at 1: %.4f  (the same distance, the same score)\n",
            score(turned[2], turned[1], 4));
    fprintf(out, "  score of q at 2 and k at 0: %.4f\n", score(turned[2], turned[0], 4));
    fprintf(out, "  without RoPE, anywhere:     %.4f\n", score(x, x, 4));
}

int mode_rope(const Options *o, FILE *out, Error *e) {
    Session s = {0};
    Config c;
    float x[2 * ROPE_MAX_PAIRS];
    double inv_freq[ROPE_MAX_PAIRS], scale;
    int code = 1, n_x = 0, pos = o->pos < 0 ? 0 : o->pos;
    int seq_len = o->seq_len ? o->seq_len : pos < INT32_MAX ? pos + 1 : pos;
    if (o->x && (n_x = parse_vector(x, 2 * ROPE_MAX_PAIRS, o->x, e)) < 0) return 1;
    if (configure(&c, &s, o, n_x, e)) goto done;
    if (o->x && n_x != c.head_dim) {
        fail(e, "--x: expected head_dim, %d numbers, found %d", c.head_dim, n_x);
        goto done;
    }
    rope_inv_freq(inv_freq, &scale, &c.rope, seq_len);
    if (o->x) turn_to(x, &c, inv_freq, scale, pos);
    if (o->json) {
        fprintf(out,
                "{\"head_dim\": %d, \"theta\": %.9g, \"type\": \"%s\", \"attention_factor\": %.12g, \"inv_freq\": [",
                c.head_dim, c.rope.theta, rule_name[c.rope.scaling], scale);
        for (int i = 0; i < c.rope.rotary_dim / 2; i++) fprintf(out, "%s%.12g", i ? ", " : "", inv_freq[i]);
        fputs("], \"rotated\": [", out);
        print_vector(out, "%.9g", x, n_x);
        fputs("]}\n", out);
    } else {
        print_table(out, &c, inv_freq, scale, seq_len);
        if (o->x) {
            fprintf(out, "\nx turned to position %d: ", pos);
            print_vector(out, "%.6g", x, n_x);
            fputc('\n', out);
        } else {
            print_examples(out);
        }
    }
    code = 0;
done:
    session_close(&s);
    return code;
}

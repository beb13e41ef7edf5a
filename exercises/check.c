/* check - judges one exercise: its checks in words, the likely cause of what is wrong, and the trained rung 4 with your
 * function in it.
 *
 *   check N MODEL TEXT     exit 0: solved */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "exercise.h"
#include "reference.h"
#include "tokenizer.h"

static const Parts yours = {my_rmsnorm,       my_swiglu, my_inv_freq,   my_rotate,
                            my_half_to_pairs, my_append, my_kv_head_of, my_ntk_freq};

/* Outcome - the numbers that a function returned on one case, in the order in which they are compared. */
enum { MAX_VALUES = 512 };
typedef struct {
    int n;
    double value[MAX_VALUES];
} Outcome;

/* What is left as it was is seen: no right answer is this number. */
static const float UNTOUCHED = -12345;

static void put_floats(Outcome *o, const float *x, int n) {
    for (int i = 0; i < n; i++) o->value[o->n++] = (double)x[i];
}

static void put_doubles(Outcome *o, const double *x, int n) {
    for (int i = 0; i < n; i++) o->value[o->n++] = x[i];
}

static void fill(float *x, int n, float value) {
    for (int i = 0; i < n; i++) x[i] = value;
}

/* Numbers between -2 and 2 without a pattern, always the same. */
static void make_up(float *x, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 22) - 2;
    }
}

/* ---- The cases of each exercise: run writes its numbers, names say what they show ---------------- */

static void run_rmsnorm(const Parts *p, int k, Outcome *o) {
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, weight[8] = {0.5f, 1, 2, -1, 0.1f, 3, 1, 0};
    float x[8] = {3, -3, 3, 3, -3, 3, -3, 3}, y[8];
    if (k == 1) make_up(x, 8, 1);
    if (k == 2) fill(x, 8, 0);
    if (k == 3)
        for (int i = 0; i < 8; i++) x[i] *= 1e-3f;
    fill(y, 8, UNTOUCHED);
    p->rmsnorm(y, x, k == 0 ? ones : weight, 8, 1e-5f);
    put_floats(o, y, 8);
}

static void run_swiglu(const Parts *p, int k, Outcome *o) {
    float gate[6] = {0, 1, -1, 2, -2, 0.5f}, up[6] = {1, 1, 1, 3, 3, -4}, y[6];
    if (k == 1) make_up(gate, 6, 2), make_up(up, 6, 3);
    if (k == 2)
        for (int i = 0; i < 6; i++) gate[i] = i % 2 ? -30.0f : 30.0f;
    fill(y, 6, UNTOUCHED);
    p->swiglu(y, gate, up, 6);
    put_floats(o, y, 6);
}

static void run_inv_freq(const Parts *p, int k, Outcome *o) {
    static const int head_dim[] = {4, 2, 64, 6};
    double freq[32];
    for (int i = 0; i < 32; i++) freq[i] = (double)UNTOUCHED;
    p->inv_freq(freq, head_dim[k], k == 2 ? 500000 : 10000);
    put_doubles(o, freq, head_dim[k] / 2);
}

static const double freq_of_six[] = {1, 0.25, 0.01};

static void run_rotate(const Parts *p, int k, Outcome *o) {
    float x[6] = {1, 0, 1, 0, 1, 0};
    if (k) make_up(x, 6, 4);
    p->rotate(x, 6, k == 1 ? 0 : k == 3 ? 1000 : 3, freq_of_six);
    put_floats(o, x, 6);
    if (k == 4) { /* the score of a query at 7 and a key at 4 */
        float key[6];
        make_up(x, 6, 4);
        make_up(key, 6, 5);
        p->rotate(x, 6, 7, freq_of_six);
        p->rotate(key, 6, 4, freq_of_six);
        o->n = 1;
        o->value[0] = 0;
        for (int i = 0; i < 6; i++) o->value[0] += (double)x[i] * (double)key[i];
    }
}

static void run_half_to_pairs(const Parts *p, int k, Outcome *o) {
    static const int heads[] = {1, 3, 2}, head_dim[] = {4, 6, 8}, cols[] = {1, 2, 5};
    float w[80] = {0}, out[80];
    int n = heads[k] * head_dim[k] * cols[k];
    for (int i = 0; i < n; i++) w[i] = (float)(i / cols[k]) + (float)(i % cols[k]) / 10;
    fill(out, n, UNTOUCHED);
    p->half_to_pairs(out, w, heads[k], head_dim[k], cols[k]);
    put_floats(o, out, n);
}

static void run_append(const Parts *p, int k, Outcome *o) {
    static const int cached[] = {0, 1, 5};
    float keys[9][8], values[9][8], q[16], key[8], value[8], kept_key[8], kept_value[8];
    static const double freq[] = {1, 0.01};
    make_up(q, 16, 6);
    make_up(key, 8, 7);
    make_up(value, 8, 8);
    memcpy(kept_key, key, sizeof key);
    memcpy(kept_value, value, sizeof value);
    fill(keys[0], 72, UNTOUCHED);
    fill(values[0], 72, UNTOUCHED);
    o->value[o->n++] = p->append(keys[1], values[1], cached[k], q, 4, key, value, 2, 4, freq);
    put_floats(o, q, 16);
    put_floats(o, keys[0], 72);
    put_floats(o, values[0], 72);
    put_floats(o, key, 8);
    put_floats(o, value, 8);
}

static void run_kv_head_of(const Parts *p, int k, Outcome *o) {
    static const int heads[] = {8, 8, 8, 6, 32}, kv_heads[] = {2, 8, 1, 3, 8};
    for (int h = 0; h < heads[k]; h++) o->value[o->n++] = p->kv_head_of(h, heads[k], kv_heads[k]);
}

static void run_ntk_freq(const Parts *p, int k, Outcome *o) {
    static const int head_dim[] = {16, 64, 6, 16};
    static const double factor[] = {2, 8, 3, 1};
    double freq[32];
    for (int i = 0; i < 32; i++) freq[i] = (double)UNTOUCHED;
    p->ntk_freq(freq, head_dim[k], 10000, factor[k]);
    put_doubles(o, freq, head_dim[k] / 2);
}

/* ---- Where a number is, in words ----------------------------------------------------------------- */

static void at_feature(char *s, size_t n, int k, int i) { (void)k, snprintf(s, n, "feature %d", i); }
static void at_pair(char *s, size_t n, int k, int i) { (void)k, snprintf(s, n, "pair %d", i); }
static void at_rotated(char *s, size_t n, int k, int i) {
    static const int position[] = {3, 0, 3, 1000};
    if (k == 4) snprintf(s, n, "the score of a query at position 7 and a key at 4");
    else snprintf(s, n, "position %d, pair %d, feature %d", position[k], i / 2, i);
}
static void at_row(char *s, size_t n, int k, int i) {
    static const int head_dim[] = {4, 6, 8}, cols[] = {1, 2, 5};
    int row = i / cols[k];
    snprintf(s, n, "head %d, row %d of it, column %d", row / head_dim[k], row % head_dim[k], i % cols[k]);
}
static void at_append(char *s, size_t n, int k, int i) {
    static const int cached[] = {0, 1, 5};
    i--;
    if (i < 0) snprintf(s, n, "the rows that the cache holds, after %d", cached[k]);
    else if (i < 16) snprintf(s, n, "q, head %d, pair %d", i / 4, i % 4 / 2);
    else if (i < 160) {
        int j = (i - 16) % 72;
        snprintf(s, n, "%s, position %d, head %d, pair %d", i < 88 ? "keys" : "values", j / 8 - 1, j % 8 / 4,
                 j % 4 / 2);
    } else snprintf(s, n, "%s, which should have stayed as it was", i < 168 ? "k" : "v");
}
static void at_head(char *s, size_t n, int k, int i) {
    static const int heads[] = {8, 8, 8, 6, 32}, kv_heads[] = {2, 8, 1, 3, 8};
    snprintf(s, n, "query head %d of %d with %d KV heads", i, heads[k], kv_heads[k]);
}

/* Exercise - its name, its cases and what each shows. */
enum { MAX_CASES = 5 };
typedef struct {
    const char *name;
    void (*run)(const Parts *p, int k, Outcome *o);
    void (*where)(char *s, size_t n, int k, int i);
    double tolerance; /* of a number of 1 or more */
    const char *cases[MAX_CASES + 1];
} Exercise;

static const Exercise exercises[EXERCISES] = {
    {"rmsnorm",
     run_rmsnorm,
     at_feature,
     1e-5,
     {"threes become ones", "every feature is scaled by its weight", "a row of zeros stays zeros",
      "small rows feel eps"}},
    {"swiglu",
     run_swiglu,
     at_feature,
     1e-5,
     {"by hand: silu(0) = 0, silu(1) = 0.7311", "any gate, any value",
      "a gate far above 0 is open, far below it shut"}},
    {"inv_freq",
     run_inv_freq,
     at_pair,
     1e-9,
     {"head_dim 4: 1 and 0.01", "head_dim 2: one pair, 1", "head_dim 64 with theta 500000", "head_dim 6"}},
    {"rotate",
     run_rotate,
     at_rotated,
     1e-5,
     {"(1, 0) becomes (cos, sin)", "position 0 changes nothing", "any vector, each pair at its own speed",
      "position 1000, in the exact angle", "the score of 7 and 4 is that of distance 3"}},
    {"half_to_pairs",
     run_half_to_pairs,
     at_row,
     0,
     {"one head of 4 rows: 0 2 1 3", "three heads, each in itself", "rows of five numbers move whole"}},
    {"append",
     run_append,
     at_append,
     1e-5,
     {"the first token, position 0", "the second token, position 1", "position 5: the row behind the cached ones"}},
    {"kv_head_of",
     run_kv_head_of,
     at_head,
     0,
     {"8 query heads, 2 KV heads: 0 0 0 0 1 1 1 1", "as many KV heads: each its own", "one KV head for all",
      "6 query heads, 3 KV heads", "Llama 3 8B: 32 and 8"}},
    {"ntk_freq",
     run_ntk_freq,
     at_pair,
     1e-9,
     {"factor 2: the last pair at half its speed", "factor 8, head_dim 64", "factor 3, head_dim 6",
      "factor 1 changes nothing"}},
};

/* ---- The verdict --------------------------------------------------------------------------------- */

/* The first number that differs, -1: none. */
static int first_difference(const Outcome *a, const Outcome *b, double tolerance) {
    for (int i = 0; i < a->n; i++)
        if (!(fabs(a->value[i] - b->value[i]) <= tolerance * fmax(1, fabs(b->value[i])))) return i;
    return -1;
}

static Outcome outcome(const Exercise *x, const Parts *p, int k) {
    Outcome o = {.n = 0};
    x->run(p, k, &o);
    return o;
}

/* The mistake that returns what you return, in every case; NULL: another one. */
static const char *cause_of(const Exercise *x, int number) {
    for (const Wrong *w = wrong[number]; w->cause; w++) {
        bool same = true;
        for (int k = 0; x->cases[k] && same; k++) {
            Outcome a = outcome(x, &yours, k), b = outcome(x, &w->part, k);
            for (int i = 0; i < a.n && same; i++)
                same = (isnan(a.value[i]) && isnan(b.value[i])) ||
                       fabs(a.value[i] - b.value[i]) <= fmax(x->tolerance, 1e-12) * fmax(1, fabs(b.value[i]));
        }
        if (same) return w->cause;
    }
    return NULL;
}

/* Returns how many cases are wrong; *written: something was done. */
static int check_cases(const Exercise *x, int number, bool *written) {
    int bad = 0;
    *written = true;
    for (int k = 0; x->cases[k]; k++) {
        Outcome a = outcome(x, &yours, k), b = outcome(x, &reference, k);
        int i = first_difference(&a, &b, x->tolerance);
        if (i < 0) {
            printf("right  %s\n", x->cases[k]);
            continue;
        }
        char where[120];
        x->where(where, sizeof where, k, i);
        printf("wrong  %s\n       %s: expected %.6g, found ", x->cases[k], where, b.value[i]);
        if (a.value[i] == (double)UNTOUCHED) printf("nothing written\n");
        else printf("%.6g\n", a.value[i]);
        bad++;
    }
    if (!bad) return 0;
    const char *cause = cause_of(x, number);
    *written = cause != wrong[number][0].cause;
    printf("\nlikely cause: %s\n", cause ? cause : "none of the usual ones; begin with the first that is wrong");
    return bad;
}

/* ---- Rung 4 with your function in it ------------------------------------------------------------- */

enum { SHORT = 200, LONG = 512, TRAINED = 256 };

/* The reference's parts, but part `number` is yours. */
static Parts with_yours(int number) {
    Parts p = reference;
    switch (number) {
    case 0: p.rmsnorm = yours.rmsnorm; break;
    case 1: p.swiglu = yours.swiglu; break;
    case 2: p.inv_freq = yours.inv_freq; break;
    case 3: p.rotate = yours.rotate; break;
    case 4: p.half_to_pairs = yours.half_to_pairs; break;
    case 5: p.append = yours.append; break;
    case 6: p.kv_head_of = yours.kv_head_of; break;
    default: p.ntk_freq = yours.ntk_freq; break;
    }
    return p;
}

static int run_rung(int number, const char *path, const char *text_path, Error *e) {
    Checkpoint ck = {0};
    Weights w;
    Tokenizer *t = NULL;
    char text[4096], buffer[8];
    const char *bytes;
    int *ids = NULL, n = 0, status = -1;
    FILE *f = fopen(text_path, "rb");
    if (!f) return fail(e, "%s: expected a text, found none", text_path);
    size_t size = fread(text, 1, sizeof text, f);
    fclose(f);
    if (checkpoint_open(&ck, path, e) || checkpoint_bind(&ck, &ck.config, &w, e) || !(t = tokenizer_open(path, e)) ||
        tokenizer_encode(t, text, size, TOKENIZE_BOS, &ids, &n, e))
        goto done;
    bool far = number == 7;
    int limit = far ? LONG : SHORT, from = far ? TRAINED : 1;
    if (n > limit) n = limit;
    double n_bytes = 0, factor = far ? 2 : 1;
    for (int i = from; i < n; i++) n_bytes += (double)tokenizer_decode(t, ids[i - 1], ids[i], &bytes, buffer);
    Parts p = with_yours(number);
    double target = plain_surprise(&ck.config, &w, &reference, ids, n, from, factor) / n_bytes;
    double found = plain_surprise(&ck.config, &w, &p, ids, n, from, factor) / n_bytes;
    if (far) {
        double plain = plain_surprise(&ck.config, &w, &reference, ids, n, from, 1) / n_bytes;
        printf(
            "\n%s, positions %d to %d of a text twice as long as any in training: %.4f bits per byte without a rule\n",
            path, TRAINED, LONG - 1, plain);
    }
    printf("%s%s with your %s: %.4f bits per byte; target %.4f\n", far ? "" : "\n", path, exercises[number].name, found,
           target);
    status =
        fabs(found - target) < 1e-3 ? 0 : fail(e, "%s: bits per byte: expected %.4f, found %.4f", path, target, found);
done:
    free(ids);
    tokenizer_close(t);
    checkpoint_close(&ck);
    return status;
}

int main(int argc, char **argv) {
    Error e = {0};
    int number = argc == 4 ? atoi(argv[1]) - 1 : -1;
    if (number < 0 || number >= EXERCISES) {
        fprintf(stderr, "usage: check 1..%d MODEL TEXT\n", EXERCISES);
        return 2;
    }
    const Exercise *x = &exercises[number];
    printf("exercise %d: %s\n\n", number + 1, x->name);
    bool written;
    int bad = check_cases(x, number, &written);
    fflush(stdout); /* before a function that is wrong is let loose on the model */
    int status = written ? run_rung(number, argv[2], argv[3], &e) : -1;
    if (*e.text) printf("%s\n", e.text);
    if (bad || status) return 1;
    printf("\nsolved\n");
    return 0;
}

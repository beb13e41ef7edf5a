/* shift_table MODEL.gguf - prints docs/rope.md's table of a context shift: a text is read, a stretch of it is dropped,
 * the keys behind it are moved (rotated again, or only moved), and compared with a fresh prefill of what is left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/checkpoint.h"
#include "gen/shift.h"
#include "tokenizer.h"

enum { KEPT = 4, DROPPED = 40 };

static const char text[] = "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name; Or, if thou "
                           "wilt not, be but sworn my "
                           "love, And I'll no longer be a Capulet. 'Tis but thy name that is my enemy; Thou art "
                           "thyself, though not a Montague. "
                           "What's Montague? it is nor hand, nor foot, Nor arm, nor face, nor any other part Belonging "
                           "to a man. O, be some other "
                           "name! What's in a name? that which we call a rose By any other name would smell as";

static int die(const Error *e) {
    fprintf(stderr, "%s\n", e->text);
    return 1;
}

/* The keys are moved, and keep the rotation of where they were. */
static void move_only(const Model *m, State *s, int to, int from, int n) {
    for (int layer = 0; layer < m->config.n_layers; layer++)
        for (int head = 0; head < m->config.n_kv_heads; head++) {
            for (int i = 0; i < n; i++) {
                kv_cache_key(s->attn.k, &s->attn.cache, layer, head, from + i);
                kv_cache_write_key(&s->attn.cache, layer, head, to + i, s->attn.k);
            }
            kv_cache_move_values(&s->attn.cache, layer, head, to, from, n);
        }
}

/* |keys - fresh keys| / |fresh keys| of a layer. */
static double key_error(const Model *m, const State *a, const State *b, int layer, int n) {
    int d = m->config.head_dim;
    float *x = malloc((size_t)d * sizeof *x), *y = malloc((size_t)d * sizeof *y);
    double error = 0, size = 0;
    for (int head = 0; head < m->config.n_kv_heads; head++)
        for (int pos = 0; pos < n; pos++) {
            kv_cache_key(x, &a->attn.cache, layer, head, pos);
            kv_cache_key(y, &b->attn.cache, layer, head, pos);
            for (int i = 0; i < d; i++) {
                error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
                size += (double)y[i] * (double)y[i];
            }
        }
    free(x);
    free(y);
    return sqrt(error / size);
}

static double *softmax(const float *logits, int n) {
    double *p = malloc((size_t)n * sizeof *p), sum = 0, max = (double)logits[0];
    for (int i = 1; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += p[i] = exp((double)logits[i] - max);
    for (int i = 0; i < n; i++) p[i] /= sum;
    return p;
}

/* The next token's distribution after the last of ids, which is read once more. */
static double *next_token(const Model *m, State *s, const int *ids, int n) {
    model_forward(m, s, ids + n - 1, 1, n - 1);
    return softmax(model_logits(m, s, 0), m->config.vocab_size);
}

int main(int argc, char **argv) {
    Error e = {""};
    Checkpoint ck;
    Config config;
    Weights weights;
    Model m;
    Tokenizer *t;
    State fresh, shifted[2];
    int *ids, n;
    if (argc != 2) return 2;
    if (checkpoint_open(&ck, argv[1], &e) || checkpoint_bind(&ck, &config, &weights, &e)) return die(&e);
    model_init(&m, &config, &weights);
    if (!(t = tokenizer_from_gguf(&ck.gguf, &e))) return die(&e);
    if (tokenizer_encode(t, text, sizeof text - 1, TOKENIZE_BOS, &ids, &n, &e)) return die(&e);
    int left = n - DROPPED, tail = left - KEPT;
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = 1, .kv_type = KV_F32};
    for (int k = 0; k < 2; k++) {
        if (state_init(&shifted[k], &m, &options, &e)) return die(&e);
        model_prefill(&m, &shifted[k], ids, n, 0, WANTED_LAST, NULL, NULL);
        (k ? move_only : cache_shift)(&m, &shifted[k], KEPT, KEPT + DROPPED, tail);
    }
    for (int i = 0; i < tail; i++) ids[KEPT + i] = ids[KEPT + DROPPED + i];
    if (state_init(&fresh, &m, &options, &e)) return die(&e);
    model_prefill(&m, &fresh, ids, left, 0, WANTED_LAST, NULL, NULL);
    printf("%d tokens, %d kept, %d dropped, %d moved by %d\n", n, KEPT, DROPPED, tail, -DROPPED);
    printf("keys against fresh ones  rotated again  only moved\n");
    for (int layer = 0; layer < config.n_layers; layer++)
        printf("layer %-18d %13.1e %11.1e\n", layer, key_error(&m, &shifted[0], &fresh, layer, left),
               key_error(&m, &shifted[1], &fresh, layer, left));
    double *p = next_token(&m, &fresh, ids, left), kl[2] = {0, 0}, most[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        double *q = next_token(&m, &shifted[k], ids, left);
        for (int i = 0; i < config.vocab_size; i++) {
            kl[k] += p[i] > 0 ? p[i] * log(p[i] / q[i]) : 0;
            most[k] = fmax(most[k], fabs(p[i] - q[i]));
        }
        free(q);
        state_close(&shifted[k]);
    }
    printf("next token: KL, nats     %13.4f %11.4f\n", kl[0], kl[1]);
    printf("largest change of a p    %13.4f %11.4f\n", most[0], most[1]);
    free(p);
    free(ids);
    state_close(&fresh);
    tokenizer_close(t);
    checkpoint_close(&ck);
    return 0;
}

/* mode_probe - which RoPE do these weights want? A short text is scored with both pairings, and with the scaling on and
 * off where the checkpoint has one; the one the weights were trained with predicts it best. Needs no reference. */
#include <math.h>
#include <stdlib.h>

#include "modes/modes.h"
#include "gen/session.h"

/* Plain words that any model of English predicts far better than chance, if its positions are right. */
static const char text_of_probe[] =
    "Once upon a time there was a little girl who lived with her mother in a small house near the forest. One day her "
    "mother said to her: take this bread and this bottle of milk to your grandmother, who is ill. The little girl put "
    "on "
    "her red coat and went into the forest. On the way she met a wolf, and the wolf said to her: where are you going?";

typedef struct {
    RopePairing pairing;
    bool scaled;
    double loss; /* mean negative log-likelihood of a token, nats */
} Trial;

enum { UNDECIDED_PERCENT = 1 }; /* losses closer than this do not decide */

static double token_loss(const float *logits, int n, int token) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return max + log(sum) - (double)logits[token];
}

/* The loss of ids[n] with another RopeConfig over the same weights. */
static int score(double *loss, const Session *s, const Options *o, const RopeConfig *rope, const int *ids, int n,
                 Error *e) {
    Model m = s->model;
    State state;
    StateOptions options = {
        .n_ctx = n, .n_batch = n, .n_threads = o->threads ? o->threads : team_default_size(), .kv_type = KV_F32};
    m.config.rope = *rope;
    if (rope_check(&m.config.rope, m.config.head_dim, o->checkpoint, e) || state_fits(&m, &options, o->checkpoint, e) ||
        state_init(&state, &m, &options, e))
        return -1;
    model_forward(&m, &state, ids, n, 0);
    *loss = 0;
    for (int r = 0; r + 1 < n; r++)
        *loss += token_loss(model_logits(&m, &state, r), m.config.vocab_size, ids[r + 1]) / (n - 1);
    state_close(&state);
    return isfinite(*loss)
               ? 0
               : fail(e, "%s: loss: expected a finite number, found %g (see --check)", o->checkpoint, *loss);
}

static const char *pairing_name(RopePairing p) { return p == ROPE_HALF ? "half" : "pairs"; }

/* Index of the trial with the smallest loss; the checkpoint's own wins when the others are hardly better. */
static int best_of(const Trial *trials, int n, int own) {
    int best = own;
    for (int i = 0; i < n; i++)
        if (trials[i].loss < trials[own].loss * (1 - UNDECIDED_PERCENT / 100.0) && trials[i].loss < trials[best].loss)
            best = i;
    return best;
}

static void print_json(FILE *out, const Trial *trials, int n, int own, int best, bool decided, int n_tokens) {
    fprintf(out,
            "{\"tokens\": %d, \"decided\": %s, \"checkpoint\": {\"pairing\": \"%s\", \"scaled\": %s}, \"fits\": "
            "{\"pairing\": \"%s\", "
            "\"scaled\": %s}, \"results\": [",
            n_tokens, decided ? "true" : "false", pairing_name(trials[own].pairing),
            trials[own].scaled ? "true" : "false", pairing_name(trials[best].pairing),
            trials[best].scaled ? "true" : "false");
    for (int i = 0; i < n; i++)
        fprintf(out, "%s{\"pairing\": \"%s\", \"scaled\": %s, \"loss\": %.6g}", i ? ", " : "",
                pairing_name(trials[i].pairing), trials[i].scaled ? "true" : "false", trials[i].loss);
    fputs("]}\n", out);
}

static void print_plain(FILE *out, const Trial *trials, int n, int own, int best, bool decided, int n_tokens) {
    fprintf(out, "%d tokens; loss is the mean over them, in nats\n\npairing  scaling      loss\n", n_tokens);
    for (int i = 0; i < n; i++)
        fprintf(out, "%-7s  %-7s  %8.4f%s%s\n", pairing_name(trials[i].pairing), trials[i].scaled ? "on" : "off",
                trials[i].loss, i == own ? "  as the checkpoint says" : "", i == best && decided ? "  <- fits" : "");
    fputc('\n', out);
    if (!decided)
        fprintf(out, "undecided: the two pairings are within %d %% of each other; try a longer text (-f)\n",
                UNDECIDED_PERCENT);
    else if (best == own) fputs("the checkpoint's RoPE fits its weights\n", out);
    else if (trials[best].pairing != trials[own].pairing)
        fprintf(out, "the rows of wq and wk are in the order of the other pairing: run with --rope-pairing %s%s\n",
                pairing_name(trials[best].pairing),
                trials[best].scaled == trials[own].scaled ? "" : ", and the scaling does not fit");
    else fputs("the weights fit better without the checkpoint's scaling: run with --rope-scaling none\n", out);
}

int mode_probe(const Options *o, FILE *out, Error *e) {
    Session s;
    Options with_text = *o;
    Trial trials[4];
    int *ids = NULL, n = 0, n_trials = 0, own = 0, code = 1;
    char *text = NULL;
    size_t size;
    if (!o->prompt && !o->prompt_file && !o->tokens) with_text.prompt = text_of_probe;
    if (session_open(&s, o, o->tokens ? 0 : SESSION_TOKENIZER, e)) return 1;
    const RopeConfig *given = &s.model.config.rope;
    if (s.model.config.pos != POS_ROPE) {
        fail(e, "%s: positions: expected RoPE, found learned ones", o->checkpoint);
        goto done;
    }
    if (session_prompt(&s, &with_text, &ids, &n, &text, &size, e)) goto done;
    if (n < 2 || n > s.model.config.n_ctx) {
        fail(e, "%s: text: expected from 2 to %d tokens, found %d", o->checkpoint, s.model.config.n_ctx, n);
        goto done;
    }
    bool has_scaling = given->scaling != ROPE_SCALING_NONE || given->freq_factors;
    for (int pairing = ROPE_HALF; pairing <= ROPE_PAIRS; pairing++) {
        for (int scaled = has_scaling; scaled >= 0; scaled--) {
            RopeConfig rope = *given;
            rope.pairing = (RopePairing)pairing;
            if (!scaled) rope.scaling = ROPE_SCALING_NONE, rope.freq_factors = NULL, rope.attention_factor = 0;
            Trial *t = &trials[n_trials];
            *t = (Trial){rope.pairing, scaled, 0};
            if (rope.pairing == given->pairing && scaled == has_scaling) own = n_trials;
            if (score(&t->loss, &s, o, &rope, ids, n, e)) goto done;
            n_trials++;
        }
    }
    int best = best_of(trials, n_trials, own);
    /* Whatever the scaling, the pairing is decided by a clear distance to the better trial of the other pairing. */
    double other = INFINITY;
    for (int i = 0; i < n_trials; i++)
        if (trials[i].pairing != trials[best].pairing) other = fmin(other, trials[i].loss);
    bool decided = trials[best].loss < other * (1 - UNDECIDED_PERCENT / 100.0);
    (o->json ? print_json : print_plain)(out, trials, n_trials, own, best, decided, n);
    code = 0;
done:
    free(ids);
    free(text);
    session_close(&s);
    return code;
}

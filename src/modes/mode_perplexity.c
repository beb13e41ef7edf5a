/* perplexity - how surprised the model is by a text: exp of the mean negative log-likelihood of a token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "modes/modes.h"
#include "gen/progress.h"
#include "gen/session.h"

enum { LLAMACPP_CTX = 512 }; /* llama-perplexity's window when none is given */

/* Score - the window that is being read, and the sums over all windows. */
typedef struct {
    const Session *session;
    State *state;
    const int *window; /* [n] tokens */
    int n;
    int from;         /* first token of the window that is scored; >= 1 */
    int seen;         /* rows of the window that were looked at */
    bool decode;      /* what is scored goes through the model one token at a time */
    double nll;       /* nats */
    long long scored; /* tokens */
    const volatile sig_atomic_t *interrupted;
    bool bad; /* a logit was NaN or infinite */
    Progress progress;
    int before, total; /* tokens of the text before this window, and in all: for the progress */
} Score;

/* score_token - -log softmax(logits)[token], in double. */
static double score_token(const float *logits, int n, int token) {
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < n; i++)
        if ((double)logits[i] > max) max = (double)logits[i];
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return max + log(sum) - (double)logits[token];
}

/* After each batch of the window: the rows that predict a scored token. Row r predicts token r + 1. */
static bool score_rows(void *arg, int done, int total) {
    (void)total;
    Score *s = arg;
    int first = s->seen, vocab = s->session->model.config.vocab_size;
    for (int r = first; r < done && r + 1 < s->n; r++) {
        if (r + 1 < s->from) continue;
        double nll = score_token(model_logits(&s->session->model, s->state, r - first), vocab, s->window[r + 1]);
        if (!isfinite(nll)) {
            s->bad = true;
            return false;
        }
        s->nll += nll;
        s->scored++;
        progress_show(&s->progress, s->before + r + 1, s->total);
        if (*s->interrupted) return false;
    }
    s->seen = done;
    /* What is read again for its context alone is no step back. */
    progress_show(&s->progress, s->before + (done < s->from ? s->from : done), s->total);
    return !*s->interrupted;
}

/* score_window - runs window[n] at positions 0.. and scores its tokens [from, n). Returns 0, 130 after Ctrl-C,
 * 1 with e set. */
static int score_window(Score *s, const int *window, int n, int from, Error *e) {
    s->window = window;
    s->n = n;
    s->from = from > 1 ? from : 1;
    s->seen = 0;
    const Model *m = &s->session->model;
    int prefill = s->decode ? s->from : n;
    model_prefill(m, s->state, window, prefill, 0, WANTED_ALL, score_rows, s);
    for (int pos = prefill; pos + 1 < n && !s->bad && !*s->interrupted; pos++) {
        model_forward(m, s->state, window + pos, 1, pos);
        score_rows(s, pos + 1, n);
    }
    if (session_check(s->session, e)) return 1;
    if (s->bad) {
        fail(e, "%s: logits: expected finite numbers, found NaN or infinity after %lld scored tokens",
             s->session->checkpoint.path, s->scored);
        return 1;
    }
    return *s->interrupted ? 130 : 0;
}

/* Bytes of text that the tokens ids[from, to) stand for. */
static size_t text_bytes(const Tokenizer *t, const int *ids, int from, int to) {
    size_t sum = 0;
    char buffer[8];
    const char *bytes;
    for (int i = from, prev = from ? ids[from - 1] : -1; i < to; prev = tokenizer_next(t, prev, ids[i++]))
        sum += tokenizer_decode(t, prev, ids[i], &bytes, buffer);
    return sum;
}

static void show(const Options *o, Score *s, int done, int total) {
    if (o->quiet || s->scored == 0) return;
    progress_end(&s->progress);
    fprintf(o->log, "perplexity after %d of %d tokens: %.4f\n", done, total, exp(s->nll / (double)s->scored));
}

/* Windows begin every `stride` tokens; a token is scored in the first window that holds it, so with at least
 * n_ctx - stride tokens before it (the first window apart). With --score-from N, tokens at positions before N of a
 * window are not scored at all: so many tokens lie before each that is. */
static int protocol_hf(const Options *o, Score *s, const int *ids, int n, size_t *bytes, Error *e) {
    int n_ctx = s->state->options.n_ctx;
    int stride = o->stride ? o->stride : n_ctx / 2 > 0 ? n_ctx / 2 : 1;
    for (int begin = 0, scored_to = 0;; begin += stride) {
        int end = n - begin > n_ctx ? begin + n_ctx : n;
        s->before = begin;
        int from = scored_to - begin > o->score_from ? scored_to - begin : o->score_from;
        int status = from < end - begin ? score_window(s, ids + begin, end - begin, from, e) : 0;
        if (status) return status;
        if (o->score_from && from < end - begin) *bytes += text_bytes(s->session->tokenizer, ids, begin + from, end);
        scored_to = end;
        show(o, s, end, n);
        if (end == n) return 0;
    }
}

/* Chunks that do not overlap, BOS in place of the first token of each where the model has BOS; the second half
 * is scored. What does not fill a chunk is left out. */
static int protocol_llamacpp(const Options *o, Score *s, int *ids, int n, size_t *bytes, Error *e) {
    const Tokenizer *t = s->session->tokenizer;
    int n_ctx = s->state->options.n_ctx;
    bool bos = tokenizer_adds_bos(t) && !o->no_bos;
    if (n < 2 * n_ctx) {
        fail(e, "text: expected at least %d tokens (two chunks of -c %d), found %d", 2 * n_ctx, n_ctx, n);
        return 1;
    }
    *bytes = 0;
    for (int begin = 0; begin + n_ctx <= n; begin += n_ctx) {
        int *chunk = ids + begin;
        if (bos) chunk[0] = tokenizer_bos(t);
        s->before = begin;
        int status = score_window(s, chunk, n_ctx, n_ctx / 2 + 1, e);
        if (status) return status;
        *bytes += text_bytes(t, chunk, n_ctx / 2 + 1, n_ctx);
        show(o, s, begin + n_ctx, n);
    }
    return 0;
}

int mode_perplexity(const Options *o, FILE *out, Error *e) {
    Session s;
    char *text = NULL;
    size_t bytes = 0;
    int *ids = NULL, n = 0, code = 1;
    bool llamacpp = strcmp(o->protocol, "llamacpp") == 0;
    if (!o->prompt_file && !o->prompt) {
        fail(e, "perplexity: expected a text with -f or -i, found none");
        return 2;
    }
    if (o->ctx > 0 && o->stride > o->ctx) {
        fail(e, "--stride: expected at most the context's %d, found %d", o->ctx, o->stride);
        return 2;
    }
    if (session_open(&s, o, SESSION_TOKENIZER, e)) return 1;
    /* Each reference reads the text in its own way: Hugging Face finds special tokens in it, llama-perplexity
     * does not, and drops one newline at the end. */
    unsigned how = (o->no_bos ? 0 : TOKENIZE_BOS) | (llamacpp ? 0 : TOKENIZE_SPECIAL);
    if (options_text(o, &text, &bytes, e)) goto done;
    if (llamacpp && bytes && text[bytes - 1] == '\n') bytes--;
    if (tokenizer_encode(s.tokenizer, text, bytes, how, &ids, &n, e)) goto done;
    if (n < 2 || bytes == 0) {
        fail(e, "%s: text: expected at least two tokens, found %d", o->prompt_file ? o->prompt_file : "-i", n);
        goto done;
    }
    int n_ctx = session_ctx(o, &s.model.config);
    if (llamacpp && !n_ctx) n_ctx = s.model.config.n_ctx < LLAMACPP_CTX ? s.model.config.n_ctx : LLAMACPP_CTX;
    if (session_state(&s, o, n_ctx, e)) goto done;
    if (o->stride > s.state.options.n_ctx) {
        fail(e, "--stride: expected at most the context's %d, found %d", s.state.options.n_ctx, o->stride);
        goto done;
    }
    if (o->score_from) {
        if (o->score_from >= s.state.options.n_ctx || o->score_from >= n) {
            fail(e, "--score-from: expected below the context's %d and the text's %d tokens, found %d",
                 s.state.options.n_ctx, n, o->score_from);
            goto done;
        }
        bytes = 0;
    }
    Score score = {.session = &s, .state = &s.state, .interrupted = &interrupted, .decode = o->decode};
    score.total = n;
    progress_begin(&score.progress, o->log, "perplexity", o->quiet);
    code = llamacpp ? protocol_llamacpp(o, &score, ids, n, &bytes, e) : protocol_hf(o, &score, ids, n, &bytes, e);
    progress_end(&score.progress);
    if (code) goto done;
    double ppl = exp(score.nll / (double)score.scored);
    if (!isfinite(ppl)) {
        fail(e, "%s: perplexity: expected a finite number, found e^%.6g (see --check)", o->checkpoint,
             score.nll / (double)score.scored);
        code = 1;
        goto done;
    }
    double bits = bytes ? score.nll / log(2.0) / (double)bytes : 0;
    if (o->json)
        fprintf(out,
                "{\"tokens\": %lld, \"nll\": %.9g, \"ppl\": %.9g, \"bits_per_byte\": %.9g, \"protocol\": \"%s\"}\n",
                score.scored, score.nll, ppl, bits, o->protocol);
    else
        fprintf(out, "perplexity %.4f, %.4f bits per byte, %lld tokens scored (protocol %s, context %d)\n", ppl, bits,
                score.scored, o->protocol, s.state.options.n_ctx);
done:
    free(ids);
    free(text);
    session_close(&s);
    return code;
}

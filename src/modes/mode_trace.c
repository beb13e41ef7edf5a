/* mode_trace - one prompt through the model, step by step: each tensor's name, shape and numbers for one position, one
 * head and one pair of features; the attention matrix of the head as text, CSV or SVG. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "gen/session.h"
#include "modes/modes.h"
#include "verify/trace.h"

enum { TOP = 5, SHOWN = 6, MATRIX_SHOWN = 24 };

/* View - what is looked at, and what is computed from the recorded tensors: the steps inside of attention. */
typedef struct {
    const Config *c;
    const Session *s;
    Trace trace;
    int layer, head, kv_head, pos, pair;
    int a, b;        /* features of the pair */
    bool rotates;    /* q and k go straight from their matrices to RoPE: the pair can be shown */
    double angle;    /* of the pair at pos, radians */
    double *scores;  /* [n, n] q k^T / sqrt(head_dim); row: query, column: key, 0 beyond the query */
    double *weights; /* [n, n] the softmax of it */
    float *mix;      /* [head_dim] sum of weights times v at pos */
    int top[TOP];    /* the likeliest tokens after pos */
    double top_p[TOP];
} View;

static const float *tensor(const View *v, Step step) { return v->trace.x[trace_slot(v->layer, step, v->c->n_layers)]; }

/* Row pos of a step, or head `head` of it where the step has heads. */
static const float *row_of(const View *v, Step step, int pos, int head) {
    const float *x = tensor(v, step);
    if (!x) return NULL;
    return x + (size_t)pos * (size_t)trace_cols(v->c, step) + (size_t)head * (size_t)v->c->head_dim;
}

/* q and k as they meet: rotated, where the model rotates. */
static const float *query(const View *v, int pos) {
    return row_of(v, tensor(v, STEP_Q_ROT) ? STEP_Q_ROT : STEP_Q, pos, v->head);
}
static const float *key(const View *v, int pos) {
    return row_of(v, tensor(v, STEP_K_ROT) ? STEP_K_ROT : STEP_K, pos, v->kv_head);
}

static void attend_plainly(View *v) {
    int n = v->trace.n, d = v->c->head_dim;
    const AttentionConfig *a = &v->c->attn;
    const AttentionWeights *w = &v->s->model.weights.layers[v->layer].attn;
    for (int m = 0; m < n; m++) {
        double *score = v->scores + (size_t)m * (size_t)n, *weight = v->weights + (size_t)m * (size_t)n;
        double max = -INFINITY, sum = 0, factor = a->scale > 0 ? (double)a->scale : 1 / sqrt(d);
        if (a->unscaled) factor = 1;
        if (a->temperature > 0) factor *= 1 + (double)a->temperature * log(1 + floor((double)m / a->temperature_ctx));
        int first = w->window && m >= w->window ? m - w->window + 1 : 0;
        int seen = a->see_ahead && m < v->trace.n_prefill ? v->trace.n_prefill : m + 1;
        for (int j = first; j < seen; j++) {
            const float *q = query(v, m), *k = key(v, j);
            for (int i = 0; i < d; i++) score[j] += (double)q[i] * (double)k[i];
            score[j] *= factor;
            if (a->softcap > 0) score[j] = (double)a->softcap * tanh(score[j] / (double)a->softcap);
            max = fmax(max, score[j]);
        }
        if (w->sinks) { /* takes weight, has no value */
            max = fmax(max, (double)w->sinks[v->head]);
            sum = exp((double)w->sinks[v->head] - max);
        }
        for (int j = first; j < seen; j++) sum += weight[j] = exp(score[j] - max);
        for (int j = first; j < seen; j++) weight[j] /= sum;
    }
    for (int i = 0; i < d; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += v->weights[(size_t)v->pos * (size_t)n + (size_t)j] * (double)row_of(v, STEP_V, j, v->kv_head)[i];
        v->mix[i] = (float)sum;
    }
}

static void find_top(View *v) {
    const float *logits = row_of(v, STEP_LOGITS, v->pos, 0);
    double max = -INFINITY, sum = 0;
    int n = v->c->vocab_size;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    for (int t = 0; t < TOP && t < n; t++) {
        v->top[t] = -1;
        for (int i = 0; i < n; i++) {
            bool taken = false;
            for (int u = 0; u < t; u++) taken |= v->top[u] == i;
            if (!taken && (v->top[t] < 0 || logits[i] > logits[v->top[t]])) v->top[t] = i;
        }
        v->top_p[t] = exp((double)logits[v->top[t]] - max) / sum;
    }
}

static int find_pair(View *v, Error *e) {
    const AttentionWeights *w = &v->s->model.weights.layers[v->layer].attn;
    const RopeConfig *r = w->rope == ROPE_LOCAL ? &v->c->rope_local : &v->c->rope;
    double *inv_freq, scale;
    if (!v->rotates) return 0;
    inv_freq = malloc((size_t)(r->rotary_dim / 2) * sizeof *inv_freq);
    if (!inv_freq) return fail(e, "trace: memory: expected some, found none");
    rope_inv_freq(inv_freq, &scale, r, v->trace.n);
    v->a = r->pairing == ROPE_HALF ? v->pair : 2 * v->pair;
    v->b = r->pairing == ROPE_HALF ? v->pair + r->rotary_dim / 2 : 2 * v->pair + 1;
    v->angle = v->pos * inv_freq[v->pair];
    free(inv_freq);
    return 0;
}

/* ---- Printing ------------------------------------------------------------------------------------ */

/* The piece of a token, or its id where there is no tokenizer. `plain`: for people, quoted by the caller. */
static void print_piece(FILE *out, const View *v, int id) {
    if (!v->s->tokenizer) {
        fprintf(out, "%d", id);
        return;
    }
    size_t length;
    const char *piece = tokenizer_piece(v->s->tokenizer, id, &length);
    text_print_json(out, piece, length);
}

static void print_shape(FILE *out, const View *v, Step step, const char *open, const char *close) {
    int cols = trace_cols(v->c, step), d = v->c->head_dim;
    bool heads = step >= STEP_Q && step <= STEP_K_ROT;
    if (heads) fprintf(out, "%s%d, %d, %d%s", open, v->trace.n, cols / d, d, close);
    else fprintf(out, "%s%d, %d%s", open, v->trace.n, cols, close);
}

static void print_numbers(FILE *out, const float *x, int n) {
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    for (int i = 0; i < n && i < SHOWN; i++) fprintf(out, "%9.4f", (double)x[i]);
    if (n > SHOWN) fputs(" ...", out);
    fprintf(out, "  length %.4f\n", sqrt(squares));
}

typedef struct {
    Step step;
    const char *name, *what;
    bool has_heads;
} Line;

static const Line before[] = {
    {STEP_EMBED, "embed", "what goes into the first layer", false},
    {STEP_ATTN_NORM, "attn_norm", "the residual stream, normed", false},
    {STEP_Q, "q", "query", true},
    {STEP_K, "k", "key", true},
    {STEP_V, "v", "value", true},
    {STEP_Q_ROT, "q_rot", "query, rotated to its position", true},
    {STEP_K_ROT, "k_rot", "key, rotated: so it goes into the cache", true},
};
static const Line after[] = {
    {STEP_ATTN_OUT, "attn_out", "all heads' mixes times W_o, added to the stream", false},
    {STEP_FFN_NORM, "ffn_norm", "the stream, normed again", false},
    {STEP_ROUTER, "router", "each expert's score", false},
    {STEP_ROUTER_WEIGHTS, "router_weights", "each expert's part in the output; most have none", false},
    {STEP_FFN_OUT, "ffn_out", "the FFN's output, added to the stream", false},
    {STEP_OUT, "out", "the residual stream after the layer", false},
    {STEP_FINAL_NORM, "final_norm", "after the last layer, normed", false},
    {STEP_LOGITS, "logits", "a score for each token of the vocabulary", false},
};
enum { N_BEFORE = sizeof before / sizeof *before, N_AFTER = sizeof after / sizeof *after };

/* The row of a line at pos, and how many numbers it has; NULL where the model has no such step. */
static const float *line_row(const View *v, const Line *l, int *n) {
    *n = l->has_heads ? v->c->head_dim : trace_cols(v->c, l->step);
    int head = !l->has_heads ? 0 : l->step == STEP_Q || l->step == STEP_Q_ROT ? v->head : v->kv_head;
    return row_of(v, l->step, v->pos, head);
}

static void print_lines(FILE *out, const View *v, const Line *lines, int count) {
    for (int i = 0; i < count; i++) {
        int n;
        const float *row = line_row(v, &lines[i], &n);
        if (!row) continue;
        fprintf(out, "%-10s ", lines[i].name);
        print_shape(out, v, lines[i].step, "[", "]");
        fprintf(out, "  %s\n          ", lines[i].what);
        print_numbers(out, row, n);
    }
}

static void print_pair(FILE *out, const View *v) {
    const float *q = row_of(v, STEP_Q, v->pos, v->head), *k = row_of(v, STEP_K, v->pos, v->kv_head);
    const float *qr = query(v, v->pos), *kr = key(v, v->pos);
    fprintf(out, "\npair %d, features %d and %d, at position %d: rotated by %.4f radians\n", v->pair, v->a, v->b,
            v->pos, v->angle);
    fprintf(out, "  q (%.4f, %.4f) -> (%.4f, %.4f)\n", (double)q[v->a], (double)q[v->b], (double)qr[v->a],
            (double)qr[v->b]);
    fprintf(out, "  k (%.4f, %.4f) -> (%.4f, %.4f)\n", (double)k[v->a], (double)k[v->b], (double)kr[v->a],
            (double)kr[v->b]);
}

static void print_attention(FILE *out, const View *v) {
    int n = v->trace.n;
    const double *score = v->scores + (size_t)v->pos * (size_t)n, *weight = v->weights + (size_t)v->pos * (size_t)n;
    fprintf(out, "\nhead %d at position %d: score = q k / sqrt(%d), softmax over the keys it may see\n", v->head,
            v->pos, v->c->head_dim);
    fputs("   key     score   softmax  token\n", out);
    for (int j = 0; j <= v->pos; j++) {
        fprintf(out, "%6d %9.4f %9.4f  ", j, score[j], weight[j]);
        print_piece(out, v, v->trace.tokens[j]);
        fputc('\n', out);
    }
    fprintf(out, "mix        [%d]  softmax times values\n          ", v->c->head_dim);
    print_numbers(out, v->mix, v->c->head_dim);
    fputc('\n', out);
}

static void print_matrix(FILE *out, const View *v) {
    int n = v->trace.n, shown = n < MATRIX_SHOWN ? n : MATRIX_SHOWN;
    fprintf(out, "\nattention of layer %d, head %d, in percent (row: query, column: key)%s\n", v->layer, v->head,
            shown < n ? "; the first of it" : "");
    for (int m = 0; m < shown; m++) {
        fprintf(out, "%4d ", m);
        for (int j = 0; j < shown; j++) {
            if (j > m) fputs("   .", out);
            else fprintf(out, "%4.0f", 100 * v->weights[(size_t)m * (size_t)n + (size_t)j]);
        }
        fputs("  ", out);
        print_piece(out, v, v->trace.tokens[m]);
        fputc('\n', out);
    }
}

static void print_text(FILE *out, const View *v) {
    const Config *c = v->c;
    fprintf(out, "%d tokens; layer %d of %d, head %d of %d, KV head %d of %d, position %d, token ", v->trace.n,
            v->layer, c->n_layers, v->head, c->n_heads, v->kv_head, c->n_kv_heads, v->pos);
    print_piece(out, v, v->trace.tokens[v->pos]);
    fputs("\n\n", out);
    print_lines(out, v, before, N_BEFORE);
    if (v->rotates) print_pair(out, v);
    print_attention(out, v);
    print_lines(out, v, after, N_AFTER);
    print_matrix(out, v);
    fprintf(out, "\nafter position %d, the likeliest tokens:\n", v->pos);
    for (int t = 0; t < TOP && t < c->vocab_size; t++) {
        fprintf(out, "%8.4f  ", v->top_p[t]);
        print_piece(out, v, v->top[t]);
        fputc('\n', out);
    }
}

static void print_floats(FILE *out, const float *x, int n) {
    for (int i = 0; i < n; i++) fprintf(out, "%s%.9g", i ? ", " : "", (double)x[i]);
}

static void print_doubles(FILE *out, const double *x, int n) {
    for (int i = 0; i < n; i++) fprintf(out, "%s%.9g", i ? ", " : "", x[i]);
}

static void json_lines(FILE *out, const View *v, const Line *lines, int count) {
    for (int i = 0; i < count; i++) {
        int n;
        const float *row = line_row(v, &lines[i], &n);
        if (!row) continue;
        fprintf(out, "%s{\"name\": \"%s\", \"shape\": ", lines == before && i == 0 ? "" : ",\n  ", lines[i].name);
        print_shape(out, v, lines[i].step, "[", "]");
        fputs(", \"values\": [", out);
        print_floats(out, row, n);
        fputs("]}", out);
    }
}

static void json_attention(FILE *out, const View *v) {
    int n = v->trace.n;
    const struct {
        const char *name;
        const double *x;
    } rows[] = {{"scores", v->scores}, {"softmax", v->weights}};
    for (size_t r = 0; r < 2; r++) {
        fprintf(out, ",\n  {\"name\": \"%s\", \"shape\": [%d, %d, %d], \"values\": [", rows[r].name, v->c->n_heads, n,
                n);
        print_doubles(out, rows[r].x + (size_t)v->pos * (size_t)n, v->pos + 1);
        fputs("]}", out);
    }
    fprintf(out, ",\n  {\"name\": \"mix\", \"shape\": [%d, %d, %d], \"values\": [", n, v->c->n_heads, v->c->head_dim);
    print_floats(out, v->mix, v->c->head_dim);
    fputs("]}", out);
}

static void json_pair(FILE *out, const View *v) {
    const float *q = row_of(v, STEP_Q, v->pos, v->head), *k = row_of(v, STEP_K, v->pos, v->kv_head);
    const float *qr = query(v, v->pos), *kr = key(v, v->pos);
    fprintf(out, " \"rotation\": {\"pair\": %d, \"features\": [%d, %d], \"angle\": %.12g,", v->pair, v->a, v->b,
            v->angle);
    fprintf(out, " \"q\": [%.9g, %.9g], \"q_rotated\": [%.9g, %.9g],", (double)q[v->a], (double)q[v->b],
            (double)qr[v->a], (double)qr[v->b]);
    fprintf(out, " \"k\": [%.9g, %.9g], \"k_rotated\": [%.9g, %.9g]},\n", (double)k[v->a], (double)k[v->b],
            (double)kr[v->a], (double)kr[v->b]);
}

static void print_json(FILE *out, const View *v) {
    int n = v->trace.n;
    fputs("{\"tokens\": [", out);
    for (int i = 0; i < n; i++) fprintf(out, "%s%d", i ? ", " : "", v->trace.tokens[i]);
    fputs("],", out);
    if (v->s->tokenizer) {
        fputs(" \"pieces\": [", out);
        for (int i = 0; i < n; i++) {
            if (i) fputs(", ", out);
            print_piece(out, v, v->trace.tokens[i]);
        }
        fputs("],", out);
    }
    fprintf(out, "\n \"layer\": %d, \"head\": %d, \"kv_head\": %d, \"pos\": %d,\n \"steps\": [", v->layer, v->head,
            v->kv_head, v->pos);
    json_lines(out, v, before, N_BEFORE);
    json_attention(out, v);
    json_lines(out, v, after, N_AFTER);
    fputs("],\n", out);
    if (v->rotates) json_pair(out, v);
    fputs(" \"attention\": [", out);
    for (int m = 0; m < n; m++) {
        fputs(m ? ",\n  [" : "[", out);
        print_doubles(out, v->weights + (size_t)m * (size_t)n, n);
        fputc(']', out);
    }
    fputs("],\n \"top\": [", out);
    for (int t = 0; t < TOP && t < v->c->vocab_size; t++) {
        fprintf(out, "%s{\"id\": %d, ", t ? ", " : "", v->top[t]);
        if (v->s->tokenizer) {
            fputs("\"piece\": ", out);
            print_piece(out, v, v->top[t]);
            fputs(", ", out);
        }
        fprintf(out, "\"p\": %.9g}", v->top_p[t]);
    }
    fputs("]}\n", out);
}

static void print_csv(FILE *out, const View *v) {
    int n = v->trace.n;
    fputs("query", out);
    for (int j = 0; j < n; j++) fprintf(out, ",%d", j);
    fputc('\n', out);
    for (int m = 0; m < n; m++) {
        fprintf(out, "%d", m);
        for (int j = 0; j < n; j++) fprintf(out, ",%.6g", v->weights[(size_t)m * (size_t)n + (size_t)j]);
        fputc('\n', out);
    }
}

/* A token as text of an SVG: line ends as \n, what XML reserves escaped. */
static void svg_piece(FILE *out, const View *v, int id) {
    if (!v->s->tokenizer) {
        fprintf(out, "%d", id);
        return;
    }
    size_t length;
    enum { COLUMNS = 60 };
    char shown[4 * COLUMNS + 1];
    const char *piece = tokenizer_piece(v->s->tokenizer, id, &length);
    text_show(shown, sizeof shown, piece, length, COLUMNS, false);
    for (const char *c = shown; *c; c++) {
        if (*c == '<') fputs("&lt;", out);
        else if (*c == '>') fputs("&gt;", out);
        else if (*c == '&') fputs("&amp;", out);
        else fputc(*c, out);
    }
}

static void print_svg(FILE *out, const View *v) {
    enum { CELL = 22, LEFT = 90, TOP_EDGE = 110 };
    int n = v->trace.n, width = LEFT + n * CELL + 20, height = TOP_EDGE + n * CELL + 40;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"10\" y=\"18\" font-size=\"13\">Attention of layer %d, head %d: row query, column key, "
            "percent</text>\n",
            width < 420 ? 420 : width, height, v->layer, v->head);
    for (int m = 0; m < n; m++) {
        int y = TOP_EDGE + m * CELL;
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 6, y + CELL - 7);
        svg_piece(out, v, v->trace.tokens[m]);
        fprintf(out, "</text>\n<text transform=\"translate(%d,%d) rotate(-60)\">", LEFT + m * CELL + CELL - 7,
                TOP_EDGE - 6);
        svg_piece(out, v, v->trace.tokens[m]);
        fputs("</text>\n", out);
        for (int j = 0; j <= m; j++) {
            double p = v->weights[(size_t)m * (size_t)n + (size_t)j];
            int shade = (int)(255 - 215 * sqrt(p));
            fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,255)\"/>",
                    LEFT + j * CELL, y, CELL - 1, CELL - 1, shade, shade);
            if (p >= 0.005)
                fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"9\" fill=\"%s\">%.0f</text>",
                        LEFT + j * CELL + CELL / 2, y + CELL / 2 + 3, p > 0.3 ? "white" : "black", 100 * p);
            fputc('\n', out);
        }
    }
    fputs("</svg>\n", out);
}

/* ---- The mode ------------------------------------------------------------------------------------ */

static int check_range(const char *flag, int value, int limit, Error *e) {
    if (value < limit) return 0;
    return fail(e, "--%s: expected from 0 to %d, found %d", flag, limit - 1, value);
}

static int look(View *v, const Options *o, const Session *s, const int *ids, int n, Error *e) {
    const Config *c = &s->model.config;
    *v =
        (View){.c = c, .s = s, .layer = o->layer, .head = o->head, .pos = o->pos < 0 ? n - 1 : o->pos, .pair = o->pair};
    if (check_range("layer", v->layer, c->n_layers, e) || check_range("head", v->head, c->n_heads, e) ||
        check_range("pos", v->pos, n, e))
        return -1;
    if (c->pos == POS_ROPE && check_range("pair", v->pair, c->rope.rotary_dim / 2, e)) return -1;
    v->kv_head = c->attn.interleaved ? v->head % c->n_kv_heads : v->head / (c->n_heads / c->n_kv_heads);
    const AttentionWeights *w = &s->model.weights.layers[v->layer].attn;
    v->rotates = c->pos == POS_ROPE && w->rope != ROPE_NONE && !w->q_norm;
    if (trace_run(&v->trace, &s->model, ids, n, 1, NULL, NULL, NULL, e)) return -1;
    size_t cells = (size_t)n * (size_t)n;
    v->scores = calloc(cells, sizeof *v->scores);
    v->weights = calloc(cells, sizeof *v->weights);
    v->mix = calloc((size_t)c->head_dim, sizeof *v->mix);
    if (!v->scores || !v->weights || !v->mix) return fail(e, "trace: memory: expected some, found none");
    if (find_pair(v, e)) return -1;
    attend_plainly(v);
    find_top(v);
    return 0;
}

int mode_trace(const Options *o, FILE *out, Error *e) {
    Session s;
    View v = {0};
    int *ids = NULL, n = 0, code = 1;
    char *text = NULL;
    size_t size;
    if (session_open(&s, o, o->tokens ? 0 : SESSION_TOKENIZER, e)) return 1;
    if (session_prompt(&s, o, &ids, &n, &text, &size, e)) goto done;
    if (n < 1) {
        fail(e, "trace: prompt: expected at least one token, found none");
        goto done;
    }
    if (look(&v, o, &s, ids, n, e)) goto done;
    if (o->json) print_json(out, &v);
    else if (o->csv) print_csv(out, &v);
    else if (o->svg) print_svg(out, &v);
    else print_text(out, &v);
    code = 0;
done:
    trace_close(&v.trace);
    free(v.scores);
    free(v.weights);
    free(v.mix);
    free(ids);
    free(text);
    session_close(&s);
    return code;
}

/* mode_kv - how many bytes keys and values take: of a checkpoint or of a well-known model, in each type of the cache,
 * and what they would take with all heads (MHA), with one (MQA), and without what has left the window. */
#include "modes/modes.h"

#include <string.h>

#include "gen/kv_models.h"
#include "gen/session.h"
#include "kv_cache.h"

static const char *const type_name[] = {[KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8_0] = "q8_0"};
enum { N_TYPES = sizeof type_name / sizeof *type_name };

static bool fits(KvType type, const KvModel *m) { return !kv_type_check(type, m->head_dim, "", &(Error){0}); }

/* Bytes of n features in a row of the cache. */
static size_t row_bytes(KvType type, int n) { return kv_bytes_per_token(type, 1, 1, n) / 2; }

/* Of a token in one layer, with n_kv heads. */
static size_t layer_bytes(KvType type, const KvModel *m, int n_kv) {
    return (size_t)n_kv * (row_bytes(type, m->head_dim) + row_bytes(type, m->value_dim ? m->value_dim : m->head_dim));
}

static size_t token_bytes(KvType type, const KvModel *m) {
    return (size_t)m->n_layers * (m->latent ? row_bytes(type, m->latent) : layer_bytes(type, m, m->n_kv_heads));
}

static size_t cache_bytes(KvType type, const KvModel *m, int n) { return token_bytes(type, m) * (size_t)n; }

static size_t heads_bytes(KvType type, const KvModel *m, int n, int n_kv) {
    return (size_t)m->n_layers * layer_bytes(type, m, n_kv) * (size_t)n;
}

/* Layers with a window keep no more than it. */
static size_t window_bytes(KvType type, const KvModel *m, int n) {
    size_t kept = (size_t)(m->n_window && m->window < n ? m->window : n);
    size_t rows = (size_t)(m->n_layers - m->n_window) * (size_t)n + (size_t)m->n_window * kept;
    return token_bytes(type, m) / (size_t)m->n_layers * rows;
}

static void print_size(FILE *out, size_t bytes) {
    double x = (double)bytes;
    if (bytes >= (size_t)1 << 30) fprintf(out, "  %8.2f GiB", x / (1 << 30));
    else if (bytes >= (size_t)1 << 20) fprintf(out, "  %8.2f MiB", x / (1 << 20));
    else fprintf(out, "  %8.2f KiB", x / (1 << 10));
}

static void print_json(FILE *out, const KvModel *m, int n) {
    fprintf(out, "{\"name\": \"%s\", \"n_layers\": %d, \"n_heads\": %d, \"n_kv_heads\": %d, \"head_dim\": %d, ",
            m->name, m->n_layers, m->n_heads, m->n_kv_heads, m->head_dim);
    fprintf(out,
            "\"window\": %d, \"window_layers\": %d, \"latent\": %d, \"ctx\": %d, \"source\": \"%s\",\n  \"cache\": {",
            m->window, m->n_window, m->latent, n, m->source);
    for (int type = 0, i = 0; type < N_TYPES; type++) {
        KvType t = (KvType)type;
        if (!fits(t, m)) continue;
        fprintf(out, "%s\"%s\": {\"token_bytes\": %zu, \"bytes\": %zu, \"window_bytes\": %zu, ", i++ ? ",\n    " : "",
                type_name[t], token_bytes(t, m), cache_bytes(t, m, n), window_bytes(t, m, n));
        fprintf(out, "\"multi_head_bytes\": %zu, \"multi_query_bytes\": %zu}", heads_bytes(t, m, n, m->n_heads),
                heads_bytes(t, m, n, 1));
    }
    fputs("}}", out);
}

static void print_row(FILE *out, const KvModel *m, KvType type, int n) {
    fprintf(out, "%-14s %6d %5d %4d %8d ", m->name, m->n_layers, m->n_heads, m->n_kv_heads, m->head_dim);
    if (m->n_window) fprintf(out, "%5d in %2d", m->window, m->n_window);
    else fputs("          -", out);
    if (!fits(type, m)) {
        fprintf(out, " %8d  no %s\n", n, type_name[type]);
        return;
    }
    fprintf(out, " %8d %8zu", n, token_bytes(type, m));
    print_size(out, cache_bytes(type, m, n));
    print_size(out, heads_bytes(type, m, n, m->n_heads));
    print_size(out, window_bytes(type, m, n));
    fputc('\n', out);
}

/* -c, or the model's own context. */
static int ctx_of(const Options *o, const KvModel *m) { return o->ctx > 0 ? o->ctx : m->n_ctx; }

static void print_table(FILE *out, const Options *o) {
    fprintf(out, "KV cache in %s, of each model's own context%s; window: tokens in so many layers\n",
            type_name[o->kv_type], o->ctx > 0 ? " or -c" : "");
    fputs("model          layers heads   KV head_dim      window  context  a token         cache     multi-head    "
          "windows only\n",
          out);
    for (const KvModel *m = kv_models; m->name; m++) print_row(out, m, o->kv_type, ctx_of(o, m));
}

typedef size_t Bytes(KvType type, const KvModel *m, int n);
static size_t multi_head(KvType type, const KvModel *m, int n) { return heads_bytes(type, m, n, m->n_heads); }
static size_t multi_query(KvType type, const KvModel *m, int n) { return heads_bytes(type, m, n, 1); }

static void print_line(FILE *out, const char *what, const KvModel *m, int n, Bytes *bytes) {
    fprintf(out, "%-34s", what);
    for (int t = 0; t < N_TYPES; t++) {
        if (fits((KvType)t, m)) print_size(out, bytes((KvType)t, m, n));
        else fputs("             -", out);
    }
    fputc('\n', out);
}

static const char *plural(int n) { return n == 1 ? "" : "s"; }

static const char *attention_name(const KvModel *m) {
    return m->latent                     ? "latent"
           : m->n_kv_heads == m->n_heads ? "multi-head"
           : m->n_kv_heads == 1          ? "multi-query"
                                         : "grouped-query";
}

static void print_model(FILE *out, const KvModel *m, KvType type, int n) {
    char what[80];
    fprintf(out, "%s: %d layers, %d query heads, %d KV heads, keys of %d features%s%s\n", m->name, m->n_layers,
            m->n_heads, m->n_kv_heads, m->head_dim, m->source[0] ? "; " : "", m->source);
    if (m->latent)
        fprintf(out, "a token: %d layers x %d features that hold keys and values of all heads", m->n_layers, m->latent);
    else
        fprintf(out, "a token: 2 x %d layers x %d KV head%s x %d features", m->n_layers, m->n_kv_heads,
                plural(m->n_kv_heads), m->head_dim);
    fprintf(out, ", in %s %zu bytes\n\n", type_name[type], token_bytes(type, m));
    snprintf(what, sizeof what, "%d tokens", n);
    fprintf(out, "%-34s", what);
    for (int t = 0; t < N_TYPES; t++) fprintf(out, "%14s", type_name[t]);
    fputc('\n', out);
    if (m->latent) snprintf(what, sizeof what, "latent, %d features", m->latent);
    else snprintf(what, sizeof what, "%s, %d KV head%s", attention_name(m), m->n_kv_heads, plural(m->n_kv_heads));
    print_line(out, what, m, n, cache_bytes);
    snprintf(what, sizeof what, "multi-head, %d", m->n_heads);
    if (m->latent || m->n_kv_heads != m->n_heads) print_line(out, what, m, n, multi_head);
    if (m->latent || m->n_kv_heads != 1) print_line(out, "multi-query, 1", m, n, multi_query);
    snprintf(what, sizeof what, "window of %d kept in %d layers", m->window, m->n_window);
    if (m->n_window) print_line(out, what, m, n, window_bytes);
    if (m->n_window) fputs("\nThis program keeps such a window and a batch (--batch) beside it.\n", out);
}

/* The row of a checkpoint. */
static KvModel model_of(const Session *s, const char *name) {
    const Config *c = &s->model.config;
    KvModel m = {name, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim, 0, c->n_ctx, 0, 0, 0, ""};
    for (int i = 0; i < c->n_layers; i++) {
        int window = s->model.weights.layers[i].attn.window;
        m.n_window += window > 0;
        m.window = window > m.window ? window : m.window;
    }
    return m;
}

int mode_kv(const Options *o, FILE *out, Error *e) {
    if (!o->checkpoint) {
        if (!o->json) {
            print_table(out, o);
            return 0;
        }
        fputs("{\"models\": [", out);
        for (const KvModel *m = kv_models; m->name; m++) {
            fputs(m == kv_models ? "" : ",\n ", out);
            print_json(out, m, ctx_of(o, m));
        }
        fputs("]}\n", out);
        return 0;
    }
    Session s = {0};
    const KvModel *known = kv_model_named(o->checkpoint);
    KvModel m;
    if (!known && session_open(&s, o, 0, e)) return 1;
    m = known ? *known : model_of(&s, s.checkpoint.arch);
    int n = ctx_of(o, &m), code = kv_type_check(o->kv_type, m.head_dim, o->checkpoint, e) ? 1 : 0;
    if (code == 0 && o->json) {
        fputs("{\"models\": [", out);
        print_json(out, &m, n);
        fputs("]}\n", out);
    } else if (code == 0) {
        print_model(out, &m, o->kv_type, n);
    }
    session_close(&s);
    return code;
}

#include <string.h>

#include "base/text.h"
#include "modes/modes.h"
#include "gen/session.h"

/* By FfnKind. */
static const char *const ffn_name[] = {"gelu",      "swiglu", "geglu", "gelu_erf",
                                       "geglu_erf", "relu2",  "xielu", "swiglu_oss"};
static const char *const ffn_title[] = {"GELU MLP",    "SwiGLU",     "GeGLU",     "exact GELU MLP",
                                        "exact GeGLU", "ReLU^2 MLP", "xIELU MLP", "clamped SwiGLU"};

/* general.name of a GGUF; empty: none. */
static Str name_of(const Checkpoint *ck) {
    Str name = {"", 0};
    Error ignored = {0};
    if (ck->format == FORMAT_GGUF) gguf_get_str(&ck->gguf, "general.name", &name, &ignored);
    return name;
}

/* What a text is read and ended by. why: the reason when there is no tokenizer. */
static void print_tokenizer(FILE *out, const Options *o, const Session *s, const Error *why) {
    const Tokenizer *t = s->tokenizer;
    const char *template = t ? tokenizer_chat_template(t) : NULL;
    int bos = t ? tokenizer_bos(t) : -1;
    size_t length;
    if (o->json) {
        fprintf(out, ", \"tokenizer\": %s%s%s, \"bos\": %d, \"eos\": [", t ? "\"" : "", t ? tokenizer_kind(t) : "null",
                t ? "\"" : "", bos);
        for (int i = 0; i < s->n_eos; i++) fprintf(out, "%s%d", i ? ", " : "", s->eos[i]);
        fputs("], \"chat_template\": ", out);
        if (template) text_print_json(out, template, strlen(template));
        else fputs("null", out);
        return;
    }
    if (t) fprintf(out, "tokenizer       %s, %d tokens\n", tokenizer_kind(t), tokenizer_vocab_size(t));
    else fprintf(out, "tokenizer       none: %s\n", why->text);
    fputs("BOS             ", out);
    if (bos >= 0) {
        const char *piece = tokenizer_piece(t, bos, &length);
        fprintf(out, "%d %.*s%s\n", bos, (int)length, piece, tokenizer_adds_bos(t) ? "" : ", not put before a text");
    } else fputs("none\n", out);
    fputs("end tokens     ", out);
    for (int i = 0; i < s->n_eos; i++) {
        const char *piece = "";
        length = 0;
        if (t && s->eos[i] < tokenizer_vocab_size(t)) piece = tokenizer_piece(t, s->eos[i], &length);
        fprintf(out, "%s%d%s%.*s", i ? ", " : " ", s->eos[i], length ? " " : "", (int)length, piece);
    }
    if (s->n_eos == 0) fputs(" none", out);
    if (template) fprintf(out, "\nchat template   the model's own, %zu bytes\n", strlen(template));
    else fputs("\nchat template   none\n", out);
}

/* A model without a tokenizer has the rest of its facts to show. */
static int open_tokenizer(Session *s, const Options *o, Error *why, Error *e) {
    int ids[16];
    s->tokenizer = session_tokenizer(o, &s->checkpoint, why);
    if (s->tokenizer) session_add_eos(s, ids, tokenizer_eos(s->tokenizer, ids));
    else if (o->tokenizer || error_is_memory(why)) return fail_again(e, why);
    return 0;
}

/* KvCost - bytes of keys and values: of a token in all layers, of those with a window alone, of a context. */
typedef struct {
    int n_ctx, n_window, window;
    size_t token, window_token, all;
} KvCost;

static KvCost kv_cost(const Options *o, const Model *m) {
    const Config *c = &m->config;
    int asked = session_ctx(o, c);
    KvCost cost = {.n_ctx = asked ? asked : c->n_ctx};
    KvCache cache = {.type = o->kv_type,
                     .n_layers = c->n_layers,
                     .n_ctx = cost.n_ctx,
                     .n_batch = o->batch < cost.n_ctx ? o->batch : cost.n_ctx,
                     .windows = &m->weights.layers->attn.window,
                     .window_step = sizeof *m->weights.layers};
    size_t layer = kv_bytes_per_token(o->kv_type, 1, c->n_kv_heads, c->head_dim);
    for (int i = 0; i < c->n_layers; i++) {
        KvLayer l = kv_cache_layer(&cache, i);
        cost.token += layer;
        cost.all += layer * (size_t)l.rows;
        if (!l.window) continue;
        cost.window_token += layer;
        cost.window = l.window > cost.window ? l.window : cost.window;
        cost.n_window++;
    }
    return cost;
}

static void print_kv(FILE *out, const KvCost *k, int n_layers) {
    fprintf(out, "KV cache        %zu bytes a token", k->token);
    if (k->n_window && k->n_window < n_layers)
        fprintf(out, ": %zu in %d layers, %zu in %d", k->token - k->window_token, n_layers - k->n_window,
                k->window_token, k->n_window);
    if (k->n_window) fprintf(out, " with a window of %d", k->window);
    fprintf(out, "\n                %.1f MB for a context of %d\n", (double)k->all / 1e6, k->n_ctx);
}

int mode_info(const Options *o, FILE *out, Error *e) {
    Session s;
    Error why = {0};
    if (session_open(&s, o, 0, e)) return 1;
    const Config *c = &s.model.config;
    if (kv_type_check(o->kv_type, c->head_dim, o->checkpoint, e) || open_tokenizer(&s, o, &why, e)) {
        session_close(&s);
        return 1;
    }
    const Checkpoint *ck = &s.checkpoint;
    bool rope = c->pos == POS_ROPE;
    /* Frequencies baked into rope_freqs.weight are Llama 3.1's rule, carried as numbers. */
    const char *scaling = !rope ? "none" : c->rope.freq_factors ? "llama3" : rope_scaling_name[c->rope.scaling];
    const char *pairing = !rope ? "none" : c->rope.pairing == ROPE_HALF ? "half" : "pairs";
    KvCost kv = kv_cost(o, &s.model);
    int counts[DTYPE_COUNT] = {0};
    for (size_t i = 0; i < ck->n_tensors; i++) counts[ck->tensors[i].mat.dtype]++;
    const char *format = checkpoint_format_name(ck->format);
    Str name = name_of(ck);
    const MoeConfig *moe = &c->moe;
    size_t each = moe->n_experts ? ck->expert_params / (size_t)moe->n_experts : 0;
    size_t active = ck->params - each * (size_t)(moe->n_experts - moe->n_used);
    char experts[64] = "";
    if (moe->n_experts) snprintf(experts, sizeof experts, "%d of %d experts, ", moe->n_used, moe->n_experts);
    if (o->json) {
        fprintf(out, "{\"format\": \"%s\", \"arch\": \"%s\", \"dim\": %d, \"hidden_dim\": %d, \"n_layers\": %d, ",
                format, ck->arch, c->dim, c->hidden_dim, c->n_layers);
        fprintf(out, "\"n_heads\": %d, \"n_kv_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d, \"n_ctx\": %d, ",
                c->n_heads, c->n_kv_heads, c->head_dim, c->vocab_size, c->n_ctx);
        fprintf(out, "\"rope_theta\": %.9g, \"rope_scaling\": \"%s\", \"rope_pairing\": \"%s\", \"norm_eps\": %.9g, ",
                rope ? c->rope.theta : 0.0, scaling, pairing, (double)c->norm_eps);
        fprintf(out, "\"tied\": %s, \"params\": %zu, \"weights_bytes\": %zu, \"kv_bytes_per_token\": %zu, ",
                c->tied ? "true" : "false", ck->params, ck->weights_bytes, kv.token);
        fprintf(out, "\"kv_window_bytes_per_token\": %zu, \"kv_ctx\": %d, \"kv_bytes\": %zu, ", kv.window_token,
                kv.n_ctx, kv.all);
        if (moe->n_experts)
            fprintf(out,
                    "\"experts\": %d, \"experts_used\": %d, \"shared_dim\": %d, \"dense_dim\": %d, \"active_params\": "
                    "%zu, ",
                    moe->n_experts, moe->n_used, moe->shared_dim, moe->dense_dim, active);
        fprintf(out, "\"norm\": \"%s\", \"ffn\": \"%s\", \"positions\": \"%s\", \"dtypes\": {",
                c->norm == NORM_RMSNORM ? "rmsnorm" : "layernorm", ffn_name[c->ffn], rope ? "rope" : "learned");
        for (int t = 0, n = 0; t < DTYPE_COUNT; t++)
            if (counts[t]) fprintf(out, "%s\"%s\": %d", n++ ? ", " : "", dtype_info[t].name, counts[t]);
        fputs("}, \"name\": ", out);
        text_print_json(out, name.s, name.n);
        print_tokenizer(out, o, &s, &why);
        fputs("}\n", out);
    } else {
        if (name.n) {
            fputs("name            ", out);
            text_print(out, name.s, name.n, false);
            fputc('\n', out);
        }
        fprintf(out, "format          %s%s", format, ck->format == FORMAT_LLAMA2C ? " v" : "");
        if (ck->format == FORMAT_LLAMA2C) fprintf(out, "%d", ck->version);
        fprintf(out, "\narchitecture    %s: %s, %s%s, %s, %s\n", ck->arch,
                c->norm == NORM_RMSNORM ? "RMSNorm" : "LayerNorm", experts, ffn_title[c->ffn],
                rope ? "RoPE" : "learned positions", c->n_heads == c->n_kv_heads ? "multi-head" : "grouped-query");
        fprintf(out, "dim             %d\nhidden_dim      %d\nn_layers        %d\nn_heads         %d\n", c->dim,
                c->hidden_dim, c->n_layers, c->n_heads);
        fprintf(out, "n_kv_heads      %d\nhead_dim        %d\nvocab_size      %d\nn_ctx           %d\n", c->n_kv_heads,
                c->head_dim, c->vocab_size, c->n_ctx);
        if (rope) fprintf(out, "rope            theta %g, scaling %s, pairing %s\n", c->rope.theta, scaling, pairing);
        fprintf(out, "norm_eps        %g\ntied            %s\nparams          %zu\n", (double)c->norm_eps,
                c->tied ? "yes" : "no", ck->params);
        if (moe->n_experts) fprintf(out, "active          %zu of them for a token\n", active);
        if (moe->dense_dim) fprintf(out, "dense layers    hidden_dim %d\n", moe->dense_dim);
        if (moe->shared_dim) fprintf(out, "shared expert   %d\n", moe->shared_dim);
        fprintf(out, "weights         %.1f MB\n", (double)ck->weights_bytes / 1e6);
        print_kv(out, &kv, c->n_layers);
        fputs("tensors        ", out);
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (counts[t]) fprintf(out, " %d %s", counts[t], dtype_info[t].name);
        fputc('\n', out);
        print_tokenizer(out, o, &s, &why);
    }
    session_close(&s);
    return 0;
}

/* write_hf - a Hugging Face directory: config.json and model.safetensors. */
#include <stdlib.h>
#include <string.h>

#include "convert/writer.h"

/* ---- model.safetensors --------------------------------------------------------------------------- */

typedef struct {
    Buffer json;
    uint64_t offset;
    size_t n;
} Header;

static int add_entry(Writer *w, const Target *t, void *arg) {
    Header *h = arg;
    char entry[256];
    size_t bytes = target_bytes(t);
    int dims[3], n_dims = target_shape(dims, w, t);
    const char *dtype = t->type == DTYPE_F16 ? "F16" : t->type == DTYPE_BF16 ? "BF16" : "F32";
    int n = snprintf(entry, sizeof entry, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", h->n++ ? "," : "{", t->name, dtype);
    bool number = t->field[0] == FIELD_XIELU_BETA || t->field[0] == FIELD_XIELU_EPS; /* a shape of no dimensions */
    for (int i = 0; i < n_dims && !number; i++)
        n += snprintf(entry + n, sizeof entry - (size_t)n, "%s%d", i ? "," : "", dims[i]);
    n += snprintf(entry + n, sizeof entry - (size_t)n, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)h->offset,
                  (unsigned long long)(h->offset + bytes));
    put(&h->json, entry, (size_t)n);
    h->offset += bytes;
    return 0;
}

static int add_values(Writer *w, const Target *t, void *arg) {
    (void)arg;
    return write_target(w, t);
}

int write_safetensors(Writer *w) {
    Header h = {0};
    each_target(w, add_entry, &h);
    put(&h.json, "}", 1);
    while (h.json.n % 8) put(&h.json, " ", 1);
    int status = h.json.failed ? fail(w->e, "%s: memory: expected some, found none", w->path) : 0;
    if (!status) {
        uint64_t n = h.json.n;
        write_bytes(w, &n, sizeof n);
        write_bytes(w, h.json.data, h.json.n);
        status = each_target(w, add_values, NULL);
    }
    free(h.json.data);
    return status;
}

/* ---- config.json --------------------------------------------------------------------------------- */

/* The shortest of two spellings that gives the number back. */
static void print_number(FILE *f, double x) { fprintf(f, (double)(float)x == x ? "%.9g" : "%.17g", x); }

static void print_list(FILE *f, const char *key, const float *x, int n) {
    fprintf(f, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) fprintf(f, "%s%.9g", i ? ", " : "", (double)x[i]);
    fputs("]", f);
}

static void print_rope(FILE *f, const Config *c) {
    const RopeConfig *r = &c->rope;
    const RopeRule *rule = &rope_rules[r->scaling];
    const RopeConfig plain = {.beta_fast = 32, .beta_slow = 1};
    fprintf(f, ",\n \"rope_scaling\": {\"rope_type\": \"%s\"", rule->name);
    for (const RopeNumber *n = rule->numbers; n < rule->numbers + ROPE_RULE_NUMBERS && n->name; n++) {
        double x = *(const double *)(const void *)((const char *)r + n->offset);
        if (!n->needed && x == *(const double *)(const void *)((const char *)&plain + n->offset)) continue;
        fprintf(f, ", \"%s\": ", n->name);
        print_number(f, x);
    }
    if (r->scaling >= ROPE_SCALING_YARN) fprintf(f, ", \"original_max_position_embeddings\": %d", r->original_ctx);
    if (r->scaling == ROPE_SCALING_YARN && !r->truncate) fputs(", \"truncate\": false", f);
    if (c->attn.temperature != 0) {
        fputs(", \"llama_4_scaling_beta\": ", f);
        print_number(f, (double)c->attn.temperature);
    }
    if (r->scaling == ROPE_SCALING_LONGROPE) {
        print_list(f, "short_factor", r->short_factor, r->rotary_dim / 2);
        print_list(f, "long_factor", r->long_factor, r->rotary_dim / 2);
    }
    fputs("}", f);
}

/* Is a key of the family's table to be written? One that a family does not read says nothing. */
static bool written(const Arch *a, Key key, const Config *c) {
    const Bias bias[KEY_COUNT] = {
        [KEY_QKV_BIAS] = a->qkv_bias, [KEY_OUT_BIAS] = a->out_bias, [KEY_MLP_BIAS] = a->mlp_bias};
    if (key == KEY_QKV_BIAS || key == KEY_OUT_BIAS || key == KEY_MLP_BIAS) return bias[key] == BIAS_BY_KEY;
    bool whole = c->pos != POS_ROPE || c->rope.rotary_dim == c->head_dim;
    return key != KEY_PARTIAL_ROTARY || !whole || !isnan(key_default(a, key));
}

static void print_facts(const Writer *w) {
    const Arch *a = w->family;
    Facts f;
    config_facts(&f, w);
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *name = key_name(a, a->style, (Key)key);
        bool has_default = !isnan(key_default(a, (Key)key));
        if (!name || strcmp(name, "-") == 0 || (!f.given[key] && !has_default) || !written(a, (Key)key, &w->config))
            continue;
        fprintf(w->file, ",\n \"%s\": ", name);
        if (!f.given[key]) fputs("null", w->file); /* not the family's default */
        else if (key_info[key].kind == KEY_FLAG) fputs(f.value[key] != 0 ? "true" : "false", w->file);
        else print_number(w->file, f.value[key]);
    }
}

/* Lists with an item for each layer, where the layers differ. */
static void print_layers(const Writer *w) {
    const Layer *layers = w->weights->layers;
    int n = w->config.n_layers, windows = 0;
    for (int i = 0; i < n; i++) windows += layers[i].attn.window > 0;
    for (int i = 0; i < n && windows && (w->family->traits & ARCH_LAYER_TYPES); i++)
        fprintf(w->file, "%s\"%s\"%s", i ? ", " : ",\n \"layer_types\": [",
                layers[i].attn.window ? "sliding_attention" : "full_attention", i + 1 < n ? "" : "]");
    for (int i = 0; i < n && (w->family->traits & ARCH_HYBRID); i++)
        fprintf(w->file, "%s\"attention\"%s", i ? ", " : ",\n \"layer_types\": [", i + 1 < n ? "" : "]");
    if ((w->family->traits & ARCH_HYBRID) && !key_default_given(w->family, KEY_EXPERTS))
        fputs(",\n \"num_local_experts\": 0", w->file);
    if (w->family->traits & ARCH_HYBRID)
        fprintf(w->file, ",\n \"position_embedding_type\": \"%s\"", layers[0].attn.rope == ROPE_NONE ? "nope" : "rope");
    for (int i = 0, dense = 0; i < n && w->config.moe.dense_dim; i++) {
        if (!layers[i].moe.experts) fprintf(w->file, "%s%d", dense++ ? ", " : ",\n \"mlp_only_layers\": [", i);
        if (i + 1 == n) fputs("]", w->file);
    }
    for (int i = 0; i < n && key_default_given(w->family, KEY_NO_ROPE_INTERVAL); i++)
        fprintf(w->file, "%s%d%s", i ? ", " : ",\n \"no_rope_layers\": [", layers[i].attn.rope != ROPE_NONE,
                i + 1 < n ? "" : "]");
}

int write_config(Writer *w) {
    static const char *const act[] = {
        [FFN_GELU] = "gelu_new", [FFN_SWIGLU] = "silu",    [FFN_GEGLU] = "gelu_pytorch_tanh",
        [FFN_GELU_ERF] = "gelu", [FFN_GEGLU_ERF] = "gelu", [FFN_RELU2] = "relu2",
        [FFN_XIELU] = "xielu",   [FFN_SWIGLU_OSS] = "silu"};
    const Config *c = &w->config;
    const RopeConfig *r = &c->rope;
    FILE *f = w->file;
    bool rope = c->pos == POS_ROPE;
    if (rope && r->freq_factors)
        return fail(w->e, "%s: rope_freqs: expected a rule that config.json can name, found one divisor a pair",
                    w->ck->path);
    if (rope && r->attention_factor > 0 && r->scaling != ROPE_SCALING_YARN && r->scaling != ROPE_SCALING_LONGROPE)
        return fail(w->e, "%s: attn_factor: expected 1 with a rule that config.json has no such key for, found %g",
                    w->ck->path, r->attention_factor);
    if (rope && r->rotary_dim != c->head_dim && (w->family->traits & ARCH_WHOLE_ROTARY))
        return fail(w->e, "%s: rotary dimension: expected head_dim %d for a %s, found %d", w->ck->path, c->head_dim,
                    w->family->name, r->rotary_dim);
    fprintf(f, "{\n \"architectures\": [\"%s\"],\n \"model_type\": \"%s\"", w->family->class_name, w->family->name);
    if (w->family->traits & ARCH_SWITCHES)
        fprintf(f, ",\n \"norm\": \"%s\",\n \"ffn\": \"%s\",\n \"positions\": \"%s\"",
                c->norm == NORM_RMSNORM ? "rmsnorm" : "layernorm", c->ffn == FFN_SWIGLU ? "swiglu" : "gelu",
                rope ? "rope" : "learned");
    else fprintf(f, ",\n \"%s\": \"%s\"", w->family->activation ? w->family->activation : "hidden_act", act[c->ffn]);
    print_facts(w);
    print_layers(w);
    if (w->ck->bos >= 0) fprintf(f, ",\n \"bos_token_id\": %d", w->ck->bos);
    if (w->ck->n_eos == 1) fprintf(f, ",\n \"eos_token_id\": %d", w->ck->eos[0]);
    for (int i = 0; i < w->ck->n_eos && w->ck->n_eos > 1; i++)
        fprintf(f, "%s%d%s", i ? ", " : ",\n \"eos_token_id\": [", w->ck->eos[i], i + 1 == w->ck->n_eos ? "]" : "");
    if (rope && r->scaling != ROPE_SCALING_NONE) print_rope(f, c);
    fputs("\n}\n", f);
    return 0;
}

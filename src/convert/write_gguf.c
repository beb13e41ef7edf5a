/* write_gguf - GGUF, version 3. Source: ggml docs/gguf.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/writer.h"

static void put_u32(Buffer *b, uint32_t x) { put(b, &x, sizeof x); }
static void put_u64(Buffer *b, uint64_t x) { put(b, &x, sizeof x); }
static void put_str(Buffer *b, const char *s) {
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

/* The keys of the header; their names begin with "ARCH.". */
typedef struct {
    const char *arch;
    Buffer bytes;
    size_t n;
} Keys;

static void key(Keys *k, const char *name, uint32_t type) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", k->arch, name);
    put_str(&k->bytes, full);
    put_u32(&k->bytes, type);
    k->n++;
}

/* A key whose name does not begin with the architecture's. */
static void key_whole(Keys *k, const char *name, uint32_t x) {
    put_str(&k->bytes, name);
    put_u32(&k->bytes, GGUF_U32);
    put_u32(&k->bytes, x);
    k->n++;
}

static void key_u32(Keys *k, const char *name, int x) {
    key(k, name, GGUF_U32);
    put_u32(&k->bytes, (uint32_t)x);
}

static void key_f32(Keys *k, const char *name, double x) {
    float f = (float)x;
    key(k, name, GGUF_F32);
    put(&k->bytes, &f, sizeof f);
}

static void key_flag(Keys *k, const char *name, bool x) {
    unsigned char byte = x;
    key(k, name, GGUF_BOOL);
    put(&k->bytes, &byte, 1);
}

static void key_str(Keys *k, const char *name, const char *s) {
    key(k, name, GGUF_STRING);
    put_str(&k->bytes, s);
}

typedef struct {
    Buffer infos;
    uint64_t offset;
    size_t n;
} Table;

enum { GGUF_ALIGNMENT = 32 };
static uint64_t aligned(uint64_t n) { return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT; }

/* dims  [n], the last one that of a row, which comes first in the file */
static void table_row(Table *t, const char *name, const int *dims, int n, int ggml, size_t bytes) {
    put_str(&t->infos, name);
    put_u32(&t->infos, (uint32_t)n);
    while (n) put_u64(&t->infos, (uint64_t)dims[--n]);
    put_u32(&t->infos, (uint32_t)ggml);
    put_u64(&t->infos, t->offset);
    t->offset = aligned(t->offset + bytes);
    t->n++;
}

static int add_info(Writer *w, const Target *t, void *arg) {
    int dims[3], n = target_shape(dims, w, t);
    bool row = n == 2 && dims[0] == 1;
    table_row(arg, t->name, dims + row, n - row, dtype_info[t->type].ggml_type, target_bytes(t));
    return 0;
}

static void pad(Writer *w, size_t n) {
    static const char zeros[GGUF_ALIGNMENT];
    write_bytes(w, zeros, (size_t)(aligned(n) - n));
}

static int add_data(Writer *w, const Target *t, void *arg) {
    (void)arg;
    if (write_target(w, t)) return -1;
    pad(w, target_bytes(t));
    return 0;
}

static bool starts_with(Str s, const char *text) {
    size_t n = strlen(text);
    return s.n >= n && memcmp(s.s, text, n) == 0;
}

/* The numbers of the model, by the table of keys. */
static void put_facts(const Writer *w, Keys *k) {
    Facts f;
    config_facts(&f, w);
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *name = key_name(w->family, STYLE_GGUF, (Key)i);
        if (!name || !f.given[i]) continue;
        if (w->config.pos != POS_ROPE && (i == KEY_ROPE_THETA || i == KEY_ROTARY_DIM)) continue;
        if (key_info[i].kind == KEY_FLAG) key_flag(k, name, f.value[i] != 0);
        else if (key_info[i].kind == KEY_INT) key_u32(k, name, (int)f.value[i]);
        else key_f32(k, name, f.value[i]);
    }
}

/* Which layers have the window, where not all have it; and xIELU's numbers, an array with one for each layer. */
static void put_layers(const Writer *w, Keys *k) {
    static const char *const xielu[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    int n = w->config.n_layers, windows = 0;
    for (int i = 0; i < n; i++) windows += w->weights->layers[i].attn.window > 0;
    if (windows && windows < n) {
        key(k, "attention.sliding_window_pattern", GGUF_ARRAY);
        put_u32(&k->bytes, GGUF_BOOL);
        put_u64(&k->bytes, (uint64_t)n);
        for (int i = 0; i < n; i++) put(&k->bytes, w->weights->layers[i].attn.window ? "\1" : "\0", 1);
    }
    bool bare = w->weights->layers[0].attn.rope == ROPE_NONE; /* llama.cpp: Granite's layers have RoPE unless */
    if ((w->family->traits & ARCH_ROPE_SWITCH) && bare) key_flag(k, "rope.scaling.finetuned", false);
    for (int number = 0; number < 4 && w->config.ffn == FFN_XIELU; number++) {
        put_str(&k->bytes, xielu[number]);
        put_u32(&k->bytes, GGUF_ARRAY);
        put_u32(&k->bytes, GGUF_F32);
        put_u64(&k->bytes, (uint64_t)n);
        for (int i = 0; i < n; i++)
            put(&k->bytes, field_mat(w->weights, &w->config, (Field)(FIELD_XIELU_ALPHA_P + number), i, 0).data,
                sizeof(float));
        k->n++;
    }
}

static void put_rope(Keys *k, const RopeConfig *r, int n_ctx) {
    if (r->scaling == ROPE_SCALING_LINEAR || r->scaling == ROPE_SCALING_YARN || r->scaling == ROPE_SCALING_LONGROPE)
        key_str(k, "rope.scaling.type", rope_rules[r->scaling].name);
    if (r->scaling == ROPE_SCALING_LINEAR || r->scaling == ROPE_SCALING_YARN)
        key_f32(k, "rope.scaling.factor", r->factor);
    if (r->scaling == ROPE_SCALING_YARN || r->scaling == ROPE_SCALING_LONGROPE)
        key_u32(k, "rope.scaling.original_context_length", r->original_ctx);
    if (r->scaling == ROPE_SCALING_YARN) {
        key_f32(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
        key_f32(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
        if (r->mscale != 0 && r->mscale_all_dim != 0) key_f32(k, "rope.scaling.yarn_log_multiplier", r->mscale_all_dim);
    }
    /* What a reader without the key computes for cos and sin, and what it is multiplied with. */
    double inv_freq[ROPE_MAX_PAIRS], factor, own;
    RopeConfig plain = *r;
    plain.attention_factor = 0;
    if (r->scaling == ROPE_SCALING_LONGROPE) plain.factor = (double)n_ctx / r->original_ctx;
    rope_inv_freq(inv_freq, &factor, r, 0);
    rope_inv_freq(inv_freq, &own, &plain, 0);
    double written = r->scaling == ROPE_SCALING_LONGROPE ? factor : factor / own;
    if (factor != own) key_f32(k, "rope.scaling.attn_factor", written);
}

/* Names, licence and, where no other is given, the vocabulary of a GGUF: byte for byte. */
static void copy_keys(Keys *k, const Gguf *g, bool tokenizer) {
    static const char *const written[] = {"general.architecture", "general.alignment", "general.file_type",
                                          "general.quantization_version"};
    for (size_t i = 0; i < g->n_kv; i++) {
        Str key = g->kv[i].key;
        bool keep = (tokenizer && starts_with(key, "tokenizer.")) || starts_with(key, "general.");
        for (size_t j = 0; j < sizeof written / sizeof *written; j++) keep &= !starts_with(key, written[j]);
        if (!keep) continue;
        const unsigned char *from = (const unsigned char *)key.s - 8;
        const unsigned char *to = i + 1 < g->n_kv ? (const unsigned char *)g->kv[i + 1].key.s - 8 : g->kv_end;
        put(&k->bytes, from, (size_t)(to - from));
        k->n++;
    }
}

/* Tensors of RoPE: Llama 3.1's rule travels as one divisor a pair, LongRoPE's as its two sets. */
typedef struct {
    const char *name[2];
    const float *values[2];
    float divisors[ROPE_MAX_PAIRS];
} Extra;

static void rope_extra(Extra *x, const RopeConfig *r) {
    *x = (Extra){.name = {"rope_freqs.weight", NULL}, .values = {r->freq_factors, NULL}};
    if (r->scaling == ROPE_SCALING_LONGROPE) {
        x->name[0] = "rope_factors_long.weight";
        x->values[0] = r->long_factor;
        x->name[1] = "rope_factors_short.weight";
        x->values[1] = r->short_factor;
    } else if (r->scaling == ROPE_SCALING_LLAMA3) {
        double scaled[ROPE_MAX_PAIRS], plain[ROPE_MAX_PAIRS], factor;
        RopeConfig none = *r;
        none.scaling = ROPE_SCALING_NONE;
        none.freq_factors = NULL;
        rope_inv_freq(scaled, &factor, r, 0);
        rope_inv_freq(plain, &factor, &none, 0);
        for (int i = 0; i < r->rotary_dim / 2; i++) x->divisors[i] = (float)(plain[i] / scaled[i]);
        x->values[0] = x->divisors;
    }
}

/* What llama.cpp prints as the model's type, and that its blocks are of the present layout. */
static void put_file_type(const Writer *w, Keys *k) {
    const Mix *mix = w->options->mix;
    if (mix) key_whole(k, "general.file_type", (uint32_t)mix_file_type(mix));
    if (!mix || dtype_info[mix_base(mix)].block_values > 1) key_whole(k, "general.quantization_version", 2);
}

int write_gguf(Writer *w) {
    const RopeConfig *r = &w->config.rope;
    bool rope = w->config.pos == POS_ROPE, truncate = !w->family->rope || w->family->rope->truncate;
    if (rope && r->rotary_dim != w->config.head_dim && (w->family->traits & ARCH_WHOLE_ROTARY))
        return fail(w->e, "%s: rotary dimension: expected head_dim %d for GGUF %s, found %d", w->ck->path,
                    w->config.head_dim, w->family->gguf, r->rotary_dim);
    if (rope && (r->scaling == ROPE_SCALING_DYNAMIC ||
                 (r->scaling == ROPE_SCALING_YARN && ((r->mscale != 0 && r->mscale != 1) || r->truncate != truncate))))
        return fail(w->e, "%s: rope scaling: expected a rule that GGUF can hold, found another", w->ck->path);
    Keys k = {.arch = w->family->gguf};
    Table table = {0};
    Extra extra = {0};
    int status = -1;
    put_str(&k.bytes, "general.architecture");
    put_u32(&k.bytes, GGUF_STRING);
    put_str(&k.bytes, k.arch);
    k.n = 1;
    put_file_type(w, &k);
    put_facts(w, &k);
    put_layers(w, &k);
    if (rope) put_rope(&k, r, w->config.n_ctx);
    const GgufKeys *tokenizer = w->options->tokenizer;
    if (w->ck->format == FORMAT_GGUF) copy_keys(&k, &w->ck->gguf, !tokenizer);
    if (tokenizer) put(&k.bytes, tokenizer->data, tokenizer->bytes);
    if (tokenizer) k.n += tokenizer->n;
    if (rope) rope_extra(&extra, r);
    int pairs = r->rotary_dim / 2;
    size_t pair_bytes = (size_t)pairs * sizeof(float);
    for (int i = 0; i < 2; i++)
        if (extra.values[i]) table_row(&table, extra.name[i], &pairs, 1, 0, pair_bytes);
    each_target(w, add_info, &table);
    if (k.bytes.failed || table.infos.failed) {
        fail(w->e, "%s: memory: expected some, found none", w->path);
        goto done;
    }
    uint32_t version = 3;
    uint64_t n_tensors = table.n, count = k.n;
    write_bytes(w, "GGUF", 4);
    write_bytes(w, &version, sizeof version);
    write_bytes(w, &n_tensors, sizeof n_tensors);
    write_bytes(w, &count, sizeof count);
    write_bytes(w, k.bytes.data, k.bytes.n);
    write_bytes(w, table.infos.data, table.infos.n);
    pad(w, 24 + k.bytes.n + table.infos.n);
    for (int i = 0; i < 2; i++) {
        if (!extra.values[i]) continue;
        write_bytes(w, extra.values[i], pair_bytes);
        pad(w, pair_bytes);
    }
    writer_count(w);
    status = each_target(w, add_data, NULL);
done:
    free(k.bytes.data);
    free(table.infos.data);
    return status;
}

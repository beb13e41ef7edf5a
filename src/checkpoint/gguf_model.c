/* gguf_model - what the keys and tensors of a GGUF file mean. Source: ggml docs/gguf.md and the
 * conversion scripts of llama.cpp. Architectures: llama (q and k rows are permuted for adjacent
 * pairs), gpt2. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/formats.h"

static bool str_is(Str s, const char *text) { return strlen(text) == s.n && memcmp(s.s, text, s.n) == 0; }

/* Reads keys "ARCH.name"; `failed` collects, so that a list of reads needs one check. */
typedef struct {
    const Gguf *g;
    const char *arch, *path;
    Error *e;
    bool failed;
} Keys;

static const char *full(const Keys *k, const char *name, char out[128]) {
    snprintf(out, 128, "%s.%s", k->arch, name);
    return out;
}

static bool get_int(Keys *k, const char *name, int *out, int64_t min, int64_t max) {
    char key[128];
    int64_t x = *out;
    int found = gguf_get_int(k->g, full(k, name, key), &x, min, max, k->e);
    if (found < 0) k->failed = true;
    if (found > 0) *out = (int)x;
    return found > 0;
}

static bool get_float(Keys *k, const char *name, double *out) {
    char key[128];
    int found = gguf_get_float(k->g, full(k, name, key), out, k->e);
    if (found < 0) k->failed = true;
    return found > 0;
}

static void need_int(Keys *k, const char *name, int *out) {
    if (!k->failed && !get_int(k, name, out, 1, INT32_MAX) && !k->failed) {
        fail(k->e, "%s: %s.%s: expected the key, found none", k->path, k->arch, name);
        k->failed = true;
    }
}

/* Every key of the architecture is known: a name that is not in this list might change the maths.
 */
static int check_known(Keys *k) {
    static const char *known[] = {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "vocab_size",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "attention.layer_norm_epsilon",
        "attention.sliding_window",
        "attention.causal",
        "expert_count",
        "expert_used_count",
        "logit_scale",
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.finetuned",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_log_multiplier",
        "tensor_data_layout",
        "attention.scale",
        "residual_scale",
        "embedding_scale",
    };
    size_t prefix = strlen(k->arch);
    for (size_t i = 0; i < k->g->n_kv; i++) {
        Str key = k->g->kv[i].key;
        if (key.n <= prefix + 1 || memcmp(key.s, k->arch, prefix) != 0 || key.s[prefix] != '.') continue;
        Str name = {key.s + prefix + 1, key.n - prefix - 1};
        bool found = false;
        for (size_t j = 0; j < sizeof known / sizeof *known && !found; j++) found = str_is(name, known[j]);
        if (!found)
            return fail(k->e, "%s: %.*s: expected a key this program knows, found one that may change the maths",
                        k->path, (int)(key.n < 100 ? key.n : 100), key.s);
    }
    return 0;
}

/* refuse_unless - a setting that we do not have must be at the value where it does nothing. */
static void refuse_unless(Keys *k, const char *name, double neutral, double also) {
    double x = neutral;
    if (!k->failed && get_float(k, name, &x) && x != neutral && x != also) {
        fail(k->e, "%s: %s.%s: expected %g, found %g, which is not supported", k->path, k->arch, name, neutral, x);
        k->failed = true;
    }
}

static int read_rope(Checkpoint *ck, Keys *k, Error *e) {
    Config *c = &ck->config;
    RopeConfig *r = &c->rope;
    *r = (RopeConfig){.theta = 10000,
                      .rotary_dim = c->head_dim,
                      .pairing = ROPE_PAIRS,
                      .factor = 1,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .truncate = true,
                      .original_ctx = c->n_ctx};
    get_float(k, "rope.freq_base", &r->theta);
    get_int(k, "rope.dimension_count", &r->rotary_dim, 1, INT32_MAX);
    char key[128];
    Str type = {"none", 4};
    if (gguf_get_str(k->g, full(k, "rope.scaling.type", key), &type, e) < 0) return -1;
    double scale = 1;
    if (get_float(k, "rope.scale_linear", &scale) && scale != 1 && str_is(type, "none")) {
        type = (Str){"linear", 6};
        r->factor = scale;
    }
    bool has_factor = get_float(k, "rope.scaling.factor", &r->factor);
    get_int(k, "rope.scaling.original_context_length", &r->original_ctx, 1, INT32_MAX);
    if (k->failed) return -1;

    const GgufTensor *longer = gguf_tensor(k->g, "rope_factors_long.weight");
    const GgufTensor *shorter = gguf_tensor(k->g, "rope_factors_short.weight");
    if (str_is(type, "linear")) {
        r->scaling = r->factor == 1 ? ROPE_SCALING_NONE : ROPE_SCALING_LINEAR;
        if (!has_factor && r->factor == 1)
            return fail(e, "%s: %s.rope.scaling.factor: expected the key, found none", k->path, k->arch);
    } else if (str_is(type, "yarn")) {
        r->scaling = ROPE_SCALING_YARN;
        if (!has_factor) return fail(e, "%s: %s.rope.scaling.factor: expected the key, found none", k->path, k->arch);
        get_float(k, "rope.scaling.yarn_beta_fast", &r->beta_fast);
        get_float(k, "rope.scaling.yarn_beta_slow", &r->beta_slow);
        refuse_unless(k, "rope.scaling.yarn_ext_factor", 1, -1);
        refuse_unless(k, "rope.scaling.yarn_log_multiplier", 0, 0);
        /* llama.cpp multiplies this with YaRN's own 0.1 ln(factor) + 1, Hugging Face replaces it.
         */
        double attn = 1;
        if (get_float(k, "rope.scaling.attn_factor", &attn) || get_float(k, "rope.scaling.yarn_attn_factor", &attn))
            r->attention_factor = attn * (r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1);
    } else if (str_is(type, "longrope") || (str_is(type, "none") && longer && shorter)) {
        r->scaling = ROPE_SCALING_LONGROPE;
        r->factor = (double)c->n_ctx / r->original_ctx;
        get_float(k, "rope.scaling.attn_factor", &r->attention_factor);
    } else if (!str_is(type, "none")) {
        return fail(e, "%s: %s.rope.scaling.type: expected none, linear, yarn or longrope, found %.*s", k->path,
                    k->arch, (int)(type.n < 40 ? type.n : 40), type.s);
    } else if (r->factor != 1) {
        return fail(e, "%s: %s.rope.scaling.type: expected a type for the factor %g, found none", k->path, k->arch,
                    r->factor);
    }

    /* Frequency factors of each pair: Llama 3.1's bands baked in, or LongRoPE's two sets. */
    const struct {
        const char *name;
        const float **out;
        bool wanted;
    } factors[] = {{"rope_freqs.weight", &r->freq_factors, true},
                   {"rope_factors_long.weight", &r->long_factor, r->scaling == ROPE_SCALING_LONGROPE},
                   {"rope_factors_short.weight", &r->short_factor, r->scaling == ROPE_SCALING_LONGROPE}};
    for (int i = 0; i < 3; i++) {
        const GgufTensor *t = gguf_tensor(k->g, factors[i].name);
        if (!t || !factors[i].wanted) continue;
        if (t->ggml_type != 0 || t->n_dims != 1 || t->dims[0] != (uint64_t)r->rotary_dim / 2)
            return fail(e, "%s: %s: expected %d f32 values, found %llu of type %s", k->path, factors[i].name,
                        r->rotary_dim / 2, (unsigned long long)t->dims[0], ggml_type(t->ggml_type)->name);
        Mat m = {.dtype = DTYPE_F32, .rows = 1, .cols = (int)t->dims[0], .data = t->data};
        *factors[i].out = checkpoint_vector(ck, &m, e);
        if (!*factors[i].out) return -1;
        for (int j = 0; j < m.cols; j++)
            if (!(isfinite((*factors[i].out)[j]) && (*factors[i].out)[j] > 0))
                return fail(e, "%s: %s[%d]: expected a positive number, found %g", k->path, factors[i].name, j,
                            (double)(*factors[i].out)[j]);
    }
    return k->failed ? -1 : 0;
}

/* The vocabulary is checked here as well, since a table shorter than the embedding is read past its
 * end. */
static int check_vocabulary(Checkpoint *ck, Error *e) {
    const Gguf *g = &ck->gguf;
    const char *path = ck->path;
    const GgufKv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (tokens) {
        if (tokens->type != GGUF_ARRAY || tokens->item_type != GGUF_STRING)
            return fail(e, "%s: tokenizer.ggml.tokens: expected an array of strings, found something else", path);
        if (tokens->n != (size_t)ck->config.vocab_size)
            return fail(e, "%s: tokenizer.ggml.tokens: expected %d, the rows of the embedding, found %zu", path,
                        ck->config.vocab_size, tokens->n);
        const struct {
            const char *key;
            GgufType type, also;
        } table[] = {{"tokenizer.ggml.scores", GGUF_F32, GGUF_F32}, {"tokenizer.ggml.token_type", GGUF_I32, GGUF_U32}};
        for (int i = 0; i < 2; i++) {
            const GgufKv *kv = gguf_find(g, table[i].key);
            if (!kv) continue;
            if (kv->type != GGUF_ARRAY || (kv->item_type != table[i].type && kv->item_type != table[i].also))
                return fail(e, "%s: %s: expected an array of %s, found something else", path, table[i].key,
                            i ? "i32" : "f32");
            if (kv->n != tokens->n)
                return fail(e, "%s: %s: expected %zu, one a token, found %zu", path, table[i].key, tokens->n, kv->n);
        }
    }
    int64_t id;
    static const char *end[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};
    int found = gguf_get_int(g, "tokenizer.ggml.bos_token_id", &id, 0, ck->config.vocab_size - 1, e);
    if (found < 0) return -1;
    if (found) ck->bos = (int)id;
    for (int i = 0; i < 3; i++) {
        found = gguf_get_int(g, end[i], &id, 0, ck->config.vocab_size - 1, e);
        if (found < 0) return -1;
        if (found) ck->eos[ck->n_eos++] = (int)id;
    }
    return 0;
}

static int dtype_of(uint32_t type) {
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (dtype_info[t].ggml_type == (int)type) return t;
    return -1;
}

static int read_tensor(Checkpoint *ck, const GgufTensor *t, Error *e) {
    static const char *ignored[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    Config *c = &ck->config;
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.s);
    for (int i = 0; i < 3; i++)
        if (strcmp(name, ignored[i]) == 0) return 0;
    int layer, field = name_find(t->name.s, t->name.n, NAMES_GGUF, &layer);
    size_t n = t->name.n;
    if (field < 0 && n > 20 && memcmp(t->name.s + n - 20, ".attn_rot_embd.freqs", 20) == 0) return 0;
    if (field < 0) return fail(e, "%s: %s: expected a tensor this program knows, found another", ck->path, name);
    int dtype = dtype_of(t->ggml_type);
    if (dtype < 0)
        return fail(e,
                    "%s: %s: type: expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K, found %s",
                    ck->path, name, ggml_type(t->ggml_type)->name);
    for (int i = 0; i < t->n_dims; i++)
        if ((i >= 2 && t->dims[i] != 1) || t->dims[i] > INT32_MAX)
            return fail(e, "%s: %s: dimension %d: expected a matrix, found %llu", ck->path, name, i,
                        (unsigned long long)t->dims[i]);
    Mat m = {.dtype = (DType)dtype, .rows = (int)t->dims[1], .cols = (int)t->dims[0], .data = t->data};
    m.stride_bytes = dtype_row_bytes(m.dtype, (size_t)m.cols);
    if (field < FIELD_COUNT) return checkpoint_add(ck, (Field)field, layer, name, m, e);

    /* q, k and v in one: as rows of a matrix, or as parts of one bias vector. */
    int q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    if (field == FIELD_QKV) {
        if (m.rows != q + 2 * kv || m.cols != c->dim)
            return fail(e, "%s: %s: shape: expected [%d, %d], found [%d, %d]", ck->path, name, q + 2 * kv, c->dim,
                        m.rows, m.cols);
        return checkpoint_add(ck, FIELD_WQ, layer, name, mat_rows(&m, 0, q), e) ||
                       checkpoint_add(ck, FIELD_WK, layer, name, mat_rows(&m, q, kv), e) ||
                       checkpoint_add(ck, FIELD_WV, layer, name, mat_rows(&m, q + kv, kv), e)
                   ? -1
                   : 0;
    }
    if (m.rows != 1 || m.cols != q + 2 * kv || m.dtype != DTYPE_F32)
        return fail(e, "%s: %s: expected %d f32 values, found [%d, %d]", ck->path, name, q + 2 * kv, m.rows, m.cols);
    Mat part = m;
    const int first[3] = {0, q, q + kv}, count[3] = {q, kv, kv};
    const Field fields[3] = {FIELD_BQ, FIELD_BK, FIELD_BV};
    for (int i = 0; i < 3; i++) {
        part.data = (const float *)(const void *)t->data + first[i];
        part.cols = count[i];
        if (checkpoint_add(ck, fields[i], layer, name, part, e)) return -1;
    }
    return 0;
}

int gguf_model_open(Checkpoint *ck, Error *e) {
    Gguf *g = &ck->gguf;
    Config *c = &ck->config;
    if (gguf_open(g, &ck->files[0], e)) return -1;
    ck->version = (int)g->version;
    Str arch;
    int found = gguf_get_str(g, "general.architecture", &arch, e);
    if (found < 0) return -1;
    if (!found) return fail(e, "%s: general.architecture: expected the key, found none", ck->path);
    bool gpt2 = str_is(arch, "gpt2");
    if (!gpt2 && !str_is(arch, "llama"))
        return fail(e, "%s: general.architecture: expected llama or gpt2, found %.*s", ck->path,
                    (int)(arch.n < 40 ? arch.n : 40), arch.s);
    strcpy(ck->arch, gpt2 ? "gpt2" : "llama");

    Keys k = {.g = g, .arch = ck->arch, .path = ck->path, .e = e};
    if (check_known(&k)) return -1;
    need_int(&k, "embedding_length", &c->dim);
    need_int(&k, "feed_forward_length", &c->hidden_dim);
    need_int(&k, "block_count", &c->n_layers);
    need_int(&k, "attention.head_count", &c->n_heads);
    need_int(&k, "context_length", &c->n_ctx);
    if (k.failed) return -1;
    c->n_kv_heads = c->n_heads;
    get_int(&k, "attention.head_count_kv", &c->n_kv_heads, 1, INT32_MAX);
    if (!gguf_find(g, gpt2 ? "gpt2.attention.key_length" : "llama.attention.key_length") && c->dim % c->n_heads)
        return fail(e, "%s: %s.attention.head_count: expected a divisor of %d, found %d", ck->path, ck->arch, c->dim,
                    c->n_heads);
    int value_dim = c->head_dim = c->dim / c->n_heads;
    get_int(&k, "attention.key_length", &c->head_dim, 1, INT32_MAX);
    value_dim = c->head_dim;
    get_int(&k, "attention.value_length", &value_dim, 1, INT32_MAX);
    if (value_dim != c->head_dim)
        return fail(e, "%s: %s.attention.value_length: expected the key length %d, found %d", ck->path, ck->arch,
                    c->head_dim, value_dim);
    double eps = 1e-5;
    get_float(&k, gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", &eps);
    c->norm_eps = (float)eps;
    refuse_unless(&k, "expert_count", 0, 0);
    refuse_unless(&k, "logit_scale", 1, 0);
    refuse_unless(&k, "residual_scale", 1, 0);
    refuse_unless(&k, "embedding_scale", 1, 0);
    refuse_unless(&k, "attention.scale", 0, 1 / sqrt((double)c->head_dim));
    bool causal = true;
    char causal_key[128];
    if (gguf_get_bool(g, full(&k, "attention.causal", causal_key), &causal, e) < 0) return -1;
    if (!causal) return fail(e, "%s: %s: expected true, found false, which is not supported", ck->path, causal_key);
    int window = 0;
    if (get_int(&k, "attention.sliding_window", &window, 0, INT32_MAX) && window && window < c->n_ctx)
        return fail(e, "%s: %s.attention.sliding_window: expected none, found %d, which is not supported", ck->path,
                    ck->arch, window);
    if (k.failed) return -1;

    c->norm = gpt2 ? NORM_LAYERNORM : NORM_RMSNORM;
    c->ffn = gpt2 ? FFN_GELU : FFN_SWIGLU;
    c->pos = gpt2 ? POS_LEARNED : POS_ROPE;
    const GgufTensor *embedding = gguf_tensor(g, "token_embd.weight");
    if (!embedding) return fail(e, "%s: token_embd.weight: expected the tensor, found none", ck->path);
    if (embedding->dims[1] > 1 << 24)
        return fail(e, "%s: token_embd.weight: expected at most %d rows, found %llu", ck->path, 1 << 24,
                    (unsigned long long)embedding->dims[1]);
    c->vocab_size = (int)embedding->dims[1];
    c->tied = !gguf_tensor(g, "output.weight");
    int vocab = c->vocab_size;
    if (get_int(&k, "vocab_size", &vocab, 1, INT32_MAX) && vocab != c->vocab_size)
        return fail(e, "%s: %s.vocab_size: expected %d, the rows of the embedding, found %d", ck->path, ck->arch,
                    c->vocab_size, vocab);
    if (k.failed || config_check(&(Config){.dim = c->dim,
                                           .hidden_dim = c->hidden_dim,
                                           .n_layers = c->n_layers,
                                           .n_heads = c->n_heads,
                                           .n_kv_heads = c->n_kv_heads,
                                           .head_dim = c->head_dim,
                                           .vocab_size = c->vocab_size,
                                           .n_ctx = c->n_ctx,
                                           .norm_eps = c->norm_eps,
                                           .pos = POS_LEARNED},
                                 ck->path, e))
        return -1;
    if (!gpt2 && read_rope(ck, &k, e)) return -1;
    if (check_vocabulary(ck, e)) return -1;
    for (size_t i = 0; i < g->n_tensors; i++)
        if (read_tensor(ck, &g->tensors[i], e)) return -1;
    return 0;
}

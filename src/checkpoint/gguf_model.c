/* gguf_model - what the keys and tensors of a GGUF file mean, by the tables of arch.h. Source: ggml docs/gguf.md,
 * llama.cpp's conversion scripts and its llama-model.cpp. A model may be split over several files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/formats.h"

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

/* An array with one for each layer says the same as one number when all are equal. */
static int get_equal_ints(const Keys *k, const GgufKv *kv, int64_t *out, int64_t min, int64_t max) {
    bool good = kv->n > 0 && (kv->item_type == GGUF_I32 || kv->item_type == GGUF_U32);
    int32_t x;
    for (size_t i = 0; good && i < kv->n; i++) {
        memcpy(&x, kv->value + i * sizeof x, sizeof x);
        good = i == 0 ? x >= min && x <= max : x == *out;
        *out = x;
    }
    if (good) return 1;
    return fail(k->e, "%s: %.*s: expected an integer from %lld to %lld, the same in every layer, found others", k->path,
                (int)kv->key.n, kv->key.s, (long long)min, (long long)max);
}

static bool get_int(Keys *k, const char *name, int *out, int64_t min, int64_t max) {
    char key[128];
    int64_t x = *out;
    const GgufKv *kv = gguf_find(k->g, full(k, name, key));
    int found = kv && kv->type == GGUF_ARRAY ? get_equal_ints(k, kv, &x, min, max)
                                             : gguf_get_int(k->g, key, &x, min, max, k->e);
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

/* Every key of the architecture is a number of the family, or one that is read here or changes nothing: another name
 * might change the result. */
static int check_known(const Keys *k, const Arch *a) {
    static const char *const other[] = {
        "attention.causal",
        "attention.layer_norm_epsilon", /* of the norm that the family does not have */
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window_pattern",
        "attention.temperature_length",
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
    };
    size_t prefix = strlen(k->arch);
    for (size_t i = 0; i < k->g->n_kv; i++) {
        Str key = k->g->kv[i].key;
        if (key.n <= prefix + 1 || memcmp(key.s, k->arch, prefix) != 0 || key.s[prefix] != '.') continue;
        Str name = {key.s + prefix + 1, key.n - prefix - 1};
        bool found = key_find(a, STYLE_GGUF, name.s, name.n) >= 0;
        if ((a->traits & ARCH_ROPE_SWITCH) && name.n > 4 && memcmp(name.s, "ssm.", 4) == 0) continue; /* of no layer */
        for (size_t j = 0; j < sizeof other / sizeof *other && !found; j++) found = gguf_str_is(name, other[j]);
        if (!found)
            return fail(k->e, "%s: %.*s: expected a key this program knows, found one that may change the maths",
                        k->path, (int)(key.n < 100 ? key.n : 100), key.s);
    }
    return 0;
}

static int read_facts(Keys *k, const Arch *a, Facts *f) {
    *f = (Facts){0};
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *name = key_name(a, STYLE_GGUF, (Key)key);
        const KeyInfo *info = &key_info[key];
        int x = 0;
        if (!name) continue;
        if (info->kind == KEY_INT) {
            f->given[key] = get_int(k, name, &x, (int64_t)info->min, (int64_t)info->max);
            f->value[key] = x;
        } else if (info->kind == KEY_FLAG) {
            char flag_key[128];
            bool flag = false;
            int found = gguf_get_bool(k->g, full(k, name, flag_key), &flag, k->e);
            if (found < 0) return -1;
            f->given[key] = found > 0;
            f->value[key] = flag;
        } else {
            f->given[key] = get_float(k, name, &f->value[key]);
        }
        if (k->failed) return -1;
        if (!f->given[key] && info->needed[STYLE_GGUF])
            return fail(k->e, "%s: %s.%s: expected the key, found none", k->path, k->arch, name);
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if (f->given[key] || !key_info[key].implied || isnan(key_default(a, (Key)key))) continue;
        f->value[key] = key_default(a, (Key)key);
        f->given[key] = true;
    }
    return 0;
}

/* ---- Parts of a split file ---------------------------------------------------------------------- */

static const GgufTensor *find_tensor(const Checkpoint *ck, const char *name) {
    const GgufTensor *t = gguf_tensor(&ck->gguf, name);
    for (int i = 0; i < ck->n_more_parts && !t; i++) t = gguf_tensor(&ck->more_parts[i], name);
    return t;
}

/* A file of llama-gguf-split says in split.count how many there are; their names end in -00001-of-00003.gguf, and all
 * of them lie beside each other. The first has the keys. */
static int open_parts(Checkpoint *ck, Error *e) {
    enum { TAIL = 20 }; /* -00001-of-00003.gguf */
    const Gguf *g = &ck->gguf;
    int64_t count = 1, number = 0;
    if (gguf_get_int(g, "split.count", &count, 0, 99999, e) < 0 ||
        gguf_get_int(g, "split.no", &number, 0, 99998, e) < 0)
        return -1;
    if (count <= 1) return 0;
    size_t n = strlen(ck->path);
    char tail[64], part[64], *path = malloc(n + sizeof part);
    if (!path) return fail(e, "%s: memory: expected some, found none", ck->path);
    int status = -1;
    snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", (int)number + 1, (int)count);
    if (!path_ends_with(ck->path, tail)) {
        fail(e, "%s: split.count: expected a name that ends in %s, so that the other parts are found, found another",
             ck->path, tail);
        goto done;
    }
    gguf_close(&ck->gguf);
    file_close(&ck->files[0]);
    ck->n_files = 0;
    if (!(ck->more_parts = calloc((size_t)count - 1, sizeof *ck->more_parts))) {
        fail(e, "%s: memory: expected some, found none", ck->path);
        goto done;
    }
    for (int i = 0; i < count; i++) {
        snprintf(part, sizeof part, "-%05d-of-%05d.gguf", i + 1, (int)count);
        sprintf(path, "%.*s%s", (int)(n - TAIL), ck->path, part);
        Error why = {0};
        if (checkpoint_map(ck, path, &why)) continue;
        fail(e, "%s: split.count: expected %d parts beside each other, found no part %d of %d (%.300s)", ck->path,
             (int)count, i + 1, (int)count, why.text);
        goto done;
    }
    for (int i = 0; i < count; i++) { /* now that ck->files stays where it is */
        Gguf *one = i ? &ck->more_parts[i - 1] : &ck->gguf;
        int64_t of = 0, no = -1;
        if (gguf_open(one, &ck->files[i], e)) goto done;
        if (i) ck->n_more_parts = i;
        if (gguf_get_int(one, "split.count", &of, 0, INT32_MAX, e) < 0 ||
            gguf_get_int(one, "split.no", &no, 0, INT32_MAX, e) < 0)
            goto done;
        if (of != count || no != i) {
            fail(e, "%s: split.no: expected part %d of %d, found part %d of %d", ck->files[i].path, i + 1, (int)count,
                 (int)no + 1, (int)of);
            goto done;
        }
    }
    status = 0;
done:
    free(path);
    return status;
}

/* ---- RoPE --------------------------------------------------------------------------------------- */

/* A setting that there is none of must be at a value where it does nothing. */
static void refuse_unless(Keys *k, const char *name, double neutral, double also) {
    double x = neutral;
    if (!k->failed && get_float(k, name, &x) && x != neutral && x != also) {
        fail(k->e, "%s: %s.%s: expected %g, found %g, which is not supported", k->path, k->arch, name, neutral, x);
        k->failed = true;
    }
}

static int read_rope_rule(Keys *k, RopeConfig *r, int n_ctx, bool has_factor_sets) {
    char key[128];
    Str type = {"none", 4};
    Error *e = k->e;
    if (gguf_get_str(k->g, full(k, "rope.scaling.type", key), &type, e) < 0) return -1;
    double scale = 1, attn = 1;
    if (get_float(k, "rope.scale_linear", &scale) && scale != 1 && gguf_str_is(type, "none")) {
        type = (Str){"linear", 6};
        r->factor = scale;
    }
    bool has_factor = get_float(k, "rope.scaling.factor", &r->factor);
    get_int(k, "rope.scaling.original_context_length", &r->original_ctx, 1, INT32_MAX);
    bool has_attn =
        get_float(k, "rope.scaling.attn_factor", &attn) || get_float(k, "rope.scaling.yarn_attn_factor", &attn);
    if (k->failed) return -1;
    if (has_attn && !(attn > 0))
        return fail(e, "%s: %s.rope.scaling.attn_factor: expected a positive number, found %g", k->path, k->arch, attn);

    bool none = gguf_str_is(type, "none");
    if ((gguf_str_is(type, "linear") && r->factor == 1 && !has_factor) || (gguf_str_is(type, "yarn") && !has_factor))
        return fail(e, "%s: %s.rope.scaling.factor: expected the key, found none", k->path, k->arch);
    if (gguf_str_is(type, "linear")) {
        r->scaling = r->factor == 1 ? ROPE_SCALING_NONE : ROPE_SCALING_LINEAR;
    } else if (gguf_str_is(type, "yarn")) {
        r->scaling = ROPE_SCALING_YARN;
        get_float(k, "rope.scaling.yarn_beta_fast", &r->beta_fast);
        get_float(k, "rope.scaling.yarn_beta_slow", &r->beta_slow);
        refuse_unless(k, "rope.scaling.yarn_ext_factor", 1, -1);
        get_float(k, "rope.scaling.yarn_log_multiplier", &r->mscale_all_dim);
        if (r->mscale_all_dim != 0) r->mscale = 1; /* llama.cpp: the one that is not in the file */
        /* llama.cpp multiplies the key with YaRN's 0.1 ln(factor) + 1, Hugging Face replaces that. */
        double grown = r->factor > 1 ? log(r->factor) : 0;
        if (has_attn) attn *= (0.1 * grown + 1) / (0.1 * r->mscale_all_dim * grown + 1);
    } else if (gguf_str_is(type, "longrope") || (none && has_factor_sets)) {
        r->scaling = ROPE_SCALING_LONGROPE;
        r->factor = (double)n_ctx / r->original_ctx;
    } else if (!none) {
        return fail(e, "%s: %s.rope.scaling.type: expected none, linear, yarn or longrope, found %.*s", k->path,
                    k->arch, (int)(type.n < 40 ? type.n : 40), type.s);
    } else if (r->factor != 1) {
        return fail(e, "%s: %s.rope.scaling.type: expected a type for the factor %g, found none", k->path, k->arch,
                    r->factor);
    }
    if (has_attn) r->attention_factor = attn; /* llama.cpp multiplies cos and sin with it, whatever the rule */
    return k->failed ? -1 : 0;
}

/* Frequency factors of each pair: Llama 3.1's bands baked in, or LongRoPE's two sets. */
static int read_factors(Checkpoint *ck, RopeConfig *r, Error *e) {
    bool sets = r->scaling == ROPE_SCALING_LONGROPE;
    const struct {
        const char *name;
        const float **out;
        bool wanted;
    } factors[] = {{"rope_freqs.weight", &r->freq_factors, true},
                   {"rope_factors_long.weight", &r->long_factor, sets},
                   {"rope_factors_short.weight", &r->short_factor, sets}};
    for (int i = 0; i < 3; i++) {
        const GgufTensor *t = find_tensor(ck, factors[i].name);
        if (!t || !factors[i].wanted) continue;
        if (t->ggml_type != 0 || t->n_dims != 1 || t->dims[0] != (uint64_t)r->rotary_dim / 2)
            return fail(e, "%s: %s: expected %d f32 values, found %llu of type %s", ck->path, factors[i].name,
                        r->rotary_dim / 2, (unsigned long long)t->dims[0], ggml_type(t->ggml_type)->name);
        Mat m = {.dtype = DTYPE_F32, .rows = 1, .cols = (int)t->dims[0], .data = t->data};
        const float *x = *factors[i].out = checkpoint_vector(ck, &m, e);
        if (!x) return -1;
        for (int j = 0; j < m.cols; j++)
            if (!(isfinite(x[j]) && x[j] > 0))
                return fail(e, "%s: %s[%d]: expected a positive number, found %g", ck->path, factors[i].name, j,
                            (double)x[j]);
    }
    return 0;
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

static int read_tensor(Checkpoint *ck, const File *file, const GgufTensor *t, Error *e) {
    static const char *const read_before[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                              "rope_factors_short.weight"};
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.s);
    for (int i = 0; i < 3; i++)
        if (strcmp(name, read_before[i]) == 0) return 0;
    if (path_ends_with(name, ".attn_rot_embd.freqs")) return 0; /* of old files: what rope.freq_base says */
    FieldPlace at;
    if (!field_find(&at, ck->family, STYLE_GGUF, t->name.s, t->name.n))
        return fail(e, "%s: %s: expected a tensor this program knows, found another", file->path, name);
    int dtype = dtype_of(t->ggml_type);
    if (dtype < 0)
        return fail(e, "%s: %s: type: expected F32, F16, BF16 or a quantized type this program knows, found %s",
                    file->path, name, ggml_type(t->ggml_type)->name);
    int deep = at.field >= FIELD_EXPERTS_GATE && t->n_dims == 3 ? 3 : 2, rows = (int)t->dims[1];
    for (int i = 0; i < t->n_dims; i++)
        if ((i >= deep && t->dims[i] != 1) || t->dims[i] > INT32_MAX)
            return fail(e, "%s: %s: dimension %d: expected a matrix, found %llu", file->path, name, i,
                        (unsigned long long)t->dims[i]);
    int n_experts = ck->config.moe.n_experts;
    if (deep == 3 && (t->dims[2] != (uint64_t)n_experts || __builtin_mul_overflow(rows, n_experts, &rows)))
        return fail(e, "%s: %s: shape: expected matrices of %d experts, found of %llu", file->path, name, n_experts,
                    (unsigned long long)t->dims[2]);
    Mat m = {.dtype = (DType)dtype, .rows = rows, .cols = (int)t->dims[0], .data = t->data};
    m.stride_bytes = dtype_row_bytes(m.dtype, (size_t)m.cols);
    return checkpoint_add(ck, &at, file, name, m, SPLIT_BLOCKS, e);
}

/* Which layers have the window: every so many one has none, or a list. */
static int read_layers(Checkpoint *ck, Keys *k, Facts *f, Error *e) {
    const Config *c = &ck->config;
    char key[128];
    f->given[KEY_USE_WINDOW] = true; /* a GGUF that names a window means it */
    f->value[KEY_USE_WINDOW] = 1;
    const GgufKv *pattern = gguf_find(k->g, full(k, "attention.sliding_window_pattern", key));
    bool list = pattern && pattern->type == GGUF_ARRAY;
    if (list && (pattern->n != (size_t)c->n_layers || pattern->item_type != GGUF_BOOL))
        return fail(e, "%s: %s: expected %d booleans, found something else", ck->path, key, c->n_layers);
    int every = 0;
    if (pattern && !list && get_int(k, "attention.sliding_window_pattern", &every, 0, INT32_MAX)) {
        f->given[KEY_WINDOW_PATTERN] = true;
        f->value[KEY_WINDOW_PATTERN] = every;
    }
    if (k->failed) return -1;
    if (layer_kinds(ck, f, ck->path, k->arch, e)) return -1;
    LayerKind *kinds = ck->layer_kinds;
    bool rope = true;
    if ((ck->family->traits & ARCH_ROPE_SWITCH) &&
        gguf_get_bool(k->g, full(k, "rope.scaling.finetuned", key), &rope, e) < 0)
        return -1;
    for (int i = 0; i < c->n_layers && !rope; i++) kinds[i].no_rope = true;
    for (int i = 0; i < c->n_layers && list; i++) kinds[i].windowed = kinds[i].window && pattern->value[i];
    dense_layers(ck);
    layer_rope(ck);
    return 0;
}

static int read_config(Checkpoint *ck, Keys *k, Error *e) {
    const Arch *a = ck->family;
    Config *c = &ck->config;
    Facts f;
    char causal_key[128];
    bool causal = true;
    if (check_known(k, a) || read_facts(k, a, &f)) return -1;
    if (gguf_get_bool(k->g, full(k, "attention.causal", causal_key), &causal, e) < 0) return -1;
    if (!causal) return fail(e, "%s: %s: expected true, found false, which is not supported", ck->path, causal_key);
    const GgufTensor *embedding = find_tensor(ck, "token_embd.weight");
    if (!embedding) return fail(e, "%s: token_embd.weight: expected the tensor, found none", ck->path);
    if (embedding->dims[1] > 1 << 24)
        return fail(e, "%s: token_embd.weight: expected at most %d rows, found %llu", ck->path, 1 << 24,
                    (unsigned long long)embedding->dims[1]);
    int vocab = (int)embedding->dims[1];
    if (f.given[KEY_VOCAB_SIZE] && f.value[KEY_VOCAB_SIZE] != vocab)
        return fail(e, "%s: %s.vocab_size: expected %d, the rows of the embedding, found %.0f", ck->path, k->arch,
                    vocab, f.value[KEY_VOCAB_SIZE]);
    if (facts_config(c, a, STYLE_GGUF, &f, ck->path, e)) return -1;
    if (key_has(a, KEY_QK_NORM) && !find_tensor(ck, "blk.0.attn_q_norm.weight")) c->attn.qk_norm = QK_NORM_NONE;
    if (a->traits & ARCH_NORM_SAYS_PARALLEL) c->parallel = !find_tensor(ck, "blk.0.ffn_norm.weight");
    c->vocab_size = vocab;
    c->tied = !find_tensor(ck, "output.weight");
    if (c->pos != POS_ROPE) return config_check(c, ck->path, e) || read_layers(ck, k, &f, e) ? -1 : 0;
    Config counts = *c; /* before n_ctx and head_dim are computed with */
    counts.pos = POS_LEARNED;
    if (config_check(&counts, ck->path, e)) return -1;
    RopeConfig *r = &c->rope;
    *r = rope_defaults(c, a->gguf_pairing);
    if (f.given[KEY_ROPE_THETA]) r->theta = f.value[KEY_ROPE_THETA];
    if (f.given[KEY_ROTARY_DIM]) r->rotary_dim = (int)f.value[KEY_ROTARY_DIM];
    if (a->rope) r->truncate = a->rope->truncate; /* which a GGUF cannot say */
    bool sets = find_tensor(ck, "rope_factors_long.weight") && find_tensor(ck, "rope_factors_short.weight");
    if (read_rope_rule(k, r, c->n_ctx, sets) || read_factors(ck, r, e) || read_layers(ck, k, &f, e)) return -1;
    if (a->traits & ARCH_LOCAL_ROPE) { /* llama.cpp scales the layers without a window only */
        c->rope_local = rope_defaults(c, a->gguf_pairing);
        c->rope_local.rotary_dim = r->rotary_dim;
        c->rope_local.theta = f.given[KEY_LOCAL_THETA] ? f.value[KEY_LOCAL_THETA] : r->theta;
    }
    if (c->attn.temperature != 0) c->attn.temperature_ctx = r->original_ctx;
    return 0;
}

/* Falcon: with two norms attn_norm is the FFN's, attn_norm_2 that of attention; with one it is both's. */
static void swap_norms(Checkpoint *ck) {
    static const Field other[FIELD_COUNT] = {[FIELD_ATTN_NORM] = FIELD_FFN_NORM,
                                             [FIELD_ATTN_NORM_BIAS] = FIELD_FFN_NORM_BIAS,
                                             [FIELD_FFN_NORM] = FIELD_ATTN_NORM,
                                             [FIELD_FFN_NORM_BIAS] = FIELD_ATTN_NORM_BIAS};
    bool two = false;
    for (size_t i = 0; i < ck->n_tensors; i++) two |= ck->tensors[i].field == FIELD_FFN_NORM;
    for (size_t i = 0; i < ck->n_tensors && two; i++)
        if (other[ck->tensors[i].field]) ck->tensors[i].field = other[ck->tensors[i].field];
}

/* The numbers of xIELU are keys: an array with one for each layer, or one for all. */
static int read_xielu(Checkpoint *ck, Error *e) {
    static const char *const key[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (int i = 0; i < 4; i++) {
        const GgufKv *kv = gguf_find(&ck->gguf, key[i]);
        bool list = kv && kv->type == GGUF_ARRAY;
        if (!kv || (list ? kv->item_type : kv->type) != GGUF_F32 || (list && kv->n != (size_t)ck->config.n_layers))
            return fail(e, "%s: %s: expected %d f32 numbers, found %s", ck->path, key[i], ck->config.n_layers,
                        kv ? "something else" : "none");
        for (int layer = 0; layer < ck->config.n_layers; layer++) {
            Mat m = {.dtype = DTYPE_F32, .rows = 1, .cols = 1, .stride_bytes = sizeof(float)};
            m.data = kv->value + (list ? (size_t)layer * sizeof(float) : 0);
            const FieldPlace at = {FIELD_XIELU_ALPHA_P + i, layer, 0};
            if (checkpoint_add(ck, &at, ck->gguf.file, key[i], m, SPLIT_BLOCKS, e)) return -1;
        }
    }
    return 0;
}

/* Families that share a name are told by a key: OLMo 2 with a window is OLMo 3, a LLaMA with experts is a Mixtral. */
static int choose_family(Checkpoint *ck, Error *e) {
    static const struct {
        const char *name;
        int64_t least;
        Key key; /* of the other family */
    } told_by[] = {{"attention.sliding_window", 0, KEY_WINDOW},
                   {"expert_count", 2, KEY_EXPERTS},
                   {"expert_shared_feed_forward_length", 1, KEY_SHARED_DIM}};
    for (size_t i = 0; i < sizeof told_by / sizeof *told_by; i++) {
        char name[128];
        int64_t x = -1;
        snprintf(name, sizeof name, "%s.%s", ck->family->gguf, told_by[i].name);
        if (gguf_get_int(&ck->gguf, name, &x, 0, INT32_MAX, e) < 0) return -1;
        for (const Arch *a = archs; a < archs + n_archs && x >= told_by[i].least; a++) {
            bool other = a->gguf && strcmp(a->gguf, ck->family->gguf) == 0 && key_default_given(a, told_by[i].key);
            if (other && (i || a->traits & ARCH_LAYER_TYPES)) ck->family = a;
        }
    }
    return 0;
}

int gguf_model_open(Checkpoint *ck, Error *e) {
    Gguf *g = &ck->gguf;
    if (gguf_open(g, &ck->files[0], e) || open_parts(ck, e)) return -1;
    ck->version = (int)g->version;
    Str arch;
    int found = gguf_get_str(g, "general.architecture", &arch, e);
    if (found < 0) return -1;
    if (!found) return fail(e, "%s: general.architecture: expected the key, found none", ck->path);
    if (!ck->family && !(ck->family = arch_find(STYLE_GGUF, arch.s, arch.n, ck->path, e))) return -1;
    if (choose_family(ck, e)) return -1;
    ck->arch = ck->family->name;
    Keys k = {.g = g, .arch = ck->family->gguf, .path = ck->path, .e = e};
    if (read_config(ck, &k, e) || check_vocabulary(ck, e)) return -1;
    for (int part = 0; part <= ck->n_more_parts; part++) {
        const Gguf *one = part ? &ck->more_parts[part - 1] : g;
        for (size_t i = 0; i < one->n_tensors; i++)
            if (read_tensor(ck, one->file, &one->tensors[i], e)) return -1;
    }
    if (ck->family->traits & ARCH_SWAPPED_NORMS) swap_norms(ck);
    return ck->config.ffn == FFN_XIELU ? read_xielu(ck, e) : 0;
}

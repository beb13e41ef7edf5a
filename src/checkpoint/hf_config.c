/* hf_config - config.json of a Hugging Face model -> Config, by the tables of arch.h. Source: the families'
 * configuration_*.py and modeling_rope_utils.py in transformers. */
#include <math.h>
#include <string.h>

#include "checkpoint/hf.h"
#include "io/json.h"

typedef struct {
    Checkpoint *ck;
    const cJSON *root;
    const char *path;
    Error *e;
} Reader;

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }

static bool given(const cJSON *object, const char *key) {
    const cJSON *item = get(object, key);
    return item && !cJSON_IsNull(item);
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

static int read_number(const Reader *r, Key key, const char *name, double *out) {
    const KeyInfo *k = &key_info[key];
    int integer = 0;
    bool flag = false;
    switch (k->kind) {
    case KEY_INT:
        if (json_int(&integer, r->root, name, (int)k->min, (int)k->max, r->path, r->e)) return -1;
        *out = integer;
        return 0;
    case KEY_FLAG:
        if (json_bool(&flag, r->root, name, r->path, r->e)) return -1;
        *out = flag;
        return 0;
    case KEY_NUMBER: break;
    }
    return json_number(out, r->root, name, r->path, r->e);
}

static bool has_mlp_only(const Arch *a) { return key_default_given(a, KEY_SPARSE_STEP); }

/* Every key of the file is a number of the family, or one that changes nothing. */
static int read_facts(const Reader *r, Facts *f) {
    const Arch *a = r->ck->family;
    const cJSON *item;
    *f = (Facts){0};
    cJSON_ArrayForEach(item, r->root) {
        if (key_find(a, a->style, item->string, strlen(item->string)) >= 0) continue;
        if (a->activation && strcmp(item->string, a->activation) == 0) continue;
        if (strcmp(item->string, "quantization_config") == 0) continue;
        if (has_mlp_only(a) && strcmp(item->string, "mlp_only_layers") == 0) continue;
        if (key_harmless(item, r->path, r->e)) return -1;
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *name = key_name(a, a->style, (Key)key);
        if (!name) continue;
        bool letters = key == KEY_WINDOW_PATTERN && cJSON_IsString(get(r->root, name));
        if (letters && given(r->root, "layer_types")) continue; /* "LLLG": what that list says */
        for (const KeyName *k = a->keys; k && k->key != KEY_COUNT && !given(r->root, name); k++)
            if ((int)k->key == key && k->name && given(r->root, k->name)) name = k->name;
        if (given(r->root, name)) {
            if (read_number(r, (Key)key, name, &f->value[key])) return -1;
            f->given[key] = true;
        } else if (key_info[key].needed[a->style] && !key_default_given(a, (Key)key)) {
            return fail(r->e, "%s: %s: expected the key, found none", r->path, name);
        } else if (!get(r->root, name) && !isnan(key_default(a, (Key)key))) { /* null is Python's None: no value */
            f->value[key] = key_default(a, (Key)key);
            f->given[key] = true;
        }
    }
    return 0;
}

/* ---- RoPE -------------------------------------------------------------------------------------- */

static int read_factors(const Reader *r, const float **out, const cJSON *rope, const char *key, int n) {
    const cJSON *list = get(rope, key), *item;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return fail(r->e, "%s: %s: expected a list of %d numbers, found something else", r->path, key, n);
    float *x = checkpoint_alloc(r->ck, (size_t)n, sizeof *x, r->e);
    if (!x) return -1;
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !isfinite(item->valuedouble))
            return fail(r->e, "%s: %s[%d]: expected a positive number, found something else", r->path, key, i);
        x[i++] = (float)item->valuedouble;
    }
    *out = x;
    return 0;
}

/* Keys of rope_parameters that are not the numbers of a rule. */
static bool rope_key_known(const char *key) {
    static const char *const other[] = {"type",
                                        "rope_type",
                                        "rope_theta",
                                        "short_factor",
                                        "long_factor",
                                        "original_max_position_embeddings",
                                        "truncate",
                                        "finetuned",
                                        "partial_rotary_factor",
                                        "llama_4_scaling_beta",
                                        "max_position_embeddings"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(key, other[i]) == 0) return true;
    for (int rule = 0; rule < ROPE_RULES; rule++)
        for (const RopeNumber *n = rope_rules[rule].numbers; n < rope_rules[rule].numbers + ROPE_RULE_NUMBERS; n++)
            if (n->name && strcmp(key, n->name) == 0) return true;
    return false;
}

static int rope_type(const Reader *r, const cJSON *rope, const char *where, const char **type) {
    const cJSON *item;
    cJSON_ArrayForEach(item, rope) {
        bool alpha = (r->ck->family->traits & ARCH_NTK_ALPHA) && strcmp(item->string, "alpha") == 0;
        if (!cJSON_IsNull(item) && !alpha && !rope_key_known(item->string))
            return fail(r->e, "%s: %s.%.40s: expected a key this program knows, found another", r->path, where,
                        item->string);
    }
    *type = NULL;
    for (int i = 0; i < 2; i++) { /* rope_type goes before type */
        const char *key = i ? "rope_type" : "type";
        if (!given(rope, key)) continue;
        if (!cJSON_IsString(get(rope, key)))
            return fail(r->e, "%s: %s.%s: expected a string, found something else", r->path, where, key);
        *type = get(rope, key)->valuestring;
    }
    if (!*type && given(rope, "factor")) return fail(r->e, "%s: %s: expected rope_type, found none", r->path, where);
    if (!*type) *type = "default";
    if (strcmp(*type, "su") == 0) *type = "longrope"; /* its first name */
    return 0;
}

/* The features that are rotated. Families whose default RoPE does not read partial_rotary_factor fail in transformers
 * with any other rule. */
static int read_rotary_dim(const Reader *r, const cJSON *rope, const Facts *f, RopeConfig *c, int head_dim) {
    double partial = f->given[KEY_PARTIAL_ROTARY] ? f->value[KEY_PARTIAL_ROTARY] : 1;
    if (json_number(&partial, rope, "partial_rotary_factor", r->path, r->e)) return -1;
    if (!(partial > 0 && partial <= 1))
        return fail(r->e, "%s: partial_rotary_factor: expected above 0 and at most 1, found %g", r->path, partial);
    if (r->ck->family->traits & ARCH_WHOLE_ROTARY) {
        if (partial != 1 && c->scaling != ROPE_SCALING_NONE)
            return fail(r->e, "%s: partial_rotary_factor: expected 1 for %s with a RoPE rule, found %g", r->path,
                        r->ck->arch, partial);
        partial = 1;
    }
    c->rotary_dim = (int)(head_dim * partial);
    return 0;
}

/* One dictionary of RoPE: `rope` is rope_scaling or rope_parameters, NULL when there is none. */
static int read_rope(const Reader *r, const cJSON *rope, const char *where, const Facts *f, RopeConfig *c) {
    Config *config = &r->ck->config;
    const char *type = "default";
    if (rope && !cJSON_IsObject(rope))
        return fail(r->e, "%s: %s: expected an object, found something else", r->path, where);
    *c = rope_defaults(config, r->ck->family->hf_pairing);
    if (f->given[KEY_ROPE_THETA]) c->theta = f->value[KEY_ROPE_THETA];
    if (!rope && r->ck->family->rope) {
        RopeConfig rule = *r->ck->family->rope; /* with its own theta: a rope_theta beside it is not read */
        rule.theta = key_default(r->ck->family, KEY_ROPE_THETA);
        rule.pairing = c->pairing;
        rule.rotary_dim = c->rotary_dim;
        *c = rule;
        return 0;
    }
    if (rope && rope_type(r, rope, where, &type)) return -1;
    int rule = 0;
    while (rule < ROPE_RULES && strcmp(type, rope_rules[rule].name) != 0) rule++;
    if (rule == ROPE_RULES)
        return fail(r->e, "%s: rope_type: expected default, linear, dynamic, yarn, llama3 or longrope, found %.40s",
                    r->path, type);
    c->scaling = (RopeScaling)rule;
    /* The key beside the dictionary goes before the one inside: RotaryEmbeddingConfigMixin.standardize_rope_params. */
    static const char original[] = "original_max_position_embeddings";
    bool original_given = given(r->root, original) || given(rope, original);
    if (json_number(&c->theta, rope, "rope_theta", r->path, r->e) ||
        json_int(&c->original_ctx, rope, original, 1, INT32_MAX, r->path, r->e) ||
        json_int(&c->original_ctx, r->root, original, 1, INT32_MAX, r->path, r->e) ||
        read_rotary_dim(r, rope, f, c, config->head_dim))
        return -1;
    if (rule == ROPE_SCALING_LINEAR || rule == ROPE_SCALING_DYNAMIC) c->original_ctx = config->n_ctx;
    if (rule == ROPE_SCALING_LLAMA3 && !original_given)
        return fail(r->e, "%s: rope scaling: expected %s, found none", r->path, original);
    if (rule == ROPE_SCALING_YARN && !given(rope, "factor") && !original_given)
        return fail(r->e, "%s: rope scaling: expected factor, found none", r->path);
    if (rule == ROPE_SCALING_YARN || rule == ROPE_SCALING_LONGROPE) c->factor = (double)config->n_ctx / c->original_ctx;
    for (const RopeNumber *n = rope_rules[rule].numbers; n < rope_rules[rule].numbers + ROPE_RULE_NUMBERS; n++) {
        if (!n->name) break;
        if (n->needed && !given(rope, n->name))
            return fail(r->e, "%s: rope scaling: expected %s, found none", r->path, n->name);
        if (json_number((double *)(void *)((char *)c + n->offset), rope, n->name, r->path, r->e)) return -1;
    }
    if (rule == ROPE_SCALING_DYNAMIC && (r->ck->family->traits & ARCH_NTK_ALPHA) && given(rope, "alpha")) {
        c->scaling = ROPE_SCALING_NTK;
        return json_number(&c->factor, rope, "alpha", r->path, r->e);
    }
    if (c->beta_fast == 0) c->beta_fast = 32; /* Python's `or 32` */
    if (c->beta_slow == 0) c->beta_slow = 1;
    if (rule == ROPE_SCALING_YARN && json_bool(&c->truncate, rope, "truncate", r->path, r->e)) return -1;
    if (rule == ROPE_SCALING_DYNAMIC && c->factor >= 1 && c->factor * config->n_ctx < 1 << 26)
        config->n_ctx = (int)(c->factor * config->n_ctx);
    if (rule != ROPE_SCALING_LONGROPE || c->rotary_dim < 2 || c->rotary_dim > 2 * ROPE_MAX_PAIRS)
        return 0; /* rope_check refuses such a rotary_dim */
    return read_factors(r, &c->short_factor, rope, "short_factor", c->rotary_dim / 2) ||
                   read_factors(r, &c->long_factor, rope, "long_factor", c->rotary_dim / 2)
               ? -1
               : 0;
}

/* ---- Words ------------------------------------------------------------------------------------- */

static int read_activation(const Reader *r) {
    enum { NO = -1 };
    static const struct {
        const char *name;
        int gated, plain; /* FfnKind */
    } known[] = {{"silu", FFN_SWIGLU, NO},           {"swish", FFN_SWIGLU, NO},
                 {"gelu_new", FFN_GEGLU, FFN_GELU},  {"gelu_pytorch_tanh", FFN_GEGLU, FFN_GELU},
                 {"gelu_fast", FFN_GEGLU, FFN_GELU}, {"gelu", FFN_GEGLU_ERF, FFN_GELU_ERF},
                 {"relu2", NO, FFN_RELU2},           {"xielu", NO, FFN_XIELU}};
    Config *c = &r->ck->config;
    const Arch *a = r->ck->family;
    const char *key = a->activation ? a->activation : "hidden_act", *expected = NULL;
    const cJSON *act = get(r->root, key);
    bool gated = ffn_is_gated(c->ffn);
    if (!given(r->root, key) || a->ffn == FFN_SWIGLU_OSS) return 0; /* gpt-oss does not read it */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int kind = gated ? known[i].gated : known[i].plain;
        if ((FfnKind)kind == a->ffn && !expected) expected = known[i].name;
        if (kind == NO || !cJSON_IsString(act) || strcmp(act->valuestring, known[i].name) != 0) continue;
        c->ffn = (FfnKind)kind;
        if ((a->traits & ARCH_TANH_GELU) && c->ffn == FFN_GEGLU_ERF) c->ffn = FFN_GEGLU;
        return 0;
    }
    return fail(r->e, "%s: %s: expected %s, found %.40s, which is not supported", r->path, key, expected,
                cJSON_IsString(act) ? act->valuestring : "no string");
}

static int choose(const Reader *r, const char *key, const char *zero, const char *one, int *out) {
    const cJSON *x = get(r->root, key);
    const char *text = cJSON_IsString(x) ? x->valuestring : "none";
    if (strcmp(text, zero) != 0 && strcmp(text, one) != 0)
        return fail(r->e, "%s: %s: expected %s or %s, found %.40s", r->path, key, zero, one, text);
    *out = strcmp(text, one) == 0;
    return 0;
}

/* The switches of a llama_swap; its RoPE may be in adjacent pairs. */
static int read_switches(const Reader *r) {
    Config *c = &r->ck->config;
    int rmsnorm, swiglu, rope;
    bool interleaved = false;
    if (choose(r, "norm", "layernorm", "rmsnorm", &rmsnorm) || choose(r, "ffn", "gelu", "swiglu", &swiglu) ||
        choose(r, "positions", "learned", "rope", &rope) ||
        json_bool(&interleaved, r->root, "rope_interleaved", r->path, r->e))
        return -1;
    c->norm = rmsnorm ? NORM_RMSNORM : NORM_LAYERNORM;
    c->ffn = swiglu ? FFN_SWIGLU : FFN_GELU;
    c->pos = rope ? POS_ROPE : POS_LEARNED;
    if (interleaved) c->rope.pairing = ROPE_PAIRS;
    return 0;
}

/* One end token or a list of them. */
static int read_eos(Checkpoint *ck, const cJSON *root, const char *path, Error *e) {
    const cJSON *eos = get(root, "eos_token_id"), *item;
    cJSON holder = {0};
    if (!eos || cJSON_IsNull(eos)) return 0;
    if (!cJSON_IsArray(eos)) {
        holder = *eos;
        holder.next = NULL;
        item = &holder;
    } else {
        item = eos->child;
    }
    for (; item; item = item->next) {
        if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble))
            return fail(e, "%s: eos_token_id: expected an integer or a list of them, found something else", path);
        if (item->valuedouble < 0 || item->valuedouble >= ck->config.vocab_size) continue; /* e.g. -1: none */
        int id = (int)item->valuedouble;
        bool known = false;
        for (int i = 0; i < ck->n_eos; i++) known |= ck->eos[i] == id;
        if (!known && ck->n_eos < (int)(sizeof ck->eos / sizeof *ck->eos)) ck->eos[ck->n_eos++] = id;
    }
    return 0;
}

/* A BOS outside the vocabulary is none: GPT2Config's default is 50256, whatever vocab_size is. */
static int read_bos(const Reader *r) {
    int bos = -1;
    if (json_int(&bos, r->root, "bos_token_id", INT32_MIN, INT32_MAX, r->path, r->e)) return -1;
    r->ck->bos = bos >= 0 && bos < r->ck->config.vocab_size ? bos : -1;
    return 0;
}

/* ---- The whole --------------------------------------------------------------------------------- */

/* Granite 4: other layers than attention are state spaces. */
static int read_hybrid(const Reader *r) {
    Checkpoint *ck = r->ck;
    const char *const names[] = {"layer_types", "layers_block_type"};
    const cJSON *items = get(r->root, names[given(r->root, names[1])]), *item,
                *positions = get(r->root, "position_embedding_type");
    if (!cJSON_IsArray(items) || cJSON_GetArraySize(items) != ck->config.n_layers)
        return fail(r->e, "%s: layer_types: expected a list of %d, one a layer, found another", r->path,
                    ck->config.n_layers);
    cJSON_ArrayForEach(item, items) {
        const char *type = cJSON_IsString(item) ? item->valuestring : "something else";
        if (strcmp(type, "attention") != 0 && strcmp(type, "full_attention") != 0)
            return fail(r->e, "%s: layer_types: expected attention in every layer, found %.40s, which is not supported",
                        r->path, type);
    }
    bool rope = cJSON_IsString(positions) && strcmp(positions->valuestring, "rope") == 0;
    for (int i = 0; i < ck->config.n_layers; i++) ck->layer_kinds[i].no_rope = !rope;
    return 0;
}

/* Layers that have no experts, whatever decoder_sparse_step says. */
static int read_dense(const Reader *r) {
    static const char key[] = "mlp_only_layers";
    const Config *c = &r->ck->config;
    const cJSON *items = get(r->root, key), *item;
    if (!has_mlp_only(r->ck->family) || !given(r->root, key)) return 0;
    if (!cJSON_IsArray(items)) return fail(r->e, "%s: %s: expected a list, found something else", r->path, key);
    cJSON_ArrayForEach(item, items) {
        if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble))
            return fail(r->e, "%s: %s: expected numbers of layers, found something else", r->path, key);
        if (item->valuedouble >= 0 && item->valuedouble < c->n_layers)
            r->ck->layer_kinds[(int)item->valuedouble].dense = c->moe.n_experts > 0;
    }
    return 0;
}

/* Lists with an item for each layer: layer_types (windows), no_rope_layers (1: with RoPE). */
static int read_layers(const Reader *r, const Facts *f) {
    Checkpoint *ck = r->ck;
    const Config *c = &ck->config;
    const Arch *a = ck->family;
    if (layer_kinds(ck, f, r->path, "", r->e)) return -1;
    LayerKind *kinds = ck->layer_kinds;
    if ((a->traits & ARCH_HYBRID) && read_hybrid(r)) return -1;
    for (int list = 0; list < 2; list++) {
        const char *key = list ? "no_rope_layers" : "layer_types";
        const cJSON *items = get(r->root, key), *item;
        if (!given(r->root, key) || !key_default_given(a, list ? KEY_NO_ROPE_INTERVAL : KEY_WINDOW)) continue;
        if (!list && !(a->traits & ARCH_LAYER_TYPES)) continue;
        if (!cJSON_IsArray(items) || cJSON_GetArraySize(items) != c->n_layers)
            return fail(r->e, "%s: %s: expected a list of %d, one a layer, found another", r->path, key, c->n_layers);
        int i = 0;
        cJSON_ArrayForEach(item, items) {
            LayerKind *k = &kinds[i++];
            const char *type = cJSON_IsString(item) ? item->valuestring : "";
            if (list) k->no_rope = !cJSON_IsTrue(item) && !(cJSON_IsNumber(item) && item->valuedouble != 0);
            else if (strcmp(type, "sliding_attention") == 0) k->windowed = k->window > 0;
            else if (strcmp(type, "full_attention") == 0) k->windowed = false;
            else
                return fail(r->e, "%s: %s[%d]: expected full_attention or sliding_attention, found %.40s", r->path, key,
                            i - 1, *type ? type : "something else");
        }
    }
    if (read_dense(r)) return -1;
    dense_layers(ck);
    layer_rope(ck);
    return 0;
}

/* rope_parameters may be one dictionary, or one for each kind of layer. Layers with a window of families that have two
 * RoPEs keep the plain one, whatever rope_scaling says: it is for the others. */
static int read_ropes(const Reader *r, const Facts *f) {
    Config *c = &r->ck->config;
    const cJSON *rope = NULL, *by_kind = NULL, *local = NULL;
    const char *where = "rope_parameters";
    bool two = r->ck->family->traits & ARCH_LOCAL_ROPE;
    if (given(r->root, where)) by_kind = get(r->root, where);
    rope = by_kind;
    if (given(by_kind, "full_attention") || given(by_kind, "sliding_attention")) {
        rope = get(by_kind, "full_attention");
        local = get(by_kind, "sliding_attention");
    }
    if (given(r->root, "rope_scaling") && get(r->root, "rope_scaling")->child) {
        where = "rope_scaling";
        rope = get(r->root, where);
    }
    if (cJSON_IsNull(rope)) rope = NULL;
    int n_ctx = c->n_ctx;
    double temperature = rope ? 0 : (double)r->ck->family->temperature;
    if (read_rope(r, rope, where, f, &c->rope)) return -1;
    if (json_number(&temperature, rope, "llama_4_scaling_beta", r->path, r->e)) return -1;
    if (temperature != 0 && !key_default_given(r->ck->family, KEY_TEMPERATURE))
        return fail(r->e, "%s: llama_4_scaling_beta: expected none for a %s, found %g", r->path, r->ck->arch,
                    temperature);
    c->attn.temperature = (float)temperature;
    if (temperature != 0) c->attn.temperature_ctx = c->rope.original_ctx;
    if (!two) return 0;
    Facts own = *f;
    own.value[KEY_ROPE_THETA] = f->given[KEY_LOCAL_THETA] ? f->value[KEY_LOCAL_THETA] : c->rope.theta;
    own.given[KEY_ROPE_THETA] = true;
    int longer = c->n_ctx;
    c->n_ctx = n_ctx;
    if (read_rope(r, cJSON_IsNull(local) ? NULL : local, where, &own, &c->rope_local)) return -1;
    c->n_ctx = longer;
    return 0;
}

/* gpt-oss is published with its experts in MXFP4. */
static int read_quantization(const Reader *r, HfConfig *hf) {
    static const char key[] = "quantization_config";
    if (!given(r->root, key)) return 0;
    const cJSON *method = get(get(r->root, key), "quant_method");
    const char *found = cJSON_IsString(method) ? method->valuestring : "none";
    bool can = r->ck->family->split == SPLIT_COLUMNS;
    hf->mxfp4 = can && strcmp(found, "mxfp4") == 0;
    return hf->mxfp4 ? 0
                     : fail(r->e, "%s: %s: expected null%s, found the method %.40s, which is not supported", r->path,
                            key, can ? " or the method mxfp4" : "", found);
}

static int read_config(const Reader *r, HfConfig *hf) {
    Checkpoint *ck = r->ck;
    Config *c = &ck->config;
    Facts f;
    if (read_facts(r, &f) || read_quantization(r, hf) ||
        facts_config(c, ck->family, ck->family->style, &f, r->path, r->e))
        return -1;
    const Bias *bias[3] = {&ck->family->qkv_bias, &ck->family->out_bias, &ck->family->mlp_bias};
    const Key key[3] = {KEY_QKV_BIAS, KEY_OUT_BIAS, KEY_MLP_BIAS};
    for (int i = 0; i < 3; i++) {
        Key by = *bias[i] == BIAS_AS_QKV ? KEY_QKV_BIAS : key[i];
        Bias rule = *bias[i] == BIAS_AS_QKV ? ck->family->qkv_bias : *bias[i];
        hf->bias[i] = rule == BIAS_ALWAYS || (rule == BIAS_BY_KEY && f.given[by] && f.value[by] != 0);
        hf->bias_key[i] = rule == BIAS_BY_KEY ? key_name(ck->family, ck->family->style, by) : NULL;
    }
    if (ck->family->traits & ARCH_SWITCHES ? read_switches(r) : read_activation(r)) return -1;
    RopePairing pairing = c->rope.pairing;
    if (c->pos == POS_ROPE && read_ropes(r, &f)) return -1;
    if (pairing == ROPE_PAIRS) c->rope.pairing = pairing;
    if (config_check(c, r->path, r->e) || read_layers(r, &f)) return -1;
    return read_eos(ck, r->root, r->path, r->e) || read_bos(r) ? -1 : 0;
}

int hf_config_read(Checkpoint *ck, const char *path, HfConfig *hf, Error *e) {
    *hf = (HfConfig){0};
    cJSON *root = json_read(path, e);
    if (!root) return -1;
    const Reader r = {ck, root, path, e};
    const cJSON *type = get(root, "model_type");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    int status = -1;
    if (!cJSON_IsObject(root)) fail(e, "%s: JSON: expected an object, found something else", path);
    else if (ck->family || (ck->family = arch_find(STYLE_HF, name, strlen(name), path, e))) {
        const cJSON *experts = get(root, "num_local_experts");
        if (ck->family->traits & ARCH_HYBRID)
            ck->family = arch_variant(ck->family, !cJSON_IsNumber(experts) || experts->valuedouble != 0);
        ck->arch = ck->family->name;
        status = read_config(&r, hf);
    }
    cJSON_Delete(root);
    return status;
}

int hf_generation_read(Checkpoint *ck, const char *path, Error *e) {
    cJSON *root = json_read(path, e);
    if (!root) return -1;
    int status = cJSON_IsObject(root) ? read_eos(ck, root, path, e)
                                      : fail(e, "%s: JSON: expected an object, found something else", path);
    cJSON_Delete(root);
    return status;
}

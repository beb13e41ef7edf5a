/* facts - Config to the numbers that a file says: the way back from facts_config. */
#include <math.h>
#include <string.h>

#include "convert/writer.h"

static void say(Facts *f, Key key, double value) {
    f->value[key] = value;
    f->given[key] = true;
}

/* What a LLaMA has. */
static void say_common(Facts *f, const Config *c, const Weights *w) {
    const Layer *l = &w->layers[0];
    bool rope = c->pos == POS_ROPE;
    say(f, KEY_DIM, c->dim);
    say(f, KEY_HIDDEN_DIM, c->moe.dense_dim ? c->moe.dense_dim : c->hidden_dim);
    say(f, KEY_N_LAYERS, c->n_layers);
    say(f, KEY_N_HEADS, c->n_heads);
    say(f, KEY_N_KV_HEADS, c->n_kv_heads);
    say(f, KEY_HEAD_DIM, c->head_dim);
    say(f, KEY_VALUE_DIM, c->head_dim);
    say(f, KEY_VOCAB_SIZE, c->vocab_size);
    say(f, KEY_N_CTX, rope && c->rope.scaling == ROPE_SCALING_DYNAMIC ? c->rope.original_ctx : c->n_ctx);
    say(f, KEY_NORM_EPS, (double)c->norm_eps);
    say(f, KEY_TIED, c->tied);
    say(f, KEY_QKV_BIAS, l->attn.bq != NULL);
    say(f, KEY_OUT_BIAS, l->attn.bo != NULL);
    say(f, KEY_MLP_BIAS, (l->moe.experts ? l->moe.experts->b_up : l->ffn.b_up) != NULL);
    say(f, KEY_ROPE_THETA, rope ? c->rope.theta : 10000);
    say(f, KEY_PARTIAL_ROTARY, rope ? (double)c->rope.rotary_dim / c->head_dim : 1);
    say(f, KEY_ROTARY_DIM, rope ? c->rope.rotary_dim : c->head_dim);
}

static double or_1(float scale) { return scale == 0 ? 1 : (double)scale; }

/* What sets the family apart; keys that it does not have are not written. */
static void say_family(Facts *f, const Config *c, const Arch *a, Style style, const Weights *w) {
    int window = 0, full = 0;
    for (int i = 0; i < c->n_layers; i++) {
        if (w->layers[i].attn.window) window = w->layers[i].attn.window;
        else if (!window) full = i + 1;
    }
    double scale = c->attn.scale == 0 ? 1 / sqrt((double)c->head_dim) : (double)c->attn.scale;
    double logits = or_1(c->logit_scale);
    if (window) say(f, KEY_WINDOW, window);
    say(f, KEY_USE_WINDOW, window != 0);
    if (window) say(f, KEY_MAX_WINDOW_LAYERS, full);
    if (a->traits & ARCH_LOCAL_ROPE) say(f, KEY_LOCAL_THETA, c->rope_local.theta);
    say(f, KEY_QUERY_SCALAR, c->attn.scale == 0 ? c->head_dim : 1 / (scale * scale));
    say(f, KEY_ATTN_SCALE, scale);
    if (c->attn.softcap != 0) say(f, KEY_ATTN_SOFTCAP, (double)c->attn.softcap);
    if (c->logit_softcap != 0) say(f, KEY_LOGIT_SOFTCAP, (double)c->logit_softcap);
    if (c->attn.clamp != 0) say(f, KEY_CLAMP, (double)c->attn.clamp);
    say(f, KEY_QK_NORM, c->attn.qk_norm != QK_NORM_NONE);
    say(f, KEY_PARALLEL, c->parallel);
    say(f, KEY_MULTI_QUERY, c->n_kv_heads == 1);
    say(f, KEY_EXPERTS, c->moe.n_experts);
    say(f, KEY_EXPERTS_USED, c->moe.n_used);
    say(f, KEY_EXPERT_DIM, c->hidden_dim);
    say(f, KEY_SHARED_DIM, c->moe.shared_dim);
    say(f, KEY_RENORMALIZE, c->moe.renormalize);
    say(f, KEY_SPARSE_STEP, 1);
    say(f, KEY_SWIGLU_ALPHA, (double)c->moe.alpha);
    say(f, KEY_SWIGLU_LIMIT, (double)c->moe.limit);
    say(f, KEY_TEMPERATURE, (double)c->attn.temperature);
    say(f, KEY_EMB_SCALE, or_1(c->embedding_scale));
    say(f, KEY_RESIDUAL_SCALE, or_1(c->residual_scale));
    say(f, KEY_DEPTH_SCALE, or_1(c->residual_scale) * sqrt((double)c->n_layers));
    say(f, KEY_DIM_BASE, round(logits * c->dim));
    say(f, KEY_LOGIT_DIVISOR, 1 / logits);
    say(f, KEY_LOGIT_SCALE, style == STYLE_GGUF && (a->traits & ARCH_DIVIDED_LOGITS) ? 1 / logits : logits);
    for (int k = KEY_WINDOW; k < KEY_COUNT; k++) {
        bool rope = k == KEY_ROPE_THETA || k == KEY_PARTIAL_ROTARY || k == KEY_ROTARY_DIM;
        bool of_switch = k == KEY_USE_WINDOW && (a->traits & ARCH_USE_WINDOW);
        if (!key_default_given(a, (Key)k) && !rope && !of_switch) f->given[k] = false;
    }
}

void config_facts(Facts *f, const Writer *w) {
    *f = (Facts){0};
    say_common(f, &w->config, w->weights);
    say_family(f, &w->config, w->family, w->style, w->weights);
}

/* Llama.cpp's code has what a GGUF does not say. */
static const char *gguf_cannot_say(const Arch *a, const Config *c, const Weights *w) {
    int window = 0;
    for (int i = 0; i < c->n_layers; i++) {
        const AttentionWeights *l = &w->layers[i].attn;
        if (l->window && l->window < c->n_ctx) window = l->window;
        if (key_default_given(a, KEY_NO_ROPE_INTERVAL) && (l->rope == ROPE_NONE) != ((i + 1) % 4 == 0))
            return "layers without RoPE that are not every fourth";
    }
    bool shared = false; /* an earlier row has that GGUF, and reads no window in it */
    for (const Arch *b = archs; b < a; b++) shared |= b->gguf && strcmp(a->gguf, b->gguf) == 0;
    if (window && (shared ? !(a->traits & ARCH_LAYER_TYPES) : !key_default_given(a, KEY_WINDOW))) return "a window";
    if (key_default_given(a, KEY_QUERY_SCALAR) && c->attn.scale != 0) return "that scale of the scores";
    if (c->moe.dense_dim) return "layers without experts";
    if (!c->moe.n_experts && key_default_given(a, KEY_EXPERTS)) return "no experts";
    if (c->moe.n_experts && c->moe.renormalize != ((a->traits & ARCH_RENORMALIZED) != 0))
        return c->moe.renormalize ? "weights of the experts that add up to 1"
                                  : "weights of the experts that do not add up to 1";
    if (c->attn.clamp != 0 && c->attn.qk_norm != QK_NORM_NONE) return "a clamp of normed q and k";
    if (w->layers[0].attn.q_norm_bias) return "norms of q and k"; /* Phi-2's has none */
    for (Key k = KEY_SWIGLU_ALPHA; k <= KEY_SWIGLU_LIMIT; k++) {
        float found = k == KEY_SWIGLU_ALPHA ? c->moe.alpha : c->moe.limit;
        if (key_default_given(a, k) && found != (float)key_default(a, k)) return "that clamp of the experts";
    }
    return NULL;
}

int check_sayable(const Writer *w) {
    const Config *c = &w->config;
    bool gguf = w->style == STYLE_GGUF;
    const char *what = gguf ? gguf_cannot_say(w->family, c, w->weights) : NULL;
    if (c->rope_local.rotary_dim && c->rope_local.scaling != ROPE_SCALING_NONE)
        what = "a rule for the layers with a window";
    if (!gguf && (w->family->traits & ARCH_SWAPPED_NORMS)) what = "its two kinds of norms";
    unsigned hybrid = w->family->traits & (ARCH_ROPE_SWITCH | ARCH_HYBRID);
    if (!gguf && hybrid == ARCH_ROPE_SWITCH && w->weights->layers[0].attn.rope == ROPE_NONE) what = "no RoPE";
    if (!gguf && (w->family->traits & ARCH_CONV1D)) what = "Conv1D's transposed matrices";
    if (!what) return 0;
    return fail(w->e, "%s: %s: expected a %s that the output's format can hold, found one with %s", w->ck->path,
                gguf ? "GGUF" : "config.json", w->family->name, what);
}

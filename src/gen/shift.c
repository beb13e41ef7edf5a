#include "gen/shift.h"

#include <string.h>

const char *cache_shift_refused(const Model *m) {
    const Config *c = &m->config;
    if (m->comm) return "each rank caches its heads alone";
    if (c->pos != POS_ROPE) return "its positions are learned, and added before the first layer";
    const RopeConfig *rules[] = {&c->rope, &c->rope_local};
    for (int i = 0; i < 2; i++) {
        if (i == 1 && rules[i]->rotary_dim == 0) continue;
        if (rules[i]->scaling == ROPE_SCALING_DYNAMIC) return "dynamic NTK's frequencies depend on the length";
        if (rules[i]->scaling == ROPE_SCALING_LONGROPE) return "LongRoPE's frequencies depend on the length";
    }
    if (c->attn.qk_norm == QK_NORM_AFTER_ROPE) return "its keys are normed after they are rotated";
    if (c->rotate || c->decode_shift) return "a known mistake is made on purpose";
    return NULL;
}

/* The rotation by `by` positions as a table of one row. */
typedef struct {
    RopeTable table;
    float cos[ROPE_MAX_PAIRS], sin[ROPE_MAX_PAIRS];
} Rotation;

static void rotation_by(Rotation *r, const RopeConfig *rope, int head_dim, int by, int seq_len) {
    double inv_freq[ROPE_MAX_PAIRS], factor; /* the factor is in the cached keys already */
    rope_inv_freq(inv_freq, &factor, rope, seq_len);
    r->table = (RopeTable){.n_ctx = 1,
                           .head_dim = head_dim,
                           .rotary_dim = rope->rotary_dim,
                           .pairing = rope->pairing,
                           .cos = r->cos,
                           .sin = r->sin};
    rope_row(r->cos, r->sin, inv_freq, 1, rope->rotary_dim / 2, by);
}

void cache_shift(const Model *m, State *s, int to, int from, int n) {
    const Config *c = &m->config;
    KvCache *cache = &s->attn.cache;
    Rotation rotation[2];
    rotation_by(&rotation[ROPE_MAIN], &c->rope, c->head_dim, to - from, s->options.n_ctx);
    if (c->rope_local.rotary_dim)
        rotation_by(&rotation[ROPE_LOCAL], &c->rope_local, c->head_dim, to - from, s->options.n_ctx);
    for (int layer = 0; layer < c->n_layers; layer++) {
        RopeUse use = m->weights.layers[layer].attn.rope;
        for (int head = 0; head < c->n_kv_heads; head++) {
            for (int i = 0; i < n; i++) {
                float *key = s->attn.k; /* one row of a batch is room enough */
                kv_cache_key(key, cache, layer, head, from + i);
                if (use != ROPE_NONE) rope_apply(key, 1, 1, c->head_dim, &rotation[use].table, 0);
                kv_cache_write_key(cache, layer, head, to + i, key);
            }
            kv_cache_move_values(cache, layer, head, to, from, n);
        }
    }
}

bool same_angles(const Config *c, int n, int m) {
    return rope_table_key(&c->rope, n) == rope_table_key(&c->rope, m) &&
           rope_table_key(&c->rope_local, n) == rope_table_key(&c->rope_local, m);
}

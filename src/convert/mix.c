#include "convert/mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef enum { NEVER, ALWAYS, FEW_KV_HEADS, MORE_BITS, FIRST_2, FIRST_4, FIRST_8TH, FIRST_16TH } When;

/* `then` for the layers that `when` names, `otherwise` for the rest. */
typedef struct {
    When when;
    DType then, otherwise;
} Rule;

struct Mix {
    const char *name;
    int file_type;
    DType base;
    bool one_type; /* for all matrices */
    Rule wv, w_down, wo;
    bool more_for_wo; /* with 8 experts */
};

#define ONE(name, number, type)                                                                                        \
    { name, number, type, true, {NEVER, type, type}, {NEVER, type, type}, {NEVER, type, type}, false }
#define BASE(type)                                                                                                     \
    { NEVER, DTYPE_##type, DTYPE_##type }
#define RULE(when, then, otherwise)                                                                                    \
    { when, DTYPE_##then, DTYPE_##otherwise }

/* clang-format off */
static const Mix mixes[] = {
    ONE("f32", 0, DTYPE_F32), ONE("f16", 1, DTYPE_F16), ONE("bf16", 32, DTYPE_BF16), ONE("q8_0", 7, DTYPE_Q8_0),
    ONE("q4_0", 2, DTYPE_Q4_0), ONE("q4_1", 3, DTYPE_Q4_1), ONE("q5_0", 8, DTYPE_Q5_0), ONE("q5_1", 9, DTYPE_Q5_1),
    /* name, number, base, rules for v, for down, for the attention's output */
    {"q2_k", 10, DTYPE_Q2_K, false, RULE(FEW_KV_HEADS, Q4_K, Q3_K), RULE(ALWAYS, Q3_K, Q2_K), RULE(ALWAYS, Q3_K, Q2_K), true},
    {"q2_k_s", 21, DTYPE_Q2_K, false, RULE(FEW_KV_HEADS, Q4_K, Q2_K), RULE(FIRST_8TH, Q4_K, Q2_K), BASE(Q2_K), false},
    {"q3_k_s", 11, DTYPE_Q3_K, false, BASE(Q3_K), BASE(Q3_K), BASE(Q3_K), true},
    {"q3_k_m", 12, DTYPE_Q3_K, false, RULE(FIRST_2, Q5_K, Q4_K), RULE(FIRST_16TH, Q5_K, Q4_K), RULE(ALWAYS, Q4_K, Q3_K), true},
    {"q3_k_l", 13, DTYPE_Q3_K, false, RULE(ALWAYS, Q5_K, Q3_K), RULE(ALWAYS, Q5_K, Q3_K), RULE(ALWAYS, Q5_K, Q3_K), false},
    {"q4_k_s", 14, DTYPE_Q4_K, false, RULE(FIRST_4, Q5_K, Q4_K), RULE(FIRST_8TH, Q5_K, Q4_K), BASE(Q4_K), true},
    {"q4_k_m", 15, DTYPE_Q4_K, false, RULE(MORE_BITS, Q6_K, Q4_K), RULE(MORE_BITS, Q6_K, Q4_K), BASE(Q4_K), true},
    {"q5_k_s", 16, DTYPE_Q5_K, false, BASE(Q5_K), BASE(Q5_K), BASE(Q5_K), false},
    {"q5_k_m", 17, DTYPE_Q5_K, false, RULE(MORE_BITS, Q6_K, Q5_K), RULE(MORE_BITS, Q6_K, Q5_K), BASE(Q5_K), false},
    {"q6_k", 18, DTYPE_Q6_K, false, BASE(Q6_K), BASE(Q6_K), BASE(Q6_K), false},
    {"iq4_nl", 25, DTYPE_IQ4_NL, false, RULE(FEW_KV_HEADS, Q5_K, IQ4_NL), RULE(FIRST_8TH, Q5_K, IQ4_NL), BASE(IQ4_NL), true},
};
/* clang-format on */
enum { N_MIXES = sizeof mixes / sizeof *mixes };

const Mix *mix_named(const char *name) {
    static const char *const alias[][2] = {{"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};
    for (int i = 0; i < 3; i++)
        if (strcasecmp(name, alias[i][0]) == 0) name = alias[i][1];
    for (int i = 0; i < N_MIXES; i++)
        if (strcasecmp(name, mixes[i].name) == 0) return &mixes[i];
    return NULL;
}

const char *mix_name(const Mix *m) { return m->name; }

const char *mix_names(char *out, size_t n) {
    size_t at = 0;
    for (int i = 0; i < N_MIXES && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%s", i == 0 ? "" : i == N_MIXES - 1 ? " or " : ", ", mixes[i].name);
    return out;
}

DType mix_base(const Mix *m) { return m->base; }

int mix_file_type(const Mix *m) { return m->file_type; }

static DType by_rule(const Rule *r, int layer, const Config *c) {
    int n = c->n_layers;
    bool holds = false;
    switch (r->when) {
    case NEVER: break;
    case ALWAYS: holds = true; break;
    case FEW_KV_HEADS: holds = c->n_heads / c->n_kv_heads >= 4; break;
    case MORE_BITS: holds = layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2; break;
    case FIRST_2: holds = layer < 2; break;
    case FIRST_4: holds = layer < 4; break;
    case FIRST_8TH: holds = layer < n / 8; break;
    case FIRST_16TH: holds = layer < n / 16; break;
    }
    return holds ? r->then : r->otherwise;
}

/* A type for rows that t's blocks do not fit. */
static DType that_fits(DType t, int cols) {
    static const DType smaller[DTYPE_COUNT] = {[DTYPE_Q2_K] = DTYPE_Q4_0,
                                               [DTYPE_Q3_K] = DTYPE_Q4_0,
                                               [DTYPE_Q4_K] = DTYPE_Q5_0,
                                               [DTYPE_Q5_K] = DTYPE_Q5_1,
                                               [DTYPE_Q6_K] = DTYPE_Q8_0};
    if (cols % dtype_info[t].block_values == 0) return t;
    if (smaller[t] != DTYPE_F32 && cols % dtype_info[smaller[t]].block_values == 0) return smaller[t];
    return DTYPE_F16;
}

DType mix_type(const Mix *m, Field f, int layer, int cols, const Config *c) {
    if (m->one_type) return cols % dtype_info[m->base].block_values ? DTYPE_F32 : m->base;
    DType t = m->base;
    if (f == FIELD_LM_HEAD || (f == FIELD_TOK_EMB && c->tied)) /* its rows are multiplied for every token */
        t = cols % dtype_info[t].block_values ? DTYPE_Q8_0 : DTYPE_Q6_K;
    else if (f == FIELD_WV) t = by_rule(&m->wv, layer, c);
    else if (f == FIELD_W_DOWN || f == FIELD_EXPERT_DOWN || f == FIELD_SHARED_DOWN) t = by_rule(&m->w_down, layer, c);
    else if (f == FIELD_WO) t = by_rule(&m->wo, layer, c);
    if (f == FIELD_WV && c->n_layers == 80 && c->n_heads != c->n_kv_heads && (t == DTYPE_Q3_K || t == DTYPE_Q4_K))
        t = DTYPE_Q5_K;                                                            /* 70B: v is an eighth of q */
    if (c->moe.n_experts == 8 && (f == FIELD_WV || f == FIELD_WK)) t = DTYPE_Q8_0; /* Mixtral: a small part of all */
    if (c->moe.n_experts == 8 && f == FIELD_WO && m->more_for_wo) t = DTYPE_Q5_K;
    return that_fits(t, cols);
}

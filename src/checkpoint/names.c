#include <stdio.h>
#include <string.h>

#include "checkpoint/formats.h"

/* '#' stands for the layer. A new architecture is a column; NULL: the style has no such tensor. */
static const struct {
    const char *canonical, *file[NAME_STYLES];
} names[FIELD_COUNT + 2] = {
    [FIELD_TOK_EMB] = {"tok_emb", {"model.embed_tokens.weight", "token_embd.weight", "wte.weight"}},
    [FIELD_POS_EMB] = {"pos_emb", {"model.embed_positions.weight", "position_embd.weight", "wpe.weight"}},
    [FIELD_FINAL_NORM] = {"final_norm", {"model.norm.weight", "output_norm.weight", "ln_f.weight"}},
    [FIELD_FINAL_NORM_BIAS] = {"final_norm_bias", {"model.norm.bias", "output_norm.bias", "ln_f.bias"}},
    [FIELD_LM_HEAD] = {"lm_head", {"lm_head.weight", "output.weight", "lm_head.weight"}},
    [FIELD_ATTN_NORM] = {"attn_norm",
                         {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", "h.#.ln_1.weight"}},
    [FIELD_ATTN_NORM_BIAS] = {"attn_norm_bias",
                              {"model.layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", "h.#.ln_1.bias"}},
    [FIELD_WQ] = {"wq", {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", NULL}},
    [FIELD_WK] = {"wk", {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", NULL}},
    [FIELD_WV] = {"wv", {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", NULL}},
    [FIELD_WO] = {"wo",
                  {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", "h.#.attn.c_proj.weight"}},
    [FIELD_BQ] = {"bq", {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", NULL}},
    [FIELD_BK] = {"bk", {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", NULL}},
    [FIELD_BV] = {"bv", {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", NULL}},
    [FIELD_BO] = {"bo", {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", "h.#.attn.c_proj.bias"}},
    [FIELD_FFN_NORM] = {"ffn_norm",
                        {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", "h.#.ln_2.weight"}},
    [FIELD_FFN_NORM_BIAS] = {"ffn_norm_bias",
                             {"model.layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", "h.#.ln_2.bias"}},
    [FIELD_W_GATE] = {"w_gate", {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", NULL}},
    [FIELD_W_UP] = {"w_up", {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", "h.#.mlp.c_fc.weight"}},
    [FIELD_W_DOWN] = {"w_down",
                      {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", "h.#.mlp.c_proj.weight"}},
    [FIELD_B_GATE] = {"b_gate", {"model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", NULL}},
    [FIELD_B_UP] = {"b_up", {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", "h.#.mlp.c_fc.bias"}},
    [FIELD_B_DOWN] = {"b_down", {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", "h.#.mlp.c_proj.bias"}},
    [FIELD_QKV] = {"wqkv", {NULL, "blk.#.attn_qkv.weight", "h.#.attn.c_attn.weight"}},
    [FIELD_QKV_BIAS] = {"bqkv", {NULL, "blk.#.attn_qkv.bias", "h.#.attn.c_attn.bias"}},
};

const char *field_name(Field field) { return names[field].canonical; }

/* Does name equal the pattern, with '#' a layer number without leading zeros? */
static bool matches(const char *name, size_t n, const char *pattern, int *layer) {
    size_t i = 0;
    *layer = -1;
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (i == n || name[i++] != *pattern) return false;
            continue;
        }
        size_t digits = 0;
        int value = 0;
        for (; i < n && name[i] >= '0' && name[i] <= '9' && digits < 6; i++, digits++)
            value = 10 * value + (name[i] - '0');
        if (digits == 0 || (digits > 1 && name[i - digits] == '0')) return false;
        *layer = value;
    }
    return i == n;
}

int name_find(const char *name, size_t n, NameStyle style, int *layer) {
    for (int f = 0; f < FIELD_COUNT + 2; f++)
        if (names[f].file[style] && matches(name, n, names[f].file[style], layer)) return f;
    return -1;
}

const char *name_of(char out[80], Field field, int layer, NameStyle style) {
    const char *pattern = names[field].file[style];
    if (!pattern) return NULL;
    const char *mark = strchr(pattern, '#');
    if (mark) snprintf(out, 80, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 1);
    else snprintf(out, 80, "%s", pattern);
    return out;
}

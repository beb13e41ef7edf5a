/* verify: sound models pass, and a model broken in each known way is told by name: the first tensor that is over and
 * the cause. The references are transformers' own intermediates (scripts/hf_reference.py). */
#include "verify_fixture.h"

#include "checkpoint/mistake.h"

/* A copy of a matrix whose rows come from where from[row] says. */
static Mat rows_moved(Fixture *f, const Mat *w, const int *from) {
    float *data = keep(f, (size_t)w->rows * (size_t)w->cols);
    for (int r = 0; r < w->rows; r++) mat_dequantize_row(data + (size_t)r * (size_t)w->cols, w, from[r]);
    return (Mat){DTYPE_F32, w->rows, w->cols, (size_t)w->cols * sizeof *data, data, NULL, 0};
}

static void sound_models_pass(void **state) {
    (void)state;
    static const char *const sound[][2] = {
        {"base_hf", "base"},
        {"base.gguf", "base"},
        {"base_v0.bin", "base"},
        {"base_v1.bin", "base"},
        {"rope_llama3_hf", "rope_llama3"},
        {"rope_llama3.gguf", "rope_llama3"},
        {"rope_yarn_hf", "rope_yarn"},
        {"rope_yarn.gguf", "rope_yarn"},
        {"rope_linear_hf", "rope_linear"},
        {"biases_hf", "biases"},
        {"mqa_head_dim_hf", "mqa_head_dim"},
        {"mqa_head_dim.gguf", "mqa_head_dim"},
    };
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        Fixture f;
        fixture_open(&f, sound[i][0], sound[i][1]);
        CHECK(&f, "", "");
        fixture_close(&f);
    }
}

static void pairing(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    f.config.rope.pairing = ROPE_PAIRS;
    CHECK(&f, "layers.0.q_rot",
          "pairing wrong: q and k differ only after RoPE, only at positions >= 1; the other pairing (half) matches");
    fixture_close(&f);
    fixture_open(&f, "base.gguf", "base");
    f.config.rope.pairing = ROPE_HALF;
    CHECK(&f, "layers.0.q_rot", "the other pairing (pairs) matches");
    fixture_close(&f);
}

static void theta(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    f.config.rope.theta = 500000;
    CHECK(&f, "layers.0.q_rot", "theta wrong: the reference rotates with theta 10000, this model with 500000");
    fixture_close(&f);
    fixture_open(&f, "mqa_head_dim.gguf", "mqa_head_dim");
    f.config.rope.theta = 10000;
    CHECK(&f, "layers.0.q_rot", "theta wrong");
    fixture_close(&f);
}

static void scaling(void **state) {
    (void)state;
    Fixture f;
    static const char *const models[][3] = {
        {"rope_llama3_hf", "rope_llama3", "scaling missing: in the reference the first"},
        {"rope_llama3.gguf", "rope_llama3", "scaling missing: in the reference the first"},
        {"rope_yarn_hf", "rope_yarn", "scaling missing: in the reference the first"},
        {"rope_linear_hf", "rope_linear", "linear scaling with that factor"}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        fixture_open(&f, models[i][0], models[i][1]);
        f.config.rope.scaling = ROPE_SCALING_NONE;
        f.config.rope.freq_factors = NULL;
        CHECK(&f, "layers.0.q_rot", models[i][2]);
        fixture_close(&f);
    }
    fixture_open(&f, "base_hf", "base");
    f.config.rope.scaling = ROPE_SCALING_LINEAR;
    f.config.rope.factor = 4;
    CHECK(&f, "layers.0.q_rot", "the reference rotates with theta 10000 and no scaling; this model scales");
    fixture_close(&f);
    fixture_open(&f, "rope_yarn_hf", "rope_yarn");
    f.config.rope.attention_factor = 1;
    CHECK(&f, "layers.0.q_rot", "attention factor");
    fixture_close(&f);
}

/* Rows of wk put in the other pairing's order as if there were n_heads heads, not n_kv_heads. */
static void heads_permuted_with_the_wrong_count(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    int from[64], rows = f.layers[1].attn.wk.rows, block = rows / f.config.n_heads;
    for (int r = 0; r < rows; r++) {
        int h = r / block, i = r % block;
        from[r] = h * block + (i % 2) * block / 2 + i / 2;
    }
    f.layers[1].attn.wk = rows_moved(&f, &f.layers[1].attn.wk, from);
    CHECK(&f, "layers.1.k",
          "heads permuted with the wrong count: the rows of wk were reordered as 4 heads of 4, it has 2 of 8");
    fixture_close(&f);
}

/* Rows of wk alone in the order of the other pairing: q and k then meet feature by feature as nobody meant. */
static void one_matrix_in_the_other_order(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    int from[64], d = f.config.head_dim;
    for (int r = 0; r < f.layers[1].attn.wk.rows; r++) from[r] = r / d * d + (r % 2) * d / 2 + r % d / 2;
    f.layers[1].attn.wk = rows_moved(&f, &f.layers[1].attn.wk, from);
    CHECK(&f, "layers.1.k", "wk: its rows are in the order of the other pairing than those of the other matrices");
    fixture_close(&f);
}

static void heads_mapped_wrongly(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    int from[64], d = f.config.head_dim;
    for (int r = 0; r < f.layers[0].attn.wq.rows; r++) { /* heads 0 2 1 3: as if groups were interleaved */
        static const int order[4] = {0, 2, 1, 3};
        from[r] = order[r / d] * d + r % d;
    }
    f.layers[0].attn.wq = rows_moved(&f, &f.layers[0].attn.wq, from);
    CHECK(&f, "layers.0.q", "GQA mapping: the heads of wq are in another order: head 1 here is the reference's head 2");
    fixture_close(&f);
}

/* Attention with query head h reading KV head h % n_kv_heads, in place of our own output. */
static void interleave_groups(Fixture *f, Trace *ours) {
    const Config *c = &f->config;
    int d = c->head_dim, n = ours->n, q_dim = c->n_heads * d, kv_dim = c->n_kv_heads * d;
    const float *q = ours->x[trace_slot(0, STEP_Q_ROT, 2)], *k = ours->x[trace_slot(0, STEP_K_ROT, 2)];
    const float *v = ours->x[trace_slot(0, STEP_V, 2)];
    float *out = ours->x[trace_slot(0, STEP_ATTN_OUT, 2)], heads[64], row[64];
    for (int t = 0; t < n; t++) {
        for (int h = 0; h < c->n_heads; h++) {
            int g = h % c->n_kv_heads;
            double p[64], sum = 0;
            for (int s = 0; s <= t; s++) {
                p[s] = 0;
                for (int i = 0; i < d; i++)
                    p[s] += (double)q[t * q_dim + h * d + i] * (double)k[s * kv_dim + g * d + i];
                sum += p[s] = exp(p[s] / sqrt(d));
            }
            for (int i = 0; i < d; i++) {
                double x = 0;
                for (int s = 0; s <= t; s++) x += p[s] / sum * (double)v[s * kv_dim + g * d + i];
                heads[h * d + i] = (float)x;
            }
        }
        for (int r = 0; r < c->dim; r++) {
            mat_dequantize_row(row, &f->layers[0].attn.wo, r);
            double x = 0;
            for (int i = 0; i < q_dim; i++) x += (double)row[i] * (double)heads[i];
            out[t * c->dim + r] = (float)x;
        }
    }
}
static void groups_interleaved(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    check(&f, interleave_groups, "layers.0.attn_out", "here: GQA mapping: query head h reads KV head h % n_kv_heads",
          __LINE__);
    fixture_close(&f);
}

/* Turns x by RoPE as at positions t + offset. */
static void turn_rows(const Config *c, float *x, int n, int n_heads, int offset) {
    float cosine[32 * 64], sine[32 * 64];
    RopeTable t = {.n_ctx = 32,
                   .head_dim = c->head_dim,
                   .rotary_dim = c->rope.rotary_dim,
                   .pairing = ROPE_HALF,
                   .cos = cosine,
                   .sin = sine};
    rope_table_fill(&t, &c->rope, 32);
    rope_apply(x, n, n_heads, n_heads * c->head_dim, &t, offset);
}
static void turn_v(Fixture *f, Trace *ours) {
    turn_rows(&f->config, ours->x[trace_slot(0, STEP_V, 2)], ours->n, f->config.n_kv_heads, 0);
}
static void show_turned_keys(Fixture *f, Trace *ours) {
    turn_rows(&f->config, ours->x[trace_slot(0, STEP_K_ROT, 2)], ours->n, f->config.n_kv_heads, 0);
}
/* The logits are not the reference's. */
static void differ(Fixture *f, Trace *ours) {
    int slot = trace_slot(0, STEP_LOGITS, 2);
    float max = 0;
    for (int i = 0; i < ours->n * ours->cols[slot]; i++) max = fmaxf(max, fabsf(ours->x[slot][i] - f->ref.x[slot][i]));
    assert_true(max > 0.1f);
}
static void v_rotated(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    check(&f, turn_v, "layers.0.v", "V rotated", __LINE__);
    turn_rows(&f.config, f.ref.x[trace_slot(1, STEP_V, 2)], f.ref.n, f.config.n_kv_heads, 0);
    CHECK(&f, "layers.1.v", "V rotated");
    fixture_close(&f);
}

static void position_offset(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    float *q_rot = f.ref.x[trace_slot(0, STEP_Q_ROT, 2)];
    memcpy(q_rot, f.ref.x[trace_slot(0, STEP_Q, 2)],
           (size_t)(f.ref.n * f.config.n_heads * f.config.head_dim) * sizeof *q_rot);
    turn_rows(&f.config, q_rot, f.ref.n, f.config.n_heads, 1);
    CHECK(&f, "layers.0.q_rot", "position offset: the reference rotates token t to position t+1");
    for (int i = 0; i < f.ref.n * f.config.n_heads * f.config.head_dim; i += 2) q_rot[i] *= -1;
    CHECK(&f, "layers.0.q_rot", "RoPE: the reference's q_rot is no rotation of its q by pairs (i, i + 4)");
    fixture_close(&f);
}

static void norms(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    f.config.norm_eps = 1e-3f;
    CHECK(&f, "layers.0.attn_norm", "eps: the reference's norm fits eps 1e-05, this model has 0.001");
    f.config.norm_eps = 1e-5f;
    float *ones = keep(&f, 64);
    for (int i = 0; i < 64; i++) ones[i] = 1;
    const float *was = f.layers[1].ffn_norm;
    f.layers[1].ffn_norm = ones;
    CHECK(&f, "layers.1.ffn_norm", "norm weight missing: all ones here");
    f.layers[1].ffn_norm = was;
    f.config.norm = NORM_LAYERNORM;
    CHECK(&f, "layers.0.attn_norm", "norm kind: the reference's is RMSNorm, this model's LayerNorm");
    fixture_close(&f);
}

static void weights_and_biases(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "biases_hf", "biases");
    f.layers[0].attn.bq = NULL;
    CHECK(&f, "layers.0.q", "bias of wq");
    fixture_close(&f);
    fixture_open(&f, "base_hf", "base");
    Mat gate = f.layers[0].ffn.w_gate;
    f.layers[0].ffn.w_gate = f.layers[0].ffn.w_up;
    f.layers[0].ffn.w_up = gate;
    CHECK(&f, "layers.0.ffn_out", "w_gate and w_up are exchanged");
    f.layers[0].ffn.w_up = f.layers[0].ffn.w_gate;
    f.layers[0].ffn.w_gate = gate;
    f.weights.lm_head = f.weights.tok_emb;
    CHECK(&f, "logits", "lm_head");
    fixture_close(&f);
}

/* Every mistake of --break that a reference can show, by what verify says of it; and its logits are others. */
static void mistakes_are_told(void **state) {
    (void)state;
    static const struct {
        const char *model, *reference;
        Mistake mistake;
        const char *tensor, *cause;
    } told[] = {
        {"base_hf", "base", MISTAKE_WRONG_PAIRING, "layers.0.q_rot", "pairing wrong"},
        {"base.gguf", "base", MISTAKE_WRONG_PAIRING, "layers.0.q_rot", "pairing wrong"},
        {"base_hf", "base", MISTAKE_V_ROTATED, "layers.0.attn_out", "here: V rotated"},
        {"base.gguf", "base", MISTAKE_V_ROTATED, "layers.0.attn_out", "here: V rotated"},
        {"base_hf", "base", MISTAKE_ROPE_LAYER0, "layers.1.q_rot", "RoPE in layer 0 only: from layer 1 on"},
        {"base.gguf", "base", MISTAKE_ROPE_LAYER0, "layers.1.q_rot", "RoPE in layer 0 only: from layer 1 on"},
        {"base_hf", "base", MISTAKE_KEYS_UNROTATED, "layers.0.k_rot", "keys unrotated"},
        {"base_hf", "base", MISTAKE_NO_ROPE, "layers.0.q_rot", "RoPE missing"},
        {"base_hf", "base", MISTAKE_ONE_FREQUENCY, "layers.0.q_rot", "one frequency: here every pair"},
        {"base.gguf", "base", MISTAKE_ONE_FREQUENCY, "layers.0.q_rot", "one frequency: here every pair"},
        {"base_hf", "base", MISTAKE_FLIPPED_FREQUENCIES, "layers.0.q_rot", "reverse order: pair 0 must be the fastest"},
        {"base.gguf", "base", MISTAKE_FLIPPED_FREQUENCIES, "layers.0.q_rot",
         "reverse order: pair 0 must be the fastest"},
        {"base_hf", "base", MISTAKE_REVERSED, "layers.0.q_rot", "the rotation is the other way round"},
        {"base.gguf", "base", MISTAKE_REVERSED, "layers.0.q_rot", "the rotation is the other way round"},
        {"base_hf", "base", MISTAKE_REVERSED_KEY, "layers.0.k_rot", "direction: here"},
        {"base.gguf", "base", MISTAKE_REVERSED_KEY, "layers.0.k_rot", "direction: here"},
        {"base_hf", "base", MISTAKE_SCORE_SCALE, "layers.0.attn_out", "here: score scale"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_SCORE_SCALE, "layers.0.attn_out", "here: score scale"},
        {"base_hf", "base", MISTAKE_NO_MASK, "layers.0.attn_out", "here: causal mask: tokens of the prompt see"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_NO_MASK, "layers.0.attn_out", "here: causal mask: tokens of the prompt see"},
        {"base_hf", "base", MISTAKE_GQA_MODULO, "layers.0.attn_out", "here: GQA mapping"},
        {"base_hf", "base", MISTAKE_DECODE_OFF_BY_ONE, "layers.0.q_rot",
         "in decode: from token 12 on, which go through the model one at a time, token t is rotated to position t-1"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_DECODE_OFF_BY_ONE, "embed",
         "in decode: from token 20 on, which go through the model one at a time, token t gets the position embedding "
         "of position t-1"},
        {"base_hf", "base", MISTAKE_K_PERMUTED, "layers.0.k",
         "heads permuted with the wrong count: the rows of wk were reordered as 4 heads of 4, it has 2 of 8"},
        {"base.gguf", "base", MISTAKE_K_PERMUTED, "layers.0.k",
         "heads permuted with the wrong count: the rows of wk were reordered as 4 heads of 4, it has 2 of 8"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_CONV1D, "layers.0.q", "Conv1D not transposed: the bytes of wq, wk and wv"},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        Fixture f;
        Error e = {0};
        fixture_open(&f, told[i].model, told[i].reference);
        CHECK(&f, "", "");
        if (mistake_make(&f.ck, &f.config, &f.weights, told[i].mistake, 0, &e)) fail_msg("%s", e.text);
        check(&f, differ, told[i].tensor, told[i].cause, (int)i);
        fixture_close(&f);
    }
}

/* Shape checks let a square matrix through that was not transposed: the output projection. */
static void a_square_matrix_not_transposed(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "gpt2_hf", "../gpt2.ref");
    Mat *wo = &f.layers[1].attn.wo, right = *wo;
    size_t n = (size_t)wo->rows;
    float *data = keep(&f, n * n), row[64];
    for (size_t r = 0; r < n; r++) {
        mat_dequantize_row(row, &right, (int)r);
        for (size_t c = 0; c < n; c++) data[c * n + r] = row[c];
    }
    *wo = (Mat){DTYPE_F32, right.rows, right.cols, n * sizeof *data, data, NULL, 0};
    CHECK(&f, "layers.1.attn_out", "Conv1D not transposed: the bytes of wo");
    fixture_close(&f);
}

/* Keys that stand unrotated in the cache although what the tap saw was right. */
static void keys_cached_too_early(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    f.config.rotate = (const unsigned char[]){ROTATE_Q, ROTATE_Q};
    check(&f, show_turned_keys, "layers.0.attn_out", "here: keys unrotated", __LINE__);
    fixture_close(&f);
}

static void mistakes_that_do_not_apply_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *reference;
        Mistake mistake;
        const char *text;
    } refused[] = {
        {"gpt2_hf", "../gpt2.ref", MISTAKE_WRONG_PAIRING, "--break wrong-pairing: expected a model with RoPE"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_V_ROTATED, "expected a model with RoPE"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_ROPE_LAYER0, "expected a model with RoPE"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_KEYS_UNROTATED, "expected a model with RoPE"},
        {"mha_tied_hf", "../mha_tied.ref", MISTAKE_K_PERMUTED, "expected fewer KV heads than heads, found 4 of each"},
        {"base_hf", "base", MISTAKE_CONV1D, "expected a GPT-2 as Hugging Face writes it, found llama"},
        {"gpt2.gguf", "../gpt2.ref", MISTAKE_CONV1D, "found a GGUF"},
        {"base_hf", "base", MISTAKE_WPE_PAST_END, "expected a model with learned positions"},
        {"gpt2_hf", "../gpt2.ref", MISTAKE_WPE_PAST_END, "expected -c above the model's 32 positions, found 32"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Fixture f;
        Error e = {0};
        fixture_open(&f, refused[i].model, refused[i].reference);
        assert_int_equal(mistake_make(&f.ck, &f.config, &f.weights, refused[i].mistake, 0, &e), -1);
        if (!strstr(e.text, refused[i].text)) fail_msg("expected '%s', found '%s'", refused[i].text, e.text);
        fixture_close(&f);
    }
}

/* Past the learned table the last row is read again: positions 32.. of a table of 32 are position 31. */
static void positions_past_the_table(void **state) {
    (void)state;
    Fixture f;
    Error e = {0};
    float last[64], past[64];
    fixture_open(&f, "gpt2_hf", "../gpt2.ref");
    mat_dequantize_row(last, &f.weights.pos_emb, 31);
    assert_int_equal(mistake_make(&f.ck, &f.config, &f.weights, MISTAKE_WPE_PAST_END, 40, &e), 0);
    assert_int_equal(f.config.n_ctx, 40);
    for (int pos = 31; pos < 40; pos++) {
        mat_dequantize_row(past, &f.weights.pos_emb, pos);
        assert_memory_equal(past, last, (size_t)f.config.dim * sizeof *last);
    }
    CHECK(&f, "", ""); /* where there is a table, nothing changed */
    fixture_close(&f);
}

static void strange_references_are_refused(void **state) {
    (void)state;
    Fixture f;
    Trace t;
    Error e = {0};
    fixture_open(&f, "base_hf", "base");
    assert_int_equal(trace_read(&t, FIXTURES "base_hf/model.safetensors", &f.config, &e), -1);
    assert_non_null(strstr(e.text, "tokens: expected"));
    e = (Error){0};
    assert_int_equal(trace_read(&t, FIXTURES "verify/mqa_head_dim.safetensors", &f.config, &e), -1);
    assert_non_null(strstr(e.text, "expected F32 of 16 rows"));
    e = (Error){0};
    assert_int_equal(trace_read(&t, FIXTURES "none.safetensors", &f.config, &e), -1);
    fixture_close(&f);
    int tokens[33] = {0};
    Model m;
    fixture_open(&f, "gpt2_hf", "../gpt2.ref");
    model_init(&m, &f.config, &f.weights);
    e = (Error){0};
    assert_int_equal(trace_run(&t, &m, tokens, 33, 1, NULL, NULL, NULL, &e), -1);
    assert_string_equal(e.text, "verify: tokens: expected at most the model's context of 32, found 33");
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_models_pass),
        cmocka_unit_test(pairing),
        cmocka_unit_test(theta),
        cmocka_unit_test(scaling),
        cmocka_unit_test(heads_permuted_with_the_wrong_count),
        cmocka_unit_test(one_matrix_in_the_other_order),
        cmocka_unit_test(heads_mapped_wrongly),
        cmocka_unit_test(groups_interleaved),
        cmocka_unit_test(v_rotated),
        cmocka_unit_test(position_offset),
        cmocka_unit_test(norms),
        cmocka_unit_test(weights_and_biases),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_square_matrix_not_transposed),
        cmocka_unit_test(keys_cached_too_early),
        cmocka_unit_test(mistakes_that_do_not_apply_are_refused),
        cmocka_unit_test(positions_past_the_table),
        cmocka_unit_test(strange_references_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

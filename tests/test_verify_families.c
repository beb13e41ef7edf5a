/* verify names what families have beside a LLaMA when a model lacks it, or has it otherwise than the reference, and
 * when the code leaves it out. */
#include <dirent.h>

#include "verify/explain.h"
#include "verify_fixture.h"

/* The model's own run of 20 tokens in place of a reference's file: q and k in half-split order. */
static void own_reference(Fixture *f) {
    Model m;
    Error e = {0};
    int tokens[20];
    float line[512];
    const Config *c = &f->config;
    for (int i = 0; i < 20; i++) tokens[i] = (7 * i * i + 3) % c->vocab_size;
    model_init(&m, c, &f->weights);
    if (trace_run(&f->ref, &m, tokens, 20, 1, NULL, NULL, NULL, &e)) fail_msg("%s: %s", f->ck.path, e.text);
    for (int slot = 0; slot < f->ref.n_slots && c->pos == POS_ROPE && c->rope.pairing == ROPE_PAIRS; slot++) {
        char name[TRACE_NAME];
        int layer, cols = f->ref.cols[slot];
        Step step;
        trace_name(name, slot, c->n_layers, &layer, &step);
        if (step == STEP_Q || step == STEP_K || step == STEP_Q_ROT || step == STEP_K_ROT)
            explain_reorder(f->ref.x[slot], f->ref.n, cols, cols / c->head_dim, c->rope.rotary_dim, true, line);
    }
}

typedef void Break(Fixture *f);

/* The reference of gemma2 was made with caps of 2: those of 50 hardly bend the scores of so small a model. */
static void open_fixture(Fixture *f, const char *model, const char *reference) {
    fixture_open(f, model, reference);
    if (reference && strcmp(reference, "gemma2_cap") == 0) f->config.attn.softcap = 2;
}

static void no_window(Fixture *f) { f->layers[0].attn.window = 0; }
static void window_of_5(Fixture *f) { f->layers[0].attn.window = 5; }
static void no_cap(Fixture *f) { f->config.attn.softcap = 0; }
static void cap_of_1(Fixture *f) { f->config.attn.softcap = 1; }
static void other_scale(Fixture *f) { f->config.attn.scale = 0.2f; }
static void thetas_exchanged(Fixture *f) {
    RopeConfig main_rope = f->config.rope;
    f->config.rope = f->config.rope_local;
    f->config.rope_local = main_rope;
}
static void local_theta_everywhere(Fixture *f) {
    for (int i = 0; i < f->config.n_layers; i++) f->layers[i].attn.rope = ROPE_LOCAL;
}
static void no_qk_norm(Fixture *f) {
    f->config.attn.qk_norm = QK_NORM_NONE;
    for (int i = 0; i < f->config.n_layers; i++) f->layers[i].attn.q_norm = f->layers[i].attn.k_norm = NULL;
}
static void with_qk_norm(Fixture *f) {
    static const float weight[8] = {0.7f, 1.1f, 0.9f, 1.3f, 0.8f, 1.2f, 1, 0.95f};
    f->config.attn.qk_norm = QK_NORM_HEAD;
    for (int i = 0; i < f->config.n_layers; i++) f->layers[i].attn.q_norm = f->layers[i].attn.k_norm = weight;
}

static void embedding_twice(Fixture *f) { f->config.embedding_scale *= 2; }
static void no_positions(Fixture *f) {
    Mat *w = &f->weights.pos_emb;
    float *zeros = keep(f, (size_t)w->rows * (size_t)w->cols);
    *w = (Mat){DTYPE_F32, w->rows, w->cols, (size_t)w->cols * sizeof *zeros, zeros, NULL, 0};
}
static void positions_one_later(Fixture *f) {
    f->weights.pos_emb.data = (const char *)f->weights.pos_emb.data + f->weights.pos_emb.stride_bytes;
    f->weights.pos_emb.rows--;
}
static void large_eps(Fixture *f) { f->config.norm_eps = 1e-3f; }
static void norm_weight_reversed(Fixture *f) {
    float *weight = keep(f, (size_t)f->config.dim);
    for (int i = 0; i < f->config.dim; i++) weight[i] = f->layers[1].ffn_norm[f->config.dim - 1 - i];
    f->layers[1].ffn_norm = weight;
}
static void no_norm_bias(Fixture *f) { f->layers[0].attn_norm_bias = NULL; }
static void gelu_tanh(Fixture *f) { f->config.ffn = FFN_GELU; }
static void swiglu_gate(Fixture *f) { f->config.ffn = FFN_SWIGLU; }
static void no_b_down(Fixture *f) { f->layers[1].ffn.b_down = NULL; }
static void another_w_down(Fixture *f) { f->layers[1].ffn.w_down = f->layers[0].ffn.w_down; }
static void residual_halved(Fixture *f) { f->config.residual_scale = 0.5f; }
static void tied(Fixture *f) { f->weights.lm_head = f->weights.tok_emb; }
static void no_router_bias(Fixture *f) { f->layers[0].moe.router_bias = NULL; }
static void another_router(Fixture *f) { f->layers[1].moe.router = f->layers[0].moe.router; }
static void other_experts(Fixture *f) { f->layers[1].moe.experts = f->layers[0].moe.experts; }
static void not_renormalized(Fixture *f) { f->config.moe.renormalize = false; }
static void no_attention_factor(Fixture *f) { f->config.rope.attention_factor = 1; }
static void no_scaling(Fixture *f) {
    f->config.rope.scaling = ROPE_SCALING_NONE;
    f->config.rope.freq_factors = NULL;
}

#define GEMMA2 "families/gemma2", "gemma2_cap"
#define GEMMA3 "families/gemma3_text", "gemma3_text"
static const struct {
    const char *model, *reference;
    Break *broken;
    const char *tensor, *theirs, *here; /* the cause when the model says so; when the code of this run does */
} told[] = {
    {GEMMA2, no_window, "layers.0.attn_out",
     "window missing: in the reference a token sees the last 8 positions alone, this model's layer 0 has no window",
     "here: window missing: a token sees all before it"},
    {GEMMA2, window_of_5, "layers.0.attn_out",
     "window: in the reference a token sees the last 8 positions, this model's layer 0 has a window of 5",
     "window: here a token sees the last 5 positions, this model's layer 0 has a window of 8"},
    {GEMMA2, no_cap, "layers.0.attn_out",
     "soft cap missing: in the reference the scores are capped at 2, this model has no cap",
     "here: soft cap missing: the scores are not capped"},
    {GEMMA2, cap_of_1, "layers.0.attn_out", "soft cap: in the reference the scores are capped at 2, this model has 1",
     "soft cap: here the scores are capped at 1, this model has 2"},
    {GEMMA2, other_scale, "layers.0.attn_out",
     "score scale: in the reference the scores are multiplied by 0.25, this model has 0.2",
     "score scale: here the scores are multiplied by 0.2, this model has 0.25"},
    {GEMMA3, thetas_exchanged, "layers.0.q_rot",
     "theta of the wrong layer kind: in the reference layer 0 is rotated as the layers without a window are, by theta "
     "10000",
     "theta of the wrong layer kind: here layer 0 is rotated as the layers without a window are, by theta 1e+06"},
    {GEMMA3, local_theta_everywhere, "layers.5.q_rot",
     "theta of the wrong layer kind: in the reference layer 5 is rotated as the layers without a window are, by theta "
     "1e+06",
     "theta of the wrong layer kind: here layer 5 is rotated as the layers with a window are, by theta 10000"},
    {GEMMA3, no_qk_norm, "layers.0.q_rot",
     "q/k norm missing: in the reference q is normed before RoPE, this model has no such norm",
     "q/k norm missing: here q is not normed"},
    {"base_hf", "base", with_qk_norm, "layers.0.q_rot", "q/k norm missing: in the reference q is not normed",
     "q/k norm missing: here q is normed before RoPE, this model has no such norm"},
    {"families/gemma", NULL, embedding_twice, "embed",
     "embedding scale: in the reference the embedding is multiplied by 0.5 more than this model says",
     "embedding scale: here the embedding is multiplied by 2 more than this model says"},
    {"gpt2_hf", NULL, no_positions, "embed", "tok_emb: the token embeddings are not the reference's",
     "positions missing: here no position embedding is added"},
    {"gpt2_hf", NULL, positions_one_later, "embed", "tok_emb: the token embeddings are not the reference's",
     "position offset: here token t gets the position embedding of t+1"},
    {"base_hf", NULL, large_eps, "layers.0.attn_norm", "eps: the reference's norm fits eps 1e-05, this model has 0.001",
     "eps: here the norm is computed with eps 0.001, this model has 1e-05"},
    {"base_hf", NULL, norm_weight_reversed, "layers.1.ffn_norm",
     "norm weight: in the reference layers.1.ffn_norm has another weight",
     "norm weight: here layers.1.ffn_norm has another weight"},
    {"gpt2_hf", NULL, no_norm_bias, "layers.0.attn_norm", "norm: neither another eps, another weight nor the other",
     "norm bias: here none is added"},
    {"families/arcee", NULL, gelu_tanh, "layers.0.ffn_out",
     "activation: in the reference it is the square of ReLU, not this model's",
     "activation: here it is GELU, not this model's"},
    {"families/apertus", NULL, gelu_tanh, "layers.0.ffn_out",
     "FFN: its input is the reference's, its output is not: other weights or another activation",
     "activation: here it is GELU, not this model's"},
    {"families/gemma", NULL, swiglu_gate, "layers.0.ffn_out", "activation: in the reference it is GELU",
     "activation: here it is SiLU, not this model's"},
    {"gpt2_hf", NULL, no_b_down, "layers.1.ffn_out", "FFN: its input is the reference's, its output is not",
     "FFN: here b_down is not added"},
    {"base_hf", NULL, another_w_down, "layers.1.ffn_out", "FFN: its input is the reference's, its output is not",
     "FFN: the weights here, given the reference's input, give its output; this run's is off: a mistake in the code"},
    {"families/cohere", NULL, residual_halved, "layers.0.out",
     "residual: in the reference it is not the sum of its parts", "residual: the weights here"},
    {"base_hf", NULL, tied, "logits", "lm_head: its input is the reference's, the logits are not: other weights",
     "lm_head: here the head is the token embedding (tied), this model has its own weights"},
    {"families/gpt_oss", NULL, no_router_bias, "layers.0.router",
     "router: its input is the reference's, its scores are not: other weights", "router: here its bias is not added"},
    {"families/mixtral", NULL, another_router, "layers.1.router",
     "router: its input is the reference's, its scores are not: other weights", "router: the weights here"},
    {"families/mixtral", NULL, other_experts, "layers.1.ffn_out",
     "experts: their input is the reference's, the output is not: other weights or activation",
     "experts: the weights here"},
    {"families/mixtral", NULL, not_renormalized, "layers.0.router_weights",
     "experts' renormalisation: in the reference the weights of the chosen experts add up to 1",
     "experts' renormalisation: here the weights of the chosen experts are shares of all experts'"},
    {"rope_yarn_hf", NULL, no_attention_factor, "layers.0.q_rot", "attention factor: the reference's cos and sin carry",
     "attention factor: here cos and sin are not multiplied by 1.13863"},
    {"rope_yarn_hf", NULL, no_scaling, "layers.0.q_rot", "scaling missing: in the reference the first",
     "scaling: here the model's RoPE scaling is not applied"},
};

static void compare(const Model *judge, const Model *run, const Fixture *f, const char *tensor, const char *cause,
                    int row) {
    Trace ours;
    Verify v;
    Error e = {0};
    if (trace_run(&ours, run, f->ref.tokens, f->ref.n, 1, NULL, NULL, NULL, &e)) fail_msg("%s", e.text);
    if (verify_compare(&v, judge, &ours, &f->ref, &e)) fail_msg("%s", e.text);
    const char *found = v.first_bad < 0 ? "" : v.rows[v.first_bad].name;
    if (strcmp(found, tensor) != 0 || strncmp(v.cause, cause, strlen(cause)) != 0)
        fail_msg("row %d: expected '%s', '%s', found '%s', '%s'", row, tensor, cause, found, v.cause);
    verify_close(&v);
    trace_close(&ours);
}

static void what_families_have_is_named(void **state) {
    (void)state;
    for (int i = 0; i < (int)(sizeof told / sizeof *told); i++) {
        Fixture right, broken;
        Model m, other;
        open_fixture(&right, told[i].model, told[i].reference);
        open_fixture(&broken, told[i].model, told[i].reference);
        if (!told[i].reference) own_reference(&right);
        told[i].broken(&broken);
        model_init(&m, &right.config, &right.weights);
        model_init(&other, &broken.config, &broken.weights);
        compare(&m, &m, &right, "", "", i);
        compare(&other, &other, &right, told[i].tensor, told[i].theirs, i);
        compare(&m, &other, &right, told[i].tensor, told[i].here, i);
        fixture_close(&right);
        fixture_close(&broken);
    }
}

/* ---- Another router ------------------------------------------------------------------------------- */

/* Layer 0's weights of the chosen experts as DeepSeek computes them: each the sigmoid of its score. */
static void sigmoid_of_scores(const Trace *t, bool renormalize) {
    int slot = trace_slot(0, STEP_ROUTER_WEIGHTS, t->n_layers), n_experts = t->cols[slot];
    const float *scores = t->x[trace_slot(0, STEP_ROUTER, t->n_layers)];
    for (int row = 0; row < t->n; row++) {
        float *w = t->x[slot] + row * n_experts;
        double sum = 0;
        for (int i = 0; i < n_experts; i++)
            if (w[i] > 0) sum += w[i] = (float)(1 / (1 + exp(-(double)scores[row * n_experts + i])));
        for (int i = 0; i < n_experts && renormalize; i++) w[i] = (float)((double)w[i] / sum);
    }
}
static void sigmoid_shares(Fixture *f, Trace *ours) { (void)f, sigmoid_of_scores(ours, true); }
static void equal_shares(Fixture *f, Trace *ours) {
    int slot = trace_slot(0, STEP_ROUTER_WEIGHTS, ours->n_layers);
    for (int i = 0; i < ours->n * ours->cols[slot]; i++)
        if (ours->x[slot][i] > 0) ours->x[slot][i] = 1 / (float)f->config.moe.n_used;
}

static void other_rules_of_the_router(void **state) {
    (void)state;
    Fixture f;
    fixture_open(&f, "families/mixtral", NULL);
    own_reference(&f);
    check(&f, sigmoid_shares, "layers.0.router_weights",
          "router: here an expert's weight is the sigmoid of its score, this model's softmax", __LINE__);
    check(&f, equal_shares, "layers.0.router_weights", "experts: the weights here, given the reference's input",
          __LINE__);
    sigmoid_of_scores(&f.ref, false);
    CHECK(&f, "layers.0.router_weights",
          "router: in the reference an expert's weight is the sigmoid of its score, this model's softmax");
    equal_shares(&f, &f.ref);
    CHECK(&f, "layers.0.router_weights",
          "experts: the router's scores are the reference's, the weights are not: another rule");
    fixture_close(&f);
}

static void lose(Trace *t, int layer, Step step) {
    int slot = trace_slot(layer, step, t->n_layers);
    free(t->x[slot]);
    t->x[slot] = NULL;
}

/* What older references of a mixture do not have: the rule is told by what the experts add. */
static void a_router_that_was_not_recorded(void **state) {
    (void)state;
    static const char *const sums[] = {"add up to 1", "do not add up to 1"};
    for (int given = 0; given < 2; given++) { /* by the reference; by the run */
        Fixture f, broken;
        Model m, other;
        char cause[128];
        fixture_open(&f, "families/mixtral", NULL);
        fixture_open(&broken, "families/mixtral", NULL);
        own_reference(&f);
        for (int layer = 0; layer < f.config.n_layers; layer++)
            lose(&f.ref, layer, STEP_ROUTER), lose(&f.ref, layer, STEP_ROUTER_WEIGHTS);
        not_renormalized(&broken);
        model_init(&m, &f.config, &f.weights);
        model_init(&other, &broken.config, &broken.weights);
        snprintf(cause, sizeof cause, "experts' renormalisation: %s the weights of the chosen experts %s",
                 given ? "here" : "in the reference", sums[given]);
        compare(&m, &m, &f, "", "", given);
        compare(given ? &m : &other, &other, &f, "layers.0.ffn_out", cause, given);
        fixture_close(&f);
        fixture_close(&broken);
    }
}

/* A step whose input the reference lacks is not explained, and that is said. */
static void what_a_reference_lacks_is_said(void **state) {
    (void)state;
    static const struct {
        const char *model;
        Step lost, broken; /* of layer 1 */
        const char *cause;
    } row[] = {
        {"base_hf", STEP_ATTN_OUT, STEP_FFN_NORM, "norm: the reference lacks the input of layers.1.ffn_norm"},
        {"base_hf", STEP_ATTN_NORM, STEP_K, "wk: the reference lacks its input, attn_norm"},
        {"base_hf", STEP_Q, STEP_Q_ROT, "RoPE: the reference lacks q before it"},
        {"base_hf", STEP_V, STEP_ATTN_OUT, "attention: the reference lacks q, k or v of this layer"},
        {"base_hf", STEP_FFN_NORM, STEP_FFN_OUT, "FFN: the reference lacks its input, ffn_norm"},
        {"base_hf", STEP_FFN_OUT, STEP_OUT, "residual: the reference lacks a part of the sum"},
        {"families/mixtral", STEP_FFN_NORM, STEP_ROUTER, "router: the reference lacks its input, ffn_norm"},
        {"families/mixtral", STEP_ROUTER, STEP_ROUTER_WEIGHTS, "experts: the reference lacks the router's scores"},
        {"families/mixtral", STEP_FFN_NORM, STEP_FFN_OUT, "experts: the reference lacks their input, ffn_norm"},
        {"base_hf", STEP_FINAL_NORM, STEP_LOGITS, "logits: the reference holds nothing but logits"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Fixture f;
        char name[TRACE_NAME];
        int layer, slot;
        Step step;
        fixture_open(&f, row[i].model, NULL);
        own_reference(&f);
        lose(&f.ref, 1, row[i].lost);
        slot = trace_slot(1, row[i].broken, f.ref.n_layers);
        f.ref.x[slot][2 * f.ref.cols[slot]] += 3;
        trace_name(name, slot, f.ref.n_layers, &layer, &step);
        CHECK(&f, name, row[i].cause);
        fixture_close(&f);
    }
}

/* ---- The formulas of every family ----------------------------------------------------------------- */

/* One value of each tensor spoiled in turn: the formulas of this model, given its reference's input, give the
 * reference's output, so that the cause is told to be in the run, and no known mistake takes its place. */
static void spoil_each_tensor(const char *model) {
    Fixture f;
    Model m;
    fixture_open(&f, model, NULL);
    own_reference(&f);
    model_init(&m, &f.config, &f.weights);
    compare(&m, &m, &f, "", "", 0);
    Trace run, ours;
    Error e = {0};
    if (trace_run(&run, &m, f.ref.tokens, f.ref.n, 1, NULL, NULL, NULL, &e) ||
        trace_run(&ours, &m, f.ref.tokens, f.ref.n, 1, NULL, NULL, NULL, &e))
        fail_msg("%s", e.text);
    for (int slot = 0; slot < f.ref.n_slots; slot++) {
        Verify v;
        char name[TRACE_NAME];
        int layer;
        Step step;
        if (!f.ref.x[slot]) continue;
        trace_name(name, slot, f.config.n_layers, &layer, &step);
        for (int k = 0; k < f.ref.n_slots; k++) /* as it was before it was compared */
            if (run.x[k]) memcpy(ours.x[k], run.x[k], (size_t)(run.n * run.cols[k]) * sizeof(float));
        ours.x[slot][3 * ours.cols[slot]] += 3;
        if (verify_compare(&v, &m, &ours, &f.ref, &e)) fail_msg("%s", e.text);
        bool rotated = step == STEP_Q_ROT || step == STEP_K_ROT;
        const char *cause = rotated ? "rotation: what is done to " : "this run's is off: a mistake in the code";
        if (v.first_bad < 0 || strcmp(v.rows[v.first_bad].name, name) != 0 || !strstr(v.cause, cause))
            fail_msg("%s: expected '%s', '%s', found '%s', '%s'", model, name, cause,
                     v.first_bad < 0 ? "" : v.rows[v.first_bad].name, v.cause);
        verify_close(&v);
    }
    trace_close(&run);
    trace_close(&ours);
    fixture_close(&f);
}

static void every_family_has_its_formulas(void **state) {
    (void)state;
    static const char *const others[] = {"rope_dynamic_hf", "rope_longrope_hf", "mha_tied_hf", "qwen2_hf"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) spoil_each_tensor(others[i]);
    DIR *dir = opendir(FIXTURES "families");
    assert_non_null(dir);
    int tested = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char model[300], config[400];
        snprintf(model, sizeof model, "families/%s", entry->d_name);
        snprintf(config, sizeof config, FIXTURES "%s/config.json", model);
        if (access(config, R_OK) != 0) continue;
        spoil_each_tensor(model);
        tested++;
    }
    closedir(dir);
    assert_true(tested > 50);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_families_have_is_named), cmocka_unit_test(other_rules_of_the_router),
        cmocka_unit_test(a_router_that_was_not_recorded), cmocka_unit_test(what_a_reference_lacks_is_said),
        cmocka_unit_test(every_family_has_its_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* verify names what families have beside a LLaMA when a model lacks it, or has it otherwise than the reference, and
 * when the code leaves it out. */
#include "verify_fixture.h"

typedef void Break(Fixture *f);

/* The reference of gemma2 was made with caps of 2: those of 50 hardly bend the scores of so small a model. */
static void open_fixture(Fixture *f, const char *model, const char *reference) {
    fixture_open(f, model, reference);
    if (strcmp(reference, "gemma2_cap") == 0) f->config.attn.softcap = 2;
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

int main(void) {
    setenv("RUN_CPU", "ref", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_families_have_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* verify when the code of this run is broken (the cause must be told right, and never be sought in the reference), on
 * models as wide as real ones, and with the references of strangers. */
#include "verify_fixture.h"
#include "wide_model.h"

/* ---- The code itself is broken ------------------------------------------------------------------ */

/* What a run with a mistake in the code would have recorded, by formulas of this file: nothing of rope.c, norm.c or
 * ffn.c is in them. */
static float *slot(const Trace *t, int layer, Step step) { return t->x[trace_slot(layer, step, t->n_layers)]; }

typedef double Angle(int pos, int first, int pair, int d); /* of a row whose batch begins at `first` */
static double right_angle(int pos, int first, int i, int d) {
    (void)first;
    return pos * pow(10000, -2.0 * i / d);
}
static double no_row(int pos, int first, int i, int d) { return (void)pos, right_angle(first, first, i, d); }
static double one_frequency(int pos, int first, int i, int d) { return (void)i, right_angle(pos, first, 0, d); }
static double half_exponent(int pos, int first, int i, int d) { return right_angle(pos, first, i, 2 * d); }
static double backwards(int pos, int first, int i, int d) { return -right_angle(pos, first, i, d); }
static double reverse_order(int pos, int first, int i, int d) { return right_angle(pos, first, d / 2 - 1 - i, d); }
static double one_later(int pos, int first, int i, int d) { return right_angle(pos + 1, first, i, d); }
static double scaled(int pos, int first, int i, int d) { return right_angle(pos, first, i, d) / (i + 1); }

static void rotate_by(const Fixture *f, Trace *ours, Angle *angle, bool adjacent, double factor) {
    int d = f->config.head_dim, heads = f->config.n_heads;
    const float *x = slot(ours, 0, STEP_Q);
    float *y = slot(ours, 0, STEP_Q_ROT);
    for (int t = 0; t < ours->n; t++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < d / 2; i++) {
                double a = angle(t, t < ours->n_prefill ? 0 : t, i, d);
                int at = (t * heads + h) * d + (adjacent ? 2 * i : i), other = adjacent ? at + 1 : at + d / 2;
                y[at] = (float)(factor * ((double)x[at] * cos(a) - (double)x[other] * sin(a)));
                y[other] = (float)(factor * ((double)x[at] * sin(a) + (double)x[other] * cos(a)));
            }
}
static void rotated_rightly(Fixture *f, Trace *t) { rotate_by(f, t, right_angle, false, 1); }
static double no_angle(int pos, int first, int i, int d) { return 0 * right_angle(pos, first, i, d); }
static void not_rotated(Fixture *f, Trace *t) { rotate_by(f, t, no_angle, false, 1); }
static void row_ignored(Fixture *f, Trace *t) { rotate_by(f, t, no_row, false, 1); }
static void one_angle(Fixture *f, Trace *t) { rotate_by(f, t, one_frequency, false, 1); }
static void slow_angles(Fixture *f, Trace *t) { rotate_by(f, t, half_exponent, false, 1); }
static void other_way(Fixture *f, Trace *t) { rotate_by(f, t, backwards, false, 1); }
static void slow_first(Fixture *f, Trace *t) { rotate_by(f, t, reverse_order, false, 1); }
static void too_far(Fixture *f, Trace *t) { rotate_by(f, t, one_later, false, 1); }
static void adjacent_pairs(Fixture *f, Trace *t) { rotate_by(f, t, right_angle, true, 1); }
static void odd_frequencies(Fixture *f, Trace *t) { rotate_by(f, t, scaled, false, 1); }
static void longer(Fixture *f, Trace *t) { rotate_by(f, t, right_angle, false, 1.5); }
static void reflected(Fixture *f, Trace *t) {
    rotate_by(f, t, right_angle, false, 1);
    for (int i = 0; i < t->n * f->config.n_heads * f->config.head_dim; i += 2) slot(t, 0, STEP_Q_ROT)[i] *= -1;
}

/* What layer 1's ffn_norm gets, and what it makes of it. */
static void norm_by(Fixture *f, Trace *ours, const float *weight, bool centre, bool sum, bool divide) {
    int dim = f->config.dim;
    for (int t = 0; t < ours->n; t++) {
        const float *x = slot(ours, 0, STEP_OUT) + t * dim, *attn = slot(ours, 1, STEP_ATTN_OUT) + t * dim;
        float *y = slot(ours, 1, STEP_FFN_NORM) + t * dim;
        double mean = 0, squares = 0;
        for (int i = 0; i < dim && centre; i++) mean += ((double)x[i] + (double)attn[i]) / dim;
        for (int i = 0; i < dim; i++) squares += pow((double)x[i] + (double)attn[i] - mean, 2);
        double scale = divide ? 1 / sqrt(squares / (sum ? 1 : dim) + 1e-5) : 1;
        for (int i = 0; i < dim; i++)
            y[i] = (float)(((double)x[i] + (double)attn[i] - mean) * scale * (double)weight[i]);
    }
}
static void norm_of_sum(Fixture *f, Trace *t) { norm_by(f, t, f->layers[1].ffn_norm, false, true, true); }
static void norm_centred(Fixture *f, Trace *t) { norm_by(f, t, f->layers[1].ffn_norm, true, false, true); }
static void norm_not_divided(Fixture *f, Trace *t) { norm_by(f, t, f->layers[1].ffn_norm, false, false, false); }
static void norm_of_attention(Fixture *f, Trace *t) { norm_by(f, t, f->layers[1].attn_norm, false, false, true); }

static double silu(double x) { return x / (1 + exp(-x)); }
static double relu(double x) { return fmax(x, 0); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double gelu_erf(double x) { return x / 2 * erfc(-x / sqrt(2)); }
static double times(const Mat *w, int r, const float *x) {
    float row[64];
    double sum = 0;
    mat_dequantize_row(row, w, r);
    for (int i = 0; i < w->cols; i++) sum += (double)row[i] * (double)x[i];
    return sum;
}
static void ffn_by(Fixture *f, Trace *ours, double act(double), bool gated) {
    const FfnWeights *w = &f->layers[1].ffn;
    float h[64];
    for (int t = 0; t < ours->n; t++) {
        const float *x = slot(ours, 1, STEP_FFN_NORM) + t * f->config.dim;
        for (int i = 0; i < f->config.hidden_dim; i++)
            h[i] = (float)(act(times(&w->w_gate, i, x)) * (gated ? times(&w->w_up, i, x) : 1));
        for (int i = 0; i < f->config.dim; i++)
            slot(ours, 1, STEP_FFN_OUT)[t * f->config.dim + i] = (float)times(&w->w_down, i, h);
    }
}
static void ffn_relu(Fixture *f, Trace *t) { ffn_by(f, t, relu, true); }
static void ffn_sigmoid(Fixture *f, Trace *t) { ffn_by(f, t, sigmoid, true); }
static void ffn_gelu(Fixture *f, Trace *t) { ffn_by(f, t, gelu_erf, true); }
static void ffn_without_up(Fixture *f, Trace *t) { ffn_by(f, t, silu, false); }

/* out = in the layer's input + attention + FFN, each taken so many times. */
static void add_by(Fixture *f, Trace *ours, float before, float attn, float ffn) {
    for (int i = 0; i < ours->n * f->config.dim; i++)
        slot(ours, 1, STEP_OUT)[i] = before * slot(ours, 0, STEP_OUT)[i] + attn * slot(ours, 1, STEP_ATTN_OUT)[i] +
                                     ffn * slot(ours, 1, STEP_FFN_OUT)[i];
}
static void no_skip(Fixture *f, Trace *t) { add_by(f, t, 0, 1, 1); }
static void no_attention(Fixture *f, Trace *t) { add_by(f, t, 1, 0, 1); }
static void ffn_twice(Fixture *f, Trace *t) { add_by(f, t, 1, 1, 2); }

static void broken_code_is_told(void **state) {
    (void)state;
    static const struct {
        Doctor *doctor;
        const char *tensor, *cause;
    } broken[] = {
        {rotated_rightly, "", ""},
        {not_rotated, "layers.0.q_rot", "RoPE missing: q is not rotated"},
        {row_ignored, "layers.0.q_rot", "here every row of a batch is rotated to the position of its first row"},
        {one_angle, "layers.0.q_rot", "frequencies: here every pair is rotated by the angle of pair 0"},
        {slow_angles, "layers.0.q_rot", "frequencies: here they are theta^(-i / d), it must be theta^(-2i / d)"},
        {other_way, "layers.0.q_rot", "direction: here the rotation is the other way round"},
        {slow_first, "layers.0.q_rot", "frequencies: here they are in reverse order"},
        {too_far, "layers.0.q_rot", "position offset: here token t is rotated to position t+1"},
        {adjacent_pairs, "layers.0.q_rot", "pairing wrong"},
        {odd_frequencies, "layers.0.q_rot",
         "frequencies: here pair 1 is rotated by 0.05 radians a token, it must be 0.1"},
        {longer, "layers.0.q_rot", "the factor on cos and sin is 1.5, it must be 1"},
        {reflected, "layers.0.q_rot", "rotation: what is done to q here is no rotation of its pairs (i, i + 4)"},
        {norm_of_sum, "layers.1.ffn_norm", "norm: here the mean is left out"},
        {norm_centred, "layers.1.ffn_norm", "norm kind: here LayerNorm is computed, this model's is RMSNorm"},
        {norm_not_divided, "layers.1.ffn_norm", "norm: here x is not divided"},
        {norm_of_attention, "layers.1.ffn_norm",
         "norm weight: here layers.1.ffn_norm has the weight of layers.1.attn_norm"},
        {ffn_relu, "layers.1.ffn_out", "activation: here it is ReLU"},
        {ffn_sigmoid, "layers.1.ffn_out", "activation: here it is the sigmoid alone"},
        {ffn_gelu, "layers.1.ffn_out", "activation: here it is GELU"},
        {ffn_without_up, "layers.1.ffn_out", "FFN: here the gate is not multiplied with w_up's output"},
        {no_skip, "layers.1.out", "residual: here the layer's input is not added"},
        {no_attention, "layers.1.out", "residual: here attention's output is not added"},
        {ffn_twice, "layers.1.out", "residual: here the FFN's output is added twice"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        Fixture f;
        fixture_open(&f, "base_hf", "base");
        check(&f, broken[i].doctor, broken[i].tensor, broken[i].cause, (int)i);
        fixture_close(&f);
    }
}

/* One value of ours spoiled in each tensor in turn: the formulas here, given the reference's input, give the
 * reference's output in every model, so that the cause is told to be in this run and never in the reference. */
static int spoiled_slot;
static void spoil(Fixture *f, Trace *ours) {
    (void)f;
    ours->x[spoiled_slot][ours->cols[spoiled_slot] / 2] += 3;
}
static void the_formulas_agree_with_the_reference(void **state) {
    (void)state;
    static const char *const models[][2] = {
        {"base_hf", "base"},
        {"base.gguf", "base"},
        {"rope_llama3_hf", "rope_llama3"},
        {"rope_yarn_hf", "rope_yarn"},
        {"biases_hf", "biases"},
        {"rope_linear_hf", "rope_linear"},
        {"gpt2_hf", "../gpt2.ref"},
        {"rope_llama3.gguf", "rope_llama3"},
        {"mqa_head_dim.gguf", "mqa_head_dim"},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Fixture f;
        fixture_open(&f, models[i][0], models[i][1]);
        for (spoiled_slot = 0; spoiled_slot < f.ref.n_slots; spoiled_slot++) {
            char name[TRACE_NAME];
            int layer;
            Step step;
            if (!f.ref.x[spoiled_slot]) continue;
            trace_name(name, spoiled_slot, f.config.n_layers, &layer, &step);
            bool rotated = step == STEP_Q_ROT || step == STEP_K_ROT;
            check(&f, spoil, name, rotated ? " here " : "this run's is off: a mistake in the code", (int)i);
        }
        fixture_close(&f);
    }
}

/* ---- Wide models --------------------------------------------------------------------------------- */

static void wide_check(Wide *w, Trace *ref, const char *tensor, const char *cause, int line) {
    Model m;
    Trace ours;
    Verify v;
    Error e = {0};
    model_init(&m, &w->config, &w->weights);
    if (trace_run(&ours, &m, ref->tokens, ref->n, 1, NULL, NULL, NULL, &e) || verify_compare(&v, &m, &ours, ref, &e))
        fail_msg("%s", e.text);
    const char *found = v.first_bad < 0 ? "" : v.rows[v.first_bad].name;
    if (strcmp(found, tensor) != 0 || !strstr(v.cause, cause))
        fail_msg("line %d: expected '%s', '%s', found '%s', '%s'", line, tensor, cause, found, v.cause);
    verify_close(&v);
    trace_close(&ours);
}

/* Its own run is the reference. */
static void a_wide_model(void **state) {
    (void)state;
    Wide w;
    Model m;
    Trace ref;
    Error e = {0};
    static const int tokens[] = {1, 5, 32, 0, 7, 7, 19, 3, 2, 30, 11, 4};
    wide_open(&w);
    model_init(&m, &w.config, &w.weights);
    if (trace_run(&ref, &m, tokens, 12, 1, NULL, NULL, NULL, &e)) fail_msg("%s", e.text);
    wide_check(&w, &ref, "", "", __LINE__);
    static const Step steps[] = {STEP_Q, STEP_K, STEP_V};
    for (int i = 0; i < 3; i++) { /* one value of the reference differs */
        float *x = slot(&ref, 0, steps[i]) + 100;
        *x += 1;
        char name[TRACE_NAME];
        int layer;
        Step step;
        trace_name(name, trace_slot(0, steps[i], 1), 1, &layer, &step);
        wide_check(&w, &ref, name, "1 of its", __LINE__);
        *x -= 1;
    }
    Mat right = w.layer.attn.wk;
    float *moved = malloc(192 * 576 * sizeof *moved);
    assert_non_null(moved);
    for (int r = 0; r < 192; r++) { /* as 2 heads of 96 */
        int h = r / 96, i = r % 96, from = h * 96 + (i % 2) * 48 + i / 2;
        mat_dequantize_row(moved + (size_t)r * 576, &right, from);
    }
    w.layer.attn.wk.data = moved;
    wide_check(&w, &ref, "layers.0.k", "the rows of wk were reordered as 2 heads of 96, it has 3 of 64", __LINE__);
    w.layer.attn.wk = right;
    w.config.rope.pairing = ROPE_PAIRS;
    wide_check(&w, &ref, "layers.0.q_rot", "pairing wrong", __LINE__);
    free(moved);
    trace_close(&ref);
    free(w.data);
}

/* ---- Strangers' references ------------------------------------------------------------------------ */

/* A NaN or an infinity in a reference never passes, never widens a tolerance and is named with its place. */
static void values_that_are_not_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < 3; b++) {
        Fixture f;
        fixture_open(&f, "base_hf", "base");
        for (int i = 0; i < f.ref.n_slots; i++) {
            if (!f.ref.x[i]) continue;
            char name[TRACE_NAME], cause[128];
            int layer;
            Step step;
            trace_name(name, i, f.config.n_layers, &layer, &step);
            float *at = &f.ref.x[i][2 * f.ref.cols[i] + 3], was = *at;
            *at = bad[b];
            snprintf(cause, sizeof cause, "not finite: %s, position 2, value 3: the reference has %g", name,
                     (double)bad[b]);
            CHECK(&f, name, cause);
            *at = was;
        }
        /* a tensor of zeros and one infinity */
        int i = trace_slot(0, STEP_ATTN_OUT, 2);
        memset(f.ref.x[i], 0, (size_t)(f.ref.n * f.ref.cols[i]) * sizeof(float));
        f.ref.x[i][0] = bad[b];
        Model m;
        Trace ours;
        Verify v;
        Error e = {0};
        model_init(&m, &f.config, &f.weights);
        assert_int_equal(trace_run(&ours, &m, f.ref.tokens, f.ref.n, 1, NULL, NULL, NULL, &e), 0);
        slot(&ours, 1, STEP_OUT)[5] = NAN; /* in this run too */
        assert_int_equal(verify_compare(&v, &m, &ours, &f.ref, &e), 0);
        for (int r = 0; r < v.n; r++) {
            bool spoiled =
                strcmp(v.rows[r].name, "layers.0.attn_out") == 0 || strcmp(v.rows[r].name, "layers.1.out") == 0;
            assert_true(v.rows[r].finite == !spoiled && v.rows[r].ok == !spoiled);
            assert_true(isfinite(v.rows[r].tolerance) && v.rows[r].tolerance < 0.1 && isfinite(v.rows[r].max_abs));
        }
        verify_close(&v);
        trace_close(&ours);
        fixture_close(&f);
    }
}

/* A reference with nothing but tokens [2] and logits of some shape. */
static void write_reference(const char *path, const char *shape, size_t bytes) {
    char header[512];
    uint64_t n = (uint64_t)snprintf(header, sizeof header,
                                    "{\"tokens\": {\"dtype\": \"I32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
                                    "\"logits\": {\"dtype\": \"F32\", \"shape\": %s, \"data_offsets\": [8, %zu]}}",
                                    shape, 8 + bytes);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&n, 8, 1, f);
    fwrite(header, 1, (size_t)n, f);
    for (size_t i = 0; i < 8 + bytes; i++) fputc(0, f);
    assert_int_equal(fclose(f), 0);
}

static void shapes_that_do_not_fit(void **state) {
    (void)state;
    char path[] = "/tmp/test_verify.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    static const struct {
        const char *shape;
        size_t bytes;
    } files[] = {
        {"[2, 0]", 0},
        {"[0, 64]", 0},
        {"[2, 4611686018427387904, 4, 0]", 0},
        {"[0, 4611686018427387904, 4611686018427387904]", 0},
        {"[2, 9223372036854775807, 3, 0]", 0},
        {"[2, 63]", 504},
        {"[1, 128]", 512},
        {"[128]", 512},
        {"[2, 3037000500, 3037000500, 0]", 0},
    };
    Fixture f;
    fixture_open(&f, "base_hf", "base");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Trace t;
        Error e = {0};
        write_reference(path, files[i].shape, files[i].bytes);
        assert_int_equal(trace_read(&t, path, &f.config, &e), -1);
        if (!strstr(e.text, ": logits: ")) fail_msg("%s: '%s'", files[i].shape, e.text);
    }
    fixture_close(&f);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_code_is_told),    cmocka_unit_test(the_formulas_agree_with_the_reference),
        cmocka_unit_test(a_wide_model),           cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(shapes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

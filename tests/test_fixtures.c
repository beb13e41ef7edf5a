/* Tiny models in every format against transformers' float32 logits (scripts/make_fixtures.py and
 * scripts/ladder_export.py made them): whole prompts and one token at a time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "io/safetensors.h"
#include "model.h"

#include <cmocka.h> /* last: it makes fail a macro */

#include "tests/skip.h"

#define DIR_FIXTURES "tests/fixtures"

typedef struct {
    File file;
    SafeTensors st;
    int n; /* tokens */
    int *tokens;
    const float *logits; /* [n, vocab] */
    int vocab;
} Reference;

static void reference_open(Reference *r, const char *path) {
    Error e = {0};
    if (file_map(&r->file, path, &e) || safetensors_open(&r->st, &r->file, &e)) fail_msg("%s", e.text);
    const SafeTensor *tokens = safetensors_find(&r->st, "tokens"), *logits = safetensors_find(&r->st, "logits");
    assert_non_null(tokens);
    assert_non_null(logits);
    r->n = (int)tokens->dims[0];
    r->vocab = (int)logits->dims[1];
    r->tokens = malloc((size_t)r->n * sizeof *r->tokens);
    memcpy(r->tokens, tokens->data, (size_t)r->n * sizeof *r->tokens);
    float *copy = malloc(logits->bytes);
    memcpy(copy, logits->data, logits->bytes);
    r->logits = copy;
}

static void reference_close(Reference *r) {
    free(r->tokens);
    free((float *)(uintptr_t)r->logits);
    safetensors_close(&r->st);
    file_close(&r->file);
}

/* Largest difference over all positions, with the prompt in pieces of `piece` tokens. */
static float error_of(const Model *m, const Reference *r, int piece, int n_threads) {
    Error e = {0};
    State s;
    StateOptions options = {.n_ctx = r->n, .n_batch = piece, .n_threads = n_threads, .kv_type = KV_F32};
    if (state_init(&s, m, &options, &e)) fail_msg("%s", e.text);
    float max = 0;
    for (int pos = 0; pos < r->n; pos += piece) {
        int n = r->n - pos < piece ? r->n - pos : piece;
        model_forward(m, &s, r->tokens + pos, n, pos);
        for (int row = 0; row < n; row++) {
            const float *logits = model_logits(m, &s, row);
            for (int i = 0; i < r->vocab; i++) {
                float d = fabsf(logits[i] - r->logits[(pos + row) * r->vocab + i]);
                if (!(d <= max)) max = isnan(d) ? INFINITY : d;
            }
        }
    }
    state_close(&s);
    return max;
}

static int check(const char *name, const char *model, const char *ref, float tolerance) {
    char path[512];
    Error e = {0};
    Checkpoint ck;
    Config config;
    Weights weights;
    Model m;
    Reference r;
    snprintf(path, sizeof path, DIR_FIXTURES "/%s", model);
    if (checkpoint_open(&ck, path, &e) || checkpoint_bind(&ck, &config, &weights, &e)) {
        print_error("%s: %s\n", name, e.text);
        return 1;
    }
    snprintf(path, sizeof path, DIR_FIXTURES "/%s", ref);
    reference_open(&r, path);
    model_init(&m, &config, &weights);
    /* Rules that turn with the length give other keys when the text grows, in transformers too. */
    bool by_length = config.pos == POS_ROPE && r.n > config.rope.original_ctx &&
                     (config.rope.scaling == ROPE_SCALING_DYNAMIC || config.rope.scaling == ROPE_SCALING_LONGROPE);
    float whole = error_of(&m, &r, r.n, 2);
    float single = by_length ? 0 : error_of(&m, &r, 1, 1);
    int bad = !(whole <= tolerance) || !(single <= tolerance) || config.vocab_size != r.vocab;
    if (bad)
        print_error("%s: max |logit error| %g (prompt), %g (one by one), allowed %g\n", name, (double)whole,
                    (double)single, (double)tolerance);
    reference_close(&r);
    checkpoint_close(&ck);
    return bad;
}

static void every_format_matches_transformers(void **state) {
    (void)state;
    FILE *f = fopen(DIR_FIXTURES "/models.tsv", "r");
    assert_non_null(f);
    char line[512], name[128], path[128], ref[128];
    float tolerance;
    int bad = 0, n = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127s %127s %127s %f", name, path, ref, &tolerance), 4);
        bad += check(name, path, ref, tolerance);
        n++;
    }
    fclose(f);
    assert_true(n >= 30);
    assert_int_equal(bad, 0);
}

static void every_combination_of_the_swaps_matches_its_twin(void **state) {
    (void)state;
    DIR *d = opendir(DIR_FIXTURES "/ladder");
    assert_non_null(d);
    int bad = 0, n = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.') continue;
        char model[300], ref[340];
        snprintf(model, sizeof model, "ladder/%s", entry->d_name);
        snprintf(ref, sizeof ref, "%s/ref.safetensors", model);
        char path[512];
        snprintf(path, sizeof path, DIR_FIXTURES "/%s", ref);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        fclose(f);
        bad += check(model, model, ref, 1e-4f);
        n++;
    }
    closedir(d);
    assert_true(n >= 16);
    assert_int_equal(bad, 0);
}

/* The converter writes no window for these, so that the GGUF is another model. */
static bool gguf_leaves_it_out(const char *family) {
    static const char *const those[] = {"mistral", "qwen2_window", "starcoder2"};
    for (size_t i = 0; i < sizeof those / sizeof *those; i++)
        if (strcmp(family, those[i]) == 0) return true;
    return false;
}

/* A tiny model of every family, as Hugging Face and, where llama.cpp's converter knows it, as GGUF
 * (scripts/make_family_fixtures.py made them). */
static void every_family_matches_transformers(void **state) {
    (void)state;
    DIR *d = opendir(DIR_FIXTURES "/families");
    assert_non_null(d);
    int bad = 0, n = 0, n_gguf = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        char model[300], ref[340], path[400];
        snprintf(ref, sizeof ref, "families/%.250s/ref.safetensors", entry->d_name);
        snprintf(path, sizeof path, DIR_FIXTURES "/%s", ref);
        if (entry->d_name[0] == '.' || access(path, R_OK)) continue;
        snprintf(model, sizeof model, "families/%.250s", entry->d_name);
        bad += check(model, model, ref, 1e-4f);
        n++;
        snprintf(model, sizeof model, "families/%.250s.gguf", entry->d_name);
        snprintf(path, sizeof path, DIR_FIXTURES "/%s", model);
        if (access(path, R_OK) || gguf_leaves_it_out(entry->d_name)) continue;
        bad += check(model, model, ref, 1e-4f);
        n_gguf++;
    }
    closedir(d);
    assert_true(n >= 35 && n_gguf >= 28);
    assert_int_equal(bad, 0);
}

/* The trained rungs of weights/: the same, and byte for byte what the table of docs/ladder.md is made from. */
static void rung_matches_its_twin(void **state) {
    char model[64], ref[96];
    snprintf(model, sizeof model, "../../weights/%s", (const char *)*state);
    snprintf(ref, sizeof ref, "%s/ref.safetensors", model);
    assert_int_equal(check(model, model, ref, 1e-4f), 0);
}
#define RUNG(n)                                                                                                        \
    { "rung" #n "_matches_its_twin", rung_matches_its_twin, NULL, NULL, (void *)(uintptr_t) "rung" #n }

/* The real model, where `make smollm2` has fetched it: every position's five likeliest tokens in
 * transformers' order, and a sample of all logits to 1e-3. */
static void smollm2_matches_transformers(void **state) {
    (void)state;
    static const char model[] = "weights/SmolLM2-135M-Instruct.Q4_1.gguf";
    enum { STEP = 64 };
    if (access(model, R_OK) != 0) SKIP(NO_SMOLLM2);
    if (getenv("EMULATED")) SKIP("it takes an emulator many minutes");
    Error e = {0};
    Checkpoint ck;
    Config config;
    Weights weights;
    Model m;
    State s;
    File file;
    SafeTensors st;
    if (file_map(&file, DIR_FIXTURES "/smollm2.ref.safetensors", &e) || safetensors_open(&st, &file, &e) ||
        checkpoint_open(&ck, model, &e) || checkpoint_bind(&ck, &config, &weights, &e))
        fail_msg("%s", e.text);
    model_init(&m, &config, &weights);
    const SafeTensor *t = safetensors_find(&st, "tokens"), *ids = safetensors_find(&st, "top_ids");
    const SafeTensor *top = safetensors_find(&st, "top_logits"), *sample = safetensors_find(&st, "every_64th");
    int n = (int)t->dims[0], tokens[64], n_sample = (int)sample->dims[1];
    assert_int_equal(n, 64);
    memcpy(tokens, t->data, sizeof tokens);
    StateOptions options = {.n_ctx = n, .n_batch = n, .n_threads = 2, .kv_type = KV_F32};
    if (state_init(&s, &m, &options, &e)) fail_msg("%s", e.text);
    model_forward(&m, &s, tokens, n, 0);
    float max = 0;
    for (int pos = 0; pos < n; pos++) {
        const float *logits = model_logits(&m, &s, pos);
        int32_t id[5];
        float expected;
        memcpy(id, ids->data + (size_t)pos * sizeof id, sizeof id);
        for (int k = 0; k < 5; k++) {
            memcpy(&expected, top->data + ((size_t)pos * 5 + (size_t)k) * sizeof expected, sizeof expected);
            max = fmaxf(max, fabsf(logits[id[k]] - expected));
            if (k) assert_true(logits[id[k]] < logits[id[k - 1]]);
        }
        int above = 0; /* nothing else comes before the fifth */
        for (int i = 0; i < config.vocab_size; i++) above += logits[i] > logits[id[4]];
        assert_int_equal(above, 4);
        for (int i = 0; i < n_sample; i++) {
            size_t at = (size_t)pos * (size_t)n_sample + (size_t)i;
            memcpy(&expected, sample->data + at * sizeof expected, sizeof expected);
            max = fmaxf(max, fabsf(logits[i * STEP] - expected));
        }
    }
    print_message("SmolLM2: max |logit error| %g\n", (double)max);
    assert_true(max < 1e-3f);
    state_close(&s);
    checkpoint_close(&ck);
    safetensors_close(&st);
    file_close(&file);
}

int main(void) {
    setenv("RUN_CPU", "ref", 1); /* weights dequantized, activations f32 */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_matches_transformers),
        cmocka_unit_test(every_family_matches_transformers),
        cmocka_unit_test(every_combination_of_the_swaps_matches_its_twin),
        RUNG(0),
        RUNG(1),
        RUNG(1b),
        RUNG(2),
        RUNG(3),
        RUNG(4),
        cmocka_unit_test(smollm2_matches_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

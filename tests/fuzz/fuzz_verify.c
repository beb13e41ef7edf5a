/* verify's reference file: the reader, then the comparison with whatever values it holds. The model is the small one of
 * the llama2.c corpus, or one as wide as real ones for a file that fits it. */
#include <math.h>

#include "checkpoint/checkpoint.h"
#include "fuzz.h"
#include "verify/verify.h"
#include "../wide_model.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_FILES;

enum { WIDE_TOKENS = 32 }; /* more take too long */

static void use(const Model *m, int most_tokens) {
    Error e = {0};
    Trace ref, ours;
    Verify v;
    outcome = (Error){0};
    if (trace_read(&ref, MEMORY "/ref.safetensors", &m->config, &outcome)) return;
    if (ref.n <= most_tokens) {
        if (trace_run(&ours, m, ref.tokens, ref.n, 1, NULL, NULL, NULL, &e) || verify_compare(&v, m, &ours, &ref, &e))
            abort();
        for (int i = 0; i < v.n; i++) /* what is printed as JSON */
            if (!isfinite(v.rows[i].max_abs) || !isfinite(v.rows[i].max_rel) || !isfinite(v.rows[i].tolerance)) abort();
        if ((v.first_bad < 0) != (v.cause[0] == 0)) abort();
        verify_close(&v);
        trace_close(&ours);
    }
    trace_close(&ref);
}

int fuzz_one(const uint8_t *data, size_t size) {
    static Checkpoint ck; /* opened once, for all inputs */
    static Wide wide;
    static Model small, large;
    Config config;
    Weights weights;
    Error e = {0};
    if (!ck.path) {
        if (checkpoint_open(&ck, "tests/fuzz/corpus/llama2c/seed_v0.bin", &e) ||
            checkpoint_bind(&ck, &config, &weights, &e))
            abort();
        model_init(&small, &config, &weights);
        wide_open(&wide);
        model_init(&large, &wide.config, &wide.weights);
    }
    memory_clear();
    memory_put("ref.safetensors", data, size);
    use(&large, WIDE_TOKENS);
    if (outcome.text[0]) use(&small, 1 << 24);
    check_outcome(MEMORY);
    return 0;
}

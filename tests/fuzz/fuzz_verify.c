/* verify's reference file, against the small model of the llama2.c corpus: the reader, then the comparison with
 * whatever values it holds. */
#include <stdlib.h>

#include "checkpoint/checkpoint.h"
#include "fuzz.h"
#include "verify/verify.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_FILES;

int fuzz_one(const uint8_t *data, size_t size) {
    static Checkpoint ck; /* opened once, for all inputs */
    static Model m;
    Config config;
    Weights weights;
    Error e = {0};
    Trace ref, ours;
    Verify v;
    if (!ck.path) {
        if (checkpoint_open(&ck, "tests/fuzz/corpus/llama2c/seed_v0.bin", &e) ||
            checkpoint_bind(&ck, &config, &weights, &e))
            abort();
        model_init(&m, &config, &weights);
    }
    memory_clear();
    memory_put("ref.safetensors", data, size);
    outcome = (Error){0};
    if (trace_read(&ref, MEMORY "/ref.safetensors", &m.config, &outcome) == 0) {
        if (trace_run(&ours, &m, ref.tokens, ref.n, 1, NULL, &e) || verify_compare(&v, &m, &ours, &ref, &e)) abort();
        verify_close(&v);
        trace_close(&ours);
        trace_close(&ref);
    }
    check_outcome(MEMORY);
    return 0;
}

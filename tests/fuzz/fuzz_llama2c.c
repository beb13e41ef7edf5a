/* A llama2.c checkpoint, every version. */
#include "fuzz.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_HEADER;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_clear();
    memory_put("model.bin", data, size);
    use_model(MEMORY "/model.bin");
    return 0;
}

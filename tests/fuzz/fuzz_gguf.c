/* A GGUF: the container, the model in it and the vocabulary. */
#include "fuzz.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_GGUF;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_clear();
    memory_put("model.gguf", data, size);
    use_model(MEMORY "/model.gguf");
    return 0;
}

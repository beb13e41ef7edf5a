/* A Hugging Face directory: config.json, generation_config.json, model.safetensors or shards with their index. */
#include "fuzz.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_FILES;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_unpack(data, size, "model.safetensors");
    use_model(MEMORY);
    return 0;
}

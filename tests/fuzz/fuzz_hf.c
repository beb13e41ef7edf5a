/* A Hugging Face directory: config.json, generation_config.json, model.safetensors or shards with their index. */
#include "fuzz.h"

const bool prefix_is_refused = true;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_unpack(data, size, "model.safetensors");
    use_model(MEMORY);
    return 0;
}

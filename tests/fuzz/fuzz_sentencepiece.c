/* A sentencepiece model: our checks before the library, the library, our use of it. A cut one may be a smaller one. */
#include "fuzz.h"

const bool prefix_is_refused = false;
const FuzzFormat fuzz_format = FUZZ_PROTOBUF;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_clear();
    memory_put("tokenizer.model", data, size);
    use_tokenizer(MEMORY "/tokenizer.model");
    return 0;
}

/* tokenizer.json with the files beside it, or GPT-2's vocab.json and merges.txt. */
#include "fuzz.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_FILES;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_unpack(data, size, "tokenizer.json");
    use_tokenizer(MEMORY);
    return 0;
}

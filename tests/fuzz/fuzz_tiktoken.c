/* Ranks as a text file. A cut one may be a smaller one. */
#include "fuzz.h"

const bool prefix_is_refused = false;
const FuzzFormat fuzz_format = FUZZ_FILES;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_clear();
    memory_put("vocab.tiktoken", data, size);
    use_tokenizer(MEMORY "/vocab.tiktoken");
    return 0;
}

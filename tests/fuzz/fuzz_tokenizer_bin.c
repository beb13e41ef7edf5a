/* llama2.c's tokenizer.bin; the format ends where the file does. */
#include "fuzz.h"

const bool prefix_is_refused = false;
const FuzzFormat fuzz_format = FUZZ_HEADER;

int fuzz_one(const uint8_t *data, size_t size) {
    memory_clear();
    memory_put("tokenizer.bin", data, size);
    use_tokenizer(MEMORY "/tokenizer.bin");
    return 0;
}

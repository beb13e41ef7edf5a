/* Hugging Face's files, which need JSON. */
#include "checkpoint/formats.h"

int hf_open(Checkpoint *ck, Error *e) {
    return fail(e, "%s: format: expected a llama2.c or GGUF file (run-lite reads no other, see make), found another",
                ck->path);
}

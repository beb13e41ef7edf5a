/* fuzz - a target is one file: LLVMFuzzerTestOneInput opens the bytes as its format and uses what was accepted.
 * clang links it with libFuzzer (make fuzz); gcc links it with replay.c, which gives it the corpus (make test). */
#pragma once
#include "../untrusted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* prefix_is_refused - a file of this format that was cut anywhere is refused; else it may be a shorter one. */
extern const bool prefix_is_refused;

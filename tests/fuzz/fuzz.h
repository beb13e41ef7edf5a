/* fuzz - a target is one file: fuzz_one opens the bytes as its format and uses what was accepted. oracle.c measures it,
 * mutate.c changes inputs where the format has its parts. clang links all with libFuzzer (make fuzz); gcc links them
 * with replay.c, which gives the target the corpus and some mutants of it (make test). */
#pragma once
#include "../untrusted.h"

int fuzz_one(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* prefix_is_refused - a file of this format that was cut anywhere is refused; else it may be a shorter one. */
extern const bool prefix_is_refused;

/* fuzz_format - what mutate.c takes the bytes for. */
typedef enum {
    FUZZ_GGUF,
    FUZZ_FILES,    /* JSON, safetensors, or several files in one (memory_unpack) */
    FUZZ_PROTOBUF, /* sentencepiece */
    FUZZ_HEADER,   /* numbers first: llama2.c's files */
    FUZZ_JINJA,
    FUZZ_REGEX,
    FUZZ_SESSION, /* src/gen/snapshot.c */
} FuzzFormat;
extern const FuzzFormat fuzz_format;

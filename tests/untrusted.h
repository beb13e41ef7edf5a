/* untrusted - what the tests and the fuzz targets of strangers' files share: a directory that is only in memory,
 * the rule that every refusal's message keeps, and the use of whatever was accepted.
 *
 * The linker puts memory's file_map, file_read, file_close, access and stat before the real ones (--wrap): a path
 * in MEMORY is looked up here, any other is passed on. What a reader maps is a block of exactly the file's size, so
 * that the address sanitizer sees the first byte read past its end. Nothing in the readers knows of this. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer.h"

#define MEMORY "memory"

/* memory_clear - empties the directory. memory_put - one file of it, copied; an old one of that name goes. */
void memory_clear(void);
void memory_put(const char *name, const void *bytes, size_t n);

/* memory_unpack - a new directory from one input: parts that begin with a line "%%% NAME", each up to the next.
 * An input without such a line is one file, `single`. */
void memory_unpack(const uint8_t *data, size_t n, const char *single);

/* gguf_with_key - a malloc'ed copy of a GGUF with one more key, of the type's number and the value's bytes as they
 * stand in a file. Its size grows by a multiple of the alignment, so that the data stays where the header says. */
char *gguf_with_key(const char *data, size_t n, const char *key, uint32_t type, const void *value, size_t n_value,
                    size_t *n_out);

/* outcome - of the last use_*: why the file was refused, "" when it was not. check_outcome - aborts when the message is
 * not one line that names the file (path, or one beside it), what was expected and what was found. */
extern Error outcome;
void check_outcome(const char *path);

/* use_model - opens the checkpoint, reads every value of every weight and runs two tokens; a GGUF's vocabulary too.
 * use_tokenizer - opens it, encodes a text that has something for every rule, and decodes the ids. Both check the
 * outcome. */
void use_model(const char *path);
void use_tokenizer(const char *path);

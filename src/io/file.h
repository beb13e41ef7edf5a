/* file - a whole file mapped read-only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    const unsigned char *data; /* [size]; NULL when size is 0 */
    size_t size;               /* bytes */
    const char *path;          /* owned; for messages */
} File;

/* file_map - maps path. Refuses what is no regular file, and an empty file, by name. */
int file_map(File *f, const char *path, Error *e);

/* file_read - the whole content of a regular file or of standard input ("-", /dev/stdin, /dev/fd/N); *data is malloc'ed
 * with a NUL after the last byte (not counted). Refuses what is larger than a file of that name can be: config.json 4
 * MiB, tokenizer.json 256 MiB, ... (a table in file.c); a text has no limit but memory. */
int file_read(char **data, size_t *size, const char *path, Error *e);

void file_close(File *f);

/* file_open - a descriptor of a regular file, to read from, and what fstat says of it; -1 on failure. Opening never
 * waits: a pipe that nobody writes to would keep the program for ever. */
struct stat;
int file_open(const char *path, struct stat *st, Error *e);

/* file_read_most - the same of a file of at most so many bytes. */
int file_read_most(char **data, size_t *size, const char *path, size_t most, Error *e);

/* file_can_write - fails when no file of that name could be written beside it and renamed to it: asked before a long
 * computation whose result goes there. */
int file_can_write(const char *path, Error *e);

/* file_drop - bytes [from, from + n) of the mapping will not be read any more: the whole pages among them are let go
 * and cannot come back by being near to others. Does nothing when they lie elsewhere. */
void file_drop(const File *f, const void *from, size_t n);

/* file_release - the same pages are not resident any more, until they are read again. f NULL: the bytes are known to be
 * a mapping's. */
void file_release(const File *f, const void *from, size_t n);

enum { FILE_PATH = 4096 };

/* file_diagnose - what a file that is no model really is ("a Git LFS pointer", "an HTML page", "a
 * PyTorch pickle (convert it with safetensors)", "text", ...), or NULL when there is nothing to say. */
const char *file_diagnose(const File *f);

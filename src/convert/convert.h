/* convert - writes a checkpoint as GGUF, llama2.c .bin or a Hugging Face directory. */
#pragma once
#include <signal.h>

#include "checkpoint/checkpoint.h"
#include "convert/mix.h"

typedef struct {
    const char *output;        /* ends in .gguf or .bin; anything else is a directory to make */
    const Mix *mix;            /* types of the matrices; NULL: as they are, where the format can hold it */
    int kv_heads;              /* 0: as they are; else K and V heads are averaged in groups */
    const GgufKeys *tokenizer; /* for a GGUF; NULL: that of a GGUF which is read, else none */
    const char *tokenizer_json, *tokenizer_config; /* texts for a directory; NULL: the files of one that is read */
    const volatile sig_atomic_t *stop; /* once it is not 0, the work is given up without a message; may be NULL */
    char *temporary; /* [CONVERT_NAME] while something is written its temporary name, else ""; may be NULL */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* bytes of tensors, after each row; may be NULL */
    void *progress_arg;
} ConvertOptions;

enum { CONVERT_NAME = 4096 };

/* checkpoint_convert - written under a temporary name and renamed when whole: a failure leaves nothing.
 * Rows of q and k are reordered where the target pairs features the other way. *carried says whether the
 * tokenizer went along. */
int checkpoint_convert(const Checkpoint *ck, const Config *config, const Weights *weights,
                       const ConvertOptions *options, bool *carried, Error *e);

/* convert_remove - removes what checkpoint_convert writes under a temporary name, a file or a directory; "" is nothing.
 * Allocates nothing, so that it works when memory is short and in a signal handler. */
void convert_remove(const char *temporary);

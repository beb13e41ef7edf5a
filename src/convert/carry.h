/* carry - which files of a Hugging Face directory go along into a new one. */
#pragma once
#include "base/error.h"

/* carry_understands - is the file at path what its name says? A name can be a link to any file of the machine, whose
 * content would be published with the model: only what reads as that kind of file is written again. tokenizer.model
 * must open as a tokenizer, tokenizer.json have a vocabulary, vocab.json hold ids, merges.txt pairs, and the other JSON
 * files keys that only they have. 1: yes; 0: no, it is left behind; -1: memory ran out. Test: tests/test_convert.sh */
int carry_understands(const char *path, const char *name, Error *e);

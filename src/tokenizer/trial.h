/* trial - do two tokenizers do the same? For texts that tell the rules of vocabularies apart. Source: llama.cpp,
 * conversion/base.py, which tells them apart by a hash of such ids. */
#pragma once
#include "tokenizer.h"
#include "tokenizer/pretokenize.h"

enum { TRIAL_TEXT = 640 };

/* trial_cuts_alike - do both cut the probe at the same places? */
bool trial_cuts_alike(const Pretokenizer *a, const Pretokenizer *b, Error *e);

/* trial_encodes_alike - the same ids for the probe, for its lines, with and without what goes around, and with special
 * tokens inside? By scores llama.cpp puts a space before every text, as sentencepiece does, and before the text behind
 * a special token; newer files of Hugging Face put none there or before another space, and a lone model puts one before
 * the piece that a text begins with. All are let pass: its own converter does so too. `line` is the text that had other
 * ids. */
bool trial_encodes_alike(const Tokenizer *a, const Tokenizer *b, char line[TRIAL_TEXT], Error *e);

/* signals - what run.c's signal handlers share with the rest: the only globals that change. */
#pragma once
#include <signal.h>

#include "convert/convert.h"

/* interrupted - set by Ctrl-C. Whatever runs long looks at it and ends.
 * unfinished - the temporary name of what convert is writing, "" otherwise: removed when a signal ends the program. */
extern volatile sig_atomic_t interrupted;
extern char unfinished[CONVERT_NAME];

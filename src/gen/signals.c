#include "gen/signals.h"

volatile sig_atomic_t interrupted;
char unfinished[CONVERT_NAME];

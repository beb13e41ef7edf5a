/* The modes that need a library: each says which. */
#include "modes/modes.h"

static int absent(const char *mode, const char *needs, Error *e) {
    fail(e, "--mode: expected one of run-lite's, found %s, which needs %s (see make)", mode, needs);
    return 2;
}

#define ABSENT(mode, needs)                                                                                            \
    int mode_##mode(const Options *o, FILE *out, Error *e) {                                                           \
        (void)o, (void)out;                                                                                            \
        return absent(#mode, needs, e);                                                                                \
    }

ABSENT(chat, "libedit")
ABSENT(batch, "cJSON")
ABSENT(bench, "OpenBLAS")
ABSENT(verify, "cJSON")
ABSENT(trace, "cJSON")
ABSENT(convert, "cJSON")

/* Nothing is written under a temporary name. */
void convert_remove(const char *temporary) { (void)temporary; }

/* flags - the table of flags: parsing, --help, and which mode uses which. Internal to src/gen. */
#pragma once
#include "gen/options.h"

typedef enum {
    FLAG,
    TEXT,
    INTEGER,
    NUMBER,
    DOUBLE,
    ABOVE_ZERO,
    SEED,
    CHOICE,
    STOP,
    TOKENS,
    MISTAKE,
    JSON,
    SWITCH,
    BIAS,
    BAN,
    BREAKER,
    STAGES
} Kind;

/* What --help sorts them by. */
typedef enum {
    GROUP_GENERAL,
    GROUP_PROMPT,
    GROUP_SAMPLING,
    GROUP_OUTPUT,
    GROUP_RUN,
    GROUP_ROPE,
    GROUP_MODE,
    GROUPS
} Group;

typedef struct {
    char brief; /* 0: none */
    const char *name;
    Kind kind;
    Group group;
    const char *modes; /* the letters of the modes that use it; NULL: all */
    size_t offset;
    double min, max;     /* the numbers */
    const char *choices; /* CHOICE: "a|b|c", stored as its number */
    const char *value;   /* what --help calls its value; "": none */
    const char *help;
} Flag;

extern const Flag flags[]; /* ends with a NULL name */

/* flag_takes_value - false where a value, if any, follows "=". */
bool flag_takes_value(const Flag *f);
/* flag_used - does a mode use it? */
bool flag_used(const Flag *f, const Mode *m);

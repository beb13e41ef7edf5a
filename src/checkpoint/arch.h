/* arch - the three tables that every reader and every writer walks: a row for each family of models (arch.c), a row for
 * each number of a model (keys.c), a row for each tensor (tensors.c). A new family is a row of the first table; what it
 * calls otherwise, or has by default, stands in its row. Internal to src/checkpoint and src/convert. */
#pragma once
#include <math.h>

#include "checkpoint/checkpoint.h"

/* Style - a column of the tables of keys and tensors: how a file spells their names. */
typedef enum { STYLE_HF, STYLE_GPT2, STYLE_GGUF, STYLES } Style;

bool path_ends_with(const char *path, const char *end);

/* ---- Tensors (tensors.c) ----------------------------------------------------------------------- */

/* Tensors of a file that hold several fields; they are split when they are read. */
enum { FIELD_QKV = FIELD_COUNT, FIELD_QKV_BIAS, FIELD_GATE_UP, FIELD_END };

/* Split - how q, k and v lie in a fused tensor, by rows. */
typedef enum {
    SPLIT_BLOCKS, /* all of q, all of k, all of v */
} Split;

/* TensorName - a family's name for a field, where it is not the column's; NULL: the family has no such tensor. */
typedef struct {
    int field;
    const char *name; /* '#' is the layer */
} TensorName;

/* field_find - the field and layer that a tensor's name means; -1: none. */
int field_find(const Arch *a, Style style, const char *name, size_t n, int *layer);

/* field_path - the name that a field's tensor has in a file; NULL when the style or the family has none. */
const char *field_path(char out[80], const Arch *a, Style style, int field, int layer);

const char *field_name(int field); /* "wq" */

/* field_shape - the rows and columns that a field must have; rows is 1 for a vector. */
void field_shape(int *rows, int *cols, Field field, const Config *c);

bool field_is_vector(Field field);

/* field_mat - the field as it is bound, a vector as one row; data is NULL when the model does not have it. */
Mat field_mat(const Weights *w, const Config *c, Field field, int layer);

/* field_set - binds it: a vector's values are given beside the Mat. */
void field_set(Weights *w, Layer *layers, Field field, int layer, const Mat *m, const float *vector);

/* field_needed, field_allowed - must, and may, a model of this config have the field? */
bool field_needed(Field field, const Config *c);
bool field_allowed(Field field, const Config *c);

/* field_by_pairs - its rows are the features of q's or k's heads, in the order of the pairing. field_of_kv - its rows
 * are those of the KV heads. */
bool field_by_pairs(Field field);
bool field_of_kv(Field field);

/* ---- Keys (keys.c) ----------------------------------------------------------------------------- */

/* Key - a number of a model that its file says. */
typedef enum {
    KEY_DIM,
    KEY_HIDDEN_DIM,
    KEY_N_LAYERS,
    KEY_N_HEADS,
    KEY_N_KV_HEADS,
    KEY_HEAD_DIM,
    KEY_VALUE_DIM,
    KEY_VOCAB_SIZE,
    KEY_N_CTX,
    KEY_NORM_EPS,
    KEY_TIED,
    KEY_QKV_BIAS,
    KEY_OUT_BIAS,
    KEY_MLP_BIAS,
    KEY_WINDOW,
    KEY_USE_WINDOW,
    KEY_ROPE_THETA,
    KEY_PARTIAL_ROTARY,
    KEY_ROTARY_DIM,
    KEY_ATTN_SCALE,
    KEY_EMB_SCALE,
    KEY_RESIDUAL_SCALE,
    KEY_LOGIT_SCALE,
    KEY_EXPERTS,
    KEY_MULTI_QUERY,
    KEY_COUNT
} Key;

typedef enum { KEY_INT, KEY_NUMBER, KEY_FLAG } KeyKind;

typedef struct {
    const char *name[STYLES]; /* NULL: that style has none; a GGUF's is preceded by "ARCH." */
    KeyKind kind;
    bool needed[STYLES]; /* a file without it is refused */
    bool common;         /* every family has it; else it is at its neutral value, but where the family's row says it */
    double neutral;      /* the value that changes nothing */
    double min, max;
} KeyInfo;

extern const KeyInfo key_info[KEY_COUNT];

/* KeyName - what a family calls a key where that is not the column's name, and the value of a file that omits it. */
typedef struct {
    Key key;
    const char *name; /* NULL: as in the column */
    double value; /* the default of the family's class in transformers; NAN: none. null in config.json is no value */
} KeyName;

/* Facts - the numbers of one file. */
typedef struct {
    double value[KEY_COUNT];
    bool given[KEY_COUNT];
} Facts;

/* key_name - the name of a key in the files of a family; NULL: none. */
const char *key_name(const Arch *a, Style style, Key key);

/* key_find - the key of that name; -1: none. */
int key_find(const Arch *a, Style style, const char *name, size_t n);

/* key_default - the value of a config.json without the key; NAN: none. key_has - may it be other than neutral? */
double key_default(const Arch *a, Key key);
bool key_has(const Arch *a, Key key);

/* key_neutral - a key that the family does not have must be at the value that changes nothing. `name` is as in the
 * file. */
int key_neutral(Key key, const char *name, double found, const Config *c, const char *path, Error *e);

/* facts_config - Facts to Config: everything but RoPE. config_facts - the way back, for the writers. */
int facts_config(Config *c, const Arch *a, Style style, const Facts *f, const char *path, Error *e);
void config_facts(Facts *f, const Config *c, const Weights *w);

/* key_harmless - refuses a key of config.json that is no number of a model unless it has no bearing on a forward pass,
 * or is at the value where it has none. */
struct cJSON;
int key_harmless(const struct cJSON *item, const char *path, Error *e);

/* ---- Families (arch.c) ------------------------------------------------------------------------- */

enum {
    ARCH_CONV1D = 1,       /* matrices of a Hugging Face file are [in, out] */
    ARCH_WHOLE_ROTARY = 2, /* its default RoPE rotates all features, whatever partial_rotary_factor says */
    ARCH_SWITCHES = 4,     /* config.json says which norm, FFN and positions */
    ARCH_USE_WINDOW = 8, /* its window is used where use_sliding_window says so; other families do not read that key */
};

/* Bias - whether projections have one: a fact of its own for q, k and v, for the output, and for the FFN. */
typedef enum { BIAS_NEVER, BIAS_ALWAYS, BIAS_BY_KEY, BIAS_AS_QKV } Bias;

struct Arch {
    const char *name;       /* model_type of config.json */
    const char *class_name; /* transformers' */
    const char *gguf;       /* general.architecture; NULL: there is no such GGUF */
    Style style;            /* of config.json and of its tensors */
    NormKind norm;
    FfnKind ffn;
    PosKind pos;
    RopePairing hf_pairing, gguf_pairing;
    Bias qkv_bias, out_bias, mlp_bias;
    unsigned traits;
    const char *activation;       /* the key; NULL: hidden_act */
    const KeyName *keys;          /* ended by KEY_COUNT; NULL: none */
    const TensorName *tensors;    /* of a Hugging Face file, ended by FIELD_END; NULL: none */
    const TensorName *gguf_names; /* of a GGUF */
};

extern const Arch archs[];
extern const int n_archs;

/* arch_find - by the name in the style's files; NULL: unknown, and e says which there are. */
const Arch *arch_find(Style style, const char *name, size_t n, const char *path, Error *e);

/* ---- RoPE rules (rope_rules.c) ----------------------------------------------------------------- */

enum { ROPE_RULE_NUMBERS = 6, ROPE_RULES = ROPE_SCALING_LONGROPE + 1 };

/* RopeNumber - a number of a rule: its name in config.json and its place in RopeConfig. */
typedef struct {
    const char *name;
    size_t offset;
    bool needed;
} RopeNumber;

typedef struct {
    const char *name; /* rope_type of config.json */
    RopeNumber numbers[ROPE_RULE_NUMBERS];
} RopeRule;

extern const RopeRule rope_rules[ROPE_RULES]; /* by RopeScaling */

/* rope_defaults - what a file has that says nothing. */
RopeConfig rope_defaults(const Config *c, RopePairing pairing);

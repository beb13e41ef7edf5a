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
enum {
    FIELD_QKV = FIELD_COUNT,
    FIELD_QKV_BIAS,
    FIELD_GATE_UP,
    FIELD_SHARED_GATE_UP,
    FIELD_Q_NORMS, /* of one head: '@' is the head (StableLM) */
    FIELD_K_NORMS,
    FIELD_EXPERTS_GATE, /* from here on: of all experts of a layer, one after the other */
    FIELD_EXPERTS_UP,
    FIELD_EXPERTS_DOWN,
    FIELD_EXPERTS_GATE_UP, /* gate and up of an expert, then those of the next */
    FIELD_EXPERTS_GATE_BIAS,
    FIELD_EXPERTS_UP_BIAS,
    FIELD_EXPERTS_DOWN_BIAS,
    FIELD_EXPERTS_GATE_UP_BIAS,
    FIELD_END
};

/* FusedField - the fields of such a tensor, in their order. */
typedef struct {
    int fused, n;
    Field field[3];
} FusedField;
extern const FusedField fused_fields[]; /* by fused - FIELD_COUNT */

/* Split - how the fields lie in a fused tensor, by rows. */
typedef enum {
    SPLIT_BLOCKS, /* all of q, all of k, all of v */
    SPLIT_GROUPS, /* for each KV head the heads of q that share it, then k, then v */
    SPLIT_COLUMNS /* an expert's matrices are [in, out], and the outputs of gate and up alternate */
} Split;

/* TensorName - a family's name for a field, where it is not the column's; NULL: the family has no such tensor. */
typedef struct {
    int field;
    const char *name; /* '#' is the layer, '@' the expert, or the head */
} TensorName;

/* FieldPlace - what a tensor's name means; layer is -1 outside of the layers, expert (or head) 0 where there is none.
 */
typedef struct {
    int field, layer, expert;
} FieldPlace;

/* field_find - looks the name up; false: unknown. */
bool field_find(FieldPlace *at, const Arch *a, Style style, const char *name, size_t n);

/* field_path - the name that a field's tensor has in a file; NULL when the style or the family has none. */
const char *field_path(char out[80], const Arch *a, Style style, int field, int layer, int expert);

const char *field_name(int field); /* "wq" */

/* field_of_expert - every expert of a layer has one. field_of_head - one head of what is a vector of all of them. */
bool field_of_expert(int field);
bool field_of_head(int field);

/* field_shape - the rows and columns that a field must have; rows is 1 for a vector. */
void field_shape(int *rows, int *cols, Field field, const Config *c);

bool field_is_vector(Field field);

/* field_mat - the field as it is bound, a vector as one row; data is NULL when the model does not have it. */
Mat field_mat(const Weights *w, const Config *c, Field field, int layer, int expert);

/* field_set - binds it: a vector's values are given beside the Mat. */
void field_set(Weights *w, Layer *layers, const Tensor *t, const Mat *m, const float *vector);

/* field_needed, field_allowed - must, and may, a model of this config have the field? */
bool field_needed(Field field, const Arch *a, const Config *c);
bool field_allowed(Field field, const Arch *a, const Config *c);

/* field_is_norm - a norm's weight, which norm_offset is added to. */
bool field_is_norm(Field field);

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
    KEY_MAX_WINDOW_LAYERS,
    KEY_WINDOW_PATTERN,   /* every so many layers one has no window */
    KEY_NO_ROPE_INTERVAL, /* every so many layers one has no RoPE */
    KEY_LOCAL_THETA,      /* of the layers with a window */
    KEY_QUERY_SCALAR,     /* scores are scaled by 1 / sqrt of it */
    KEY_ATTN_SCALE,
    KEY_ATTN_SOFTCAP,
    KEY_LOGIT_SOFTCAP,
    KEY_CLAMP,
    KEY_QK_NORM,
    KEY_PARALLEL,
    KEY_NEW_DECODER, /* Falcon's second architecture */
    KEY_TEMPERATURE,
    KEY_LOGIT_DIVISOR,
    KEY_DEPTH_SCALE, /* MiniCPM: residual_scale times sqrt(n_layers) */
    KEY_DIM_BASE,    /* MiniCPM: logit_scale times dim */
    KEY_EMB_SCALE,
    KEY_RESIDUAL_SCALE,
    KEY_LOGIT_SCALE,
    KEY_EXPERTS,
    KEY_EXPERTS_USED,
    KEY_EXPERT_DIM, /* where the experts are not as wide as KEY_HIDDEN_DIM */
    KEY_SHARED_DIM,
    KEY_RENORMALIZE,
    KEY_SPARSE_STEP, /* every so many layers one has experts */
    KEY_SWIGLU_ALPHA,
    KEY_SWIGLU_LIMIT,
    KEY_MULTI_QUERY,
    KEY_COUNT
} Key;

typedef enum { KEY_INT, KEY_NUMBER, KEY_FLAG } KeyKind;

typedef struct {
    const char *name[STYLES]; /* NULL: that style has none; a GGUF's is preceded by "ARCH." */
    KeyKind kind;
    bool needed[STYLES]; /* a file without it is refused */
    bool common;         /* every family has it; else it is at its neutral value, but where the family's row says it */
    bool implied;        /* a GGUF without it has the family's default too, as llama.cpp does */
    double neutral;      /* the value that changes nothing */
    double min, max;
} KeyInfo;

extern const KeyInfo key_info[KEY_COUNT];

/* KeyName - what a family calls a key where that is not the column's name, and the value of a file that omits it. A key
 * may have a second row with another name that files have. */
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

/* key_find - the key of that name, or of another name of it; -1: none. */
int key_find(const Arch *a, Style style, const char *name, size_t n);

/* key_default - the value of a config.json without the key; NAN: none. key_has - may it be other than neutral? */
double key_default(const Arch *a, Key key);
bool key_default_given(const Arch *a, Key key);
bool key_has(const Arch *a, Key key);

/* key_neutral - a key that the family does not have must be at the value that changes nothing. `name` is as in the
 * file. */
int key_neutral(Key key, const char *name, double found, const Config *c, const char *path, Error *e);

/* LayerKind - what sets a layer apart from the others. */
typedef struct LayerKind {
    bool windowed, no_rope;
    bool dense; /* one FFN among layers with experts */
    int window;
    RopeUse rope;
} LayerKind;

/* layer_kinds - makes ck->layer_kinds: windowed, window and no_rope of each layer as they are where the file has no
 * list of them. A window that the family does not have is refused; `prefix` is that of a GGUF's keys. layer_rope - then
 * rope, and window 0 where there is none. */
int layer_kinds(Checkpoint *ck, const Facts *f, const char *path, const char *prefix, Error *e);
void layer_rope(Checkpoint *ck);

/* layer_is_dense - has the layer (-1: none) one FFN among layers with experts? */
bool layer_is_dense(const Checkpoint *ck, int layer);

/* dense_config - the config as a layer without experts sees it: that of a dense model. layer_config - as a layer sees
 * it. dense_layers - after dense of each layer is set: the Config of a model where none, or every one, is. */
Config dense_config(Config c);
Config layer_config(const Checkpoint *ck, int layer);
void dense_layers(Checkpoint *ck);

/* facts_config - Facts to Config: everything but RoPE. */
int facts_config(Config *c, const Arch *a, Style style, const Facts *f, const char *path, Error *e);

/* key_harmless - refuses a key of config.json that is no number of a model unless it has no bearing on a forward pass,
 * or is at the value where it has none. */
struct cJSON;
int key_harmless(const struct cJSON *item, const char *path, Error *e);

/* ---- Families (arch.c) ------------------------------------------------------------------------- */

enum {
    ARCH_CONV1D = 1 << 0,              /* matrices of a Hugging Face file are [in, out] */
    ARCH_WHOLE_ROTARY = 1 << 1,        /* its default RoPE rotates all features, whatever partial_rotary_factor says */
    ARCH_SWITCHES = 1 << 2,            /* config.json says which norm, FFN and positions */
    ARCH_USE_WINDOW = 1 << 3,          /* the window counts where use_sliding_window says so; others do not read that */
    ARCH_FIRST_FULL = 1 << 4,          /* the first layer of each pattern has no window, else the last */
    ARCH_LOCAL_ROPE = 1 << 5,          /* layers with a window have a RoPE of their own */
    ARCH_FULL_WITHOUT_ROPE = 1 << 6,   /* where some layers have a window, the others have no RoPE */
    ARCH_PLUS_1 = 1 << 7,              /* norms multiply by 1 + weight */
    ARCH_SQRT_EMBEDDING = 1 << 8,      /* the embedding is multiplied by sqrt(dim) */
    ARCH_POST_NORMS = 1 << 9,          /* norms of what attention and FFN add */
    ARCH_NO_PRE_NORM = 1 << 10,        /* none before them */
    ARCH_BARE_NORMS = 1 << 11,         /* norms without weights */
    ARCH_PARALLEL = 1 << 12,           /* attention and FFN side by side */
    ARCH_ONE_NORM = 1 << 13,           /* ... which may read the same norm */
    ARCH_DIVIDED_LOGITS = 1 << 14,     /* logit_scale of a GGUF divides */
    ARCH_HEAD_BIAS = 1 << 15,          /* lm_head has a bias */
    ARCH_LAYER_TYPES = 1 << 16,        /* layer_types says which layers have the window */
    ARCH_SWAPPED_NORMS = 1 << 18,      /* a GGUF that has both norms calls the FFN's attn_norm */
    ARCH_NORM_SAYS_PARALLEL = 1 << 19, /* a GGUF without the FFN's norm is parallel */
    ARCH_SINKS = 1 << 21,              /* a sink for each head in the softmax of attention */
    ARCH_RENORMALIZED = 1 << 22,       /* the weights of the experts add up to 1, where no key says it */
    ARCH_FIRST_WINDOWS = 1 << 23,      /* max_window_layers counts the first layers, which alone may have the window */
    ARCH_NTK_ALPHA = 1 << 20,          /* rope_type dynamic with alpha is static NTK by that factor */
    ARCH_TANH_GELU = 1 << 17,          /* "gelu" means the tanh form */
    ARCH_ROPE_SWITCH = 1 << 24,        /* a GGUF's rope.scaling.finetuned false means no RoPE */
    ARCH_HYBRID = 1 << 25,             /* layer_types may have other layers than attention, which are refused, and */
                                       /* position_embedding_type says whether there is RoPE */
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
    QkNorm qk_norm;
    Split split; /* of a Hugging Face file's fused q, k and v */
    unsigned traits;
    const RopeConfig *rope;       /* the rule of a config.json that has none; NULL: the default one */
    float temperature;            /* ... and its llama_4_scaling_beta */
    const char *activation;       /* the key; NULL: hidden_act */
    const KeyName *keys;          /* ended by KEY_COUNT; NULL: none */
    const TensorName *tensors;    /* of a Hugging Face file, ended by FIELD_END; NULL: none */
    const TensorName *gguf_names; /* of a GGUF */
};

extern const Arch archs[];
extern const int n_archs;

/* arch_variant - the row of the same name with or without experts. */
const Arch *arch_variant(const Arch *a, bool experts);

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

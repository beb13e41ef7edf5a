/* checkpoint - a model file, mapped: llama2.c .bin, GGUF, safetensors or a Hugging Face directory.
 *
 * Owns the mapping(s) and the few tensors that had to be converted (norms and biases to f32, GPT-2's
 * transposed Conv1D). Everything else is read in place. */
#pragma once
#include "base/error.h"
#include "io/file.h"
#include "io/gguf.h"
#include "model.h"

typedef enum { FORMAT_LLAMA2C, FORMAT_GGUF, FORMAT_SAFETENSORS, FORMAT_HF_DIR } CheckpointFormat;

/* Field - a place in Weights or Layer that a tensor of a file can fill: the rows of the table in tensors.c. */
typedef enum {
    FIELD_TOK_EMB,
    FIELD_POS_EMB,
    FIELD_FINAL_NORM,
    FIELD_FINAL_NORM_BIAS,
    FIELD_LM_HEAD,
    FIELD_LM_HEAD_BIAS,
    FIELD_ATTN_NORM, /* from here on: one for each layer */
    FIELD_ATTN_NORM_BIAS,
    FIELD_WQ,
    FIELD_WK,
    FIELD_WV,
    FIELD_WO,
    FIELD_BQ,
    FIELD_BK,
    FIELD_BV,
    FIELD_BO,
    FIELD_FFN_NORM,
    FIELD_FFN_NORM_BIAS,
    FIELD_W_GATE,
    FIELD_W_UP,
    FIELD_W_DOWN,
    FIELD_B_GATE,
    FIELD_B_UP,
    FIELD_B_DOWN,
    FIELD_Q_NORM,
    FIELD_K_NORM,
    FIELD_Q_NORM_BIAS,
    FIELD_K_NORM_BIAS,
    FIELD_ATTN_POST_NORM,
    FIELD_FFN_POST_NORM,
    FIELD_SINKS,
    FIELD_XIELU_ALPHA_P,
    FIELD_XIELU_ALPHA_N,
    FIELD_XIELU_BETA,
    FIELD_XIELU_EPS,
    FIELD_ROUTER,
    FIELD_ROUTER_BIAS,
    FIELD_SHARED_SCALE, /* MoeWeights.shared_gate */
    FIELD_SHARED_GATE,
    FIELD_SHARED_UP,
    FIELD_SHARED_DOWN,
    FIELD_EXPERT_GATE, /* from here on: one for each expert of a layer */
    FIELD_EXPERT_UP,
    FIELD_EXPERT_DOWN,
    FIELD_EXPERT_GATE_BIAS,
    FIELD_EXPERT_UP_BIAS,
    FIELD_EXPERT_DOWN_BIAS,
    FIELD_COUNT
} Field;

/* Tensor - what every format is reduced to before it is bound. */
typedef struct {
    Field field;
    int layer;        /* -1: of no layer */
    int expert;       /* of that layer; 0 where a field is not an expert's */
    const char *file; /* the path of the file it is in, for messages */
    char name[80];    /* as in the file */
    Mat mat;          /* a vector has one row */
} Tensor;

typedef struct Arch Arch; /* a family of models: arch.h */

typedef struct {
    CheckpointFormat format;
    char *path;         /* as given */
    const char *arch;   /* "llama", "qwen2": the family's name in config.json */
    const Arch *family; /* its row */
    Config config;
    int n_files;
    File *files;      /* [n_files] mappings */
    Gguf gguf;        /* parsed header when format is FORMAT_GGUF (the tokenizer reads it too) */
    int n_more_parts; /* of a split GGUF, beyond the first */
    Gguf *more_parts; /* [n_more_parts] */
    size_t n_tensors, tensors_room;
    Tensor *tensors; /* [n_tensors] */
    void **owned;    /* converted tensors, config arrays; freed on close */
    size_t n_owned;
    struct LayerKind *layer_kinds; /* [n_layers], owned; NULL: all alike */
    int version;                   /* of llama2.c and GGUF files */
    int bos;                       /* -1: unknown */
    int eos[16], n_eos;            /* all end tokens that config.json and generation_config.json name */
    size_t params, weights_bytes;  /* of the tensors the model uses */
    size_t expert_params;          /* of params: of the experts, of which a token uses n_used / n_experts */
    Layer *layers;                 /* [n_layers] that checkpoint_bind hands out */
    FfnWeights *experts;           /* [n_layers, n_experts]; NULL: none */
} Checkpoint;

/* checkpoint_open - sniffs the format, reads the header and config, checks every size. */
int checkpoint_open(Checkpoint *ck, const char *path, Error *e);

/* checkpoint_bind - tensor table -> Config and Weights, every shape checked; nothing missing, nothing
 * unknown that would change the maths. The Weights borrow from ck. */
int checkpoint_bind(Checkpoint *ck, Config *config, Weights *weights, Error *e);

void checkpoint_close(Checkpoint *ck);
const char *checkpoint_format_name(CheckpointFormat f); /* "llama2c v0", "gguf", ... */

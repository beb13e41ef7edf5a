/* kv_models - what the KV cache of some well-known models follows from, so that -m kv knows them without their files.
 * Test: tests/test_kv.sh */
#pragma once

typedef struct {
    const char *name;
    int n_layers, n_heads, n_kv_heads;
    int head_dim;  /* features of a key */
    int value_dim; /* features of a value; 0: head_dim */
    int n_ctx;     /* tokens the model was made for */
    int window;    /* what a position of the layers with a window sees */
    int n_window;  /* how many layers have one */
    int latent;    /* features of a token and layer that hold keys and values of all heads, compressed (MLA); 0: none */
    const char *source;
} KvModel;

extern const KvModel kv_models[]; /* ends with a NULL name */

/* kv_model_named - NULL: none has this name. */
const KvModel *kv_model_named(const char *name);

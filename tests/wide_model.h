/* wide_model - a small model in memory that is as wide as real ones, for the tests and the fuzz target of verify. */
#pragma once
#include <stdlib.h>

#include "model.h"

/* A model of random weights as wide as real ones: 9 heads of 64 features, 3 KV heads. */
typedef struct {
    Config config;
    Weights weights;
    Layer layer;
    float *data;
} Wide;

static void wide_open(Wide *w) {
    enum { DIM = 576, HIDDEN = 640, KV = 192, VOCAB = 33 };
    *w = (Wide){.config = {.dim = DIM,
                           .hidden_dim = HIDDEN,
                           .n_layers = 1,
                           .n_heads = 9,
                           .n_kv_heads = 3,
                           .head_dim = 64,
                           .vocab_size = VOCAB,
                           .n_ctx = 32,
                           .norm = NORM_RMSNORM,
                           .ffn = FFN_SWIGLU,
                           .pos = POS_ROPE,
                           .rope = {.theta = 10000, .rotary_dim = 64},
                           .norm_eps = 1e-5f}};
    size_t n = 3 * DIM + (size_t)DIM * (2 * VOCAB + 2 * DIM + 2 * KV + 3 * HIDDEN), at = 0;
    unsigned seed = 1;
    w->data = malloc(n * sizeof *w->data);
    if (!w->data) abort();
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        w->data[i] = ((float)(seed >> 8) / (1 << 24) - 0.5f) / 4;
    }
    struct {
        Mat *to;
        int rows, cols;
    } mats[] = {
        {&w->weights.tok_emb, VOCAB, DIM},   {&w->weights.lm_head, VOCAB, DIM}, {&w->layer.attn.wq, DIM, DIM},
        {&w->layer.attn.wk, KV, DIM},        {&w->layer.attn.wv, KV, DIM},      {&w->layer.attn.wo, DIM, DIM},
        {&w->layer.ffn.w_gate, HIDDEN, DIM}, {&w->layer.ffn.w_up, HIDDEN, DIM}, {&w->layer.ffn.w_down, DIM, HIDDEN}};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++) {
        int cols = mats[i].cols;
        *mats[i].to = (Mat){DTYPE_F32, mats[i].rows, cols, (size_t)cols * sizeof(float), w->data + at, NULL, 0};
        at += (size_t)mats[i].rows * (size_t)cols;
    }
    w->layer.attn_norm = w->data + at;
    w->layer.ffn_norm = w->data + at + DIM;
    w->weights.final_norm = w->data + at + 2 * DIM;
    w->weights.layers = &w->layer;
}

#!/usr/bin/env python3
"""make_model.py TYPE OUT.gguf [--small] [--experts N:K] - a random model of the TinyLlama-1.1B shape, for measuring speed.

TYPE is f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k or q6_k. The weights mean nothing, their number and layout are the real ones
(22 layers of 2048 x 5632, 32 query and 4 KV heads of 64, vocabulary 32000). --small keeps two layers. --experts cuts each FFN into N
experts, of which a token uses K: as many weights as without. Needs numpy and gguf (pip).
"""
import argparse
import sys

import gguf
import numpy as np

from quant_blocks import random_blocks

TYPES = {name: getattr(gguf.GGMLQuantizationType, name.upper())
         for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")}
DIM, HIDDEN, HEADS, KV_HEADS, VOCAB, CTX = 2048, 5632, 32, 4, 32000, 2048


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("out")
    parser.add_argument("--small", action="store_true", help="two layers")
    parser.add_argument("--experts", help="N:K")
    args = parser.parse_args()
    experts, used = map(int, args.experts.split(":")) if args.experts else (0, 0)
    hidden = HIDDEN // experts if experts else HIDDEN
    layers = 2 if args.small else 22
    kind = TYPES[args.type]
    rng = np.random.default_rng(1)
    cache = {}

    def matrix(rows, cols):
        # One matrix of a shape is enough: speed does not look at the numbers, and making them is what takes long.
        if (rows, cols) not in cache:
            if args.type.endswith("_k"):
                cache[rows, cols] = random_blocks(args.type, rows, cols, rng, 0.04)
            else:
                x = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
                cache[rows, cols] = gguf.quants.quantize(x, kind)
        return cache[rows, cols]

    w = gguf.GGUFWriter(args.out, "llama")
    w.add_name(f"random {args.type}")
    w.add_context_length(CTX)
    w.add_embedding_length(DIM)
    w.add_block_count(layers)
    w.add_feed_forward_length(hidden)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(used)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(DIM // HEADS)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCAB)
    # A vocabulary of the right size that any reader takes: <unk> <s> </s>, the bytes, then made-up words.
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += [f"\u2581w{i}" for i in range(VOCAB - len(pieces))]
    token = gguf.TokenType
    w.add_tokenizer_model("llama")
    w.add_token_list(pieces)
    w.add_token_scores([0.0] * 259 + [-float(i) for i in range(VOCAB - 259)])
    w.add_token_types([token.UNKNOWN, token.CONTROL, token.CONTROL] + [token.BYTE] * 256 +
                      [token.NORMAL] * (VOCAB - 259))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)

    def add(name, rows, cols):
        w.add_tensor(name, matrix(rows, cols), raw_dtype=kind)

    one = np.ones(DIM, dtype=np.float32)
    kv_dim = DIM // HEADS * KV_HEADS
    add("token_embd.weight", VOCAB, DIM)
    add("output.weight", VOCAB, DIM)
    w.add_tensor("output_norm.weight", one)
    for i in range(layers):
        w.add_tensor(f"blk.{i}.attn_norm.weight", one)
        w.add_tensor(f"blk.{i}.ffn_norm.weight", one)
        for name, rows, cols in (("attn_q", DIM, DIM), ("attn_k", kv_dim, DIM), ("attn_v", kv_dim, DIM),
                                 ("attn_output", DIM, DIM)):
            add(f"blk.{i}.{name}.weight", rows, cols)
        for name, rows, cols in (("ffn_gate", hidden, DIM), ("ffn_up", hidden, DIM), ("ffn_down", DIM, hidden)):
            if experts:
                w.add_tensor(f"blk.{i}.{name}_exps.weight", np.stack([matrix(rows, cols)] * experts), raw_dtype=kind)
            else:
                add(f"blk.{i}.{name}.weight", rows, cols)
        if experts:
            w.add_tensor(f"blk.{i}.ffn_gate_inp.weight", rng.standard_normal((experts, DIM), dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    sys.exit(main())

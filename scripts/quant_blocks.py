#!/usr/bin/env python3
"""quant_blocks.py [OUT] - random blocks of every quantized GGUF type and their values by the gguf module, with as many
digits as bring the same f32 back.

Writes tests/fixtures/quant_blocks.json: {type: {"bytes": hex, "values": [...]}}. Needs numpy and gguf (pip).
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TYPES = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")
MORE = ("q2_k", "q3_k", "iq4_nl", "iq4_xs", "mxfp4", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m",
        "tq1_0", "tq2_0")


def random_blocks(name, rows, cols, rng, size=1.0):
    """Blocks [rows, bytes] of random bits with weights of about `size`: gguf has no way to make those of the K types."""
    values, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
    blocks = rng.integers(0, 256, (rows, cols // values, n_bytes), dtype=np.uint8)
    bits = int(name[1])
    largest = 2.0 ** (bits - 1) * (64 if name in ("q4_k", "q5_k") else 128 if name == "q6_k" else 1)
    # where each type keeps its f16 scale, and its f16 minimum or that of its minima
    at = 208 if name == "q6_k" else 0
    fields = [(at, size / largest)]
    if name in ("q4_1", "q5_1"):
        fields.append((2, -size))
    if name in ("q4_k", "q5_k"):
        fields.append((2, size / 64))
    for at, scale in fields:
        f16 = (scale * rng.uniform(0.5, 1.5, blocks.shape[:2])).astype("<f2")
        blocks[..., at:at + 2] = f16[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def random_bits(name, rows, cols, rng):
    """Blocks of the other types: all bits are random, the exponent of MXFP4 and the f16 scales are those of small values."""
    values, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
    blocks = rng.integers(0, 256, (rows, cols // values, n_bytes), dtype=np.uint8)
    if name == "mxfp4":
        blocks[..., 0] = rng.integers(100, 130, blocks.shape[:2])
        blocks[:, 0, 0], blocks[:, 1, 0], blocks[:, 2, 0] = 0, 1, 250  # the smallest exponents and the largest
    elif name == "iq1_m":  # four bits in each of the last words
        blocks[..., -7::2] = blocks[..., -7::2] & 15 | np.array([1, 8, 10, 2], dtype=np.uint8) << 4
    else:
        places = {"q2_k": (-4, -2), "q3_k": (-2,), "tq1_0": (-2,), "tq2_0": (-2,)}.get(name, (0,))
        for at in places:
            f16 = (0.01 * rng.uniform(-1.5, 1.5, blocks.shape[:2])).astype("<f2")
            at %= n_bytes
            blocks[..., at:at + 2] = f16[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/quant_blocks.json"
    rng = np.random.default_rng(1)
    table = {}
    for name in TYPES + MORE:
        blocks = (random_blocks if name in TYPES else random_bits)(name, 1, 256, rng)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()])
        table[name] = {"bytes": blocks.tobytes().hex(), "values": [float(f"{v:.9g}") for v in values[0]]}
    out.write_text(json.dumps(table, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""quant_blocks.py [OUT] - random blocks of every quantized GGUF type and their values by the gguf module.

Writes tests/fixtures/quant_blocks.json: {type: {"bytes": hex, "values": [...]}}. Needs numpy and gguf (pip).
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TYPES = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")


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


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/quant_blocks.json"
    rng = np.random.default_rng(1)
    table = {}
    for name in TYPES:
        blocks = random_blocks(name, 1, 256, rng)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()])
        table[name] = {"bytes": blocks.tobytes().hex(), "values": [float(f"{v:.7g}") for v in values[0]]}
    out.write_text(json.dumps(table, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

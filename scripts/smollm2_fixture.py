#!/usr/bin/env python3
"""What transformers (float32, dequantized weights) says of a 64-token text on SmolLM2: for every position the five
largest logits and every 64th one, small enough to commit.

    smollm2_fixture.py weights/SmolLM2-135M-Instruct.Q4_1.gguf tests/fixtures/smollm2.ref.safetensors
"""
import pathlib, sys

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hf_reference import capture, encode, load  # noqa: E402

TEXT = ("The lighthouse keeper climbed the narrow stairs every evening, lamp in hand, and counted the 117 steps aloud. "
        "Below him the sea was grey and restless; above, the great lens waited in the dark. He had kept this light for "
        "thirty years, and in all that time it had never once gone out before morning came.")

model, out = sys.argv[1:3]
tokens = encode(model, TEXT)[:64]
assert len(tokens) == 64, len(tokens)
logits = capture(load(model), tokens)["logits"]
top = np.argsort(-logits, axis=1)[:, :5].astype(np.int32)
save_file({"tokens": np.array(tokens, dtype=np.int32), "top_ids": top,
           "top_logits": np.take_along_axis(logits, top, 1), "every_64th": np.ascontiguousarray(logits[:, ::64])}, out)
pathlib.Path(out).chmod(0o644)

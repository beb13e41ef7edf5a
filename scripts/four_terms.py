#!/usr/bin/env python3
"""four_terms - the score of a query and a key in layer 0 of rung 0, GPT-2, in its four terms: word-word, word-place, place-word,
place-place. Prints the root mean square of each over all pairs of the first N tokens of a text, all heads, past only.

    four_terms.py [TEXT] [N]      RUN names another program than ./run
"""
import json
import math
import os
import struct
import subprocess
import sys

MODEL = "weights/rung0"


def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = (8 + n + x for x in t["data_offsets"])
            values, cols = struct.unpack(f"<{(b - a) // 4}f", raw[a:b]), t["shape"][-1]
            out[name.removeprefix("transformer.")] = [values[i:i + cols] for i in range(0, len(values), cols)]
    return out


def main():
    text, n = (sys.argv[1:] + ["exercises/text.txt", "48"][len(sys.argv) - 1:])[:2]
    w = tensors(f"{MODEL}/model.safetensors")
    ids = subprocess.run([os.environ.get("RUN", "./run"), MODEL, "-m", "tokenize", "-f", text], stdout=subprocess.PIPE, check=True).stdout
    ids = list(map(int, ids.split()))[:int(n)]
    config = json.load(open(f"{MODEL}/config.json"))
    heads, dim = config["n_head"], config["n_embd"]
    d, gain, qkv = dim // heads, w["h.0.ln_1.weight"][0], w["h.0.attn.c_attn.weight"]

    def normed(x, size):  # LayerNorm is linear once its divisor is known
        mean = sum(x) / dim
        return [(a - mean) / size * g for a, g in zip(x, gain)]

    def project(x, first):
        return [sum(x[i] * qkv[i][first + j] for i in range(dim)) for j in range(dim)]

    parts = []  # of each position: (q, k) of the word, (q, k) of the place
    for pos, token in enumerate(ids):
        word, place = w["wte.weight"][token], w["wpe.weight"][pos]
        both = [a + b for a, b in zip(word, place)]
        mean = sum(both) / dim
        size = math.sqrt(sum((a - mean) ** 2 for a in both) / dim + config["layer_norm_epsilon"])
        parts.append([(project(x, 0), project(x, dim)) for x in (normed(word, size), normed(place, size))])
    names, count = ("word-word", "word-place", "place-word", "place-place"), 0
    sums = [0.0] * 4
    for m, query in enumerate(parts):
        for key in parts[:m]:
            for h in range(heads):
                count += 1
                for t in range(4):
                    q, k = query[t // 2][0], key[t % 2][1]
                    sums[t] += (sum(q[i] * k[i] for i in range(h * d, (h + 1) * d)) / math.sqrt(d)) ** 2
    for name, s in zip(names, sums):
        print(f"{name:<12}{math.sqrt(s / count):8.4f}")


main()

#!/usr/bin/env python3
"""test_minicpm.py - MiniCPM, which transformers has no class for: a LLaMA whose embedding, blocks and logits are scaled, as
Granite's are by other keys (modeling_minicpm.py of openbmb/MiniCPM-2B-sft-bf16: x scale_emb, x scale_depth / sqrt(layers),
/ (hidden_size / dim_model_base)). Granite has references of its own (tests/test_fixtures.c). RUN is the program."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from lib import check, failures, gguf_records

RUN = os.path.abspath(os.environ.get("RUN", "./run"))
FIX = pathlib.Path(__file__).resolve().parent / "fixtures"
DIM, LAYERS = 32, 2  # of base_hf


def logits(model):
    done = subprocess.run([RUN, model, "-m", "logits", "--tokens", "1,34,43,18,5", "--all", "--json"], capture_output=True,
                          env={**os.environ, "RUN_CPU": "ref"}, timeout=60)
    if done.returncode:
        return done.stderr.decode()
    return [x for row in json.loads(done.stdout)["logits"] for x in row]


def directory(name, **more):
    """base_hf with other keys in its config."""
    out = tmp / name
    out.mkdir()
    config = {**json.loads((FIX / "base_hf/config.json").read_text()), **more}
    (out / "config.json").write_text(json.dumps(config))
    shutil.copy(FIX / "base_hf/model.safetensors", out)
    return out


def granite(name, embedding, residual, divisor):
    return directory(name, architectures=["GraniteForCausalLM"], model_type="granite", embedding_multiplier=embedding,
                     residual_multiplier=residual, logits_scaling=divisor, attention_multiplier=1 / math.sqrt(8))


def minicpm_gguf(name, **scales):
    """base.gguf of architecture minicpm, with so many keys more."""
    data = (FIX / "base.gguf").read_bytes()
    records, infos = gguf_records(data)
    keys, at = b"", infos
    for key, record in records:
        new = key.replace(b"llama.", b"minicpm.")
        value = record[8 + len(key):].replace(b"\x05" + bytes(7) + b"llama", b"\x07" + bytes(7) + b"minicpm")
        keys += struct.pack("<Q", len(new)) + new + value
    for key, x in scales.items():
        full = f"minicpm.{key}".encode()
        keys += struct.pack("<Q", len(full)) + full + struct.pack("<If", 6, x)
    for _ in range(struct.unpack_from("<Q", data, 8)[0]):
        at += 8 + struct.unpack_from("<Q", data, at)[0]  # the tensor's name, dimensions, type, offset
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    head = data[:16] + struct.pack("<Q", len(records) + len(scales)) + keys + data[infos:at]
    out = tmp / name
    out.write_bytes(head + bytes(-len(head) % 32) + data[at + -at % 32:])
    return out


def same(name, found, expected):
    a, b = logits(found), logits(expected)
    good = isinstance(a, list) and isinstance(b, list) and len(a) == len(b) > 0
    check(name, good and max(abs(x - y) for x, y in zip(a, b)) <= 1e-6 * max(map(abs, b)), f"{a if isinstance(a, str) else a[:4]} {b[:4]}")


with tempfile.TemporaryDirectory() as made:
    tmp = pathlib.Path(made)
    plain = FIX / "base_hf"
    usual = granite("usual", 12, 1.4 / math.sqrt(LAYERS), DIM / 256)
    other = granite("other", 3, 0.5 / math.sqrt(LAYERS), DIM / 16)
    check("the scales count", logits(usual) != logits(plain) != logits(other))
    minicpm = {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm"}
    same("config.json", directory("hf", **minicpm, scale_emb=12, scale_depth=1.4, dim_model_base=256), usual)
    same("config.json, other scales", directory("hf2", **minicpm, scale_emb=3, scale_depth=0.5, dim_model_base=16), other)
    same("config.json without scales", directory("hf3", **minicpm), plain)
    same("an old GGUF, whose scales are llama.cpp's defaults", minicpm_gguf("old.gguf"), usual)
    same("a GGUF with scales", minicpm_gguf("new.gguf", embedding_scale=3, residual_scale=0.5 / math.sqrt(LAYERS),
                                            logit_scale=DIM / 16), other)
sys.exit(bool(failures))

#!/usr/bin/env python3
"""bench_costs.py [WORD...] - what the worst files and prompts that we know cost: the table of SECURITY.md.

Each kind is a generator of a file and a prompt that are made to cost much. ./run reads them at doubling sizes, the last some
megabytes; the processor time and the peak of memory of each run are taken, less those of a run that reads next to nothing.
growth: how the time grew with a doubling of the file or the prompt, of what was not refused and takes more than 20 ms.
Exit 1 when a kind needs more than a second, more than 64 MiB and 8 bytes a byte of prompt and 48 a byte of file, or grows
faster than n log n. WORD: only the kinds with it in their name.
"""
import argparse
import base64
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
DOUBLINGS = 3
KINDS, GROUPS = [], []


def kind(name, first):
    """A generator make(n) -> (bytes of the file, prompt or None, the file's name, arguments); sizes from `first` on."""
    def add(make):
        KINDS.append((GROUPS[-1], name, first, make))
        return make
    return add


# ---- tokenizer.json ----------------------------------------------------------------------------------------------------

GROUPS.append("steps of a tokenizer.json")
BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2}, "merges": []}


def tokenizer(prompt, model=BPE, **parts):
    return json.dumps({"model": model, **parts}, ensure_ascii=False).encode(), prompt, "tokenizer.json", ("-m", "tokenize")


def replace(pattern, content, what="String"):
    return {"type": "Replace", "pattern": {what: pattern}, "content": content}


def sequence(steps, key="normalizers"):
    return {"type": "Sequence", key: steps}


def split(expression, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": False}


def added(i, content, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": True, "rstrip": True, "normalized": True,
            "special": False, **flags}


@kind("normalizers that replace in a chain", 1 << 14)
def _(n):
    return tokenizer(b"a" * n, normalizer=sequence([replace("a", "aa")] * 3))


@kind("normalizers that multiply", 1 << 15)
def _(n):
    return tokenizer(b"a" * n, normalizer=sequence([replace("a", "a" * 200)] * 3))


@kind("normalizers that prepend a long text", 1 << 16)
def _(n):
    return tokenizer(b"ab" * 64, normalizer=sequence([{"type": "Prepend", "prepend": "a" * n}] * 16))


@kind("prepending to every stretch", 1 << 14)
def _(n):
    return tokenizer(b"ab" * n, normalizer={"type": "Prepend", "prepend": "a" * 100},
                     added_tokens=[added(1, "b", normalized=False)])


for form in ("NFC", "NFKD"):
    @kind(f"{form} of marks", 1 << 16)
    def _(n, form=form):
        marks = "\u0315\u0300\u0345\u0f71\u302a\u0334"
        return tokenizer(("a" + "".join(random.Random(1).choices(marks, k=n // 2))).encode(), normalizer={"type": form})


@kind("NFKC of letters that become eighteen", 1 << 16)
def _(n):
    return tokenizer("\ufdfa".encode() * (n // 3), normalizer={"type": "NFKC"})


@kind("one grapheme as long as the text", 1 << 17)
def _(n):
    blob = struct.pack("<II", 1024, 0) + bytes(1020) + b"\0"
    rules = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}
    return tokenizer(("a" + "\u0301" * (n // 2)).encode(), normalizer=rules)


@kind("rules of a charsmap", 1 << 20)
def _(n):
    blob = struct.pack("<I", n // 1024 * 1024) + b"\xff" * (n // 1024 * 1024) + b"a" * n
    rules = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}
    return tokenizer(b"abc" * 1000, normalizer=rules)


GROUPS.append("BPE")


@kind("merges in a chain", 1 << 17)
def _(n):
    last = 1000
    return tokenizer(b"a" * n, {"type": "BPE", "vocab": {"a" * i: i - 1 for i in range(1, last)},
                                "merges": [["a" * i, "a"] for i in range(1, last - 1)]})


@kind("merges of two halves, and a file of them", 200)
def _(n):
    return tokenizer(b"a" * 500 * n, {"type": "BPE", "vocab": {"a" * i: i - 1 for i in range(1, n)},
                                      "merges": [["a" * (i // 2), "a" * (i - i // 2)] for i in range(2, n)]})


@kind("merges that wait for the last letter", 1 << 17)
def _(n):
    letters = [chr(0x4e00 + i) for i in range(2000)]
    vocab = {c: i for i, c in enumerate(letters)}
    merges = []
    for i in range(1999, 0, -1):
        pair = letters[i - 1] + letters[i]
        if pair not in vocab:
            vocab[pair] = len(vocab)
            merges.append([letters[i - 1], letters[i]])
    return tokenizer(("".join(letters) * (n // 6000 + 1)).encode(), {"type": "BPE", "vocab": vocab, "merges": merges})


GROUPS.append("added tokens, user-defined pieces")


@kind("added tokens with one beginning", 1000)
def _(n):
    return tokenizer(b"a" * 300 * n, added_tokens=[added(3 + i, "a" * i + "b") for i in range(2, n)])


@kind("added tokens with one end", 1000)
def _(n):
    return tokenizer(b"a" * 300 * n, added_tokens=[added(3 + i, "b" + "a" * i) for i in range(2, n)])


@kind("thousands of added tokens", 8000)
def _(n):
    return tokenizer(b"<|special_1|> x" * n, added_tokens=[added(3 + i, f"<|special_{i}|>") for i in range(n)])


@kind("added tokens that take the same spaces", 1 << 17)
def _(n):
    return tokenizer(b" " * n, added_tokens=[added(2, " ")])


@kind("single words that are none", 1 << 17)
def _(n):
    return tokenizer(b"a" * n, added_tokens=[added(3, "aa", single_word=True)])


@kind("added tokens normalized to one text", 4000)
def _(n):
    return tokenizer(b"a" * n, normalizer=replace("[0-9]", "", "Regex"), added_tokens=[added(3 + i, f"a{i}") for i in range(n)])


GROUPS.append("Unigram, WordPiece")


@kind("a piece of each length (Unigram)", 500)
def _(n):
    return tokenizer(b"a" * 100 * n, {"type": "Unigram", "unk_id": 0, "vocab": [["a" * i, -1.0 - i] for i in range(1, n)]})


@kind("pieces of each length with scores at random", 500)
def _(n):
    scores = random.Random(2)
    return tokenizer(b"a" * 100 * n, {"type": "Unigram", "unk_id": 0,
                                      "vocab": [["a" * i, -i - scores.random()] for i in range(1, n)]})


@kind("pieces that end too late (Unigram)", 1 << 17)
def _(n):
    vocab = [["a", -1.0]] + [["a" * i + "b", -1.0] for i in range(1, 800)]
    return tokenizer(b"a" * n, {"type": "Unigram", "unk_id": 0, "vocab": vocab})


@kind("words that fail at their end (WordPiece)", 1 << 17)
def _(n):
    return tokenizer(b"a" * n, {"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": 1000,
                                "vocab": {"a": 0, "##a": 1, "##" + "a" * 2000: 2}},
                     pre_tokenizer={"type": "FixedLength", "length": 999})


@kind("a word as long as the text (WordPiece)", 1 << 17)
def _(n):
    return tokenizer(b"a" * n, {"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": 1 << 24,
                                "vocab": {"a": 0, "##a": 1, "##" + "a" * 2000: 2}})


GROUPS.append("expressions")


for i, expression in enumerate(("(a*)*c", "(a|a)*c", "a*a*a*c", "(?:(?:a{1,9}){1,9}){1,9}c", "(?=[\\s\\S]*+)b", "(?<=a+)b|x",
                                "\\s+(?!\\S)|c", "(a?){50}a{50}", "(?i:[^c]+c)", "((((((((((a*)*)*)*)*)*)*)*)*)*)*c", "(?>a*)c|$", "(?:.*b|a)*c",
                                "(?:(?>a*)b|a)*c", "(a*)(?:\\1b|a)*c", "(?~b)c", "[a-z]+[0-9]|(?!a+b).")):
    @kind(f"expression `{expression}`", 1 << 14)
    def _(n, expression=expression):
        # what the expression needs is there, but not where it would do
        return tokenizer((b" " if "\\s+" in expression else b"a") * n + b"d c", pre_tokenizer=split(expression))


@kind("expressions that cut each letter, ten times", 1 << 14)
def _(n):
    return tokenizer(b"a " * n, pre_tokenizer=sequence([split("a|b")] * 10, "pretokenizers"))


for name, part in (("of classes", "\\p{L}\\p{N}+[^\\s]|"), ("of classes within", "[^\\p{L}\\p{N}&&[^\\p{M}]]"), ("of letters of any case", "(?i:\u01c4\u00dfi)|"),
                   ("that repeats repetitions", "(?:(?:(?:\\p{L}{1,9}){1,9}){1,9}){1,9}|"), ("of captures", "(a)"), ("of alternatives", "a|")):
    @kind(f"a long expression {name}", 1 << 10)
    def _(n, part=part):
        return tokenizer(b"a" * 1000, pre_tokenizer=split((part * (n // len(part.encode()) + 1)).rstrip("|")))


@kind("an expression longer than is read", 1 << 17)
def _(n):
    return tokenizer(b"a" * 1000, pre_tokenizer=sequence([split("\\p{L}" * (n // 5 // 16))] * 16, "pretokenizers"))


GROUPS.append("vocabularies and JSON")


@kind("bytes that are no UTF-8", 1 << 18)
def _(n):
    return tokenizer(b"\xff" * n, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False},
                     decoder={"type": "ByteLevel"})


@kind("150,000 pieces and more", 75000)
def _(n):
    alphabet = random.Random(3)
    vocab = {"a": 0}
    while len(vocab) < n:
        vocab.setdefault("".join(alphabet.choices("abcdefgh", k=8)), len(vocab))
    return tokenizer(b"a", {"type": "BPE", "vocab": vocab, "merges": []})


@kind("keys that collide under a plain hash", 1 << 15)
def _(n):
    pairs = ["Aa", "BB"]  # equal under h * 31 + c, in any sequence
    keys = ["".join(pairs[i >> k & 1] for k in range(15)) for i in range(min(n, 1 << 15))]
    more = ["".join(pairs[i >> k & 1] for k in range(20)) for i in range(n - len(keys))]
    return tokenizer(b"AaBB" * 1000, {"type": "BPE", "vocab": {k: i for i, k in enumerate(keys + more)}, "merges": []})


@kind("ids with holes", 8000)
def _(n):
    return tokenizer(b"a", {"type": "BPE", "vocab": {chr(0x4e00 + i % 20000) + str(i): 3 * i for i in range(n)}, "merges": []})


@kind("a decoder that multiplies", 8000)
def _(n):
    return tokenizer(b"a", {"type": "BPE", "merges": [], "vocab": {f"a{i}": i for i in range(n)}},
                     decoder=sequence([replace("a", "a" * 30000), replace("a+", "", "Regex")], "decoders"))


@kind("JSON of nothing but zeros", 1 << 18)
def _(n):
    return b'{"model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}, "x": [' + b"0," * n + b"0]}", b"a", "tokenizer.json", \
        ("-m", "tokenize")


@kind("JSON that is deep", 1 << 18)
def _(n):
    return b'{"model":' * 1 + b'{"a":[' * n, b"a", "tokenizer.json", ("-m", "tokenize")


@kind("JSON with one key many times", 1 << 16)
def _(n):
    return b'{"model": {' + b'"a": 0,' * n + b'"b": 0}}', b"a", "tokenizer.json", ("-m", "tokenize")


@kind("JSON of quotes and escapes", 1 << 18)
def _(n):
    return b'{"model": {"type": "' + b'\\u0000\\ud83d\\ude00' * (n // 18) + b'"}}', b"a", "tokenizer.json", ("-m", "tokenize")


@kind("merges of quotes", 1 << 18)
def _(n):
    return b'{"model": {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": [' + b'"a a",' * (n // 6) + b'"a a"]}}', b"a", \
        "tokenizer.json", ("-m", "tokenize")


# ---- other vocabularies --------------------------------------------------------------------------------------------------

GROUPS.append("tiktoken, GGUF and sentencepiece vocabularies")


def ranks(words):
    return b"".join(base64.b64encode(w) + b" %d\n" % i for i, w in enumerate(words))


@kind("ranks in a chain (tiktoken)", 1 << 17)
def _(n):
    return ranks([bytes([c]) for c in range(256)] + [b"a" * i for i in range(2, 600)]), b"a" * n, "x.tiktoken", ("-m", "tokenize")


@kind("many ranks (tiktoken)", 1 << 16)
def _(n):
    return ranks([bytes([c]) for c in range(256)] + [b"%08d" % i for i in range(n)]), b"a", "x.tiktoken", ("-m", "tokenize")


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def array(item, n, body):
    return struct.pack("<IIQ", 9, item, n) + body


def string(s):
    return struct.pack("<I", 8) + text(s)


def gguf(keys, infos=b"", n_infos=0, n_keys=None, data=b""):
    out = b"GGUF" + struct.pack("<IQQ", 3, n_infos, len(keys) if n_keys is None else n_keys)
    return out + b"".join(text(k) + v for k, v in keys) + infos + bytes(64) + data


def gguf_words(model, words, kinds=None, prompt=b"", scores=None, **more):
    n = len(words)
    keys = [("tokenizer.ggml.model", string(model)), ("tokenizer.ggml.tokens", array(8, n, b"".join(map(text, words)))),
            ("tokenizer.ggml.scores", array(6, n, struct.pack(f"<{n}f", *(scores or map(float, range(n)))))),
            ("tokenizer.ggml.token_type", array(5, n, struct.pack(f"<{n}i", *(kinds or [1] * n))))]
    keys += [(k, v) for k, v in more.items()]
    return gguf(keys), prompt, "m.gguf", ("-m", "tokenize")


HEAD = ["<unk>", "<s>", "</s>"]


@kind("scores in a chain (GGUF)", 1 << 17)
def _(n):
    return gguf_words("llama", HEAD + ["a" * i for i in range(1, 1000)], prompt=b"a" * n)


@kind("scores that are equal (GGUF)", 1 << 17)
def _(n):
    return gguf_words("llama", HEAD + ["a" * i for i in range(1, 1000)], prompt=b"a" * n, scores=[0.0] * 1002)


@kind("a user-defined piece as long as can be", 1 << 17)
def _(n):
    return gguf_words("llama", HEAD + ["a" * 60000 + "b", "aa"], [3, 3, 3, 4, 4], b"a" * n)


@kind("user-defined pieces of each length", 500)
def _(n):
    return gguf_words("llama", HEAD + ["a" * i + "b" for i in range(2, n)], [3] * 3 + [4] * (n - 2), b"a" * 500 * n)


@kind("Unigram of a GGUF, a piece of each length", 500)
def _(n):
    words = HEAD + ["\u2581" + "a" * i for i in range(n)] + ["a" * i for i in range(1, n)]
    return gguf_words("t5", words, [3] * 3 + [1] * (2 * n - 1), b"a" * 100 * n, [-float(len(w)) for w in words])


@kind("WordPiece of a GGUF", 500)
def _(n):
    words = HEAD + ["\u2581" + "a" * i for i in range(1, n)] + ["a" * i for i in range(1, n)] + ["a" * 60000 + "b"]
    return gguf_words("bert", words, prompt=b"a" * 100 * n)


@kind("pre-tokenizer of GPT-2 on spaces", 1 << 16)
def _(n):
    return gguf_words("gpt2", ["a", "\u0120", "\u0120\u0120"], prompt=b" " * n, **{"tokenizer.ggml.pre": string("gpt-2"),
                      "tokenizer.ggml.merges": array(8, 1, text("\u0120 \u0120"))})


@kind("pre-tokenizer of tiny-aya on digits", 1 << 16)
def _(n):
    return gguf_words("gpt2", ["a", "\u0120", "\u0120\u0120"], prompt=b"1" * n, **{"tokenizer.ggml.pre": string("tiny_aya"),
                      "tokenizer.ggml.merges": array(8, 1, text("\u0120 \u0120"))})


SPM = (ROOT / "tests/fixtures/tokenizers/spm.model").read_bytes()


@kind("sentencepiece's library, no UTF-8", 1 << 17)
def _(n):
    return SPM, b"\xff" * n, "spm.model", ("-m", "tokenize")


@kind("sentencepiece's library, one word", 1 << 15)
def _(n):
    return SPM, b"a" * n, "spm.model", ("-m", "tokenize")


def field(number, data):
    size, n = b"", len(data)
    while n >= 128:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


@kind("pieces of each length for sentencepiece's library", 250)
def _(n):
    pieces = b"".join(field(1, field(1, b"a" * i) + b"\x15" + struct.pack("<f", -i)) for i in range(2, n))
    return SPM + pieces, b"a" * 100 * n, "spm.model", ("-m", "tokenize")


# ---- models --------------------------------------------------------------------------------------------------------------

def llama2c(words):
    return struct.pack("<i", max(map(len, words))) + b"".join(struct.pack("<fi", float(i), len(w)) + w for i, w in enumerate(words))


@kind("tokenizer.bin in a chain", 1 << 17)
def _(n):
    return llama2c([b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)] + [b"a" * i for i in range(1, 1000)]), b"a" * n, \
        "tokenizer.bin", ("-m", "tokenize")


@kind("tokenizer.bin of many words", 1 << 15)
def _(n):
    return llama2c([b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"%07d" % i for i in range(n)]), b"a", "tokenizer.bin", ("-m", "tokenize")


@kind("decoding many tokens", 1 << 15)
def _(n):
    return json.dumps({"model": {**BPE, "vocab": {"a" * 1000: 0}}}).encode(), None, "tokenizer.json", ("-m", "tokenize", "--tokens", "0," * (n // 8) + "0")


GROUPS.append("model files")


@kind("GGUF: an array as long as the file", 1 << 21)
def _(n):
    return gguf([("general.architecture", string("llama")), ("x", array(0, n, bytes(n)))]), None, "m.gguf", ("-m", "info")


@kind("GGUF: arrays in arrays", 1 << 16)
def _(n):
    return gguf([("general.architecture", string("llama")), ("x", array(9, 1, struct.pack("<IQ", 9, 1) * n))]), None, "m.gguf", ("-m", "info")


@kind("GGUF: an array of empty strings", 1 << 17)
def _(n):
    return gguf([("general.architecture", string("llama")), ("x", array(8, n, bytes(8 * n)))]), None, "m.gguf", ("-m", "info")


@kind("GGUF: counts beyond the file", 1 << 20)
def _(n):
    return gguf([("x", struct.pack("<IIQ", 9, 0, 1 << 60) + bytes(n))], n_keys=1 << 40, n_infos=1 << 40), None, "m.gguf", \
        ("-m", "info")


@kind("GGUF: many keys", 1 << 15)
def _(n):
    return gguf([(f"k{i}", struct.pack("<IB", 0, 0)) for i in range(n)]), None, "m.gguf", ("-m", "info")


@kind("GGUF: one key as long as the file", 1 << 20)
def _(n):
    return gguf([("k" * n, string("x" * n))] * 2), None, "m.gguf", ("-m", "info")


@kind("GGUF: many tensors", 1 << 15)
def _(n):
    infos = b"".join(text(f"t{i}") + struct.pack("<IQIQ", 1, 1, 0, 32 * i) for i in range(n))
    return gguf([("general.architecture", string("llama"))], infos, n, data=bytes(32 * n)), None, "m.gguf", ("-m", "info")


@kind("GGUF: many tensors of one name", 1 << 15)
def _(n):
    infos = b"".join(text("a") + struct.pack("<IQIQ", 1, 1, 0, 32 * i) for i in range(n))
    return gguf([("general.architecture", string("llama"))], infos, n, data=bytes(32 * n)), None, "m.gguf", ("-m", "info")


CONFIG = json.loads((ROOT / "tests/fixtures/base_hf/config.json").read_text())


WEIGHTS = (ROOT / "tests/fixtures/base_hf/model.safetensors").read_bytes()


def huggingface(config, header=None):
    weights = struct.pack("<Q", len(header)) + header if header else WEIGHTS
    return weights, None, "model.safetensors", ("-m", "info"), config if isinstance(config, bytes) else json.dumps(config).encode()


TOKENIZER = json.dumps({"model": BPE, "added_tokens": [added(1, "b", special=True)]}).encode()


def directory(args=("-m", "tokenize"), prompt=b"a", **files):
    """A Hugging Face directory; the files' names have _json for .json."""
    names = {"config.json": json.dumps({**CONFIG, "vocab_size": 64}).encode(), "model.safetensors": WEIGHTS, "tokenizer.json": TOKENIZER}
    names.update({name.replace("_json", ".json").replace("_txt", ".txt"): data if isinstance(data, bytes) else json.dumps(data).encode()
                  for name, data in files.items()})
    return {name: data for name, data in names.items() if data}, prompt, "", args


@kind("tokenizer_config.json: many added tokens", 1 << 12)
def _(n):
    return directory(tokenizer_config_json={"added_tokens_decoder": {str(i): {"content": f"<{i}>", "special": True} for i in range(3, n)}})


@kind("tokenizer_config.json: many templates", 1 << 12)
def _(n):
    return directory(tokenizer_config_json={"chat_template": [{"name": f"t{i}", "template": "{{ 1 }}"} for i in range(n)]})


@kind("special_tokens_map.json: many tokens", 1 << 14)
def _(n):
    return directory(special_tokens_map_json={"additional_special_tokens": [f"<{i}>" for i in range(n)], "eos_token": "b"})


@kind("added_tokens.json: many tokens", 1 << 14)
def _(n):
    return directory(added_tokens_json={f"<{i}>": i + 3 for i in range(n)})


@kind("generation_config.json: many ends", 1 << 14)
def _(n):
    return directory(("-m", "info"), None, generation_config_json={"eos_token_id": list(range(n))})


@kind("vocab.json and merges.txt", 1 << 15)
def _(n):
    words = {"a": 0, "b": 1, **{"%06d" % i: i + 2 for i in range(n)}}
    return directory(tokenizer_json=b"", vocab_json=words, merges_txt=b"#version: 0.2\n" + b"a a\n" * n, tokenizer_config_json={
        "tokenizer_class": "GPT2Tokenizer"})


@kind("an index of many shards", 1 << 14)
def _(n):
    return directory(("-m", "info"), None, **{"model.safetensors": b"", "model.safetensors.index.json": {"weight_map": {f"t{i}": f"s{i % 999}.safetensors" for i in range(n)}}})


@kind("safetensors: many tensors", 1 << 14)
def _(n):
    return huggingface(CONFIG, json.dumps({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(n)}).encode())


@kind("safetensors: many tensors of one name", 1 << 14)
def _(n):
    one = b'"t": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}'
    return huggingface(CONFIG, b"{" + b",".join([one] * n) + b"}")


@kind("safetensors: a shape of many numbers", 1 << 16)
def _(n):
    return huggingface(CONFIG, b'{"t": {"dtype": "F32", "shape": [' + b"1," * n + b'1], "data_offsets": [0, 0]}}')


@kind("config.json with long lists", 1 << 13)
def _(n):
    return huggingface({**CONFIG, "layer_types": ["full_attention"] * n, "rope_scaling": {"rope_type": "longrope",
                       "short_factor": [1.0] * n, "long_factor": [1.0] * n}})


@kind("config.json with numbers of many digits", 1 << 18)
def _(n):
    return huggingface(json.dumps(CONFIG).replace('"vocab_size": ', '"transformers_version": 1' + "0" * n + ', "vocab_size": ').encode())


# ---- chat templates --------------------------------------------------------------------------------------------------------

GROUPS.append("chat templates")


def template(source, prompt=b"a"):
    return source.encode(), prompt, "x.jinja", ("-m", "chat", "-t", "0", "-n", "1", "--quiet")


@kind("template: loops in loops", 200)
def _(n):
    return template("".join(f"{{% for x{i} in range({n}) %}}" for i in range(8)) + "{% endfor %}" * 8)


@kind("template: a text that doubles", 20)
def _(n):
    return template("{% set ns = namespace(s='a') %}{% for i in range(" + str(n) + ") %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}")


@kind("template: a list that doubles", 20)
def _(n):
    return template("{% set ns = namespace(s=[1]) %}{% for i in range(" + str(n) + ") %}{% set ns.s = ns.s + ns.s %}{% endfor %}")


@kind("template: a text that grows by one", 10000)
def _(n):
    return template("{% set ns = namespace(s='') %}{% for i in range(" + str(n) + ") %}{% set ns.s = ns.s ~ 'a' %}{% endfor %}")


@kind("template: output without end", 1 << 14)
def _(n):
    return template("{% for i in range(100000000) %}" + "a" * n + "{% endfor %}")


@kind("template: brackets in brackets", 1 << 15)
def _(n):
    return template("{{ " + "(" * n + "1" + ")" * n + " }}")


@kind("template: blocks in blocks", 1 << 14)
def _(n):
    return template("{% if true %}" * n + "{% endif %}" * n)


@kind("template: lists in lists", 40)
def _(n):
    return template("{% set ns = namespace(x=[]) %}{% for i in range(" + str(n) + ") %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}")


@kind("template: a macro that calls itself", 1 << 10)
def _(n):
    return template("{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f('" + "a" * n + "') }}")


@kind("template: filters in a chain", 1 << 13)
def _(n):
    return template("{{ 'a'" + "|upper|lower" * n + " }}")


@kind("template: indented, replaced, multiplied", 1 << 10)
def _(n):
    return template("{{ ('a\n' * " + str(n) + ")|indent(" + str(n) + ")|replace('a', 'a' * " + str(n) + ")|length }}")


@kind("template: a list sorted again and again", 1 << 9)
def _(n):
    return template("{% for i in range(" + str(n) + ") %}{{ (range(" + str(n) + ")|list|sort|unique|list)|length }}{% endfor %}")


@kind("template: words of a long message", 1 << 14)
def _(n):
    return template("{% for w in messages[0].content.split(' ') %}{% if w in messages[0].content %}{% endif %}{% endfor %}",
                    b"ab " * n)


@kind("template: a long message sliced", 1 << 14)
def _(n):
    return template("{% for c in messages[0].content %}{{ messages[0].content[loop.index0:][:0] }}{% endfor %}", b"ab " * n)


@kind("template: a message of special tokens", 1 << 14)
def _(n):
    return template("{{ messages[0].content | trim }}", b"<|im_end|>" * n)


@kind("template: a tokenizer's own, of comments", 1 << 17)
def _(n):
    return template("{# a #}" * n)


# ---- measuring -------------------------------------------------------------------------------------------------------------

# A child's peak of memory begins with its parent's, so a small process starts them.
SPAWNER = """
import json, os, sys
for line in sys.stdin:
    command, out, err = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for fd, path, flags in (0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), (2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            os.dup2(os.open(path, flags), fd)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, os.waitstatus_to_exitcode(status)]), flush=True)
"""
spawner = subprocess.Popen([sys.executable, "-I", "-S", "-c", SPAWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def spawn(command, out, err):
    """-> [seconds of processor time, bytes of memory at the peak, exit code]."""
    spawner.stdin.write(json.dumps([command, str(out), str(err)]) + "\n")
    spawner.stdin.flush()
    return json.loads(spawner.stdout.readline())


def run(program, made, folder):
    """-> (seconds, bytes, status, standard error, bytes of the files, bytes of the prompt)."""
    data, prompt, name, args, *config = made
    folder = pathlib.Path(folder)
    path = folder / (name or "model")
    if isinstance(data, dict):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for each, content in data.items():
            (path / each).write_bytes(content)
    else:
        path.write_bytes(data)
    command = [program, str(path), *args]
    if name.endswith(".jinja"):
        command = [program, str(ROOT / "weights/shakespeare.gguf"), *args, "--chat-template", str(path), "-j", "1"]
    if config:
        (folder / "config.json").write_bytes(config[0])
    if prompt is not None:
        (folder / "prompt").write_bytes(prompt)
        command += ["-f", str(folder / "prompt")]
    size = sum(map(len, data.values())) if isinstance(data, dict) else len(data)
    seconds, memory, code = spawn(command, folder / "out", folder / "err")
    return seconds, memory, code, (folder / "err").read_bytes(), size + sum(map(len, config)), len(prompt or b"")


def allowed(prompt, file):
    """Bytes of memory beside the program's own."""
    return 64 * MIB + 8 * prompt + 48 * file


def nothing(made):
    """What is run to know the fixed costs."""
    _, _, name, _, *_ = made
    if name.endswith(".jinja"):
        return template("a")
    return tokenizer(b"a")


def measure(program, group, name, first, make, rounds, folder):
    """-> a row of the table, as a dictionary."""
    base = min((run(program, nothing(make(8)), folder) for _ in range(rounds)), key=lambda r: r[0])
    points = []
    for k in range(DOUBLINGS + 1):
        made = make(first << k)
        points.append(min((run(program, made, folder) for _ in range(rounds)), key=lambda r: r[0]))
    _, memory, code, err, file, prompt = points[-1]
    times = [max(p[0] - base[0], 1e-4) for p in points]
    ratio = max(points[-1][i] / max(points[0][i], 1) for i in (4, 5))  # of the file or of the prompt
    growth = (times[-1] / times[0]) ** (1 / math.log2(ratio)) if ratio > 1.9 and not code and times[-1] > 0.02 else 0
    more = max(0, memory - base[1])
    wrong = []
    if times[-1] > 1:
        wrong.append("slow")
    if growth > 2.5 and times[-1] > 0.1:
        wrong.append("grows")
    if more > allowed(prompt, file):
        wrong.append("large")
    if code not in (0, 1) or (code and not err.startswith(b"run: ")):
        wrong.append(f"exit {code}")
    refused = err.decode(errors="replace").split(": ", 2)[-1][:60].split("\n")[0] if code else ""
    return {"group": group, "name": name, "file": file, "prompt": prompt, "seconds": times[-1], "growth": growth, "more": more,
            "each": more / (file + prompt), "refused": refused, "wrong": " ".join(wrong)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="words of the names of kinds; default: all")
    parser.add_argument("--run", default=str(ROOT / "run"))
    parser.add_argument("--rounds", type=int, default=3, help="the fastest of so many runs counts")
    parser.add_argument("--each", action="store_true", help="a row for each kind, not for each group of them")
    args = parser.parse_args()
    rows = []
    if args.each:
        print("| kind | file | prompt | ms | growth | MiB | bytes a byte | |\n|---|---:|---:|---:|---:|---:|---:|---|")
    for group, name, first, make in KINDS:
        if args.kinds and not any(word in name for word in args.kinds):
            continue
        with tempfile.TemporaryDirectory() as folder:
            r = measure(args.run, group, name, first, make, args.rounds, folder)
        rows.append(r)
        if args.each:
            print(f"| {name} | {r['file']} | {r['prompt']} | {1000 * r['seconds']:.0f} | {r['growth'] and round(r['growth'], 2) or ''} | "
                  f"{r['more'] / MIB:.1f} | {r['each']:.1f} | {r['refused']} {r['wrong']} |", flush=True)
        elif r["wrong"]:
            print(name, r, file=sys.stderr)
    if not args.each:
        print("| kinds | of them refused | slowest, ms | growth at most | MiB at most |\n|---|---:|---:|---:|---:|")
        for group in GROUPS:
            of = [r for r in rows if r["group"] == group]
            if of:
                print(f"| {group} | {sum(r['refused'] > '' for r in of)} of {len(of)} | {max(1000 * r['seconds'] for r in of):.0f} | "
                      f"{max(r['growth'] for r in of):.1f} | {max(r['more'] for r in of) / MIB:.0f} |")
    return any(r["wrong"] for r in rows)


if __name__ == "__main__":
    sys.exit(main())

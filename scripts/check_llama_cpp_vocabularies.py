#!/usr/bin/env python3
"""check_llama_cpp_vocabularies.py DIR [RUN] - ids of real vocabularies against those that llama.cpp expects.

DIR is llama.cpp's models/ directory: of each ggml-vocab-NAME.gguf the texts are in NAME.gguf.inp and their ids in
NAME.gguf.out. Nothing of it is kept here. Exit 1 when an id differs.
"""
import pathlib
import subprocess
import sys

directory = pathlib.Path(sys.argv[1])
run = sys.argv[2] if len(sys.argv) > 2 else "./run"
texts = differ = 0
for file in sorted(directory.glob("ggml-vocab-*.gguf.inp")):
    vocabulary = file.with_suffix("")
    inputs = file.read_bytes().decode().split("\n__ggml_vocab_test__\n")
    outputs = pathlib.Path(f"{vocabulary}.out").read_text().splitlines()
    wrong = 0
    for text, expected in zip(inputs, outputs):
        r = subprocess.run([run, str(vocabulary), "-m", "tokenize", "--no-bos", "--no-special", "--quiet", "-f", "-"],
                           input=text.encode(), capture_output=True)
        found = r.stdout.decode().split()
        if found != expected.split():
            wrong += 1
            if wrong < 4:
                print(f"  {text!r}\n    expected {' '.join(expected.split())}\n    found    {' '.join(found)} {r.stderr.decode()}")
    print(f"{vocabulary.name}: {wrong} of {len(outputs)} differ")
    texts, differ = texts + len(outputs), differ + wrong
print(f"{texts - differ} of {texts} texts: equal ids")
sys.exit(1 if differ or not texts else 0)

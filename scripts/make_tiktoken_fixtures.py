#!/usr/bin/env python3
"""make_tiktoken_fixtures.py - writes tests/fixtures/tokenizers/{ranks.tiktoken,tekken.json,tiktoken_cases.json}.

A small vocabulary of byte strings and ranks, made of the merges of bpe_gpt-2, as OpenAI's text file and as Mistral's
tekken.json; the ids of some texts by tiktoken and by mistral-common. Needs: pip install tiktoken mistral-common.
"""
import base64
import json
import pathlib
import re

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

OUT = pathlib.Path(__file__).parent.parent / "tests/fixtures/tokenizers"
source = (pathlib.Path(__file__).parent / "make_tokenizer_fixtures.py").read_text()
TEXTS = eval(re.search(r"^TEXTS = (\[.*?\])\nINVALID", source, re.M | re.S).group(1))
TEXTS = [t for t in TEXTS if "\ufffd" not in t and "\0" not in t]
# Any file of ranks whose number is not known is cut as transformers' TikTokenConverter cuts it.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")

shown = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
letters = {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}
ranks = {bytes([b]): b for b in range(256)}
model = json.loads((OUT / "bpe_gpt-2/tokenizer.json").read_text())["model"]
for merge in model["merges"]:
    text = "".join(merge if isinstance(merge, list) else merge.split(" "))
    ranks.setdefault(bytes(letters[c] for c in text), len(ranks))

(OUT / "ranks.tiktoken").write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()))
special = [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])]
tekken = {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(ranks), "default_vocab_size": len(ranks) - 10 + 8,
                     "default_num_special_tokens": 8, "version": "v13"},
          "special_tokens": special,
          "vocab": [{"rank": r, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for t, r in ranks.items()]}
(OUT / "tekken.json").write_text(json.dumps(tekken) + "\n")

openai = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
mistral = Tekkenizer.from_file(OUT / "tekken.json")
cases = [{"file": "ranks.tiktoken", "text": t, "ids": openai.encode_ordinary(t)} for t in TEXTS]
cases += [{"file": "tekken.json", "text": t, "ids": mistral.encode(t, True, False)} for t in TEXTS]
(OUT / "tiktoken_cases.json").write_text("[" + ",\n".join(json.dumps(c) for c in cases) + "]\n")
print(len(cases), "cases,", len(ranks), "ranks")

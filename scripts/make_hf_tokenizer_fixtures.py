#!/usr/bin/env python3
"""make_hf_tokenizer_fixtures.py - writes tests/fixtures/tokenizers/{hf_cases.json,spm_llama,spm_fast}.

Directories put together from the vocabularies of tests/fixtures/tokenizers and from files beside them (tokenizer_config.json,
special_tokens_map.json, added_tokens.json, config.json): for each, the ids that transformers' AutoTokenizer gives for some
texts. Needs: pip install transformers sentencepiece protobuf.
"""
import json
import os
import pathlib
import shutil
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers
from transformers import AutoTokenizer

transformers.logging.set_verbosity_error()
OUT = pathlib.Path(__file__).parent.parent / "tests/fixtures/tokenizers"
TEXT = "  hello world</s>the lion <|im_start|>x 123"
TEXTS = [TEXT, "a", " a", "", "hello  world </s> x<s>y", "\u2581a \u2581 b", "e\u0301 it's 1234\n\n\tz"]
LLAMA = {"tokenizer.json": "llama/tokenizer.json"}
BYTES = {"tokenizer.json": "bpe_smollm/tokenizer.json"}
SPM = {"tokenizer.model": "spm.model"}
GPT2 = {"vocab.json": "gpt2_files/vocab.json", "merges.txt": "gpt2_files/merges.txt"}
AT = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
cases = []


def case(files, config=None, model="llama", *texts):
    """files: name -> a fixture's path, or what the file holds."""
    files = dict(files)
    files["config.json"] = {"model_type": model}
    if config is not None:
        files["tokenizer_config.json"] = config
    with tempfile.TemporaryDirectory() as d:
        for name, source in files.items():
            if isinstance(source, str):
                shutil.copy(OUT / source, f"{d}/{name}")
            else:
                pathlib.Path(f"{d}/{name}").write_text(json.dumps(source))
        t = AutoTokenizer.from_pretrained(d)
        tests = [{"text": text, "ids": t(text)["input_ids"]} for text in [*texts, *TEXTS]]
        cases.append({"files": files, "class": type(t).__name__, "bos": t.bos_token_id, "eos": t.eos_token_id, "tests": tests})


def fast(**config):
    return {"tokenizer_class": "PreTrainedTokenizerFast", **config}


def llama(**config):
    return {"tokenizer_class": "LlamaTokenizer", **config}


# the class and its settings
case(LLAMA)
case(LLAMA, fast())
case(LLAMA, llama())
case(LLAMA, {"tokenizer_class": "LlamaTokenizerFast", "legacy": True})
case(LLAMA, llama(legacy=False))
case(LLAMA, llama(add_bos_token=False))
case(LLAMA, llama(add_prefix_space=False))
case(LLAMA, llama(add_eos_token=True))
case(LLAMA, llama(), "mistral")
case(BYTES, fast(add_prefix_space=True))
case(BYTES, {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "bos_token": "<|im_start|>"})
# a sentencepiece model
case(SPM, llama())
case(SPM, llama(add_bos_token=True))
case(SPM, llama(add_bos_token=True, add_eos_token=True))
case(SPM, llama(legacy=True))
case(SPM, llama(legacy=False))
case(SPM, llama(add_prefix_space=False))
case(SPM, fast())
case(SPM, fast(legacy=False))
case(SPM, fast(add_bos_token=True))
case(SPM, llama(), "mistral")
case(SPM, llama(add_bos_token=True, legacy=False), "mistral")
# added tokens
case({**SPM, "added_tokens.json": {"<|new|>": 420, "<z>": 421}}, llama(add_bos_token=True), "llama", "a<|new|>b<z>c")
case({**SPM, "added_tokens.json": {"<b>": 440, "<a>": 430}}, llama(), "llama", "a<a>b<b>")
case({**SPM, "added_tokens.json": {"<e>": 420}}, llama(eos_token="<e>"), "llama", "a <e> b")
case(SPM, llama(added_tokens_decoder={"420": {"content": "<|n|>", "special": True, **AT}, "421": {"content": "<m>", **AT}}),
     "llama", "a <|n|> b<m>c")
case(LLAMA, fast(added_tokens_decoder={"500": {"content": "<x5>", "special": True},
                                       "420": {"content": "<x4>", "special": False, "lstrip": True}}),
     "llama", "a <x5> b <x4> c")
case({**LLAMA, "added_tokens.json": {"<j1>": 450}}, fast(), "llama", "a<j1>b")
case(BYTES, fast(added_tokens_decoder={"7": {"content": "\"", "special": False}}), "llama", "a\"b")
# special tokens
case({**SPM, "special_tokens_map.json": {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>", **AT}}},
     llama(add_bos_token=True))
case({**LLAMA, "special_tokens_map.json": {"eos_token": "<neweos>", "additional_special_tokens": ["<q>"]}}, fast(), "llama",
     "a<neweos>b<q>")
case({**LLAMA, "special_tokens_map.json": {"eos_token": "<unread>"}}, fast(added_tokens_decoder={}), "llama", "a<unread>b")
case({**LLAMA, "special_tokens_map.json": {"pad_token": {**AT, "content": "<p>", "rstrip": True}}}, fast(), "llama", "a <p> b")
case(LLAMA, fast(extra_special_tokens=["<e1>", "<e2>"], additional_special_tokens=["<e3>"]), "llama", "a<e1>b<e2><e3>")
case(LLAMA, fast(additional_special_tokens=["<e3>", "</s>"]), "llama", "a<e1>b<e2><e3>")
case(LLAMA, fast(extra_special_tokens={"image_token": "<image>"}), "llama", "a<image>b")
case(LLAMA, fast(image_token="<image>", eos_token="<myeos>", pad_token="<padnew>"), "llama", "a<image>b<myeos><padnew>")
# vocab.json and merges.txt
case(GPT2, None, "gpt2")
case(GPT2, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, "gpt2")
case(GPT2, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True}, "gpt2")
case(GPT2, {"add_bos_token": True, "bos_token": "<|im_start|>"}, "gpt2")
case({**GPT2, "special_tokens_map.json": {"eos_token": "<|im_end|>"}}, {}, "gpt2", "a<|im_end|>")
case({**GPT2, "added_tokens.json": {"<n>": 420}}, {}, "gpt2", "a<n>b<|im_start|>")
case(GPT2, {"tokenizer_class": "Qwen2Tokenizer"}, "qwen2")
case(GPT2, None, "qwen3", "e\u0301 it's\n\n 123 <|im_start|>x")

# two of them as directories, for the tests that run the program
for name, config in {"spm_llama": llama(added_tokens_decoder={"420": {"content": "<z>", **AT}}), "spm_fast": fast()}.items():
    (OUT / name).mkdir(exist_ok=True)
    shutil.copy(OUT / "spm.model", OUT / name / "tokenizer.model")
    (OUT / name / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": True, "chat_template": "{{ 1 }}"}) + "\n")

(OUT / "hf_cases.json").write_text("[" + ",\n".join(json.dumps(c) for c in cases) + "]\n")
print(len(cases), "directories,", sum(len(c["tests"]) for c in cases), "texts")

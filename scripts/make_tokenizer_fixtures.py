#!/usr/bin/env python3
"""make_tokenizer_fixtures.py [DIR] - small tokenizers of every kind and what their references make of a list of texts.

Writes to tests/fixtures/tokenizers: a sentencepiece model trained here (also as tokenizer.bin, GGUF and tokenizer.json)
and a byte-level BPE trained here (as tokenizer.json, GGUF with each pre-tokenizer, and vocab.json with merges.txt).
cases.tsv has a line for each file and text: file, flags of tokenizer_encode, text as hex, ids, and the decoded
text as hex ("-": not compared). splits.json has one text, a vocabulary of all its parts, and for many pre-tokenizers
the ids of the parts that they cut it into. The ids come from sentencepiece and from Hugging Face's tokenizers, never
from this project. Needs: pip install sentencepiece tokenizers gguf.
"""
import io
import json
import pathlib
import random
import re
import struct
import sys

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/fixtures/tokenizers")
SPECIAL = 2  # TOKENIZE_SPECIAL

TEXTS = ["", " ", "  ", "   ", "\t", "\n", "\n\n\n", "\r\n", " \n ", "a", " a", "a ", "hello world", " hello  world ",
         "Hello, World!", "don't I'LL we're it's 'S 's", "0", "7", "1234567890", "3.14159", "x1y22z333", "4 1/2", "½ Ⅷ ²",
         "٣٤٥", "naïve café", "e\u0301", "\u1100\u1161\u11a8", "\u0327\u0301", "你好，世界！", "한국어", "שלום", "ไทย",
         "😀", "👩\u200d👩\u200d👧", "🇫🇷", "👍🏽", "\u00a0", "\u3000", "a\u180eb", "\u2028", "\x00", "a\x00b", "\x01\x02\x7f",
         "\x1b[31m", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|> user", " <|im_end|> ", "<|im_start|", "<s>", "</s> <unk>",
         "x</s>y", "<pad>", " <pad> b", "word", "a word.", "words sword", "<0x41>", "▁", "▁hello", "a▁b", "_ _", "!!!???...",
         "((((", "for (int i = 0; i < n; i++) {\n\tx[i] += 1;\n}", "https://example.com/a?b=c", "ab" * 30, "a" * 70,
         " " * 40, "the lion and the lamb sat by the river", "ſ 'ſ", "\U0001F999", "\U00012397", "\U0010FFFF", "\ufffd"]
INVALID = [b"\xff", b"\xc3\x28", b"x\xf0\x9f\x98y", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ab\xffcd", b"\xc0\x80", b"\xe6"]


def corpus(seed=1):
    """Sentences of a small made-up language that looks like English."""
    rng = random.Random(seed)
    nouns = "lion lamb river stone teacher winter garden letter number window thought children hello world".split()
    verbs = "sat walked was thinking reading wrote finds isn't said don't shows".split()
    rest = "the a of and by in with 12 3.5 1999 café (see) \"so\" it's we're very , . ! ?".split()
    return [" ".join(rng.choice(rng.choice([nouns, verbs, rest, rest])) for _ in range(rng.randint(4, 14))) + rng.choice(".!?\n")
            for _ in range(3000)]


def one_by_one(data):
    """Text in which each byte that is no UTF-8 is U+FFFD, as sentencepiece reads it."""
    out = ""
    while data:
        for n in range(1, 5):
            try:
                out, data = out + data[:n].decode(), data[n:]
                break
            except UnicodeDecodeError:
                continue
        else:
            out, data = out + "\ufffd", data[1:]
    return out


rows = []


def add_rows(file, flags, encode, decode=None):
    for data in [t.encode() for t in TEXTS] + INVALID:
        ids = encode(data)
        text = decode(ids) if decode else None
        shown = "-" if text is None or "\ufffd" in text else text.encode().hex()
        rows.append(f"{file}\t{flags}\t{data.hex()}\t{' '.join(map(str, ids))}\t{shown}")


def write_gguf(path, model, pre, tokens, kinds, scores=None, merges=None, bos=1, eos=2, add_bos=True, add_space=None):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    if scores is not None:
        w.add_token_scores(scores)
    if merges is not None:
        w.add_token_merges(merges)
    w.add_bos_token_id(bos)
    w.add_eos_token_id(eos)
    w.add_unk_token_id(0)
    w.add_add_bos_token(add_bos)
    if add_space is not None:
        w.add_add_space_prefix(add_space)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def sentencepiece_family():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, user_defined_symbols="<|im_start|>,<|im_end|>",
        minloglevel=2, num_threads=1)
    (OUT / "spm.model").write_bytes(model.getvalue())
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    n = sp.vocab_size()
    tokens = [sp.id_to_piece(i) for i in range(n)]
    scores = [sp.get_score(i) for i in range(n)]
    user = {"<|im_start|>", "<|im_end|>"}
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if t in user else 1
             for i, t in enumerate(tokens)]
    write_gguf(OUT / "spm.gguf", "llama", "default", tokens, kinds, scores=scores, add_space=True)
    texts = [{1: "\n<s>\n", 2: "\n</s>\n"}.get(i, t).replace("▁", " ").encode() for i, t in enumerate(tokens)]
    with open(OUT / "spm.bin", "wb") as f:
        f.write(struct.pack("<I", max(map(len, texts))))
        for text, score in zip(texts, scores):
            f.write(struct.pack("<fI", score, len(text)) + text)
    for file in ("spm.model", "spm.bin"):
        add_rows(file, SPECIAL, sp.encode, sp.decode)
    special = {t.encode(): i for i, t in enumerate(tokens) if kinds[i] in (2, 3, 4)}

    def cut_first(data):
        """As llama.cpp reads a GGUF: special tokens cut the text, and each part is encoded as one that stands alone."""
        parts = re.split(b"(" + b"|".join(map(re.escape, special)) + b")", data)
        return [i for part in parts if part for i in ([special[part]] if part in special else sp.encode(part))]

    add_rows("spm.gguf", SPECIAL, cut_first, lambda ids: None if set(ids) & set(special.values()) else sp.decode(ids))

    ids = {t: i for i, t in enumerate(tokens)}
    splits = [(scores[i], a, b) for t, i in ids.items() if kinds[i] == 1
              for a, b in [(t[:k], t[k:]) for k in range(1, len(t))] if a in ids and b in ids]
    merges = [(a, b) for _, a, b in sorted(splits, key=lambda x: (-x[0], ids[x[1]], ids[x[2]]))]
    for name in ("llama", "metaspace"):
        t = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        t.decoder = decoders.Sequence(steps)
        if name == "llama":
            t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in ("<unk>", "<s>", "</s>")])
        t.add_tokens([AddedToken("<pad>", lstrip=True, rstrip=True, normalized=False),
                      AddedToken("word", single_word=True, normalized=False)])
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        save(t, name, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": {"content": "</s>"},
                       "chat_template": "{{ messages }}"})
        add_rows(name, SPECIAL, hugging_face(t))


def hugging_face(t):
    return lambda data: t.encode(one_by_one(data), add_special_tokens=False).ids


def save(t, name, config=None):
    (OUT / name).mkdir(exist_ok=True)
    (OUT / name / "tokenizer.json").write_text(t.to_str() + "\n")
    if config:
        (OUT / name / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def byte_level_family():
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    qwen2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
    llama3 = qwen2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
    split = lambda regex: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), bytes_only])
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = gpt2
    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set("ĕ÷øù"))  # some bytes have no token, as in SmolLM2
    trained.train_from_iterator(corpus(2), trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet,
                                                               show_progress=False))
    state = json.loads(trained.to_str())["model"]
    vocab, merges = state["vocab"], [tuple(m) for m in state["merges"]]
    tokens = sorted(vocab, key=vocab.get)
    kinds = [3 if x in special else 1 for x in tokens]
    families = {"gpt-2": (gpt2, None, False), "smollm": (digits, None, False), "qwen2": (split(qwen2), normalizers.NFC(), False),
                "llama-bpe": (split(llama3), None, True)}
    for pre, (cutter, normalizer, ignore) in families.items():
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore))
        if normalizer:
            t.normalizer = normalizer
        t.pre_tokenizer, t.decoder = cutter, decoders.ByteLevel()
        t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in special])
        name = "bpe_" + pre
        save(t, name)
        write_gguf(OUT / f"{name}.gguf", "gpt2", pre, tokens, kinds, merges=[" ".join(m) for m in merges], add_bos=False)
        plain = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore))
        if normalizer:
            plain.normalizer = normalizer
        plain.pre_tokenizer = cutter
        decode = lambda ids, t=t: t.decode(ids, skip_special_tokens=True)
        add_rows(name, SPECIAL, hugging_face(t), decode)
        add_rows(name + ".gguf", SPECIAL, hugging_face(t))
        if pre == "smollm":
            add_rows(name + ".gguf", 0, hugging_face(plain))
        if pre == "gpt-2":
            (OUT / "gpt2_files").mkdir(exist_ok=True)
            (OUT / "gpt2_files/vocab.json").write_text(json.dumps(vocab) + "\n")
            (OUT / "gpt2_files/merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
            only_end = Tokenizer(models.BPE(vocab=vocab, merges=merges))
            only_end.pre_tokenizer = gpt2
            only_end.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
            add_rows("gpt2_files", SPECIAL, hugging_face(only_end))


def splits():
    """Every behaviour of Split, at expressions and at literal texts that look like expressions; a ByteLevel follows."""
    text = r"x\s  \Qabab.*éa\E\E[a b&-~#^$(|)é"
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelled = bytes_only.pre_tokenize_str(text)[0][0]
    parts = {spelled[i:j] for i in range(len(spelled)) for j in range(i + 1, len(spelled) + 1)}
    vocab = {part: i for i, part in enumerate(sorted(parts, key=lambda x: (len(x), x)))}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    patterns = [r"\s", r"\E", r"\Q", r"\E\E[", ".*", "[a", "&-~#", "^$(|)", "a", "ab", "é", " ", "x", "none", "", text]
    patterns += [Regex(x) for x in (r"\s", r"\s+", "[ab]+", "b*", "(?=b)", r"\p{L}+|\\", "é$", "^x", "")]
    behaviors = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"]
    one = [pre_tokenizers.Split(p, b, invert) for p in patterns for b in behaviors for invert in (False, True)]
    two = [pre_tokenizers.Sequence([pre_tokenizers.Split(" ", a, False), pre_tokenizers.Split(Regex("b|é"), b, invert)])
           for a in behaviors for b in behaviors for invert in (False, True)]
    cases = []
    for step in one + two:
        t.pre_tokenizer = pre_tokenizers.Sequence([step, bytes_only])
        cases.append(json.dumps({"ids": t.encode(text).ids, "step": json.loads(step.__getstate__())}, ensure_ascii=False))
    model = json.dumps(json.loads(t.to_str())["model"], ensure_ascii=False)
    (OUT / "splits.json").write_text('{"text": %s,\n"model": %s,\n"cases": [\n%s]}\n'
                                     % (json.dumps(text, ensure_ascii=False), model, ",\n".join(cases)))


OUT.mkdir(parents=True, exist_ok=True)
sentencepiece_family()
byte_level_family()
splits()
(OUT / "cases.tsv").write_text("\n".join(rows) + "\n")
print(len(rows), "cases,", sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file()), "bytes")

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
import tempfile
import unicodedata
import zlib

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


def nasty():
    """200 texts without NUL that something is known to have got wrong."""
    rng = random.Random(7)
    texts = [t for t in TEXTS if "\x00" not in t]
    texts += ["a b  c   d", "  lead", "trail  ", "\ttab\tbed", "line\nline\r\nline\rline", "\u2028x\u2029y\u0085z", "a\u200bb\u200dc\ufeffd",
              "ﬁ ﬂ ﬃ", "①②③ Ⅳ ㎏ ㍿", "ＦＵＬＬ　ｗｉｄｔｈ", "ǅ ǆ Ǆ", "İstanbul ıi İ", "ΑΣ ΟΔΥΣΣΕΥΣ σς", "straße STRASSE ẞ", "Å Å A\u030a", "ñ n\u0303 ñ\u0327",
              "q\u0323\u0307 q\u0307\u0323", "\u0344 \u0958 \u2126", "가각힣", "\u1100\u1161 \u1112\u1175\u11c2", "ท่านที่เคารพ", "हिन्दी भाषा में", "العربية ١٢٣", "עִבְרִית",
              "日本語テキスト。カタカナー", "漢字かな交じり文", "中文，标点！《书》", "한국어 텍스트입니다", "Ünïcödé naïve façade", "ǰ ΐ ΰ", "ﷺ ﷽",
              "[CLS] hello [SEP]", "[MASK] [mask] [UNK]", "a[MASK]b", "  [MASK]  ", "[PAD][PAD]", "##ing un##able", "hello##world", "</w>", "a</w>b",
              "hello</w> world", "<extra_0> <extra_1>x", "wordword word_word word", "worden woordword", "ab abc abcd abcde", "abcabcdab", "the the\tthe",
              "Hello, World! How's it? I'm fine; don't worry.", "e-mail@example.com", "$1,234.56 + 7% = ?", "{\"a\": [1, 2.5e-3, null]}", "x=y*2;//c", "C:\\path\\to",
              "~`!@#$%^&*()_-+={}[]|:;\"'<>,.?/", "a.b.c.d", "...", "-- - ---", "“quoted” ‘it’", "«guillemets» ¿qué? ¡ay!", "1st 2nd 3rd 4th", "12345678901234567890",
              "1 2 3 4", "０１２３", "۱۲۳۴", "x²y³", "½ ¼ ⅛", "2024-01-31T23:59:59Z", "A" * 101, "b" * 100, "ab" * 60, "é" * 50, " " * 17, "\n" * 9, "!?" * 20,
              "👨‍👩‍👧‍👦 👩🏿‍🚀", "🇩🇪🇫🇷🇪", "☺️ ☺", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "a\u0300\u0301\u0302\u0303b", "\u0301", "\u200d", "\ufe0f", "\u00ad soft\u00adhyphen", "zero\u2060width",
              "\ue000 \uf8ff", "\U000e0041", "\ufdd0\uffff", "\x7f\x80\x9f", "\x0b\x0c\x1c\x1d\x1e\x1f", "a\x08b", "▁▁x▁", " ▁ ", "Ġword Ċ", "<0x0A><0xff>", "<0xE4>",
              "lower UPPER Title cAMEL", "snake_case kebab-case", "ThisIsCamelCase", "I l 1 O 0", "Ａ Ｂ", "｢ﾊﾟｿｺﾝ｣", "ﾊﾞ ﾊﾟ", "\u3099 か\u3099", "x\u20dd", "ａ̈",
              "Русский текст, Ёё", "Ελληνικά Άά", "Հայերեն", "ქართული ႠႡ", "ไม่ได้", "မြန်မာ", "ភាសា", "བོད་ཡིག", "ᠮᠣᠩᠭᠣᠯ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚", "𐐀𐐨", "𠀀𪚥", "a,b;c:d", "mr. o'neil's",
              " n't 's 've", "do not do nt", "hello , world ! ok ?", "the <s>the</s> the", "<pad>word <pad>", "hello worlds", "thelion", "the-lion the_lion"]
    alphabet = "ab 12.\n\t,é世▁'-<>sw"
    while len(texts) < 200:
        texts.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 30))))
    return list(dict.fromkeys(texts))[:200]


def charsmap():
    """A small table of sentencepiece's: one character to one, to none, to several, and two to one."""
    rules = {"Ａ": "A", "Ｂ": "B", "ﬁ": "fi", "①": "1", "\u200b": "", "\u3000": " ", "か\u3099": "が", "ﷺ": "صلى", "İ": "i\u0307", "\u00ad": "", "½": "1/2", "ñ": "n"}
    with tempfile.TemporaryDirectory() as d:
        tsv = pathlib.Path(d) / "rules.tsv"
        tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()[:200]), model_writer=model, model_type="char", vocab_size=70,
                                                 normalization_rule_tsv=str(tsv), minloglevel=2, num_threads=1, hard_vocab_limit=False)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def base_models(texts):
    """Each model of tokenizers, small; "spy" has a piece for every character, at the start of a word and inside of one, so that its ids
    say what the steps before it made of a text."""
    train = lambda t, trainer: (t.train_from_iterator(corpus(3)[:600], trainer), t.model)[1]
    quiet = dict(show_progress=False)
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    bert = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    out = {}
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out["bpe_bytes"] = train(t, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **quiet))
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    out["bpe_chars"] = train(t, trainers.BpeTrainer(vocab_size=140, special_tokens=special, **quiet))
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    out["bpe_affixes"] = train(t, trainers.BpeTrainer(vocab_size=240, special_tokens=special, continuing_subword_prefix="##", end_of_word_suffix="</w>", **quiet))
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    out["bpe_suffix"] = train(t, trainers.BpeTrainer(vocab_size=200, special_tokens=special, end_of_word_suffix="</w>", **quiet))
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    out["bpe_fallback"] = train(t, trainers.BpeTrainer(vocab_size=400, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], **quiet))
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    out["unigram"] = train(t, trainers.UnigramTrainer(vocab_size=160, special_tokens=special, unk_token="<unk>", **quiet))
    pieces = json.loads(out["unigram"].__getstate__())["vocab"]
    out["unigram_bytes"] = models.Unigram([tuple(x) for x in pieces] + [(f"<0x{b:02X}>", -20.0) for b in range(256)], unk_id=0, byte_fallback=True)
    out["unigram_ties"] = models.Unigram([("<unk>", 0.0)] + [(x, -1.0 * len(x)) for x in ("a", "b", "aa", "ab", "ba", "aab", "abab", "hello", "he", "llo", "l", "o", "h", "e", "▁", "▁a")], unk_id=0)
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.normalizer = normalizers.BertNormalizer()
    out["wordpiece"] = train(t, trainers.WordPieceTrainer(vocab_size=220, special_tokens=bert, **quiet))
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    out["wordlevel"] = train(t, trainers.WordLevelTrainer(vocab_size=60, special_tokens=special, **quiet))
    letters = sorted({c for x in texts for form in ("NFC", "NFD", "NFKC", "NFKD") for y in (unicodedata.normalize(form, x), x, x.lower()) for c in y}
                     | set(pre_tokenizers.ByteLevel.alphabet()) | set(chr(c) for c in range(1, 128)) | set("▁�صلىが+"))
    out["spy"] = models.WordPiece({p: i for i, p in enumerate(["[UNK]"] + letters + ["##" + c for c in letters])}, unk_token="[UNK]", max_input_chars_per_word=1000)
    return out


def kinds():
    """kinds.json: 200 texts, models, and for each case its steps and what the library makes of the texts: ids and text, or (where
    only the steps count) the CRC-32 of both."""
    N, P, D, R = normalizers, pre_tokenizers, decoders, processors
    texts = nasty()
    base = base_models(texts)
    table = charsmap()
    whole = lambda s: AddedToken(s, special=True, normalized=False)
    special = [whole(x) for x in ("<unk>", "<s>", "</s>", "<pad>")]
    bert = [whole(x) for x in ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")]
    qwen2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    gpt4o = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
             r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    bytes_only = P.ByteLevel(add_prefix_space=False, use_regex=False)
    llama_decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    cases, out = [], []
    add = lambda name, model, full=False, **steps: cases.append((name, model, full, steps))
    # whole tokenizers, as families of models have them
    add("gpt2", "bpe_bytes", True, pre=P.ByteLevel(add_prefix_space=False), dec=D.ByteLevel(), post=R.ByteLevel(trim_offsets=False), added=special)
    add("roberta", "bpe_bytes", pre=P.ByteLevel(add_prefix_space=True), dec=D.ByteLevel(), post=R.RobertaProcessing(("</s>", 2), ("<s>", 1)),
        added=special + [AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    add("falcon", "bpe_bytes", pre=P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
        dec=D.ByteLevel(), added=special)
    add("qwen2", "bpe_bytes", norm=N.NFC(), pre=P.Sequence([P.Split(Regex(qwen2), "isolated"), bytes_only]), dec=D.ByteLevel(), added=special)
    add("gpt4o", "bpe_bytes", pre=P.Sequence([P.Split(Regex(gpt4o), "removed", invert=True), bytes_only]), dec=D.ByteLevel(), added=special)
    add("glm", "bpe_bytes", pre=P.Sequence([P.Split(Regex(qwen2), "isolated"), bytes_only]), dec=D.ByteLevel(), added=special,
        post=R.Sequence([R.ByteLevel(), R.TemplateProcessing("<s> <pad> $A </s>", special_tokens=[("<s>", 1), ("<pad>", 3), ("</s>", 2)])]))
    add("letters_normalized", "bpe_bytes", norm=N.Sequence([N.NFC(), N.ByteLevel()]), pre=P.Split(Regex("Ġ?[a-z]+|."), "isolated"), dec=D.ByteLevel(),
        added=special + [AddedToken("naïve word", normalized=True)])
    add("llama", "bpe_fallback", True, norm=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), dec=llama_decoder,
        post=R.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)]), added=special)
    add("llama_metaspace", "bpe_fallback", pre=P.Metaspace(prepend_scheme="first", split=False), dec=llama_decoder, added=special)
    add("gemma", "bpe_fallback", norm=N.Replace(" ", "▁"), pre=P.Split(" ", "merged_with_previous"), dec=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), added=special)
    add("t5", "unigram", True, norm=N.Sequence([N.Precompiled(table), N.Strip(False, True), N.Replace(Regex(" {2,}"), "▁")]), pre=P.Metaspace(prepend_scheme="always"), dec=D.Metaspace(),
        post=R.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)]), added=special + [AddedToken("<extra_0>", lstrip=True, rstrip=True, special=True, normalized=False)])
    add("albert", "unigram", norm=N.Sequence([N.Replace("``", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), N.Precompiled(table)]), pre=P.Metaspace(), dec=D.Metaspace(), added=special)
    add("xlm", "unigram_bytes", norm=N.Precompiled(table), pre=P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), dec=D.Sequence([D.ByteFallback(), D.Metaspace()]), added=special)
    add("unigram_ties", "unigram_ties", dec=D.Metaspace())
    add("bert", "wordpiece", True, norm=N.BertNormalizer(), pre=P.BertPreTokenizer(), dec=D.WordPiece(), post=R.BertProcessing(("[SEP]", 2), ("[CLS]", 1)), added=bert)
    add("bert_cased", "wordpiece", norm=N.BertNormalizer(lowercase=False, strip_accents=None, handle_chinese_chars=False), pre=P.BertPreTokenizer(), dec=D.WordPiece(cleanup=False), added=bert)
    add("gpt1", "bpe_suffix", norm=N.BertNormalizer(), pre=P.BertPreTokenizer(), dec=D.BPEDecoder(), added=special)
    add("affixes", "bpe_affixes", True, pre=P.Whitespace(), dec=D.WordPiece(), added=special)
    add("words", "wordlevel", pre=P.Whitespace(), added=special + [AddedToken("the lion", normalized=False)])
    add("chars", "bpe_chars", pre=P.Whitespace(), added=special)
    # one step at a time
    for name, norm in dict(NFC=N.NFC(), NFD=N.NFD(), NFKC=N.NFKC(), NFKD=N.NFKD(), Lowercase=N.Lowercase(), Strip=N.Strip(), StripLeft=N.Strip(True, False), Nmt=N.Nmt(),
                           StripAccents=N.StripAccents(), NFDStripAccents=N.Sequence([N.NFD(), N.StripAccents()]), Precompiled=N.Precompiled(table), Prepend=N.Prepend("ab"),
                           ReplaceText=N.Replace("a", "bab"), ReplaceGone=N.Replace("l", ""), ReplaceEmpty=N.Replace("", "-"), ReplaceRegex=N.Replace(Regex(r"\s+|[aeiou]{2}"), "+"),
                           ReplaceHan=N.Replace(Regex(r"[\p{Han}&&[^字]]"), "x"), Bert=N.BertNormalizer(), BertClean=N.BertNormalizer(True, False, False, False),
                           BertChinese=N.BertNormalizer(False, True, False, False), BertAccents=N.BertNormalizer(False, False, True, False), ByteLevel=N.ByteLevel()).items():
        add("normalizer " + name, "spy", norm=norm, pre=P.Split("§", "isolated"), dec=D.Fuse())
    behaviors = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"]
    pre = {"Split " + b + str(i): P.Split(Regex(r"\s|[,.!]"), b, i) for b in behaviors for i in (False, True)}
    pre |= {"Punctuation " + b: P.Punctuation(b) for b in behaviors}
    pre |= dict(Whitespace=P.Whitespace(), WhitespaceSplit=P.WhitespaceSplit(), Bert=P.BertPreTokenizer(), Digits=P.Digits(False), DigitsEach=P.Digits(True), Char=P.CharDelimiterSplit("a"),
                CharHan=P.CharDelimiterSplit("字"), Fixed=P.FixedLength(3), MetaspaceAlways=P.Metaspace(), MetaspaceFirst=P.Metaspace(prepend_scheme="first"), MetaspaceNever=P.Metaspace(prepend_scheme="never"),
                MetaspaceWhole=P.Metaspace(split=False), MetaspaceOther=P.Metaspace(replacement="_"), ByteLevel=P.ByteLevel(), ByteLevelPlain=P.ByteLevel(False, True, False), Scripts=P.UnicodeScripts(),
                Many=P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Digits(True), P.Metaspace(prepend_scheme="first"), P.ByteLevel(True)]),
                Twice=P.Sequence([P.ByteLevel(False), P.Digits(), P.ByteLevel(True, True, False)]))
    for name, step in pre.items():
        add("pre_tokenizer " + name, "spy", pre=step, dec=D.WordPiece(cleanup=False))
    for name, dec in dict(none=None, Fuse=D.Fuse(), ReplaceText=D.Replace("he", " she "), ReplaceRegex=D.Replace(Regex("[a-f]+"), "_"), Strip=D.Strip("h", 1, 1), Metaspace=D.Metaspace(),
                          MetaspaceNever=D.Metaspace(prepend_scheme="never"), WordPiece=D.WordPiece(), WordPiecePrefix=D.WordPiece("l", False), BPE=D.BPEDecoder("o"), ByteLevel=D.ByteLevel(),
                          Many=D.Sequence([D.Replace("▁", " "), D.Fuse(), D.Strip(" ", 1, 0), D.Replace("l", "L")])).items():
        add("decoder " + name, "unigram_ties", norm=N.Replace(" ", "▁"), dec=dec, added=[whole("<unk>")])
    # added tokens
    t = AddedToken
    sets = dict(plain=[t("ab", normalized=False), t("abc", normalized=False), t("abcd", normalized=False), t("the", normalized=False)],
                words=[t("word", single_word=True, normalized=False), t("the", single_word=True), t("ab", single_word=True)],
                strips=[t("<pad>", lstrip=True, rstrip=True, normalized=False), t("the", lstrip=True), t("word", rstrip=True), t("  ", normalized=False), t(" ", rstrip=True)],
                both=[t("<s>", special=True, normalized=False), t("<s>the", normalized=True), t("hello w", normalized=True), t("HELLO", normalized=True), t("É", normalized=True)],
                spaces=[t("\n", normalized=False), t("\t", special=True, normalized=False), t("\n\n", normalized=False), t("[MASK]", lstrip=True, special=True, normalized=False)])
    for name, tokens in sets.items():
        for how, norm in dict(plain=None, lower=N.Lowercase(), llama=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])).items():
            add(f"added {name} {how}", "unigram_ties", norm=norm, dec=D.Metaspace(), added=[whole("<unk>")] + tokens)
    for name, model, full, steps in cases:
        tok = Tokenizer(base[model])
        if steps.get("norm"):
            tok.normalizer = steps["norm"]
        if steps.get("pre"):
            tok.pre_tokenizer = steps["pre"]
        if steps.get("dec"):
            tok.decoder = steps["dec"]
        if steps.get("post"):
            tok.post_processor = steps["post"]
        tok.add_tokens(steps.get("added", []))
        state = json.loads(tok.to_str())
        ids, shown, sums = [], [], []
        for text in texts:
            one = tok.encode(text).ids
            try:
                decoded = tok.decode(one) if one else ""
            except BaseException:  # the library's Strip panics at a token that is too short
                decoded = None
            known = decoded is not None and "\ufffd" not in decoded and "\x00" not in decoded
            ids.append(" ".join(map(str, one)))
            shown.append(decoded if known else None)
            if name.endswith("Scripts") and "\U0001F999" in text:  # newer than the library's table
                sums.append("-")
                continue
            sums.append(f"{zlib.crc32(ids[-1].encode()):08x}" + (f"{zlib.crc32(decoded.encode()):08x}" if known else ""))
        case = {"name": name, "base": model, "parts": {k: state[k] for k in ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder") if state[k]}}
        case.update({"ids": ids, "text": shown} if full else {"sums": " ".join(sums)})
        out.append(json.dumps(case, ensure_ascii=False))
    used = {name: json.loads(m.__getstate__()) for name, m in base.items()}
    (OUT / "kinds.json").write_text('{"texts": %s,\n"models": {\n%s},\n"cases": [\n%s]}\n' % (
        json.dumps(texts, ensure_ascii=False), ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in used.items()), ",\n".join(out)))



OUT.mkdir(parents=True, exist_ok=True)
sentencepiece_family()
byte_level_family()
splits()
kinds()
(OUT / "cases.tsv").write_text("\n".join(rows) + "\n")
print(len(rows), "cases,", sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file()), "bytes")

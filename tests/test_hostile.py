#!/usr/bin/env python3
"""test_hostile.py - nothing of a file speaks to the terminal: every place where a message, a mode's output or generated
text can carry a stranger's words is given each name of a bank of hostile ones. RUN is the program."""
import json, os, pathlib, pty, re, shutil, struct, subprocess, sys, tempfile, unicodedata

from lib import gguf_records, read_terminal
from strangers import BANK, RUN, printable, refused, run, speaks

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.chdir(ROOT)
FIX = ROOT / "tests/fixtures"

failed = 0


def report(name, why=None):
    global failed
    failed += why is not None
    print(f"ok {name}" if why is None else f"not ok {name}: {why}", flush=True)


def on_terminal(*args):
    """The same with standard output on a terminal; -> the bytes that it got."""
    master, slave = pty.openpty()
    process = subprocess.Popen([RUN, *args], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    got = read_terminal(master)
    process.communicate(timeout=60)
    return got.replace(b"\r\n", b"\n")


# ---- Files with names of one's choosing --------------------------------------------------------------------------------

def s(x):
    return struct.pack("<Q", len(x)) + x


def kv_string(key, value):
    return s(key) + struct.pack("<I", 8) + s(value)


def gguf(keys, tensors=()):
    """A GGUF of (key bytes) records and (name, dims) f32 tensors of zeros."""
    out, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys), 0
    for name, dims in tensors:
        out += s(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", 0, at)
        size = 4
        for d in dims:
            size *= d
        at += (size + 31) // 32 * 32
    return out + bytes(-len(out) % 32) + bytes(at)


def gguf_with_tokens(data, replace):
    """The same model, tokens {id: bytes} replaced."""
    records, infos = gguf_records(data)
    out = b""
    for key, record in records:
        if key == b"tokenizer.ggml.tokens":
            n, at, items = struct.unpack_from("<Q", record, len(key) + 16)[0], len(key) + 24, []
            for _ in range(n):
                length = struct.unpack_from("<Q", record, at)[0]
                items.append(record[at + 8:at + 8 + length])
                at += 8 + length
            for i, text in replace.items():
                items[i] = text
            record = record[:len(key) + 24] + b"".join(s(x) for x in items)
        out += record
    names = data[infos:]
    # the infos end where the padding before the data begins: found by reading them
    n_tensors, at = struct.unpack_from("<Q", data, 8)[0], 0
    for _ in range(n_tensors):
        at += 8 + struct.unpack_from("<Q", names, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", names, at)[0] + 12
    weights = infos + at + -(infos + at) % 32
    out = data[:24] + out + names[:at]
    return out + bytes(-len(out) % 32) + data[weights:]


def safetensors(entries, raw_header=None):
    header = raw_header if raw_header is not None else json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header


def json_string(b):
    """The bytes as a JSON string: escapes where they are UTF-8, else raw."""
    try:
        return json.dumps(b.decode()).encode()
    except UnicodeDecodeError:
        return b'"' + b.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def raw_json(key, value):
    return b"{" + json_string(key) + b": " + value + b"}"


def hf_dir(tmp, name, change):
    d = tmp / name
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(FIX / "base_hf", d)
    (d / "config.json").write_bytes(change((d / "config.json").read_bytes()))
    return str(d)


def add_key(text, key, value):
    return text.rstrip()[:-1].rstrip() + b", " + json_string(key) + b": " + value + b"}"


def check_name(tmp, label, x):
    """-> the first complaint about one name of the bank, or None."""
    p = str(tmp / "m.gguf")
    base = (FIX / "base.gguf").read_bytes()
    records, infos = gguf_records(base)

    def write(data, path=p):
        pathlib.Path(os.fsdecode(path)).write_bytes(data)
        return path

    checks = []
    # GGUF: architecture, keys, values, tensor names
    write(gguf([kv_string(b"general.architecture", x)]))
    checks += [refused("architecture", p), refused("architecture, info", p, "-m", "info"),
               refused("architecture, tokenize", p, "-m", "tokenize", "-i", "a")]
    write(gguf([kv_string(b"general.architecture", b"llama"), kv_string(x, b"1"), kv_string(x, b"1")]))
    checks.append(refused("key", p, "-m", "info"))
    write(base[:16] + struct.pack("<Q", len(records) + 1) + b"".join(r for _, r in records) +
          kv_string(b"llama." + x, b"1") + base[infos:])
    checks.append(printable("key of the architecture", p, "-m", "info"))
    write(gguf([kv_string(b"general.architecture", b"llama")], [(x, (2,)), (x, (2,))]))
    checks.append(refused("tensor", p, "-m", "info"))
    write(gguf([kv_string(b"tokenizer.ggml.model", x)]))
    checks.append(refused("tokenizer model", p, "-m", "tokenize", "-i", "a"))
    write(gguf([kv_string(b"tokenizer.ggml.model", b"gpt2"), kv_string(b"tokenizer.ggml.pre", x)]))
    checks.append(refused("pre-tokenizer", p, "-m", "tokenize", "-i", "a"))
    # safetensors and what is beside them
    st = str(tmp / "m.safetensors")
    write(safetensors(None, raw_json(x, b'{"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}')), st)
    checks += [refused("safetensors tensor", st, "-m", "info"),
               refused("reference", str(FIX / "base.gguf"), "-m", "verify", "-r", st)]
    write(safetensors(None, raw_json(b"t", b'{"dtype": ' + json_string(x) + b', "shape": [1], "data_offsets": [0, 4]}')), st)
    checks.append(refused("dtype", st, "-m", "info"))
    for name, change, check in (
            ("config key", lambda c: add_key(c, x, b"17"), refused),
            ("rope key", lambda c: add_key(c, b"rope_scaling", b'{"rope_type": "linear", ' + raw_json(x, b"1")[1:]), printable),
            ("rope type", lambda c: add_key(c.replace(b"rope_parameters", b"rope_was"), b"rope_scaling",
                                            b'{"rope_type": ' + json_string(x) + b', "factor": 2}'), refused),
            ("model type", lambda c: re.sub(rb'"model_type": "\w+"', lambda m: b'"model_type": ' + json_string(x), c), refused),
            ("activation", lambda c: re.sub(rb'"hidden_act": "\w+"', lambda m: b'"hidden_act": ' + json_string(x), c), refused)):
        checks.append(check(name, hf_dir(tmp, "hf", change), "-m", "info"))
    d = hf_dir(tmp, "hf", lambda c: c)
    pathlib.Path(d, "model.safetensors").unlink()
    index = pathlib.Path(d, "model.safetensors.index.json")
    for key, value in ((x, b'"a.safetensors"'), (b"lm_head.weight", json_string(x)), (b"lm_head.weight", json_string(b"../" + x))):
        index.write_bytes(b'{"weight_map": ' + raw_json(key, value) + b"}")
        checks.append(refused("shard index", d, "-m", "info"))
    # tokenizer.json
    tok = json.loads((FIX / "tokenizers/bpe_gpt-2/tokenizer.json").read_bytes())
    t = str(tmp / "tokenizer.json")
    name = x.decode(errors="replace")
    for part, value in {"model": {**tok["model"], "type": name}, "pre_tokenizer": {"type": name}, "normalizer": {"type": name},
                        "decoder": {"type": name}, "post_processor": {"type": name},
                        "added_tokens": [{"id": 1, "content": name, "special": True}, {"id": 2, "content": name}]}.items():
        pathlib.Path(t).write_text(json.dumps({**tok, part: value}))
        checks.append(printable(f"tokenizer {part}", t, "-m", "tokenize", "-i", "hello"))
    pathlib.Path(t).write_text(json.dumps({**tok, "model": {**tok["model"], "merges": [name + " b", "a"]}}))
    checks.append(printable("merges", t, "-m", "tokenize", "-i", "hello"))
    # paths, arguments
    if b"\0" not in x:
        odd = os.fsencode(str(tmp)) + b"/" + x.replace(b"/", b"_")
        checks += [refused("path", odd), refused("path, info", odd, "-m", "info"), refused("mode", p, "-m", x),
                   refused("flag", b"--" + x), refused("value", p, "-t", x), refused("kv type", p, "--kv-type", x),
                   refused("tokens", p, "--tokens", x), refused("second file", p, x), refused("stray", p, "-z", odd),
                   refused("reference path", str(FIX / "base.gguf"), "-m", "verify", "-r", odd),
                   refused("output", str(FIX / "base.gguf"), "-m", "convert", "-o", odd + b"/x/y.gguf")]
        if len(x) < 200:
            write(gguf([kv_string(b"general.architecture", b"none")]), odd)
            checks.append(refused("a file of that name", odd, "-m", "info"))
    return next((c for c in checks if c), None)


def pieces(tmp):
    """A vocabulary of hostile pieces: tokenize and generate, on a terminal and not."""
    model = (ROOT / "weights/shakespeare.gguf").read_bytes()
    path = str(tmp / "pieces.gguf")
    words = [x for k, x in BANK.items() if not k.startswith("long")]
    for i, x in enumerate(words):
        words[i] = x.replace(b"\0", b"") + b"!"
    # common tokens of the vocabulary, so that the model uses them
    ids = list(range(300, 300 + 8 * len(words)))
    pathlib.Path(path).write_bytes(gguf_with_tokens(model, {t: words[i % len(words)] + str(i).encode() for i, t in enumerate(ids)}))
    listed = ",".join(map(str, ids))
    r = run(path, "-m", "tokenize", "--tokens", listed)
    if r.returncode:
        report("hostile pieces", f"exit {r.returncode}: {r.stderr!r}")
        return
    report("pieces are raw where there is no terminal", None if b"\x1b]0;owned\x07" in r.stdout else f"{r.stdout[:100]!r}")
    for name, args in {"tokenize": ("-m", "tokenize", "--tokens", listed),
                       "echoed prompt": ("--tokens", listed, "-n", "1", "-t", "0"),
                       "generated text": ("-i", "ROMEO:", "-n", "200", "-t", "1.5", "-s", "3", "-p", "1")}.items():
        plain, raw = on_terminal(path, *args), on_terminal(path, *args, "--raw")
        text = plain.decode(errors="replace")
        bad = [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t" or c in "\u202e\u2066\u2069"]
        report(f"{name} on a terminal", f"{sorted(set(bad))!r}" if bad else None)
        report(f"{name} with --raw", None if re.search(rb"[\x00-\x08\x0b-\x1f]", raw) else "lost its controls")
    text = on_terminal(path, "-m", "tokenize", "--tokens", listed).decode(errors="replace")
    report("joiners and letters stay", None if "\u200b" in text and "\ufeff" in text else "lost")
    r = run(path, "-m", "tokenize", "--json", "-i", "ROMEO: what")
    report("pieces as JSON", None if len(json.loads(r.stdout)["pieces"]) > 1 else "no pieces")


def modes(tmp):
    """The modes that show a model's pieces and names, with hostile ones, and a chat whose every line is hostile."""
    path, log = str(tmp / "pieces.gguf"), tmp / "modes.txt"  # of pieces()
    ids = ",".join(map(str, range(300, 330)))
    for name, args in {"trace": ("-m", "trace", "--tokens", ids), "trace, JSON": ("-m", "trace", "--tokens", ids, "--json"),
                       "trace, a picture": ("-m", "trace", "--tokens", ids, "--svg"),
                       "trace, a table": ("-m", "trace", "--tokens", ids, "--csv"), "kv": ("-m", "kv"),
                       "kv, JSON": ("-m", "kv", "--json"), "logits": ("-m", "logits", "--tokens", ids),
                       "logits, JSON": ("-m", "logits", "--tokens", ids, "--json"), "info": ("-m", "info"),
                       "probe": ("-m", "probe", "-i", "ROMEO: what is it"),
                       "generate, JSON": ("--tokens", ids, "-n", "20", "-t", "2", "-p", "1", "-s", "1", "--json", "--logprobs", "9"),
                       "generate, lines": ("--tokens", ids, "-n", "20", "-t", "2", "-p", "1", "-s", "1", "--json=lines"),
                       "convert": ("-m", "convert", "-o", str(tmp / "out.gguf"), "--type", "q8_0")}.items():
        if name.endswith("JSON"):
            r = run(path, *args, "--quiet")
            try:
                json.loads(r.stdout)
                report(f"pieces in {name}", speaks(r.stderr))
            except ValueError as e:
                report(f"pieces in {name}", f"{e}: {r.stdout[:200]!r} {r.stderr[:200]!r}")
        elif name == "generate, lines":
            lines = run(path, *args, "--quiet").stdout.splitlines()
            report(f"pieces in {name}", None if [json.loads(line) for line in lines] else "nothing")
        else:
            report(f"pieces in {name}", printable(name, path, *args, code=0))
    report("pieces as converted", printable("converted", str(tmp / "out.gguf"), "-m", "trace", "--tokens", ids, code=0))
    lines = tmp / "hostile.jsonl"
    lines.write_bytes(b"".join(raw_json(x, b"1") + b"\n" + b'{"prompt": "a", "stop": ' + json_string(x) + b"}\n" + x.replace(b"\n", b" ") + b"\n" +
                               b'{"prompt": ' + json_string(x) + b', "id": ' + json_string(x) + b"}\n" for x in BANK.values()))
    out = tmp / "hostile.out"
    why = printable("batch", path, "-m", "batch", "-f", str(lines), "-o", str(out), "-n", "2", "-t", "0")
    report("batch of hostile lines", why)
    results = [json.loads(line) for line in out.read_bytes().splitlines()]
    report("a result for each hostile line", None if len(results) == 4 * len(BANK) else f"{len(results)}")
    bad = [r["error"] for r in results if "error" in r and speaks(r["error"].encode(), lines=False)]
    report("errors of hostile lines", bad and f"{bad[0]!r}" or None)
    for label, x in BANK.items():
        if label in ("newline", "return"):
            continue
        talk = b"".join(line + b"\n" for word in (b"", b"load ", b"save ", b"set ", b"set top-k ", b"set seed ", b"system ", b"top ", b"stats ", b"no such ")
                        for line in (b"/" + word + x[:300],))
        r = run(path, "-m", "chat", "-n", "2", "-t", "0", "--chat-template", "chatml", stdin=talk + b"/context\n/stats\n/top 3\nhello\n/top\n/system\n")
        report(f"chat commands: {label}", None if r.returncode in (0, 1) and not speaks(r.stderr) else f"{r.returncode} {speaks(r.stderr)}")


def nul(tmp):
    """A token with a NUL in it is that token, not a shorter one."""
    path, text = str(tmp / "nul.json"), tmp / "nul.txt"
    pathlib.Path(path).write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": {
        "type": "BPE", "vocab": {"a": 0, "\0": 1, "b": 2, "a\0": 3, "\\u0000": 4}, "merges": [["a", "\0"]]}}))
    text.write_bytes(b"a\0b")
    r = run(path, "-m", "tokenize", "--json", "-f", str(text))
    want = {"ids": [3, 2], "pieces": ["a\0", "b"]}
    tokenizer = json.loads(pathlib.Path(path).read_text())
    for added in ([{"id": 3, "content": "a\0"}], [{"id": 5, "content": "b\0"}, {"id": 6, "content": "b\0b"}]):
        pathlib.Path(tmp / "added.json").write_text(json.dumps({**tokenizer, "added_tokens": added}))
        a = run(str(tmp / "added.json"), "-m", "tokenize", "--tokens", str(added[0]["id"]))
        want_bytes = added[0]["content"].encode() + b"\n"
        report("NUL in an added token", None if a.stdout == want_bytes else f"{a.returncode} {a.stdout!r} {a.stderr!r}")
    report("NUL in a token", None if r.stdout and json.loads(r.stdout) == want else f"{r.stdout!r} {r.stderr!r}")
    r = run(path, "-m", "tokenize", "--tokens", "0,1,2,3,4")
    report("NUL decoded", None if r.stdout == b"a \0 b a\0 \\u0000\n" else f"{r.stdout!r}")


def sentencepiece(tmp):
    """The library prints a failed self-test of the model; nothing of that may come out."""
    def field(number, data):
        return bytes([number << 3 | 2]) + bytes([len(data)]) + data
    sample = field(1, field(1, b"a\x1b[31m") + field(2, b"\x1b]0;owned\x07 b"))
    path = str(tmp / "self.model")
    pathlib.Path(path).write_bytes((FIX / "tokenizers/spm.model").read_bytes() + field(4, sample))
    r = run(path, "-m", "tokenize", "-i", "hello")
    lines = r.stderr.decode(errors="replace").splitlines()
    why = speaks(r.stderr) or (None if all(line.startswith("run: ") for line in lines) and len(lines) <= 1 else f"{lines!r}")
    report("sentencepiece's own lines", why)


def failure_after_a_token(tmp):
    """A model whose numbers do not survive its own first token prints nothing; nor does a result that has nowhere to go."""
    prompt = ("-i", "ROMEO:", "-t", "0", "-n", "8", "--quiet")
    first = json.loads(run("weights/rung4", *prompt, "--json").stdout)["tokens"][0]
    d = tmp / "late"
    shutil.copytree(ROOT / "weights/rung4", d)
    data = (d / "model.safetensors").read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    header, body = json.loads(data[8:8 + n]), bytearray(data[8 + n:])
    name = "model.embed_tokens.weight"
    begin, end = header[name]["data_offsets"]
    table = bytes(body[begin:end])
    header["lm_head.weight"] = {**header[name], "data_offsets": [len(body), len(body) + len(table)]}
    row = len(table) // header[name]["shape"][0]
    size = row // header[name]["shape"][1]
    body[begin + first * row:begin + first * row + size] = {2: b"\xff\x7f", 4: b"\0\0\xc0\x7f"}[size]
    text = json.dumps(header).encode()
    (d / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(body) + table)
    config = json.loads((d / "config.json").read_bytes())
    (d / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    r = run(str(d), *prompt[:-2], "1", "--no-echo")
    report("the first token alone is sound", None if r.returncode == 0 and r.stdout else f"{r.returncode} {r.stderr!r}")
    nowhere = str(tmp / "none/file")
    fine, receipt = ("weights/rung4", *prompt), str(tmp / "receipt.json")
    run(*fine, "--receipt", receipt)
    for label, args in {"echo": (str(d), *prompt), "no echo": (str(d), *prompt, "--no-echo"),
                        "JSON": (str(d), *prompt, "--json"), "JSON lines": (str(d), *prompt, "--json=lines"),
                        "no place for a session": (*fine, "--session", nowhere),
                        "no place for a receipt": (*fine, "--receipt", nowhere),
                        "a directory for a receipt": (*fine, "--receipt", str(tmp)),
                        "another prompt than the receipt's": ("weights/rung4", "--quiet", "--replay", receipt, "-i", "A")}.items():
        report(f"nothing printed before a failure: {label}", refused(label, *args))
    measured = run(str(d), "-m", "bench", "-P", "8", "-n", "8", "-r", "1", "--quiet")
    table = data.replace(bytes(data[8 + n + begin:8 + n + end]), b"\xff" * len(table))
    (d / "model.safetensors").write_bytes(table)
    (d / "config.json").write_text(json.dumps(config))
    report("bench of a model of NaN", refused("bench", str(d), "-m", "bench", "-P", "8", "-n", "8", "-r", "1", "--quiet"))
    report("bench of a sound one", None if measured.returncode in (0, 1) else f"{measured.stderr!r}")


def named_files(tmp):
    """A receipt, a session and a directory of models are a stranger's too."""
    receipt = tmp / "receipt2.json"
    run("weights/rung4", "-i", "A", "-n", "2", "--quiet", "--receipt", str(receipt))
    good = json.loads(receipt.read_text())
    victim = tmp / "victim"
    for flags in (["--session", str(victim)], ["--receipt", str(victim)], ["--replay", str(victim)], ["x"], ["--"], ["-n"], [""],
                  ["--help"], ["--stop"], ["--nothing"], [1], None, {"a": "b"}, ["\x1b[31m"], ["-i", "\u202e", "-t", "\x9b"]):
        receipt.write_text(json.dumps({**good, "flags": flags}))
        report(f"receipt with flags {flags!r}", refused("receipt", "weights/rung4", "--replay", str(receipt)))
    report("a receipt writes no file", "it did" if victim.exists() else None)
    receipt.write_text(json.dumps({**good, "flags": ["-m", "convert", *good["flags"]]}))
    r = run("weights/rung4", "--replay", str(receipt), "--quiet")
    report("a receipt chooses no mode", None if r.returncode == 0 and r.stdout else f"{r.returncode} {r.stderr!r}")
    for key, values in {"tokens": [None, {}, ["a"], [{}]], "model": [1, None], "version": [1, "v" * 5000], "cpu": [[], "c" * 99],
                        "prompt_sha256": [0, "\x1b" * 20, ""], "text_sha256": [None]}.items():
        for value in values:
            receipt.write_text(json.dumps({**good, key: value}))
            report(f"receipt with {key} {str(value)[:20]!r}", refused("receipt", "weights/rung4", "--replay", str(receipt)))
    with open(tmp / "sparse", "wb") as f:
        f.truncate(3 << 30)
    report("a sparse receipt", refused("receipt", "weights/rung4", "--replay", str(tmp / "sparse")))

    session = tmp / "session"
    run("weights/rung4", "-i", "A", "-n", "2", "--quiet", "--session", str(session))
    good = session.read_bytes()
    os.mkfifo(tmp / "fifo")
    report("a session that is a pipe", refused("session", "weights/rung4", "-i", "A", "--session", str(tmp / "fifo")))
    bad = []
    for at in range(0, 64, 4):
        for value in (0xff, 0x7f, 0x80):
            session.write_bytes(good[:at] + bytes([value]) * 4 + good[at + 4:])
            why = refused(f"byte {at}", "weights/rung4", "-i", "A", "-n", "1", "--session", str(session))
            bad += [why] if why else []
    report("a session with any number of its head another", "; ".join(bad) or None)
    for size in (0, 1, 55, 57, len(good) // 2, len(good) - 1):
        session.write_bytes(good[:size])
        report(f"a session of {size} bytes", refused("session", "weights/rung4", "-i", "A", "--session", str(session)))

    models = tmp / "models"
    models.mkdir()
    for i, x in enumerate(BANK.values()):
        name = x.replace(b"\0", b"").replace(b"/", b"_")[:200]
        shutil.copy("weights/shakespeare.gguf", os.fsencode(models) + b"/" + name + b".gguf")
        if i % 2:
            os.mkdir(os.fsencode(models) + b"/" + name)
            pathlib.Path(os.fsdecode(os.fsencode(models) + b"/" + name), "config.json").write_bytes(x)
    os.mkfifo(models / "pipe.gguf")
    (models / "loop.gguf").symlink_to("loop.gguf")
    (models / "up").symlink_to("..")
    (models / "dangling.bin").symlink_to("nowhere")
    (models / "zero.gguf").symlink_to("/dev/zero")
    hub = tmp / "hub/models--a--b"
    (hub / "refs").mkdir(parents=True)
    (hub / "snapshots").mkdir()
    os.mkfifo(hub / "refs/main")
    (hub / "config.json").write_text("{}")
    other = tmp / "hub/models--c--d"
    shutil.copytree(hub, other, ignore=shutil.ignore_patterns("main"))
    (other / "refs/main").write_text("..")
    os.environ.update(RUN_MODELS=f"{models}:{models}/pipe.gguf::{'x' * 5000}", HF_HUB_CACHE=str(tmp / "hub"))
    for args in ((), ("--json",)):
        report(f"models of hostile names {args}", printable("models", "-m", "models", *args, code=0))
    listed = json.loads(run("-m", "models", "--json").stdout)["models"]
    report("all of them are listed, and no snapshot outside of its directory",
           None if len(listed) >= len(BANK) + 3 and not any(m["name"] in ("a/b", "c/d") for m in listed) else f"{len(listed)}")
    report("a name of several", refused("name", "x", "-i", "A"))
    del os.environ["RUN_MODELS"], os.environ["HF_HUB_CACHE"]


def main():
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for label, x in BANK.items():
            report(f"names: {label}", check_name(tmp, label, x))
        pieces(tmp)
        modes(tmp)
        sentencepiece(tmp)
        nul(tmp)
        failure_after_a_token(tmp)
        named_files(tmp)
    return failed != 0


sys.exit(main())

#!/usr/bin/env python3
"""test_settings.py - settings and files from outside that mean nothing: environment, values of flags, receipts, sessions
and lines of a batch, cut, deep or damaged. Each is one printable line and exit 1 or 2, with nothing on standard output.
RUN is the program."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from lib import check, failures
from strangers import BANK, RUN, refused, run, speaks

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.chdir(ROOT)
MODEL = "weights/shakespeare.gguf"
TEXT = (MODEL, "-i", "A", "-n", "1", "-t", "0", "-s", "1", "--quiet")
STEP = 9 if any(name in RUN for name in ("asan", "tsan", "aarch64")) else 1  # which of many cuts


def refuse(name, *args, env=None):
    os.environ.update(env or {})
    why = refused(name, *args)
    for key in env or {}:
        del os.environ[key]
    check(name, why is None, why)


def environment():
    for value in ("garbage", "AVX2", "ref avx2", "avx999", " ref", "\x1b[31m", "\u202eref", "r" * 4000):
        refuse(f"RUN_CPU={value[:20]!r}", *TEXT, env={"RUN_CPU": value})
    want = run(*TEXT)
    # OpenMP reads its own variables before main, and says itself which of them it does not understand.
    for name in ("OMP_NUM_THREADS", "OMP_SCHEDULE", "OMP_DYNAMIC", "OMP_WAIT_POLICY"):
        for value in ("1e9", "garbage", "-1", "0", ""):
            r = subprocess.run([RUN, *TEXT], capture_output=True, env={**os.environ, name: value})
            check(f"{name}={value!r}: the same text", r.returncode == 0 and r.stdout == want.stdout, r)
    with tempfile.TemporaryDirectory() as tmp:
        loop = pathlib.Path(tmp, "a")
        loop.symlink_to("b")
        pathlib.Path(tmp, "b").symlink_to("a")
        pathlib.Path(tmp, "self").symlink_to(tmp)
        for label, x in BANK.items():
            where = os.fsdecode(x.replace(b"\0", b"").replace(b":", b"")[:3000])
            refuse(f"RUN_MODELS: {label}", "no-such-model", "-i", "A", env={"RUN_MODELS": f"{tmp}/{where}:{tmp}/self:{loop}"})
            r = subprocess.run([RUN, "-m", "models"], capture_output=True, env={**os.environ, "RUN_MODELS": f"{tmp}/{where}:{tmp}/self:{loop}:::",
                                                                                "HF_HOME": f"{tmp}/{where}"})
            check(f"-m models with RUN_MODELS: {label}", r.returncode in (0, 1) and not speaks(r.stdout) and not speaks(r.stderr), r)


def flags():
    for value in ("", ";", "x", "temperature;;top-k", "top-k;", "\x1b[2J", "top-k;" * 5000):
        refuse(f"--samplers {value[:20]!r}", *TEXT, "--samplers", value)
    for value in ("", "1", "1+", "+1", "1+x", "1+nan", "1+inf", "1-1e400", "99999999999+1", "-5+1", "1+1e38", "1++1", "1 + 2", "1024+1",
                  "1+\x1b", "1" * 5000 + "+1"):
        refuse(f"--logit-bias {value[:20]!r}", *TEXT, "--logit-bias", value)
    for value in (",", "1,", ",1", "1,,2", "-1", "1024", "99999999", "99999999999999999999", "1,x", "0x1", "1.5", "1e3", "\x1b", ",".join(["1"] * 60000)):
        for flag in ("--tokens", "--ban"):
            refuse(f"{flag} {value[:20]!r}", MODEL, flag, value, "-n", "1", "-s", "1", "--quiet", *(["-i", "A"] if flag == "--ban" and "," * 3 not in value else []))\
                if flag == "--tokens" or len(value) < 100 else None
    refuse("--stop without a text", *TEXT, "--stop", "")
    refuse("too many --stop", *TEXT, *["--stop", "x"] * 1000)
    long = run(*TEXT, "--stop", "x" * 120000)
    check("a --stop of 120,000 bytes", long.returncode == 0 and long.stdout, long)
    for flag in ("-n", "-c", "-s", "--keep", "--top-k", "--repeat-last", "--batch", "-j", "--logprobs", "--dry-allowed-length", "--mirostat"):
        for value in ("99999999999999999999", "1e3", "", "x", "0x10", "1 ", "\u0661", *(["-1", "2147483648"] if flag != "-s" else ["-9223372036854775809"])):
            refuse(f"{flag} {value!r}", MODEL, "-i", "A", flag, value, "--quiet")
    for flag in ("-t", "-p", "--min-p", "--repeat-penalty", "--rope-theta", "--typical", "--dry-base", "--xtc-threshold"):
        for value in ("nan", "inf", "-inf", "1e999", "-1", "", "x", "1,5", "1e5x", "\x9b"):
            refuse(f"{flag} {value!r}", *TEXT, flag, value)
    for value in ("67108864", "1073741824"):
        refuse(f"-c {value}", *TEXT, "-c", value)
    check("-n as large as can be", run(*TEXT[:3], "-n", "2147483647", "-c", "64", "-t", "0", "--quiet").returncode == 0)


def receipts(tmp):
    path = tmp / "receipt.json"
    run(*TEXT, "--receipt", str(path))
    good = path.read_bytes()
    replay = (MODEL, "--replay", str(path), "--quiet")
    check("the receipt itself", run(*replay).returncode == 0)
    bad = []
    for size in range(0, len(good.rstrip()), STEP):
        path.write_bytes(good[:size])
        bad.append(refused(f"{size} bytes", *replay))
    check("a receipt cut at each byte", not any(bad), next(filter(None, bad), None))
    for name, data in {"deep": b"[" * 100000, "deep and closed": b"[" * 500 + b"]" * 500, "numbers": b"[" + b"0," * 99999 + b"0]", "no object": b"1",
                       "one key twice": good.replace(b"{", b'{"tokens": [], ', 1), "no UTF-8": good.replace(b'"model"', b'"\xff"', 1),
                       "zeros": bytes(5000)}.items():
        path.write_bytes(data)
        refuse(f"receipt: {name}", *replay)
    for key in json.loads(good):
        if key in ("prompt_sha256", "text_sha256"):  # of another model the text may be the same
            path.write_text(json.dumps({**json.loads(good), key: "0" * 64}))
            r = run(*replay)
            check(f"receipt with another {key}", r.returncode == 1 and not speaks(r.stderr), r)


def sessions(tmp):
    path = tmp / "session"
    run(*TEXT, "--session", str(path))
    good = path.read_bytes()
    use = (*TEXT, "--session", str(path))
    bad = []
    for size in [*range(0, 100, STEP), *range(100, len(good), max(1, len(good) // (100 // STEP)))]:
        path.write_bytes(good[:size])
        bad.append(refused(f"{size} bytes", *use))
    check("a session cut anywhere", not any(bad), next(filter(None, bad), None))
    n_tokens = struct.unpack_from("<I", good, 36)[0]
    for name, data in {"a byte more": good + b"\0", "another sum": good[:-1] + bytes([good[-1] ^ 1]), "a key changed": good[:-300] + b"\1" + good[-299:],
                       "a token out of the vocabulary": good[:48] + b"\xff\xff\xff\x7f" + good[52:],
                       "many messages": good[:40] + b"\xff\xff\xff\xff" + good[44:],
                       "a message of 16 EiB": good[:40] + b"\1" + good[41:48 + 4 * n_tokens] + b"\0" * 8 + b"\xff" * 8}.items():
        path.write_bytes(data)
        refuse(f"session: {name}", *use)
    with open(path, "wb") as f:  # sparse: three gigabytes of a message that nobody wrote
        f.write(good[:40] + b"\1" + good[41:48 + 4 * n_tokens] + struct.pack("<IIQ", 1, 0, 3 << 30))
        f.truncate(3 << 30)
    refuse("session: a message of 3 GiB", *use)


def batches(tmp):
    lines, out = tmp / "in.jsonl", tmp / "out.jsonl"
    good = b'{"id": "\\u0000\\ud83d\\ude00", "prompt": "A\\u0000\\n", "stop": ["x", "y"], "steps": 1, "seed": 1, "logit_bias": "3+1"}'
    deep = [b"[" * 100000, b'{"prompt": ' + b"[" * 900 + b"]" * 900 + b"}", b'{"messages": ' + b"[" * 900 + b"]" * 900 + b"}"]
    odd = [b'{"prompt": "a", "%s": %s}' % (key.encode(), value) for key in ("output", "session", "receipt", "file", "tokenizer", "chat-template", "threads",
           "ctx", "mode", "seed", "stop", "samplers", "tokens", "steps") for value in (b'"/tmp/x"', b"1e400", b"-1", b"null", b"{}", b'["", "x"]', b'"\\u0000"')]
    kept = b'{"id": "\\u0000", "prompt": "A\\u0000B"}'
    every = [good[:size] for size in range(1, len(good), STEP)] + deep + odd + [kept]
    lines.write_bytes(b"\n".join(every) + b"\n")
    r = run(MODEL, "-m", "batch", "-f", str(lines), "-o", str(out), "-n", "1", "-t", "0", "--quiet")
    check("a batch of damaged lines", r.returncode == 1 and not r.stdout and r.stderr.count(b"\n") == 1 and not speaks(r.stderr), r)
    results = [json.loads(line) for line in out.read_bytes().splitlines()]
    check("a result for each", len(results) == len(every), len(results))
    bad = [x for x in results if "error" in x and (speaks(x["error"].encode(), lines=False) or len(x["error"]) > 600)]
    check("printable errors", not bad, bad[:1])
    check("cut lines are errors", all("error" in x for x in results[:len(every) - len(odd) - 1]))
    check("NUL in a prompt and in an id", results[-1].get("prompt") == "A\0B" and results[-1]["id"] == "\0", results[-1])
    out.write_bytes(out.read_bytes()[:-20])
    for data in (b"[" * 100000 + b"\n", b"\xff\n", b'{"id": 7}\n' * 3, b"{}\n" * 9999):
        out.write_bytes(data)
        refuse(f"a batch's output of strangers {data[:9]!r}", MODEL, "-m", "batch", "-f", str(lines), "-o", str(out), "-n", "1", "--quiet")


environment()
flags()
with tempfile.TemporaryDirectory() as folder:
    receipts(pathlib.Path(folder))
    sessions(pathlib.Path(folder))
    batches(pathlib.Path(folder))
sys.exit(bool(failures))

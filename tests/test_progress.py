"""test_progress.py - what takes more than a second says how far it is, on one line of a terminal of 40 columns that is
wiped in the end; what is quicker, a pipe and --quiet show nothing. Prints "ok NAME" or "not ok NAME: why"."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios

from lib import check, failures, read_terminal

RUN = os.environ.get("RUN", "./run")
MODEL = "weights/shakespeare.gguf"


def on_terminal(*args, env=None):
    """What the program writes to a terminal of 40 columns as standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    p = subprocess.Popen([RUN, MODEL, *args], stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    seen = read_terminal(ours)
    return p.wait(), seen


def shown(name, *args, env=None):
    code, seen = on_terminal(*args, env=env)
    steps = [int(x) for x in re.findall(rb"\r" + name.encode() + rb" +(\d+)% \[[# ]{16}\]", seen)]
    check(f"{name}: how far it is", len(steps) > 1 and steps == sorted(steps), (code, steps, seen))
    wide = [line for line in re.split(rb"[\r\n]+", seen) if b"%" in line and len(line) > 39]
    check(f"{name}: within 40 columns", not wide, wide)
    check(f"{name}: wiped in the end", re.search(rb"\]\r {39}\r", seen), seen)


def interrupted(name, *args, env):
    """Ctrl-C once the progress is seen: the pass ends after the layer, not after the prompt."""
    ours, theirs = pty.openpty()
    p = subprocess.Popen([RUN, MODEL, *args], stdout=subprocess.PIPE, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    while b"prefill" not in seen:
        seen += os.read(ours, 4096)
    p.send_signal(signal.SIGINT)
    seen += read_terminal(ours)
    check(f"Ctrl-C in {name} ends it", p.wait() == 130 and b"prefill: 0 tokens" in seen and b"stop: interrupt" in seen, (p.returncode, seen))
    check(f"Ctrl-C in {name}: no text", p.stdout.read() == b"\n")


def reference(path, n):
    """A reference that nothing of the model is near to, which is all that a look at the progress needs."""
    parts = {"tokens": ("I32", [n], struct.pack(f"<{n}i", *[7 + i % 900 for i in range(n)])), "logits": ("F32", [n, 1024], bytes(4096 * n))}
    header, at = {}, 0
    for name, (dtype, shape, data) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in parts.values()))


with tempfile.TemporaryDirectory() as directory:
    text, ref = os.path.join(directory, "text"), os.path.join(directory, "ref.safetensors")
    with open(text, "w") as f:
        f.write("What light through yonder window breaks? It is the east, and Juliet is the sun. " * 250)
    reference(ref, 6000)
    long = os.path.join(directory, "long")  # some seconds on one quiet core
    with open(long, "w") as f:
        f.write(open(text).read() * 3)
    shown("perplexity", "-m", "perplexity", "-f", long, "-c", "30000", "-j", "1")
    shown("prefill", "-f", long, "-c", "30000", "-n", "1", "--batch", "64", "-j", "1")
    slow = dict(os.environ, RUN_CPU="ref")
    shown("prefill", "-f", text, "-c", "10000", "-n", "1", "--batch", "10000", env=slow)  # one pass
    interrupted("one pass", "-f", text, "-c", "10000", "--batch", "10000", "--no-echo", env=slow)
    shown("bench", "-m", "bench", "-r", "30")  # some seconds where nothing else runs
    shown("verify", "-m", "verify", "-r", ref)
    for name, args in (("--quiet", ["--quiet", "-m", "bench", "-r", "30"]), ("a short run", ["-m", "bench", "-r", "1", "-n", "1", "-P", "1"])):
        check(f"{name}: no progress", b"%" not in on_terminal(*args)[1])
    pipe = subprocess.run([RUN, MODEL, "-m", "bench", "-r", "30"], capture_output=True)
    check("a pipe: no progress", b"%" not in pipe.stderr, pipe.stderr)
sys.exit(len(failures) > 0)

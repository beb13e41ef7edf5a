"""test_session.py - --session FILE: the second start reads only what is new and writes the same text; a write that fails
or is killed leaves the old file or the new one, whole; --keep N goes on in a full context. Prints "ok NAME" or "not ok NAME: why"."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib import check, failures

RUN = os.environ.get("RUN", "./run")
MODEL = "weights/shakespeare.gguf"
PROMPT = "ROMEO: What light through yonder window breaks? It is the east, and Juliet is the sun."


def run(*args, model=MODEL, text=None, limit=None):
    small = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run([RUN, model, *args], input=text, capture_output=True, preexec_fn=small)


def prefill(r):
    return [int(x) for x in re.findall(rb"prefill: (\d+) tokens", r.stderr)]


def generate(path):
    plain = run("-i", PROMPT, "-n", "8", "-t", "0", "--deterministic")
    first = run("-i", PROMPT, "-n", "8", "-t", "0", "--deterministic", "--session", path)
    second = run("-i", PROMPT, "-n", "8", "-t", "0", "--deterministic", "--session", path)
    check("a session changes no text", plain.stdout == first.stdout == second.stdout, second.stderr)
    check("the second start reads one token", prefill(first)[0] > 20 and prefill(second) == [1], second.stderr)
    longer = run("-i", PROMPT + " Arise!", "-n", "1", "-t", "0", "--session", path)
    check("a longer prompt reads what is new", 1 <= prefill(longer)[0] < 10, longer.stderr)
    for name, args, why in (("another KV type", ["--kv-type", "f32"], "KV type"), ("another RoPE", ["--rope-theta", "5000"], "another model's"),
                            ("a context too small", ["-c", "16"], "")):
        out = run("-i", "A", "-n", "1", "--session", path, *args)
        check(f"refused: {name}", out.returncode == 1 and why.encode() in out.stderr and out.stdout == b"", out.stderr)
    out = run("-i", "A", "-n", "1", "--session", path, model="weights/rung4")
    check("refused: another model", out.returncode == 1 and b"another model's" in out.stderr, out.stderr)


def broken(directory):
    path = os.path.join(directory, "session")
    run("-i", "Old.", "-n", "2", "-t", "0", "--session", path)
    old = open(path, "rb").read()
    size = len(old)
    whole = True
    for limit in [0, 1, 55, 56, 57, 100, 4096, *range(8192, size, size // 12)]:
        out = run("-i", "Old. And a longer one now.", "-n", "2", "-t", "0", "--session", path, limit=limit)
        whole &= out.returncode == 1 and open(path, "rb").read() == old and os.listdir(directory) == ["session"]
    check("a write that fails anywhere leaves the old file", whole, out.stderr)
    fine = killed = 0
    for i in range(25):
        p = subprocess.Popen([RUN, MODEL, "-i", f"Text {i} " + PROMPT, "-n", "2", "-t", "0", "--session", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2000):  # until the new file is begun
            if len(os.listdir(directory)) > 1 or p.poll() is not None:
                break
            time.sleep(0.0005)
        time.sleep(i * 0.0002)
        killed += p.poll() is None
        p.send_signal(signal.SIGKILL)
        p.wait()
        out = run("-i", "A", "-n", "1", "--session", path)
        fine += out.returncode == 0
        for name in os.listdir(directory):
            if name != "session":
                os.unlink(os.path.join(directory, name))
    check("killed while it writes: the file stays readable", fine == 25, f"{fine} of 25 readable, {killed} killed")


DIES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Dies at the N-th call of those that write a session; before (0) or after (1) it is done. */
static void step(int after) {
    static int calls;
    const char *at = getenv("DIE_AT");
    calls += !after;
    if (at && calls == atoi(at) && after == (getenv("DIE_AFTER") != NULL)) kill(getpid(), SIGKILL);
}
#define WRAP(type, name, parameters, arguments)                      \
    type name parameters {                                           \
        type(*real) parameters;                                      \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                   \
        step(0);                                                     \
        type result = real arguments;                                \
        step(1);                                                     \
        return result;                                               \
    }
static int ours(FILE *f) { return f != stdout && f != stderr; }
size_t fwrite(const void *data, size_t size, size_t n, FILE *f) {
    size_t (*real)(const void *, size_t, size_t, FILE *);
    *(void **)&real = dlsym(RTLD_NEXT, "fwrite");
    if (ours(f)) step(0);
    size_t done = real(data, size, n, f);
    if (ours(f)) fflush(f), step(1); /* what was written so far is in the file */
    return done;
}
WRAP(int, fsync, (int fd), (fd))
WRAP(int, rename, (const char *from, const char *to), (from, to))
"""


def every_write(directory):
    """The program dies before and after each write, the synchronization and the renaming."""
    path, source, library = (os.path.join(directory, name) for name in ("session", "dies.c", "dies.so"))
    with open(source, "w") as f:
        f.write(DIES)
    cc = os.environ.get("CC", "gcc").split()
    if any(x in RUN for x in ("asan", "tsan", "emulated")) or subprocess.run([*cc, "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True).returncode:
        print("skip killed at every write: no library can be put before this program's")
        return
    old, new = ("-i", "Old.", "-n", "1", "-t", "0"), ("-i", "Old. And new.", "-n", "1", "-t", "0")
    run(*old, "--session", path)
    keep = open(path, "rb").read()
    run(*new, "--session", path)
    wanted = open(path, "rb").read()
    seen, n = {keep: 0, wanted: 0}, 0
    for after in ({}, {"DIE_AFTER": "1"}):
        for n in range(1, 1000):
            with open(path, "wb") as f:
                f.write(keep)
            out = subprocess.run([RUN, MODEL, *new, "--session", path], env={**os.environ, **after, "LD_PRELOAD": library, "DIE_AT": str(n)}, capture_output=True)
            now = open(path, "rb").read()
            if now not in seen:
                check("killed at every write: the old file or the new one, whole", False, f"call {n}: {len(now)} bytes")
                return
            seen[now] += 1
            for name in os.listdir(directory):
                if name.startswith("session."):
                    os.unlink(os.path.join(directory, name))
            if out.returncode == 0:
                break
    check("killed at every write: the old file or the new one, whole", n > 10 and seen[keep] > 20 and seen[wanted] > 2, f"{n} calls, {sorted(seen.values())}")


def chat(directory):
    path = os.path.join(directory, "chat")
    args = ["-m", "chat", "--chat-template", "chatml", "-t", "0", "-n", "4", "--session", path]
    first = run(*args, text=b"Hello\nAnd you?\n")
    second = run(*args, text=b"Goodbye\n")
    whole = run(*args[:-2], text=b"Hello\nAnd you?\nGoodbye\n")
    check("a chat goes on where it ended", first.stdout + second.stdout == whole.stdout, second.stderr)
    check("and reads what is new", prefill(second) == prefill(whole)[2:], f"{prefill(second)} {prefill(whole)}")
    model = os.path.join(directory, "model")
    shutil.copytree("weights/rung4", model)
    talk = ["-m", "chat", "--chat-template", "chatml", "-n", "20", "-s", "1"]
    plain, wanted = run(*talk, text=b"Hi\n", model=model), run(*talk, "-t", "1.5", "--top-k", "3", text=b"Hi\n", model=model)
    check("the temperature of a chat is 0.7", plain.stdout == run(*talk, "-t", "0.7", text=b"Hi\n", model=model).stdout)
    with open(os.path.join(model, "generation_config.json"), "w") as f:
        json.dump({"temperature": 1.5, "top_k": 3}, f)
    found, given = run(*talk, text=b"Hi\n", model=model), run(*talk, "-t", "0.7", "--top-k", "0", text=b"Hi\n", model=model)
    check("generation_config.json gives a chat its sampling", found.stdout == wanted.stdout != plain.stdout, found.stderr)
    check("flags go before it", given.stdout == plain.stdout, given.stderr)


def long_chat(directory):
    """300 turns in a context of 512: each is answered, what is forgotten is said, memory stays what it was."""
    def talk(turns):
        path = os.path.join(directory, f"chat{turns}")
        args = [RUN, MODEL, "-m", "chat", "--chat-template", "chatml", "-t", "0", "-c", "512", "-n", "8", "--session", path]
        with open(os.path.join(directory, "err"), "w+b") as err, open(os.path.join(directory, "in"), "w+b") as asked:
            asked.write(b"".join(b"Question number %d?\n" % i for i in range(turns)))
            asked.seek(0)
            p = subprocess.Popen(args, stdin=asked, stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            said = err.read()
        forgotten = sum(int(x) for x in re.findall(rb"the (\d+) oldest messages are forgotten", said))
        kept = open(path, "rb").read().count(b"Question number")
        return p.returncode, said.count(b"prefill: "), forgotten, kept, usage.ru_maxrss
    few, many = talk(60), talk(300)
    check("300 turns are all answered", many[:2] == (0, 300), many)
    check("a turn is kept or said to be forgotten", few[2] > 0 and many[2] / 2 + many[3] == 300, (few, many))
    if not any(x in RUN for x in ("asan", "tsan")):
        check("memory does not grow with the turns", many[4] - few[4] < 2048, f"{few[4]} and {many[4]} KiB")


def chat_json():
    args = ["-m", "chat", "--chat-template", "chatml", "-t", "0", "-n", "6"]
    plain = run(*args, text=b"Hello\nAnd \"you\"?\n").stdout.decode().split("\n")
    out = [json.loads(line) for line in run(*args, "--json", text=b"Hello\nAnd \"you\"?\n").stdout.splitlines()]
    check("--json: an object an answer", [x["prompt"] for x in out] == ["Hello", 'And "you"?'], out)
    check("with its text, its tokens and why it ended", [x["text"] for x in out] == plain[:2] and all(len(x["tokens"]) == 6 and x["stop"] == "steps" for x in out), out)
    *tokens, last = [json.loads(line) for line in run(*args, "-i", "Hello", "--json=lines", "--logprobs", "2").stdout.splitlines()]
    check("--json=lines: an object a token", "".join(x["text"] for x in tokens) == last["text"] == plain[0] and len(last["logprobs"]) == 6, last)


def keep():
    args = ["-i", PROMPT, "-t", "0", "-c", "64", "-n", "300"]
    out = run(*args)
    check("without --keep the text ends at the context", b"stop: context" in out.stderr, out.stderr)
    for kv in ("f32", "f16", "q8_0"):
        out = run(*args, "--keep", "10", "--kv-type", kv)
        check(f"--keep goes on, {kv}", b"decode: 300 tokens" in out.stderr and b"stop: steps" in out.stderr, out.stderr)
        check(f"keys are moved without a word, {kv}", b"context:" not in out.stderr, out.stderr)
    with tempfile.TemporaryDirectory() as directory:
        windowed = shutil.copytree("weights/rung4", os.path.join(directory, "windowed"))
        path = os.path.join(windowed, "config.json")
        config = json.load(open(path))
        config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 16}
        json.dump(config, open(path, "w"))
        out = run(*args, "--keep", "10", "--batch", "16", model=windowed)
        check("--keep reads the half anew where layers have a window, and says so once",
              b"decode: 300 tokens" in out.stderr and out.stderr.count(b"read anew: layers with a window") == 1, out.stderr)
    out = run("-i", "A", "-n", "2", "--keep", "4", model="weights/rung0")
    check("--keep is refused where positions are learned", out.returncode == 1 and b"positions are learned" in out.stderr, out.stderr)
    out = run("-i", "A", "-n", "2", "--keep", "4", "--rope-scaling", "dynamic", "--rope-factor", "2")
    check("--keep is refused where the table depends on the length", out.returncode == 1 and b"depend on the length" in out.stderr, out.stderr)


def text_files(directory):
    path = os.path.join(directory, "text")
    def ids(data):
        with open(path, "wb") as f:
            f.write(data)
        return run("-m", "tokenize", "-f", path)
    plain = ids("Grüße\n".encode())
    check("a byte order mark is dropped", ids("\ufeffGrüße\n".encode()).stdout == plain.stdout)
    check("CRLF in a file stays", ids("Grüße\r\n".encode()).stdout != plain.stdout)
    check("NUL bytes in a file are text", len(ids(b"a\0b").stdout.split()) > len(ids(b"a").stdout.split()))
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        out = ids("Hello there\n".encode(encoding))
        check(f"{encoding} is named", out.returncode == 1 and encoding[:6].upper().encode() in out.stderr, out.stderr)


def main():
    with tempfile.TemporaryDirectory() as directory:
        generate(os.path.join(directory, "session"))
    with tempfile.TemporaryDirectory() as directory:
        broken(directory)
    with tempfile.TemporaryDirectory() as directory:
        every_write(directory)
    with tempfile.TemporaryDirectory() as directory:
        long_chat(directory)
    with tempfile.TemporaryDirectory() as directory:
        chat(directory)
        text_files(directory)
    chat_json()
    keep()
    return len(failures) > 0


sys.exit(main())

"""strangers.py - what the tests of strangers' files and settings share: hostile names, and what the program may say of them.
RUN is the program."""
import os
import subprocess
import unicodedata

RUN = os.environ.get("RUN", "./run")

BANK = {  # bytes, as a file may hold them
    "escape": b"\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "newline": b"x\nrun: all is well\n",
    "return": b"x\rrun: all is well",
    "nul and del": b"a\x00b\x7fc\x08",
    "C1": "\x9b31m\x9d0;owned\x9c\x85".encode(),
    "C1 bytes": b"\x9b31m\x9d0;owned\x9c",
    "not UTF-8": b"\xff\xfe\xc0\x80\xed\xa0\x80\xf5",
    "directions": "a\u202eb\u2066c\u2069d\u200e\u061c".encode(),
    "separators": "a\u2028b\u2029c".encode(),
    "invisible": "a\u200bb\ufeffc\u00add\U000e0041\u2060".encode(),
    "long": b"n" * 4000,
    "long and wide": ("\u732b" * 1300).encode(),
    "format": b"%s%n%d%99999s",
    "quotes": b'"}]\\" , "x": "',
}

def speaks(data, lines=True):
    """What in the bytes is no printable text, or None."""
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        return f"bytes that are not UTF-8: {data[max(0, e.start - 20):e.start + 20]!r}"
    for c in text:
        if c in "\n\t" and lines:
            continue
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            at = text.index(c)
            return f"U+{ord(c):04X} in {text[max(0, at - 30):at + 30]!r}"
    return None


def run(*args, stdin=b""):
    return subprocess.run([RUN, *args], input=stdin, capture_output=True, timeout=60)


def refused(name, *args):
    """Fails with one line, ours, of printable text and bounded length, that holds its cause."""
    r = run(*args)
    err = r.stderr
    if r.returncode not in (1, 2):
        return f"{name}: exit {r.returncode}, expected a refusal"
    if r.stdout:
        return f"{name}: {len(r.stdout)} bytes on standard output"
    if err.count(b"\n") != 1 or not err.startswith(b"run: "):
        return f"{name}: expected one line of ours, found {err[:200]!r}"
    if len(err.decode(errors="replace")) > 700:
        return f"{name}: a line of {len(err)} bytes"
    if b": expected " not in err:
        return f"{name}: no cause in {err[:300]!r}"
    why = speaks(err)
    return why and f"{name}: {why}"


def printable(name, *args, code=None):
    """Whatever comes, it is printable."""
    r = run(*args)
    if r.returncode not in ((0, 1, 2) if code is None else (code,)):
        return f"{name}: exit {r.returncode}: {r.stderr[-200:]!r}"
    why = speaks(r.stdout) or speaks(r.stderr)
    return why and f"{name}: {why}"

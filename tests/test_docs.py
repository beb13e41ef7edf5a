#!/usr/bin/env python3
"""The documents are tests: every line "$ command" of them is run, and what stands below it is what the command prints.

    RUN=./run tests/test_docs.py [--update] [FILE.md ...]

A line "..." stands for any lines. Numbers agree within one unit of the last digit that the document prints; lines with
numbers like 1.2e-07, which are errors of rounding, by their words alone; speeds are not compared. --update writes what the commands print
into the documents. A command that needs what is not there (a downloaded model, torch, ../shared) is skipped.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = os.environ.get("RUN", "./run")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
NEEDS = {"weights/SmolLM2": "weights/SmolLM2-135M-Instruct.Q4_1.gguf", "hf_reference.py": None, "build/": None, "pip": None,
         "../shared": "../shared"}


def unit(text):
    """One unit of the last digit of a printed number."""
    digits, _, power = text.partition("e")
    return 10.0 ** (-len(digits.partition(".")[2]) + (int(power) if power else 0))


def same_number(want, got):
    a, b = float(want), float(got)
    return abs(a - b) <= 1.01 * max(unit(want), unit(got) if "." in want else 0)


def same_line(want, got):
    if "tok/s" in want:
        return "tok/s" in got
    if re.search(r"\de-\d\d", want):  # errors of rounding, and where the largest is
        return NUMBER.sub("", want).split() == NUMBER.sub("", got).split()
    if NUMBER.sub("#", want).split() != NUMBER.sub("#", got).split():
        return False
    return all(same_number(a, b) for a, b in zip(NUMBER.findall(want), NUMBER.findall(got)))


def same(want, got):
    """Line by line; "..." takes as many as it needs."""
    if not want:
        return not got
    if want[0].strip() == "...":
        return any(same(want[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and same_line(want[0], got[0]) and same(want[1:], got[1:])


def commands(lines):
    """(first, last, indent, command) of each: lines[first] is the command, lines[first + 1:last] its output."""
    fenced, i = False, 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            fenced = not fenced
        match = re.match(r"( {4}|)\$ (.*)", line)
        if not match or (match[1] == "") != fenced:
            i += 1
            continue
        first, indent = i, match[1]
        i += 1
        while i < len(lines) and (lines[i].startswith(indent) if indent else not lines[i].startswith("```")) \
                and not lines[i].startswith(indent + "$ ") or i < len(lines) and indent and lines[i] == "" \
                and i + 1 < len(lines) and lines[i + 1].startswith(indent) and not lines[i + 1].startswith(indent + "$ "):
            i += 1
        yield first, i, indent, match[2]


def run(command, variables):
    script = "\n".join([*variables, command]).replace("./run ", f"{RUN} ")
    p = subprocess.run(["bash", "-c", script], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
    text = p.stdout.decode(errors="replace")
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip("\n") else []


def missing(command):
    for word, path in NEEDS.items():
        if word in command and not (path and (ROOT / path).exists()):
            return word
    return None


def check(path, update):
    lines, variables, out, kept = path.read_text().split("\n"), [], [], 0
    name = path.relative_to(ROOT)
    for first, last, indent, command in commands(lines):
        out += lines[kept:first + 1]
        kept = last
        want = [line[len(indent):].rstrip() for line in lines[first + 1:last]]
        while want and not want[-1]:
            want.pop()
        if re.match(r"\w+=", command):
            variables.append(command)
            out += lines[first + 1:last]
            continue
        if missing(command):
            print(f"skip {name}:{first + 1}: needs {missing(command)}")
            out += lines[first + 1:last]
            continue
        got = run(command, variables)
        if update and not same(want, got):
            out += [(indent + line).rstrip() for line in got] + [""] * (last < len(lines) and indent != "" and lines[last] != "")
            continue
        out += lines[first + 1:last]
        if same(want, got):
            print(f"ok {name}:{first + 1}: {command[:70]}")
        else:
            bad = next((i for i, (a, b) in enumerate(zip(want, got)) if not same_line(a, b) and a.strip() != "..."), min(len(want), len(got)))
            print(f"not ok {name}:{first + 1}: {command[:70]}: line {bad + 1}: expected {want[bad:bad + 1]}, found {got[bad:bad + 1]}")
    if update:
        path.write_text("\n".join(out + lines[kept:]))


def main():
    files = [a for a in sys.argv[1:] if not a.startswith("-")]
    paths = [pathlib.Path(f).resolve() for f in files] or sorted(
        [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "exercises").rglob("*.md"), ROOT / "weights/README.md"])
    if os.environ.get("EMULATED"):
        print("skip documents: emulated")
        return
    for path in paths:
        check(path, "--update" in sys.argv)


main()

#!/usr/bin/env python3
"""check_layers.py - every #include goes strictly downward.

    run.c > modes > gen > chat, verify, convert > checkpoint, tokenizer > model > moe > attention, ffn > residual > rope, norm > ops > rows > kv_cache > pass > kernels > io > base

Files of one layer's folder may include each other; the readers in src/checkpoint and src/tokenizer know
nothing of one another (both read the containers in src/io). dist stands between ops and kernels.
Prints each edge that goes up or sideways; exit 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK = {"run": 10, "modes": 9.5, "gen": 9, "chat": 8.5, "verify": 8.5, "convert": 8.5, "checkpoint": 8, "tokenizer": 8, "shard": 7.5, "model": 7, "state": 7.2, "passes": 7.2, "watch_ranks": 4.1, "rope": 5, "residual": 5.5,
        "attention": 6,
        "norm": 5, "ffn": 6, "moe": 6.5, "ops": 4.6, "rows": 4.4, "kv_cache": 4.2, "attention_scratch": 4.1, "pass": 4, "dist": 1.5, "kernels": 2, "io": 1, "base": 0}
RANK["library"] = 9.2  # the installed interface, on gen as the modes are
RANK["lite"] = 9.6  # stands in for files of every layer in the small program


def layer(path):
    """The layer of a source file: its folder under src/, else its own name."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return path.stem


def included(path, name):
    """The project's file that an #include "name" means, or None."""
    for base in (path.parent, ROOT, ROOT / "src"):
        if (base / name).is_file():
            return (base / name).resolve()
    return None


def main():
    bad = edges = 0
    files = [f for f in [*ROOT.glob("*.[ch]"), *(ROOT / "src").rglob("*")] if f.suffix in (".c", ".h", ".cc")]
    for path in sorted(files):
        here = layer(path)
        if here not in RANK:
            print(f"{path.relative_to(ROOT)}: layer: expected one of {', '.join(RANK)}, found {here}")
            bad += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            target = match and included(path, match[1])
            if not target:
                continue
            edges += 1
            there = layer(target)
            if there != here and RANK.get(there, 99) >= RANK[here]:
                print(f"{path.relative_to(ROOT)}:{number}: {here} includes {there}: expected a lower layer")
                bad += 1
    print(f"{len(files)} files, {edges} includes, {bad} upward")
    return 1 if bad else 0


sys.exit(main())

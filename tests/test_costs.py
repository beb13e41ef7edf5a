#!/usr/bin/env python3
"""test_costs.py - the worst files and prompts of scripts/bench_costs.py, small: each is read or refused in one printable
line, with nothing on standard output, in a time and a memory that the bytes bound. RUN is the program."""
import os
import pathlib
import sys
import tempfile

from lib import check, failures

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import bench_costs

RUN = os.path.abspath(os.environ.get("RUN", ROOT / "run"))
SECONDS = 30  # for what takes a tenth of one on a quiet machine; a sanitizer slows it tenfold
SANITIZED = any(name in RUN for name in ("asan", "tsan", "valgrind", "aarch64"))

with tempfile.TemporaryDirectory() as folder:
    for _, name, first, make in bench_costs.KINDS:
        made = make(first if first < 1000 else first // 4)
        seconds, memory, code, err, file, prompt = bench_costs.run(RUN, made, folder)
        out = (pathlib.Path(folder) / "out").stat().st_size
        line = err.decode(errors="replace")
        check(f"{name}: exit", code in (0, 1), f"{code}: {line}")
        if code:
            fine = line.startswith("run: ") and line.count("\n") == 1 and line[:-1].isprintable() and ": expected " in line
            check(f"{name}: refused", fine or "sandbox" in line, line)
            check(f"{name}: nothing printed", out == 0, out)
        check(f"{name}: time", seconds < SECONDS, seconds)
        most = bench_costs.allowed(prompt, file)
        check(f"{name}: memory", SANITIZED or memory < most + (24 << 20), f"{memory} of {most}")
sys.exit(bool(failures))

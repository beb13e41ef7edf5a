#!/usr/bin/env python3
"""test_peers.py - scripts/bench_peers.py with programs that print the rates they are told instead of measuring: who runs when,
with which options, what counts, and what is written."""
import os
import pathlib
import subprocess
import sys
import tempfile

from lib import check, failures

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = """#!/bin/sh
echo "${0##*/} $*" >>"${0%/*}/log"
"""
OURS = LOG + """echo '{"results": [{"test": "pp256", "tok_s": 300}, {"test": "tg64", "tok_s": 60}]}'
"""
# Its rates fall from round to round: 100, 50, 33.3 and 10, 5, 3.3. The median is the second.
LLAMA_BENCH = LOG + """n=$(grep -c ^llama-bench "${0%/*}/log")
awk -v n="$n" 'BEGIN { printf "[{\\"n_prompt\\": 256, \\"avg_ts\\": %f}, {\\"n_prompt\\": 0, \\"avg_ts\\": %f}]", 100 / n, 10 / n }'
"""
# Repacked it prefills faster and decodes slower. A step takes twice as long as the one before.
SWEEP_BENCH = LOG + """case "$*" in *-rtr*) t=1 tg=20 ;; *) t=2 tg=30 ;; esac
of() { sed "s/.* $1 \\([0-9]*\\).*/\\1/"; }
step=$(echo "$*" | of -ub) end=$(echo "$*" | of -c) n=0
echo "llama_model_loader: loaded" >&2
echo llama >llama.log
while [ $n -lt $end ]; do
    echo '{"n_kv_max": '$end', "n_kv": '$n', "t_pp": '$t', "speed_tg": '$tg'}' >&2
    n=$((n + step)) t=$((2 * t)) tg=$((tg / 2))
done
"""


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for program, text in (("run", OURS), ("llama-bench", LLAMA_BENCH), ("sweep", SWEEP_BENCH)):
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    (folder / "tiny.gguf").touch()

    def bench(*options, peers=("--llama-bench", "llama-bench", "--ik-sweep-bench", "sweep"), **variables):
        """(exit code, rows of the table, what was run, standard error)"""
        (folder / "log").write_text("")
        command = [sys.executable, ROOT / "scripts" / "bench_peers.py", "--run", "run", *peers, *options, "tiny.gguf"]
        done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "LLAMA_BENCH": "", "IK_SWEEP_BENCH": "", **variables})
        rows = [line for line in done.stdout.splitlines() if line.startswith("| tiny ")]
        return done.returncode, rows, (folder / "log").read_text().splitlines(), done.stderr

    code, rows, ran, error = bench("--rounds", "3", "--md", "table.md")
    check("exit", code == 0, error)
    check("in turn", [line.split()[0] for line in ran] == ["run", "llama-bench", "sweep", "sweep"] * 3, ran)
    check("the median, and the faster of two ways", rows == [
        "| tiny | pp256 | llama.cpp | 300.0 | 50.0 | 6.00 |", "| tiny | pp256 | ik_llama.cpp -rtr | 300.0 | 256.0 | 1.17 |",
        "| tiny | tg64 | llama.cpp | 60.0 | 5.0 | 12.00 |", "| tiny | tg64 | ik_llama.cpp | 60.0 | 30.0 | 2.00 |"], rows)
    model = folder / "tiny.gguf"
    check("options", ran[:4] == [
        f"run {model} -m bench --json -j 2 -P 256 -n 64 -d 0 -r 1 --quiet",
        f"llama-bench -m {model} -t 2 -p 256 -n 64 -d 0 -r 1 -o json",
        f"sweep -m {model} -t 2 -c 256 -ub 256 -n 64 --no-warmup -wb --output-format jsonl",
        f"sweep -m {model} -t 2 -c 256 -ub 256 -n 64 --no-warmup -wb --output-format jsonl -rtr"], ran)
    check("no log of a peer", not (folder / "llama.log").exists())

    code, again, ran, error = bench("--rounds", "3", "--md", "table.md")
    check("rows of the file are not measured again", code == 0 and not again and not ran, error or ran)
    code, deep, _, error = bench("--rounds", "1", "--md", "table.md", "--depth", "512", "--prefill", "1024")
    check("at a depth: all steps of the prompt, the decode before them", deep[1::2] == [
        "| tiny | pp1024@d512 | ik_llama.cpp -rtr | 300.0 | 170.7 | 1.76 |", "| tiny | tg64@d512 | ik_llama.cpp | 60.0 | 15.0 | 4.00 |"],
        error or deep)
    check("the file has all rows", (folder / "table.md").read_text().splitlines()[2:] == rows + deep, deep)

    code, rows, ran, error = bench("--rounds", "1", "--decode", "0", peers=(), LLAMA_BENCH="llama-bench")
    check("a peer by the environment, the other left out", [row.split(" | ")[1:3] for row in rows] == [["pp256", "llama.cpp"]],
          error or rows)
    code, _, ran, error = bench(peers=())
    check("no peer", code == 1 and not ran and "expected a peer" in error, error)
    code, _, _, error = bench("--depth", "100")
    check("a depth that the sweep does not reach", code == 1 and "expected multiples of 256" in error, error)
sys.exit(bool(failures))

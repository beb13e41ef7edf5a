#!/usr/bin/env python3
"""bench_growth.py MODEL - how the cost of a token grows with depth, threads and batch, and what --deterministic costs.

Prints Markdown tables of `./run MODEL -m bench` (medians, tokens a second). The alternatives of a table are run in
turn, --rounds times, so that a slow moment of the machine hits all of them.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def bench(args, *options):
    command = [args.run, args.model, "-m", "bench", "--json", "--quiet", "-r", "1", *map(str, options)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return {r["test"][:2]: (r["tok_s"], r["fraction_of_limit"]) for r in json.loads(out)["results"]}


def table(args, title, columns, cases):
    """cases: [(name, [options of a run, ...])]; the runs' results together fill the columns."""
    seen = {}
    for _ in range(args.rounds):
        for name, runs in cases:
            for options in runs:
                for test, result in bench(args, *options).items():
                    seen.setdefault((name, test), []).append(result)
    print(f"\n{title}\n\n| | " + " | ".join(heading for heading, _, _ in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name, _ in cases:
        cells = []
        for _, test, show in columns:
            results = seen[name, test]
            rate, fraction = (statistics.median(r[i] for r in results) for i in (0, 1))
            cells.append(show(rate, fraction))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def rate(value, _):
    return f"{value:.1f}"


def milliseconds(value, _):
    return f"{1000 / value:.2f}"


def share(_, fraction):
    return f"{100 * fraction:.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--run", default=str(ROOT / "run"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depths", default="0,128,512,1024,2048,4096,7936")
    parser.add_argument("--batches", default="1,2,3,4,8,16,32,64,128,256,512")
    args = parser.parse_args()
    both = [("prefill of 256", "pp", rate), ("decode", "tg", rate), ("ms a decoded token", "tg", milliseconds),
            ("of the memory's rate", "tg", share)]
    table(args, "Depth: tokens in the cache before.", both,
          [(depth, [("-P", 256, "-n", 32, "-d", depth)]) for depth in args.depths.split(",")])
    table(args, "Threads.", both, [(n, [("-P", 256, "-n", 64, "-j", n)]) for n in (1, 2)])
    table(args, "Batch: tokens that go through the layers together.",
          [("tokens/s", "pp", rate), ("ms a token", "pp", milliseconds), ("of the product's rate", "pp", share)],
          [(n, [("-P", n, "--batch", n, "-n", 0, "-r", 1 + 64 // int(n))]) for n in args.batches.split(",")])
    table(args, "`--deterministic`.", both[:3],
          [("off", [("-P", 256, "-n", 64)]), ("on", [("-P", 256, "-n", 64, "--deterministic")])])


if __name__ == "__main__":
    sys.exit(main())

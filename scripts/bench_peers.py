#!/usr/bin/env python3
"""bench_peers.py MODEL... - ours and its peers on the same file and threads, in turn: medians and their ratio.

    bench_peers.py FILE.gguf      against llama.cpp and ik_llama.cpp
    bench_peers.py 1.1b:q8_0      the same with a random model of the TinyLlama-1.1B shape, made on first use
    bench_peers.py DIRECTORY      a Hugging Face directory, in f32, against transformers

llama.cpp is measured by its llama-bench, ik_llama.cpp by its llama-sweep-bench, as the file is and repacked while it is
loaded (-rtr): the faster of the two counts, and the table says which. Options or the environment (LLAMA_BENCH,
IK_SWEEP_BENCH) name the two programs; a peer that is not named is left out. 1.1b, directories and --png want the
packages of scripts/requirements.txt. Each round runs ours, then every peer, so that a slow moment hits all. Prints the
rows of a Markdown table as they are done; --md appends them to a file, whose rows are not measured again, and --png
draws all of them.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = "| model | test | peer | ours | the peer's | ratio |\n|---|---|---|---:|---:|---:|\n"

# With --avx2 ours and transformers do without AVX-512 and VNNI, as on a machine that has neither.
AVX2 = {"RUN_CPU": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}

# One process a measurement, as ./run is one.
TRANSFORMERS = r"""
import json, sys, time
import torch, transformers
path, threads, n_prefill, n_decode, depth = sys.argv[1], *map(int, sys.argv[2:6])
torch.set_num_threads(threads)
model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
vocab = model.config.vocab_size
def ids(n):
    return torch.tensor([[i * 2654435761 % 2**32 % vocab for i in range(n)]])
def cache_of(n):
    cache = transformers.DynamicCache()
    if n:
        model(ids(n), past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache
result = {}
with torch.inference_mode():
    for name, n in (("pp", n_prefill), ("tg", n_decode)):
        for count in (min(n, 8), n) if n else ():
            cache, tokens = cache_of(depth), ids(count)
            start = time.perf_counter()
            for part in [tokens] if name == "pp" else tokens.split(1, dim=1):
                model(part, past_key_values=cache, use_cache=True, logits_to_keep=1)
            result[name] = count / (time.perf_counter() - start)
print(json.dumps(result))
"""


def absolute(path):
    return pathlib.Path(path).absolute()


def find_model(args, model):
    """What the table calls it, and its path."""
    if not model.startswith("1.1b:"):
        path = absolute(model)
        return path.stem if path.suffix == ".gguf" else path.name, path
    path = args.files / f"random-{model.replace(':', '-')}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(ROOT / "scripts" / "make_model.py"), model[5:], f"{path}.part"], check=True)
        os.replace(f"{path}.part", path)
    return model, path


def output(*command, error=False):
    """Lines of standard output or error. In a folder of its own: llama-sweep-bench leaves a log where it runs."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(word) for word in command], check=True, cwd=folder, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE if error else subprocess.DEVNULL)
    return (done.stderr if error else done.stdout).splitlines()


# Each runs the tests once: {"pp": tokens/s, "tg": tokens/s}.
def ours(args, model):
    lines = output(args.run, model, "-m", "bench", "--json", "-j", args.threads, "-P", args.prefill, "-n", args.decode,
                   "-d", args.depth, "-r", 1, "--quiet")
    return {r["test"][:2]: r["tok_s"] for r in json.loads("".join(lines))["results"]}


def llama_cpp(args, model):
    lines = output(args.llama_bench, "-m", model, "-t", args.threads, "-p", args.prefill, "-n", args.decode,
                   "-d", args.depth, "-r", 1, "-o", "json")
    return {"pp" if r["n_prompt"] else "tg": r["avg_ts"] for r in json.loads("".join(lines))}


def ik_llama_cpp(args, model, *flags):
    """Its llama-bench knows no depth. Its llama-sweep-bench prefills -ub tokens after -ub tokens up to -c, and decodes before
    each; it warms up by a prefill (-wb), as after the one token that it takes without --no-warmup not all of -c is free."""
    step = min(args.prefill or 512, 512)
    if args.depth % step or args.prefill % step or args.decode > step:
        sys.exit(f"ik_llama.cpp: expected multiples of {step} for --depth and --prefill and --decode <= {step}")
    lines = output(args.ik_sweep_bench, "-m", model, "-t", args.threads, "-c", args.depth + (args.prefill or step), "-ub", step,
                   "-n", args.decode or 1, "--no-warmup", "-wb", "--output-format", "jsonl", *flags, error=True)
    steps = {r["n_kv"]: r for r in map(json.loads, (line for line in lines if line.startswith('{"n_kv_max"')))}
    spent = sum(steps[n]["t_pp"] for n in range(args.depth, args.depth + args.prefill, step))
    return {"pp": args.prefill / spent if spent else 0, "tg": steps[args.depth]["speed_tg"]}


def transformers(args, model):
    lines = output(sys.executable, "-c", TRANSFORMERS, model, args.threads, args.prefill, args.decode, args.depth)
    return json.loads(lines[-1])


def peers(args, model):
    """{name in the table: how it is run}. Of names that begin with the same word the fastest counts."""
    if model.is_dir():
        return {"transformers": transformers}
    found = {}
    if args.llama_bench:
        found["llama.cpp"] = llama_cpp
    if args.ik_sweep_bench:
        found["ik_llama.cpp"] = ik_llama_cpp
        found["ik_llama.cpp -rtr"] = lambda args, model: ik_llama_cpp(args, model, "-rtr")
    return found or sys.exit(f"{model}: expected a peer, found neither --llama-bench nor --ik-sweep-bench")


def compare(args, name, model, tests):
    """The rows of a model: for each test and peer the cells of the table."""
    runs = {"ours": ours, **peers(args, model)}
    seen = {}
    for _ in range(args.rounds):
        for who, run in runs.items():
            for test, rate in run(args, model).items():
                seen.setdefault((who, test), []).append(rate)
    rates = {key: statistics.median(values) for key, values in seen.items()}
    for test in tests:
        a = rates["ours", test[:2]]
        for peer in dict.fromkeys(who.split()[0] for who in runs if who != "ours"):
            b, who = max((rates[who, test[:2]], who) for who in runs if who.split()[0] == peer)
            yield [name, test, who, f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}"]


def plot(path, rows):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker
    figure, axis = plt.subplots(figsize=(8, 0.3 * len(rows) + 1.2))
    names = [f"{model} {test}, {peer}" for model, test, peer, *_ in rows]
    hues = {"llama.cpp": "#4878a8", "ik_llama.cpp": "#d08040", "transformers": "#609060"}
    colors = [(hues[peer.split()[0]], 1 if test.startswith("pp") else 0.6) for _, test, peer, *_ in rows]
    axis.bar_label(axis.barh(names, [float(row[-1]) for row in rows], color=colors), fmt="%.2f", padding=3)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
    axis.set_xlabel("tokens/s, ours / the peer's (1: equal)")
    axis.margins(x=0.12, y=0.02)
    axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--run", type=absolute, default=ROOT / "run")
    parser.add_argument("--llama-bench", type=absolute, default=os.environ.get("LLAMA_BENCH") or None, help="of llama.cpp")
    parser.add_argument("--ik-sweep-bench", type=absolute, default=os.environ.get("IK_SWEEP_BENCH") or None,
                        help="llama-sweep-bench of ik_llama.cpp")
    parser.add_argument("--files", type=absolute, default=ROOT / "build" / "peers", help="the folder of the 1.1b models")
    parser.add_argument("--avx2", action="store_true", help="ours and transformers without AVX-512 and VNNI; name peers built so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--png", type=pathlib.Path)
    args = parser.parse_args()
    if args.avx2:
        os.environ.update(AVX2)
    at = f"@d{args.depth}" if args.depth else ""
    tests = [f"{test}{n}{at}" for test, n in (("pp", args.prefill), ("tg", args.decode)) if n]

    text = args.md.read_text() if args.md and args.md.exists() else HEAD
    if args.md:
        args.md.write_text(text)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    print(f"{args.threads} threads, {args.rounds} rounds; medians, tokens/s.\n\n{HEAD}", end="", flush=True)
    for name, model in [find_model(args, m) for m in args.models]:
        if all([name, test] in [row[:2] for row in rows] for test in tests):
            continue
        for row in compare(args, name, model, tests):
            line = "| " + " | ".join(row) + " |"
            print(line, flush=True)
            rows.append(row)
            if args.md:
                with args.md.open("a") as file:
                    file.write(line + "\n")
    if args.png:
        plot(args.png, rows)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""bench_peers.py MODEL... - ours and a peer on the same file and threads, in turn: medians and their ratio.

    bench_peers.py FILE.gguf      against llama.cpp
    bench_peers.py 1.1b:q8_0      the same with a random model of the TinyLlama-1.1B shape, made on first use
    bench_peers.py DIRECTORY      a Hugging Face directory, in f32, against transformers

Without --python it makes a venv below --venv and installs the peers into it: llama-cpp-python (built here, CPU only,
for this very machine or, with --avx2, for one without AVX-512), transformers and torch, matplotlib. Each round runs
ours, then the peer, so that a slow moment hits both. Prints a Markdown table; --md and --png write it and a plot to
files.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What runs inside the venv: one process a measurement, as ./run is one.
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

LLAMA_CPP = r"""
import ctypes, json, sys, time
import llama_cpp as L
path, threads, n_prefill, n_decode, depth = sys.argv[1], *map(int, sys.argv[2:6])
silent = L.llama_log_callback(lambda level, text, data: None)
L.llama_log_set(silent, ctypes.c_void_p(0))
L.llama_backend_init()
params = L.llama_model_default_params()
params.n_gpu_layers = 0
model = L.llama_model_load_from_file(path.encode(), params)
cparams = L.llama_context_default_params()
cparams.n_ctx = depth + max(n_prefill, n_decode) + 64
cparams.n_batch = cparams.n_ubatch = 512
cparams.n_threads = cparams.n_threads_batch = threads
ctx = L.llama_init_from_model(model, cparams)
vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
def run(n, pos, many):
    ids = [i * 2654435761 % 2**32 % vocab for i in range(n)]
    step = 512 if many else 1
    start = time.perf_counter()
    for i in range(0, n, step):
        part = ids[i:i + step]
        array = (L.llama_token * len(part))(*part) # the batch only points to it
        batch = L.llama_batch_get_one(array, len(part))
        assert L.llama_decode(ctx, batch) == 0
        L.llama_get_logits_ith(ctx, -1)
    return n / (time.perf_counter() - start)
def clear(pos):
    L.llama_memory_seq_rm(L.llama_get_memory(ctx), -1, pos, -1)
if depth:
    run(depth, 0, True)
result = {}
for name, n, many in (("pp", n_prefill, True), ("tg", n_decode, False)):
    if n:
        run(min(n, 8), depth, many)
        clear(depth)
        result[name] = run(n, depth, many)
        clear(depth)
print(json.dumps(result))
"""


# With --avx2 both sides do without AVX-512 and VNNI, as on a machine that has neither.
AVX2 = {"RUN_CPU": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
AVX2_BUILD = "-DGGML_NATIVE=OFF " + " ".join(f"-DGGML_{name}=ON" for name in ("AVX", "AVX2", "FMA", "F16C", "BMI2"))


def make_venv(path, cmake_args):
    python = path / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
        env = dict(os.environ, CMAKE_ARGS=cmake_args)
        install = [str(python), "-m", "pip", "install", "-q"]
        # Not from pip's cache: it may hold one that was built for other instructions.
        subprocess.run([*install, "--no-cache-dir", "llama-cpp-python==0.3.36"], check=True, env=env)
        subprocess.run([*install, "matplotlib", "gguf", "torch", "transformers"], check=True)
    return python


def find_model(args, python, model):
    """What the table calls it, its path, the peer that reads it."""
    if model.startswith("1.1b:"):
        path = args.files / f"random-{model.replace(':', '-')}.gguf"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([str(python), str(ROOT / "scripts" / "make_model.py"), model[5:], f"{path}.part"], check=True)
            os.replace(f"{path}.part", path)
        return model, str(path), "llama.cpp"
    path = pathlib.Path(model)
    return path.stem if path.suffix == ".gguf" else path.name, model, "transformers" if path.is_dir() else "llama.cpp"


def ours(args, model):
    command = [args.run, model, "-m", "bench", "--json", "-j", str(args.threads), "-P", str(args.prefill), "-n",
               str(args.decode), "-d", str(args.depth), "-r", "1", "--quiet"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {r["test"][:2]: r["tok_s"] for r in json.loads(out)["results"]}


def theirs(args, python, model, peer):
    command = [str(python), "-c", TRANSFORMERS if peer == "transformers" else LLAMA_CPP, model, str(args.threads), str(args.prefill), str(args.decode),
               str(args.depth)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(out.splitlines()[-1])


def plot(path, rows):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker
    figure, axis = plt.subplots(figsize=(8, 0.4 * len(rows) + 1.2))
    names = [f"{model} {test}, {peer}" for model, test, peer, *_ in rows]
    ratios = [ratio for *_, ratio in rows]
    colors = ["#4878a8" if test.startswith("pp") else "#d08040" for _, test, *_ in rows]
    axis.bar_label(axis.barh(names, ratios, color=colors), fmt="%.2f", padding=3)
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
    parser.add_argument("--run", default=str(ROOT / "run"))
    parser.add_argument("--python", type=pathlib.Path, help="a Python that has the peers already")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "peers")
    parser.add_argument("--avx2", action="store_true", help="both sides without AVX-512 and VNNI (a venv of its own)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--png", type=pathlib.Path)
    args = parser.parse_args()
    args.files = args.venv
    if args.avx2:
        os.environ.update(AVX2)
        args.venv = args.venv.with_name(args.venv.name + "-avx2")
    python = args.python or make_venv(args.venv, AVX2_BUILD if args.avx2 else "-DGGML_NATIVE=ON")

    rows = []
    for name, path, peer in [find_model(args, python, m) for m in args.models]:
        seen = {"ours": {}, "theirs": {}}
        for _ in range(args.rounds):
            for who, result in (("ours", ours(args, path)), ("theirs", theirs(args, python, path, peer))):
                for test, rate in result.items():
                    seen[who].setdefault(test, []).append(rate)
        at = f"@d{args.depth}" if args.depth else ""
        for test, n in (("pp", args.prefill), ("tg", args.decode)):
            if n:
                a, b = (statistics.median(seen[who][test]) for who in ("ours", "theirs"))
                rows.append((name, f"{test}{n}{at}", peer, a, b, a / b))
    text = f"{args.threads} threads, {args.rounds} rounds; medians, tokens/s.\n\n"
    text += "| model | test | peer | ours | the peer's | ratio |\n|---|---|---|---:|---:|---:|\n"
    for name, test, peer, a, b, ratio in rows:
        text += f"| {name} | {test} | {peer} | {a:.1f} | {b:.1f} | {ratio:.2f} |\n"
    print(text, end="")
    if args.md:
        args.md.write_text(text)
    if args.png:
        plot(args.png, rows)


if __name__ == "__main__":
    sys.exit(main())

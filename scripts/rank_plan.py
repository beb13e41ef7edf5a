#!/usr/bin/env python3
"""rank_plan.py [GB_S] - what docs/distributed.md's formula predicts for one token of decode on 2 to 64 machines, each of
which reads its memory at GB_S, 50 if none is given, and for a long prompt."""
import random
import sys

READ = float(sys.argv[1]) * 1e9 if sys.argv[1:] else 50e9  # bytes a second
BYTES = 4.5 / 8  # a weight
WIRES = [(1, 1e-4), (10, 5e-5), (100, 1e-5)]  # Gbit/s, latency in seconds
# layers, dim, vocabulary, heads, KV heads, head_dim, hidden, experts, of which a token uses
MODELS = {"8B": (32, 4096, 128256, 32, 8, 128, 14336, 0, 0),
          "70B": (80, 8192, 128256, 64, 8, 128, 28672, 0, 0),
          "405B": (126, 16384, 128256, 128, 8, 128, 53248, 0, 0),
          "235B, 22B used": (94, 4096, 151936, 64, 4, 128, 1536, 128, 8)}


def busiest(experts, used, n):
    """Experts that the rank with the most of a token's has, on the average."""
    draw, trials = random.Random(1), 2000
    most = 0
    for _ in range(trials):
        count = [0] * n
        for expert in draw.sample(range(experts), used):
            count[expert * n // experts] += 1
        most += max(count)
    return most / trials


def token(model, n, gbit, latency):
    """Seconds of one token, and of these the seconds of the sums; None: there are not so many query heads."""
    layers, dim, vocab, heads, kv, head_dim, hidden, experts, used = model
    if n > heads:
        return None
    attn = dim * head_dim * (2 * heads + 2 * kv)
    ffn = 3 * dim * hidden
    of_a_layer = attn / n + (ffn * busiest(experts, used, n) if experts else ffn / n)
    read = (layers * of_a_layer + vocab * dim / n) * BYTES / READ
    if n == 1:
        return read, 0
    b = gbit * 1e9 / 8
    whole = (n - 2) * 4 * dim <= 32 << 10
    one = latency + (n - 1) * 4 * dim / b if whole else 2 * latency + 2 * (n - 1) / n * 4 * dim / b
    sums = 2 * layers * one
    return read + sums + 2 * latency, sums


def main():
    counts = [2, 4, 8, 16, 32, 64]
    print(f"ms a token at {READ / 1e9:g} GB/s a machine; in brackets what the sums take of it")
    print(f"{'model':15} {'n = 1':>6} {'wire':>12}" + "".join(f"{'n = %d' % n:>13}" for n in counts))
    for name, model in MODELS.items():
        alone = token(model, 1, 1, 0)[0]
        for gbit, latency in WIRES:
            row = f"{name:15} {1000 * alone:6.0f} {gbit:5} Gbit/s"
            for n in counts:
                t = token(model, n, gbit, latency)
                cell = "-" if not t else f"{1000 * t[0]:.0f} ({1000 * t[1]:.0f})"
                row += f"{cell:>13}"
            print(row)
    print("\nGB that a machine of 4 sends for a prompt of 8192 tokens, and the seconds on 1, 10 and 100 Gbit/s")
    print(f"{'model':15} {'tensor parallel':>32} {'sequence parallel':>32}")
    for name, (layers, dim, _, _, kv, head_dim, *_) in MODELS.items():
        rows, n = 8192, 4
        tensor = 2 * layers * rows * 4 * dim * 2 * (n - 1) / n  # f32 sums
        sequence = layers * rows * 2 * kv * head_dim * 2 * (n - 1) / n  # f16 keys and values, once around
        print(f"{name:15}" + "".join(f" {b / 1e9:11.1f}  " + "".join(f"{b * 8 / gbit / 1e9:6.1f}" for gbit, _ in WIRES)
                                     for b in (tensor, sequence)))


main()

#!/usr/bin/env python3
"""plot_diagrams - the diagrams of docs/rope.md and docs/ladder.md; every number of them is printed by ./run.

    make && python3 scripts/plot_diagrams.py [--only NAME]

blocks   a block of GPT-2 beside one of LLaMA
flow     q, k and v through the rotation, the cache and the heads
matrix   the block-diagonal rotation of a head (`./run -m rope --pos N`), and the scores of every query and key
         (`./run -m rope --q .. --k ..`), constant along each diagonal
gqa      which KV head a query head reads: multi-head, grouped-query, multi-query
norms    LayerNorm beside RMSNorm: what each makes of a token's vector in rung 0 (`./run -m trace`)
cache    growth of the cache with the text (`./run -m kv`)
Writes docs/img/diagram-*.png. Needs matplotlib.
"""
import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from plot_rope import IMAGES, ROOT, run

GREY, BLUE, ORANGE, GREEN, VIOLET = "#eeeeee", "#cfe0f1", "#fbdcc4", "#cdebd6", "#e6d6e8"


def save(fig, name):
    IMAGES.mkdir(parents=True, exist_ok=True)
    fig.savefig(IMAGES / f"diagram-{name}.png", dpi=110, metadata={"Software": None})
    plt.close(fig)
    print(f"docs/img/diagram-{name}.png")


def canvas(width, height, size):
    fig, ax = plt.subplots(figsize=size, layout="constrained")
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return fig, ax


def box(ax, x, y, text, color=GREY, w=3.4, h=0.62, fontsize=9):
    """A box around (x, y)."""
    ax.add_patch(plt.Rectangle((x - w / 2, y - h / 2), w, h, facecolor=color, edgecolor="#555555", linewidth=0.8))
    ax.text(x, y, text, ha="center", va="center", fontsize=fontsize)


def arrow(ax, start, end, style="->", color="#333333"):
    ax.annotate("", end, start, arrowprops={"arrowstyle": style, "color": color, "shrinkA": 0, "shrinkB": 0, "linewidth": 0.9})


def block(ax, x, title, start, norm, q, rotate, out, ffn, down, last):
    """One layer drawn downwards: the residual stream at x, its two branches to the right."""
    ax.text(x + 1.6, 12.6, title, ha="center", fontsize=12, weight="bold")
    ax.text(x, 12.0, start, ha="center", fontsize=9)
    ax.plot((x, x), (11.75, 1.06), color="#333333", linewidth=0.9, zorder=0)
    right = x + 2.6
    for top, steps in ((11.1, (norm, q, rotate, ("causal softmax attention", GREY), out)),
                       (5.6, (norm, ffn, down))):
        y = top
        arrow(ax, (x, y), (right - 1.7, y))
        for i, (text, color) in enumerate(steps):
            if not text:
                y -= 0.95
                continue
            if i:
                ax.plot((right, right), (y + 0.31, last_y - 0.31), color="#333333", linewidth=0.9)
            box(ax, right, y, text, color)
            last_y = y
            y -= 0.95
        arrow(ax, (right, last_y - 0.31), (right, last_y - 0.62), "-")
        arrow(ax, (right, last_y - 0.62), (x + 0.17, last_y - 0.62))
        ax.plot(x, last_y - 0.62, "o", color="white", markeredgecolor="#333333", markersize=11)
        ax.text(x, last_y - 0.63, "+", ha="center", va="center", fontsize=10)
    ax.add_patch(plt.Rectangle((x - 0.5, 2.55), 5.0, 9.05, fill=False, linestyle=":", edgecolor="#777777"))
    ax.text(x + 4.4, 2.65, "n_layers times", ha="right", fontsize=8, color="#555555")
    box(ax, x, 1.9, *last, w=2.2)
    box(ax, x, 0.75, "logits", w=2.2)


def blocks():
    fig, ax = canvas(12.4, 13, (9.5, 8.2))
    norm = ("LayerNorm (mean, variance, bias)", BLUE)
    block(ax, 0.8, "GPT-2", "x = token + position   (swap 3)", norm, ("W_q, W_k, W_v of all heads, biases", VIOLET), ("", GREY),
          ("W_o, bias", GREY), ("gelu(W_up x + b)", ORANGE), ("W_down, bias", GREY), ("LayerNorm", BLUE))
    norm = ("RMSNorm", BLUE)
    block(ax, 7.2, "LLaMA", "x = token", norm, ("W_q; W_k, W_v of fewer heads", VIOLET), ("rotate q and k by position", GREEN),
          ("W_o", GREY), ("silu(W_gate x) * W_up x", ORANGE), ("W_down", GREY), ("RMSNorm", BLUE))
    for i, (text, color) in enumerate((("swap 1: norm", BLUE), ("swap 2: FFN", ORANGE), ("swap 3: positions", GREEN),
                                       ("swap 4: heads", VIOLET))):
        box(ax, 1.3 + 3.05 * i, -0.2, text, color, w=2.7, h=0.5, fontsize=8)
    ax.set(xlim=(-0.6, 12.4), ylim=(-0.5, 13))
    save(fig, "blocks")


def flow():
    fig, ax = canvas(15, 6.6, (10.5, 4.7))
    box(ax, 1.1, 3.4, "x, normed\n[n, dim]", w=1.8, h=0.95, fontsize=8)
    rows = ((5.4, "W_q", "q [n, 8, 16]", ORANGE), (3.4, "W_k", "k [n, 2, 16]", BLUE), (1.4, "W_v", "v [n, 2, 16]", GREEN))
    for y, w, name, color in rows:
        arrow(ax, (2.0, 3.4), (2.75, y))
        box(ax, 3.3, y, w, w=1.1)
        arrow(ax, (3.85, y), (4.3, y))
        box(ax, 5.2, y, name, color, w=1.8, fontsize=8)
    for y in (5.4, 3.4):
        arrow(ax, (6.1, y), (6.6, y))
        box(ax, 7.45, y, "rotate by\nits position", VIOLET, w=1.7, h=0.95, fontsize=8)
    box(ax, 10.0, 3.4, "keys, rotated once\n[p + n, 2, 16]", BLUE, w=2.3, h=0.95, fontsize=8)
    box(ax, 10.0, 1.4, "values, as they are\n[p + n, 2, 16]", GREEN, w=2.3, h=0.95, fontsize=8)
    ax.add_patch(plt.Rectangle((8.65, 0.65), 2.7, 3.65, fill=False, linestyle=":", edgecolor="#777777"))
    ax.text(10.0, 0.38, "KV cache: row p is the new token's", ha="center", fontsize=8, color="#555555")
    arrow(ax, (8.3, 3.4), (8.85, 3.4))
    arrow(ax, (6.1, 1.4), (8.85, 1.4))
    box(ax, 12.9, 5.4, "scores q . k / sqrt(16)\nmask, softmax\n[8, n, p + n]", GREY, w=2.7, h=1.2, fontsize=8)
    arrow(ax, (8.3, 5.4), (11.55, 5.4))
    ax.plot((11.15, 11.9), (3.4, 3.4), color="#333333", linewidth=0.9)
    arrow(ax, (11.9, 3.4), (11.9, 4.8))
    box(ax, 12.9, 1.4, "mix of the values\n[n, 8, 16]", GREY, w=2.7, h=0.95, fontsize=8)
    arrow(ax, (11.15, 1.4), (11.55, 1.4))
    arrow(ax, (13.5, 4.8), (13.5, 1.88))
    ax.text(13.6, 3.4, "weights", fontsize=8, va="center")
    arrow(ax, (12.9, 0.92), (12.9, 0.3))
    ax.text(12.9, 0.1, "W_o, then added to x", ha="center", fontsize=8)
    ax.text(11.98, 4.1, "query head h\nreads KV head h / 4", fontsize=7, color="#555555", ha="left", va="center")
    ax.set_title("Attention of rung 4: n new tokens, p in the cache", fontsize=11)
    save(fig, "flow")


def matrix():
    text = run("-m", "rope", "--head-dim", "8", "--pos", "3", "--rope-pairing", "pairs")
    lines = text[text.index("R(3)"):].splitlines()[1:9]
    rotation = np.array([[0 if x == "." else float(x) for x in line.split()] for line in lines])
    n = 8
    vector = "1,0,1,0"
    scores = np.array([[json.loads(run("-m", "rope", "--json", "--q", vector, "--k", vector, "--pos", m, "--pos-k", k))["score"]
                        for k in range(n)] for m in range(n)])
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    for ax, values, form in ((left, rotation, "{:.2f}"), (right, scores, "{:.2f}")):
        size = np.abs(values).max()
        image = ax.imshow(values, cmap="RdBu_r", vmin=-size, vmax=size)
        for i, row in enumerate(values):
            for j, x in enumerate(row):
                if ax is right or rotation[i, j] != 0 or i // 2 == j // 2:
                    ax.text(j, i, form.format(x), ha="center", va="center", fontsize=7.5, color="white" if abs(x) > 0.75 * size else "black")
        ax.set_xticks(range(len(values)))
        ax.set_yticks(range(len(values)))
        fig.colorbar(image, ax=ax, shrink=0.75)
    for i in range(4):
        left.add_patch(plt.Rectangle((2 * i - 0.5, 2 * i - 0.5), 2, 2, fill=False, edgecolor="black", linewidth=1))
    left.set(title="R(3) of a head of 8: one block a pair, the rest 0", xlabel="feature", ylabel="feature, rotated")
    right.set(title="Scores of q = k = (1, 0, 1, 0): a diagonal is a distance", xlabel="position of the key", ylabel="position of the query")
    save(fig, "matrix")


def gqa():
    fig, axes = plt.subplots(1, 3, figsize=(10, 2.7), layout="constrained")
    color = plt.get_cmap("Pastel1")
    for ax, (kv, title) in zip(axes, ((8, "multi-head: 8 KV heads"), (2, "grouped-query: 2 (rung 4)"), (1, "multi-query: 1"))):
        for h in range(8):
            g = h // (8 // kv)
            x = (g + 0.5) * 8 / kv - 0.5
            ax.plot((h, x), (1, 0), color="#777777", linewidth=0.9, zorder=0)
            for at, y, text in ((h, 1, f"q{h}"), (x, 0, f"kv{g}")):
                ax.add_patch(plt.Rectangle((at - 0.4, y - 0.16), 0.8, 0.32, facecolor=color(g % 8), edgecolor="#555555", linewidth=0.8))
                ax.text(at, y, text, ha="center", va="center", fontsize=8)
        ax.set(xlim=(-0.6, 7.6), ylim=(-0.4, 1.4), title=title)
        ax.axis("off")
    fig.suptitle("Query head h reads KV head h / (n_heads / n_kv_heads)", fontsize=10)
    save(fig, "gqa")


def norms():
    """What each norm does to the same numbers: a token's embedding in rung 0."""
    steps = json.loads(run(ROOT / "weights/rung0", "-m", "trace", "--json", "--quiet", "-i", "To be, or not"))["steps"]
    x = np.array(next(s["values"] for s in steps if s["name"] == "embed"))
    fig, axes = plt.subplots(2, 3, figsize=(10, 4.6), layout="constrained", sharex="col")
    for row, v, label in zip(axes, (x, x + 3 * x.std()), ("as it is", "3 deviations added")):
        drawn = (("x", v), ("LayerNorm: (x - mean) / deviation", (v - v.mean()) / v.std()),
                 ("RMSNorm: x / root mean square", v / np.sqrt((v * v).mean())))
        for ax, (title, values) in zip(row, drawn):
            ax.hist(values, 32, color="#4e79a7")
            ax.axvline(values.mean(), color="#e07b39", linewidth=1.2)
            ax.set_title(f"{title}\nmean {values.mean() + 0:.2f}, deviation {values.std():.2f}, "
                         f"root mean square {np.sqrt((values ** 2).mean()):.2f}", fontsize=8)
            ax.set_yticks([])
        row[0].set_ylabel(f"features, {label}", fontsize=8)
    fig.suptitle("A token's vector in rung 0, before any weight (orange: the mean)", fontsize=10)
    save(fig, "norms")


def cache():
    names = ("llama2-7b", "llama3-8b", "qwen3-8b", "gemma3-4b", "mistral-7b", "deepseek-v3")
    lengths = [2 ** i for i in range(9, 18)]
    fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for name, color in zip(names, plt.get_cmap("tab10").colors):
        found = [json.loads(run(name, "-m", "kv", "--json", "-c", n))["models"][0] for n in lengths]
        sizes = [m["cache"]["f16"] for m in found]
        ax.plot(lengths, [s["bytes"] / 2 ** 30 for s in sizes], color=color, marker=".", label=f"{name}: {sizes[0]['token_bytes'] / 1024:.0f} KiB a token")
        if found[0]["window_layers"]:
            ax.plot(lengths, [s["window_bytes"] / 2 ** 30 for s in sizes], color=color, linestyle=":", label=f"{name}, windows only")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
    ticks = [2 ** i for i in range(-5, 7)]
    ax.set_yticks(ticks, [f"{t:g}" if t >= 1 else f"1/{round(1 / t)}" for t in ticks])
    ax.set(xlabel="tokens in the cache", ylabel="GiB, f16", title="The cache grows by the token (./run MODEL -m kv)")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    save(fig, "cache")


PLOTS = {f.__name__: f for f in (blocks, flow, matrix, gqa, norms, cache)}

if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", choices=PLOTS, action="append")
    for name in ap.parse_args().only or PLOTS:
        PLOTS[name]()

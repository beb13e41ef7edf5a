#!/usr/bin/env python3
"""plot_rope - the pictures of docs/rope.md, every number of them printed by ./run or captured from transformers.

    make && python3 scripts/plot_rope.py [weights/SmolLM2-135M-Instruct.Q4_1.gguf] [--only NAME]

rotation     `./run -m rope --x ... --pos N`: where positions turn a feature pair to
wavelengths  `./run -m rope --rope-scaling RULE`: what each rule makes of the frequencies
decay        the score q.k of equal vectors by distance
attention    a sentence's attention by head, from q_rot and k_rot of scripts/hf_reference.py
errors       `./run MODEL -m verify -r REF`: max |error| by layer against transformers
The last two need the model, torch and transformers. Writes docs/img/rope-*.png. Needs matplotlib.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/img"
REFERENCE = ROOT / "build/rope/sentence.ref.safetensors"
SENTENCE = "The keeper climbed the stairs, lamp in hand, and the great light of the lamp went out over the sea."
ORIGINAL, FACTOR = 2048, 4  # of the scaling rules drawn
RULES = {"none": "#777777", "linear": "#4e79a7", "dynamic": "#e07b39", "yarn": "#2a9d5c", "llama3": "#b07aa1"}


def fail(text):
    sys.exit(f"plot_rope: {text}")


def run(*arguments, good=(0,)):
    """Standard output of ./run."""
    command = [str(a) for a in (ROOT / "run", *arguments)]
    try:
        p = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        fail(f"{command[0]}: program: expected it built (make), found none")
    if p.returncode not in good:
        fail(p.stderr.strip().splitlines()[-1] if p.stderr.strip() else f"{command}: exit {p.returncode}")
    return p.stdout


def rope(*arguments):
    return json.loads(run("-m", "rope", "--json", *arguments))


def turned(head_dim, positions, theta=10000):
    """The pairs (1, 0) of one head at each position: [positions, pairs, 2]."""
    x = ",".join(["1,0"] * (head_dim // 2))
    rows = [rope("--head-dim", head_dim, "--rope-theta", theta, "--rope-pairing", "pairs", "--x", x, "--pos", p)["rotated"]
            for p in positions]
    return np.array(rows).reshape(len(rows), head_dim // 2, 2)


def save(fig, name):
    IMAGES.mkdir(parents=True, exist_ok=True)
    fig.savefig(IMAGES / f"rope-{name}.png", dpi=110, metadata={"Software": None})
    plt.close(fig)
    print(f"docs/img/rope-{name}.png")


def rotation(_model):
    positions = range(0, 65)
    pairs = {0: "#4e79a7", 4: "#e07b39", 8: "#2a9d5c", 16: "#b07aa1"}
    x = turned(64, positions)
    frequency = rope("--head-dim", 64)["inv_freq"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), width_ratios=(1, 1.9), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 200)
    left.plot(np.cos(angle), np.sin(angle), color="#cccccc", linewidth=0.8)
    for pair, radius in ((0, 1.0), (4, 0.72)):  # the second drawn smaller, to be seen
        for p in range(6):
            a, b = x[p, pair] * radius
            left.annotate("", (a, b), (0, 0), arrowprops={"arrowstyle": "->", "color": pairs[pair]})
            if p or pair == 0:  # position 0 is the same place for both
                left.text(a * 1.13, b * 1.13, str(p), color=pairs[pair], ha="center", va="center", fontsize=9)
    left.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xlabel="first feature", ylabel="second feature",
             title="(1, 0) at positions 0 to 5\npair 0 (long), pair 4 (drawn shorter)")
    for pair, color in pairs.items():
        right.plot(positions, x[:, pair, 0], color=color, marker="." if pair == 0 else None, markersize=3, linewidth=1.2,
                   label=f"pair {pair}: a turn in {2 * np.pi / frequency[pair]:.4g} tokens")
    right.set(xlabel="position", ylabel="first feature", title="Each pair has its own pace (head_dim 64, theta 10,000)")
    right.set_ylim(-1.1, 1.75)
    right.legend(ncol=2, fontsize=8, loc="upper center")
    right.grid(alpha=0.3)
    save(fig, "rotation")


def wavelengths(_model):
    tables = {}
    for rule in RULES:
        given = [] if rule == "none" else ["--rope-scaling", rule, "--rope-factor", FACTOR, "--rope-original-ctx", ORIGINAL]
        tables[rule] = rope("--head-dim", 128, "--rope-theta", 10000, "--seq-len", FACTOR * ORIGINAL, *given)
    plain = np.array(tables["none"]["inv_freq"])
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    for rule, table in tables.items():
        frequency = np.array(table["inv_freq"])
        extra = f", cos and sin times {table['attention_factor']:.4g}" if table["attention_factor"] != 1 else ""
        extra = f", at {FACTOR * ORIGINAL:,} tokens" if rule == "dynamic" else extra
        style = "--" if rule == "llama3" else "-"  # it lies on yarn's line for most pairs
        left.plot(2 * np.pi / frequency, style, color=RULES[rule], label=rule)
        right.plot(plain / frequency, style, color=RULES[rule], label=rule + extra)
    for length, text in ((ORIGINAL, "trained context"), (FACTOR * ORIGINAL, "wanted context")):
        left.axhline(length, color="black", linewidth=0.6, linestyle=":")
        left.text(1, length * 1.08, f"{text}, {length:,}", fontsize=8)
    left.set(yscale="log", xlabel="pair", ylabel="wavelength, tokens", title="A turn of each pair (head_dim 128, theta 10,000)")
    right.set(xlabel="pair", ylabel="wavelength divided by the unscaled one", title=f"What factor {FACTOR} slows down")
    for ax in (left, right):
        ax.legend(fontsize=8, loc="lower right" if ax is left else "upper left")
        ax.grid(alpha=0.3)
    right.set(yscale="log", ylim=(0.9, 60))
    right.set_yticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
    right.minorticks_off()
    save(fig, "wavelengths")


def decay(_model):
    head_dim, far = 128, 2048
    distance = np.arange(far + 1)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), width_ratios=(1, 1.5), layout="constrained")
    for theta, color in ((10000, "#4e79a7"), (500000, "#e07b39")):
        frequency = np.array(rope("--head-dim", head_dim, "--rope-theta", theta)["inv_freq"])
        # Of q = k = (1, 0, 1, 0, ...) at distance r, pair i gives cos(r * inv_freq[i]).
        score = np.cos(np.outer(distance, frequency)).mean(1)
        left.plot(distance[:65], score[:65], color=color)
        right.plot(distance, score, color=color, linewidth=0.7, label=f"theta {theta:,}")
        # The same by the program: q turned to position r, times k at position 0.
        spots = np.array([0, 1, 2, 4, 8, 16, 32, 64, 512, 1024, 1536, 2048])
        measured = turned(head_dim, spots, theta)[:, :, 0].mean(1)
        worst = np.abs(measured - score[spots]).max()
        if worst > 1e-5:
            fail(f"decay: expected the program's rotation to give the sum of cosines, found {worst:g} between them")
        left.plot(spots[:8], measured[:8], "o", color=color, markersize=4)
        right.plot(spots, measured, "o", color=color, markersize=4)
    left.set(xlabel="distance, tokens", ylabel="q.k, as part of its value at distance 0", title="Near")
    right.set(xlabel="distance, tokens", title="Far: equal vectors agree less (dots: turned by ./run)")
    right.legend(fontsize=8)
    for ax in (left, right):
        ax.axhline(0, color="black", linewidth=0.6)
        ax.grid(alpha=0.3)
    save(fig, "decay")


def reference(model):
    """-> the sentence's pieces, and transformers' tensors for it (made once, then kept in build/)."""
    from safetensors.numpy import load_file
    if not Path(model).exists():
        fail(f"{model}: file: expected the model (make smollm2), found none")
    text = json.loads(run(model, "-m", "tokenize", "--json", "-i", SENTENCE))
    if REFERENCE.exists():
        tensors = load_file(REFERENCE)
        if tensors["tokens"].tolist() == text["ids"]:
            return text["pieces"], tensors
    REFERENCE.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run([sys.executable, ROOT / "scripts/hf_reference.py", model, "--tokens",
                           ",".join(map(str, text["ids"])), "-o", REFERENCE], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        fail(made.stderr.strip().splitlines()[-1])
    return text["pieces"], load_file(REFERENCE)


def attend(q, k):
    """softmax(q.k / sqrt(head_dim)) of q [n, heads, d], k [n, kv_heads, d], causal: [heads, n, n]."""
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[2])
    score[:, ~np.tril(np.ones(score.shape[1:], bool))] = -np.inf
    weight = np.exp(score - score.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def attention(model):
    pieces, t = reference(model)
    n_layers = sum(name.endswith(".q_rot") for name in t)
    maps = [attend(t[f"layers.{i}.q_rot"], t[f"layers.{i}.k_rot"]) for i in range(n_layers)]
    n, heads = len(pieces), len(maps[0])
    rows = np.arange(2, n)
    previous = np.array([m[:, rows, rows - 1].mean(1) for m in maps])  # [layers, heads]
    first = np.array([m[:, 2:, 0].mean(1) for m in maps])
    shown = int(first.mean(1).argmin())  # the layer that rests least on the first token: most to be seen
    layer, head = map(int, np.unravel_index(previous.argmax(), previous.shape))
    without = attend(t[f"layers.{layer}.q"], t[f"layers.{layer}.k"])[head]
    # Newer printers of pieces mark a space as Ġ or U+2581; a middle dot is in every font.
    labels = [re.sub("^[ \u0120\u2581]", "\u00b7", p) for p in pieces]

    fig = plt.figure(figsize=(11, 6.4), layout="constrained")
    left, right = fig.subfigures(1, 2, width_ratios=(1.55, 1))
    left.suptitle(f"Layer {shown}, all {heads} heads (row: the token that looks; column: at what)")
    columns = int(np.ceil(np.sqrt(heads)))
    grid = left.subplots(int(np.ceil(heads / columns)), columns, squeeze=False)
    for h, ax in enumerate(grid.flat):
        if h >= heads:
            ax.axis("off")
            continue
        ax.imshow(maps[shown][h], cmap="Blues", vmin=0, vmax=1)
        ax.set_title(f"head {h}", fontsize=8)
        ax.set_xticks([])
        ax.set_yticks([])
    right.suptitle(f"Layer {layer}, head {head}: looks one token back")
    top, bottom = right.subplots(2, 1)
    for ax, m, what in ((top, maps[layer][head], "q_rot.k_rot"), (bottom, without, "q.k, the same without RoPE")):
        ax.imshow(m, cmap="Blues", vmin=0, vmax=1)
        on_previous = m[rows, rows - 1].mean()
        ax.set_title(f"{what}: {100 * on_previous:.0f} % on the token before", fontsize=9)
        ax.set_xticks(range(n), labels, rotation=90, fontsize=6)
        ax.set_yticks(range(n), labels, fontsize=6)
    save(fig, "attention")


def errors(model):
    reference(model)
    out = json.loads(run(model, "-m", "verify", "-r", REFERENCE, "--json", good=(0, 1)))
    found = {}  # part: {layer: max absolute error}
    for row in out["tensors"]:
        layer = re.match(r"layers\.(\d+)\.", row["name"])
        value = np.nan if row["max_abs"] is None else row["max_abs"]
        found.setdefault(row["name"].split(".")[-1], {})[int(layer[1]) if layer else None] = value
    drawn = {part: rows for part, rows in found.items() if None not in rows}
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), sharey=True, layout="constrained")
    for ax, parts, title in ((left, ("q", "q_rot", "k", "k_rot", "v"), "Before and after RoPE"),
                             (right, ("attn_norm", "attn_out", "ffn_norm", "ffn_out", "out"), "The rest of the layer")):
        for part in parts:
            layers = sorted(drawn[part])
            ax.plot(layers, [drawn[part][i] for i in layers], "--" if part.endswith("_rot") else "-", marker=".",
                    linewidth=1, label=part)
        ax.set(xlabel="layer", title=title, yscale="log")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8, ncol=2)
    left.set_ylabel("max |error| against transformers, float32")
    end = ", ".join(f"{p} {found[p][None]:.1e}" for p in ("final_norm", "logits") if p in found)
    fig.suptitle(f"{Path(model).name}: ./run -m verify ({end})", fontsize=10)
    save(fig, "errors")


PLOTS = {f.__name__: f for f in (rotation, wavelengths, decay, attention, errors)}

if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model", nargs="?", default=ROOT / "weights/SmolLM2-135M-Instruct.Q4_1.gguf")
    ap.add_argument("--only", choices=PLOTS, action="append")
    a = ap.parse_args()
    for name in a.only or PLOTS:
        PLOTS[name](a.model)

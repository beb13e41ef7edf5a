#!/usr/bin/env python3
"""plot_rope - the pictures of docs/rope.md; every number of them is printed by ./run.

    make && python3 scripts/plot_rope.py [weights/SmolLM2-135M-Instruct.Q4_1.gguf] [--only NAME]

rotation     `./run -m rope --x ... --pos N`: a pair at pi/4 a token, and the angle that stays
pairs        the same: the speeds of four pairs of a head
wavelengths  `./run -m rope --rope-scaling RULE`: what each rule makes of the frequencies
decay        the score q.k of equal and of random vectors by distance
attention    a sentence's attention by head, from `./run MODEL -m trace`
errors       `./run MODEL -m verify -r REF`: max |error| by layer against transformers
The last two need the model; the last one, where build/ref256.safetensors is not there, torch and transformers. Writes
docs/img/rope-*.png. Needs matplotlib.
"""
import argparse
import json
import random
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
REFERENCE = ROOT / "build/ref256.safetensors"
SENTENCE = "The keeper climbed the stairs, lamp in hand, and the great light of the lamp went out over the sea."
ORIGINAL, FACTOR = 2048, 4  # of the scaling rules drawn
RULES = {"none": ("#777777", "-", 1.5), "linear": ("#4e79a7", "-", 5), "ntk": ("#c05b5b", "-", 1.5), "dynamic": ("#e07b39", "-", 1.5),
         "yarn": ("#2a9d5c", "-", 1.8), "llama3": ("#000000", "--", 1.0), "longrope": ("#b07aa1", "-.", 1.2)}  # where lines lie on each other


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
    """A pair at pi/4 radians a token, and two that keep their angle as both move on. theta is (4 / pi)^2 so that pair 1
    of a head of 4 has that pace."""
    x = turned(4, range(8), (4 / np.pi) ** 2)[:, 1]
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained")
    circle = np.linspace(0, 2 * np.pi, 200)
    for ax in (left, right):
        ax.plot(np.cos(circle), np.sin(circle), color="#cccccc", linewidth=0.8)
        ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal", xlabel="first feature", ylabel="second feature")
    for p, (a, b) in enumerate(x):
        left.annotate("", (a, b), (0, 0), arrowprops={"arrowstyle": "->", "color": "#4e79a7"})
        left.text(a * 1.15, b * 1.15, str(p), ha="center", va="center", fontsize=10)
    left.set_title("(1, 0) at positions 0 to 7, pi/4 radians a token")
    for (m, n), color, radius in (((3, 1), "#e07b39", 0.35), ((6, 4), "#2a9d5c", 0.5)):
        for name, p in (("q", m), ("k", n)):
            a, b = x[p]
            right.annotate("", (a, b), (0, 0), arrowprops={"arrowstyle": "->", "color": color})
            right.text(a * 1.17, b * 1.17, f"{name} at {p}", color=color, ha="center", va="center", fontsize=9)
        arc = np.linspace(n, m, 40) * np.pi / 4
        right.plot(radius * np.cos(arc), radius * np.sin(arc), color=color, linewidth=1)
        right.text(*(radius + 0.16) * np.array([np.cos(arc[20]), np.sin(arc[20])]), "pi/2", color=color, ha="center", va="center", fontsize=9)
    right.set_title("two tokens apart, both move: the angle stays")
    save(fig, "rotation")


def pairs(_model):
    positions = range(0, 65)
    colors = {0: "#4e79a7", 4: "#e07b39", 8: "#2a9d5c", 16: "#b07aa1"}
    x = turned(64, positions)
    frequency = rope("--head-dim", 64)["inv_freq"]
    fig, ax = plt.subplots(figsize=(9.5, 3.6), layout="constrained")
    for pair, color in colors.items():
        ax.plot(positions, x[:, pair, 0], color=color, marker="." if pair == 0 else None, markersize=3, linewidth=1.2,
                label=f"pair {pair}: a turn in {2 * np.pi / frequency[pair]:.4g} tokens")
    ax.set(xlabel="position", ylabel="first feature of (1, 0), rotated", ylim=(-1.1, 1.6),
           title="Each pair has its own speed (head_dim 64, theta 10,000)")
    ax.legend(ncol=2, fontsize=8, loc="upper center")
    ax.grid(alpha=0.3)
    save(fig, "pairs")


def wavelengths(_model):
    head_dim, tables = 64, {}
    ramp = ",".join(f"{1 + 5 * (i / (head_dim / 2 - 1)) ** 2:.6g}" for i in range(head_dim // 2))
    for rule in RULES:
        given = [] if rule == "none" else ["--rope-scaling", rule, "--rope-factor", FACTOR]
        if rule in ("linear", "dynamic", "yarn", "llama3", "longrope"):
            given += ["--rope-original-ctx", ORIGINAL]
        if rule == "longrope":
            given += ["--rope-short", ",".join(["1"] * (head_dim // 2)), "--rope-long", ramp]
        tables[rule] = rope("--head-dim", head_dim, "--rope-theta", 10000, "--seq-len", FACTOR * ORIGINAL, *given)
    plain = np.array(tables["none"]["inv_freq"])
    unturned = int((2 * np.pi / plain < ORIGINAL).sum())  # the first pair that never completes a turn in training
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    notes = {"dynamic": f", at {FACTOR * ORIGINAL:,} tokens", "longrope": ", a list from 1 to 6"}
    for rule, table in tables.items():
        frequency = np.array(table["inv_freq"])
        color, style, width = RULES[rule]
        extra = notes.get(rule, "")
        if table["attention_factor"] != 1:
            extra += f", cos and sin times {table['attention_factor']:.4g}"
        left.plot(2 * np.pi / frequency, style, color=color, linewidth=width, label=rule)
        right.plot(plain / frequency, style, color=color, linewidth=width, label=rule + extra)
    for length, text in ((ORIGINAL, "trained context"), (FACTOR * ORIGINAL, "wanted context")):
        left.axhline(length, color="black", linewidth=0.6, linestyle=":")
        left.text(0, length * 1.08, f"{text}, {length:,}", fontsize=8)
    for ax in (left, right):
        ax.axvspan(unturned - 0.5, head_dim / 2 - 1, color="#f3efe0", zorder=0)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8, loc="lower right" if ax is left else "upper left")
    left.text(unturned, 7, "no full turn\nin training", fontsize=8, va="bottom")
    left.set(yscale="log", xlabel="pair", ylabel="wavelength, tokens", title=f"A turn of each pair (head_dim {head_dim}, theta 10,000)")
    right.set(xlabel="pair", ylabel="wavelength divided by the unscaled one", title=f"What factor {FACTOR} slows down", yscale="log", ylim=(0.9, 90))
    right.set_yticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
    right.minorticks_off()
    save(fig, "wavelengths")


def decay(_model):
    head_dim, far, n_random = 128, 2048, 4000
    distance = np.arange(far + 1)
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, n_random, head_dim // 2, 2)) @ np.array([1, 1j])  # pairs as complex numbers
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), width_ratios=(1, 1.5), layout="constrained", sharey=True)
    for theta, color in ((10000, "#4e79a7"), (500000, "#e07b39")):
        frequency = np.array(rope("--head-dim", head_dim, "--rope-theta", theta)["inv_freq"])
        # Of q = k = (1, 0, 1, 0, ...) at distance r, pair i gives cos(r * inv_freq[i]).
        score = np.cos(np.outer(distance, frequency)).mean(1)
        # The same by the program: q rotated to position r, times k at position 0.
        spots = np.array([0, 1, 2, 4, 8, 16, 32, 64, 512, 1024, 1536, 2048])
        measured = turned(head_dim, spots, theta)[:, :, 0].mean(1)
        worst = np.abs(measured - score[spots]).max()
        if worst > 1e-5:
            fail(f"decay: expected the program's rotation to give the sum of cosines, found {worst:g} between them")
        for ax, last in ((left, 64), (right, far)):
            shown = spots[spots <= last]
            ax.plot(distance[:last + 1], score[:last + 1], color=color, linewidth=1 if ax is left else 0.7,
                    label=f"q = k, theta {theta:,}" + (" (Llama 2)" if theta == 10000 else " (Llama 3)"))
            ax.plot(shown, measured[:len(shown)], "o", color=color, markersize=4)
        if theta == 10000:  # unrelated vectors: the mean of many
            some = np.unique(np.concatenate((np.arange(65), np.arange(64, far + 1, 64))))
            mean = np.array([(q * np.conj(k) * np.exp(1j * r * frequency)).real.sum(1).mean() for r in some]) / head_dim
            for ax, last in ((left, 64), (right, far)):
                ax.plot(some[some <= last], mean[some <= last], color="#777777", linewidth=1, label=f"mean of {n_random:,} random q, k")
    left.set(xlabel="distance, tokens", ylabel="q.k, as part of its value at distance 0", title=f"Near (head_dim {head_dim})")
    right.set(xlabel="distance, tokens", title="Far (dots: rotated by ./run)")
    for ax in (left, right):
        ax.axhline(0, color="black", linewidth=0.6)
        ax.legend(fontsize=8)
        ax.grid(alpha=0.3)
    save(fig, "decay")


def trace(model, *arguments):
    return json.loads(run(model, "-m", "trace", "--json", "--quiet", "-i", SENTENCE, *arguments))


def attend(q, k):
    """softmax(q.k / sqrt(d)) of q, k [n, d], causal."""
    score = q @ k.T / np.sqrt(q.shape[1])
    score[~np.tril(np.ones(score.shape, bool))] = -np.inf
    weight = np.exp(score - score.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def unrotated(model, layer, head, n):
    """The attention of a head if its q and k were not rotated, from -m trace at every position."""
    q, k = [], []
    for pos in range(n):
        steps = {s["name"]: s["values"] for s in trace(model, "--layer", layer, "--head", head, "--pos", pos)["steps"]}
        q.append(steps["q"])
        k.append(steps["k"])
    return attend(np.array(q), np.array(k))


def attention(model):
    layer, columns, looks_back = 11, 3, (16, 0)
    heads = json.loads(run(model, "-m", "info", "--json"))["n_heads"]
    traces = [trace(model, "--layer", layer, "--head", h) for h in range(heads)]
    back = trace(model, "--layer", looks_back[0], "--head", looks_back[1])
    labels = [re.sub("^[ \u0120\u2581]", "\u00b7", p) for p in back["pieces"]]  # how printers of pieces mark a space
    n = len(labels)
    rows = np.arange(2, n)
    fig = plt.figure(figsize=(13, 8.2), layout="constrained")
    fig.suptitle(f"{Path(model).stem}: weights of attention (./run -m trace)", fontsize=12)
    left, right = fig.subfigures(1, 2, width_ratios=(1.9, 1))
    left.suptitle(f"Layer {layer}, all {heads} heads")
    grid = left.subplots(int(np.ceil(heads / columns)), columns, squeeze=False, sharex=True, sharey=True)
    for h, ax in enumerate(grid.flat):
        ax.imshow(traces[h]["attention"], cmap="Blues", vmin=0, vmax=1)
        ax.set_title(f"head {h}", fontsize=8)
        ax.set_xticks(range(n), labels, rotation=90, fontsize=5)
        ax.set_yticks(range(n), labels, fontsize=5)
    left.supylabel("the token that looks", fontsize=9)
    left.supxlabel("the token it looks at", fontsize=9)
    right.suptitle(f"Layer {looks_back[0]}, head {looks_back[1]}")
    for ax, m, what in zip(right.subplots(2, 1), (np.array(back["attention"]), unrotated(model, *looks_back, n)),
                           ("as it is", "q and k not rotated")):
        image = ax.imshow(m, cmap="Blues", vmin=0, vmax=1)
        ax.set_title(f"{what}: {100 * m[rows, rows - 1].mean():.0f} % on the token before", fontsize=9)
        ax.set_xticks(range(n), labels, rotation=90, fontsize=6)
        ax.set_yticks(range(n), labels, fontsize=6)
    fig.colorbar(image, ax=right.axes, shrink=0.5, label="weight")
    save(fig, "attention")


def reference(model):
    """transformers' tensors for the 256 random tokens of docs/rope.md's section 7 (kept in build/)."""
    if not Path(model).exists():
        fail(f"{model}: file: expected the model (make smollm2), found none")
    if REFERENCE.exists():
        return
    random.seed(7)
    tokens = ",".join(str(random.randrange(20, 49000)) for _ in range(256))
    REFERENCE.parent.mkdir(parents=True, exist_ok=True)
    p = subprocess.run([sys.executable, ROOT / "scripts/hf_reference.py", model, "--tokens", tokens, "-o", REFERENCE],
                       stderr=subprocess.PIPE, text=True)
    if p.returncode:
        fail(p.stderr.strip().splitlines()[-1])


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
    fig.suptitle(f"{Path(model).name}: 256 tokens by ./run -m verify ({end})", fontsize=10)
    save(fig, "errors")


PLOTS = {f.__name__: f for f in (rotation, pairs, wavelengths, decay, attention, errors)}

if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model", nargs="?", default=ROOT / "weights/SmolLM2-135M-Instruct.Q4_1.gguf")
    ap.add_argument("--only", choices=PLOTS, action="append")
    a = ap.parse_args()
    for name in a.only or PLOTS:
        PLOTS[name](a.model)

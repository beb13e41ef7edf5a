#!/usr/bin/env python3
"""plot_ladder - the pictures of docs/ladder.md: loss curves, loss by position, KV bytes.

    sh scripts/ladder.sh TEXT && python3 scripts/plot_ladder.py

Reads weights/losses/*.csv (training) and the figures of ladder.sh in build/ladder; asks ./run for the
loss by position. Needs matplotlib. Writes docs/img/ladder-*.png.
"""
import csv
import json
import subprocess
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "build/ladder"
IMAGES = ROOT / "docs/img"
RUNGS = {"rung0": "0  GPT-2", "rung1": "1  RMSNorm", "rung2": "2  SwiGLU", "rung3": "3  RoPE",
         "rung4": "4  GQA: LLaMA"}
COLORS = dict(zip(RUNGS, ("#777777", "#b07aa1", "#e07b39", "#4e79a7", "#2a9d5c")))


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def save(fig, name):
    IMAGES.mkdir(parents=True, exist_ok=True)
    fig.tight_layout()
    fig.savefig(IMAGES / f"ladder-{name}.png", dpi=110, metadata={"Software": None})
    print(f"docs/img/ladder-{name}.png")


def curves():
    fig, ax = plt.subplots(figsize=(7, 4))
    for rung, label in RUNGS.items():
        if not (ROOT / f"weights/losses/{rung}.csv").exists():
            continue
        table = rows(ROOT / f"weights/losses/{rung}.csv")
        ax.plot([int(r["tokens"]) / 1e6 for r in table], [float(r["val_bits_per_byte"]) for r in table],
                label=label, color=COLORS[rung])
    ax.set(xlabel="training tokens, millions", ylabel="validation, bits per byte (first 4,096 tokens)",
           title="Five models on equal terms")
    ax.legend()
    ax.grid(alpha=0.3)
    save(fig, "curves")


def bits(rung, window, *options):
    """Bits per byte of positions window / 2 .. window - 1; None where the model stops."""
    p = subprocess.run([ROOT / "run", ROOT / "weights" / rung, "-m", "perplexity", "-f", FIGURES / "part.txt",
                        "--json", "-c", str(window), *options], capture_output=True, text=True)
    return json.loads(p.stdout)["bits_per_byte"] if p.returncode == 0 else None


def positions():
    fig, ax = plt.subplots(figsize=(7, 4))
    windows = [32, 64, 128, 256, 512, 1024]
    for rung in RUNGS:
        points = [(w, b) for w in windows if (b := bits(rung, w)) is not None]
        ax.plot(*zip(*points), marker="o", label=RUNGS[rung], color=COLORS[rung])
        if points[-1][0] == 256:
            ax.plot(*points[-1], marker="x", markersize=11, color=COLORS[rung])
    for rule, style in (("linear", ":"), ("dynamic", "--"), ("yarn", "-.")):
        points = [(w, bits("rung4", w, "--rope-scaling", rule, "--rope-factor", str(w // 256),
                           "--rope-original-ctx", "256")) for w in (512, 1024)]
        ax.plot(*zip(*points), style, marker="s", label=f"4  with {rule} scaling", color=COLORS["rung4"])
    ax.axvline(256, color="black", linewidth=0.8)
    ax.annotate("trained length", (256, ax.get_ylim()[1]), ha="right", va="top", rotation=90)
    ax.set_xscale("log", base=2)
    ax.set_xticks(windows, [f"{w // 2}..{w - 1}" for w in windows])
    ax.set(xlabel="positions scored", ylabel="bits per byte", title="Loss by position (x: learned positions end)")
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)
    save(fig, "positions")


def kv_bytes():
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6))
    table = rows(FIGURES / "table.csv")
    left.bar([r["rung"] for r in table], [int(r["kv_bytes"]) for r in table],
             color=[COLORS[r["rung"]] for r in table])
    left.set(ylabel="KV cache, bytes per token", title="The ladder")
    pooled = rows(FIGURES / "kv.csv")
    right.plot([int(r["kv_bytes"]) for r in pooled], [float(r["bits_per_byte"]) for r in pooled], marker="o",
               color=COLORS["rung3"], label="rung 3, heads mean-pooled")
    for r in pooled:
        right.annotate(f" {r['kv_heads']} heads", (int(r["kv_bytes"]), float(r["bits_per_byte"])))
    right.plot(int(table[4]["kv_bytes"]), float(table[4]["bits_per_byte"]), "s", color=COLORS["rung4"],
               label="rung 4, trained with 2")
    right.set(xlabel="KV cache, bytes per token", ylabel="bits per byte", title="Pooled and trained")
    right.legend(fontsize=8)
    right.grid(alpha=0.3)
    save(fig, "kv")


if __name__ == "__main__":
    curves()
    positions()
    kv_bytes()

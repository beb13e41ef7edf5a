#!/usr/bin/env python3
"""plot_ladder - the pictures and the tables of docs/ladder.md: loss curves, loss by position, KV bytes.

    sh scripts/ladder.sh TEXT table theta kv breaks && python3 scripts/plot_ladder.py

Reads weights/losses (training) and what ladder.sh printed (build/ladder); asks ./run for the loss by position. Needs
matplotlib. Writes docs/img/ladder-*.png, and the printed tables into docs/ladder.md and docs/zh/ladder.md, in place of the
block that follows each comment <!-- build/ladder/NAME.txt -->, <!-- swap N --> or <!-- comparison -->.
"""
import csv
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "build/ladder"
IMAGES = ROOT / "docs/img"
RUNGS = {"rung0": "0  GPT-2", "rung1": "1  RMSNorm", "rung1b": "1b no biases", "rung2": "2  SwiGLU", "rung3": "3  RoPE",
         "rung4": "4  GQA: LLaMA"}
COLORS = dict(zip(RUNGS, ("#777777", "#b07aa1", "#d9a441", "#e07b39", "#4e79a7", "#2a9d5c")))
SWAPS = (("rung0", "rung1"), ("rung1", "rung1b", "rung2"), ("rung2", "rung3"), ("rung3", "rung4"))


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
        table = rows(ROOT / f"weights/losses/{rung}.csv")
        ax.plot([int(r["tokens"]) / 1e6 for r in table], [float(r["val_bits_per_byte"]) for r in table],
                label=label, color=COLORS[rung])
    ax.set(xlabel="training tokens, millions", ylabel="validation, bits per byte (first 4,096 tokens)",
           title="The rungs in training, one seed each")
    ax.legend()
    ax.grid(alpha=0.3)
    save(fig, "curves")


def bits(rung, window, *options):
    """Bits per byte of positions window / 2 .. window - 1, strictly; None where the model stops."""
    p = subprocess.run([ROOT / "run", ROOT / "weights" / rung, "-m", "perplexity", "-f", FIGURES / "part.txt",
                        "--json", "-j", "1", "-c", str(window), "--score-from", str(window // 2), *options], capture_output=True, text=True)
    return json.loads(p.stdout)["bits_per_byte"] if p.returncode == 0 else None


def positions():
    """Left every rung without scaling, right what the rules make of rungs 3 and 4 beyond the trained length."""
    windows, long = [32, 64, 128, 256, 512, 1024], (512, 1024)
    rules = {"none": "-", "linear": ":", "ntk": (0, (4, 2, 1, 2)), "dynamic": "--", "yarn": "-.", "llama3": (0, (1, 3))}
    fig, axes = plt.subplots(1, 3, figsize=(12, 4.4), width_ratios=(1.6, 1, 1))
    with ThreadPoolExecutor(2) as pool:
        plain = {(rung, w): pool.submit(bits, rung, w) for rung in RUNGS for w in windows}
        scaled = {(rung, rule, w): pool.submit(bits, rung, w, "--rope-scaling", rule, "--rope-factor", str(w // 256),
                                               *(() if rule == "ntk" else ("--rope-original-ctx", "256")))
                  for rung in ("rung3", "rung4") for rule in rules if rule != "none" for w in long}
    for rung in RUNGS:
        points = [(w, b) for w in windows if (b := plain[rung, w].result()) is not None]
        if points:
            axes[0].plot(*zip(*points), marker="o", markersize=4, label=RUNGS[rung], color=COLORS[rung])
        if points and points[-1][0] == 256:
            axes[0].plot(*points[-1], marker="x", markersize=10, color=COLORS[rung])
    axes[0].axvline(2 ** 8.5, color="black", linewidth=0.8, linestyle=":")
    axes[0].text(2 ** 8.4, 0.55, "trained length", ha="right", va="center", rotation=90, transform=axes[0].get_xaxis_transform())
    axes[0].set(ylabel="bits per byte", title="No scaling (x: learned positions end)")
    for ax, rung in zip(axes[1:], ("rung3", "rung4")):
        for rule, style in rules.items():
            points = [(256, plain[rung, 256].result())] + [(w, (plain[rung, w] if rule == "none" else scaled[rung, rule, w]).result()) for w in long]
            ax.plot(*zip(*points), linestyle=style, marker=".", label=rule)
        ax.set(title=f"Rung {RUNGS[rung]}, by rule")
    for ax in axes:
        shown = windows if ax is axes[0] else [256, *long]
        ax.set_xscale("log", base=2)
        ax.set_xticks(shown, [f"{w // 2}..\n{w - 1}" for w in shown])
        ax.minorticks_off()
        ax.set(xlabel="positions scored")
        ax.legend(fontsize=8)
        ax.grid(alpha=0.3)
    save(fig, "positions")


def kv_bytes():
    if not (FIGURES / "kv.csv").exists():  # rung 3 is not there
        return
    fig, ax = plt.subplots(figsize=(6, 3.8))
    *pooled, trained = rows(FIGURES / "kv.csv")
    ax.plot([int(r["KV bytes"]) for r in pooled], [float(r["bits/byte"]) for r in pooled], marker="o",
            color=COLORS["rung3"], label="rung 3, heads mean-pooled (how many are left)")
    for r in pooled:
        ax.annotate(f"  {r['KV heads']}", (int(r["KV bytes"]), float(r["bits/byte"])))
    ax.plot(int(trained["KV bytes"]), float(trained["bits/byte"]), "s", color=COLORS["rung4"],
            label="rung 4, trained with 2")
    ax.set(xlabel="KV cache, bytes per token (f16)", ylabel="bits per byte", title="Fewer KV heads: pooled, and trained")
    ax.set_xlim(0, 3500)
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)
    save(fig, "kv")


def swap(n):
    """What changed in swap n: its rows of the table, without the columns that stay."""
    table = {r["rung"]: r for r in rows(FIGURES / "table.csv")}
    found = [table[rung] for rung in SWAPS[n - 1]]
    names = {"rung": "rung", "bytes": "KV bytes", "adds": "multiply-adds", "255": "128..255", "none": "256..511"}
    columns = [c for c in found[0] if c == "rung" or (c != "tok/s" and len({r[c] for r in found}) > 1)]
    lines = [[names.get(c, c) for c in columns], *([r[c] for c in columns] for r in found)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(x.ljust(w) for x, w in zip(line, widths)).rstrip() for line in lines)


def band(values):
    """The mean, and how far the seeds lie apart."""
    return f"{sum(values) / len(values):.4f}" + (f" +-{(max(values) - min(values)) / 2:.4f}" if len(values) > 1 else "")


def comparison():
    """weights/losses/comparison.json as tables: the sweeps, a row a model, the runs as long as the rungs'."""
    data = json.loads((ROOT / "weights/losses/comparison.json").read_text())
    lrs = sorted({r["lr"] for row in data["models"].values() for r in row["sweep"]})
    lines = [f"{'matrices':<11}" + "".join(f"{lr:>9g}" for lr in lrs)]
    for name, row in data["models"].items():
        found = {r["lr"]: f"{r['val_bits_per_byte']:.4f}" for r in row["sweep"]}
        lines.append(f"{name:<11}" + "".join(f"{found.get(lr, '-'):>9}" for lr in lrs))
    lines += ["", f"{'model':<11}{'norm':<10}{'biases':<7}{'ffn':<7}{'positions':<11}{'KV':<3}{'parameters':>11}{'rate':>7}{'seeds':>6}  "
                  f"{'bits/byte':<16}{'128..255':<16}{'256..511':<16}least"]
    for name, row in data["models"].items():
        runs, c = row["runs"], row["config"]
        if runs:
            lines.append(f"{name:<11}{c['norm']:<10}{'yes' if c['biases'] else 'no':<7}{c['ffn']:<7}{c['positions']:<11}"
                         f"{c['n_kv_heads']:<3}{runs[0]['params']:>11}{runs[0]['lr']:>7g}{len(runs):>6}  "
                         + "".join(f"{band([r[k] for r in runs]):<16}" for k in
                                   ("val_bits_per_byte", "inside_bits_per_byte", "beyond_bits_per_byte"))
                         + f"{min(x['score_std'] for r in runs for x in r['layers']):.2f}")
    long = sorted(data["long"], key=lambda r: r["vector_lr"] or r["adam_lr"])
    lines += ["", "rung4 for 2,000 steps of 8 windows, by the rate of its norms; bits/byte of the whole split, then how far scores",
              "deviate within a row, by layer, and the weight of layer 0's norm:",
              f"{'rate':<8}{'bits/byte':<10}" + "".join(f"{x['layer']:>7}" for x in long[0]["layers"]) + f"{'norm 0':>9}"]
    lines += [f"{r['vector_lr'] or r['adam_lr']:<8g}{r['val_bits_per_byte']:<10.4f}" + "".join(f"{x['score_std']:>7.2f}" for x in r["layers"])
              + f"{r['layers'][0]['norm_weight']:>9.3f}" for r in long]
    rates = {name: {(r["lr"], r["adam_lr"]): r["val_bits_per_byte"] for r in runs} for name, runs in data["rates"].items()}
    lines += ["", "The rungs for as long, by the rates of matrices and embeddings; bits/byte of the whole split:",
              f"{'matrices':<10}{'embeddings':<12}" + "".join(f"{name:>9}" for name in rates)]
    for rate in sorted({key for runs in rates.values() for key in runs}):
        cells = (f"{runs[rate]:.4f}" if rate in runs else "-" for runs in rates.values())
        lines.append(f"{rate[0]:<10g}{rate[1]:<12g}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def page():
    """The printed blocks of docs/ladder.md and its Chinese edition; what was not printed stays as it is."""
    def block(match):
        file = FIGURES / (match[2] or "table.csv")
        if not match[4] and not file.exists():
            return match[0]
        text = swap(int(match[3])) if match[3] else comparison() if match[4] else file.read_text().rstrip()
        return f"{match[1]}```\n{text}\n```\n"

    for name in ("docs/ladder.md", "docs/zh/ladder.md"):
        text = re.sub(r"(<!-- (?:build/ladder/(\w+\.txt)|swap (\d)|(comparison)) -->\n)```\n.*?```\n", block,
                      (ROOT / name).read_text(), flags=re.S)
        (ROOT / name).write_text(text)
        print(name)


if __name__ == "__main__":
    page()
    curves()
    positions()
    kv_bytes()

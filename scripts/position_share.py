#!/usr/bin/env python3
"""position_share - how much of a model's residual stream tells where a token is: the variance between positions, of the
variance in all, over windows of a text that begin anywhere. In percent, of the embedding and of what some layers leave.

    position_share.py MODEL ... [--break NAME]      RUN names another program than ./run
"""
import json
import os
import subprocess
import sys

WINDOWS, POSITIONS, LAYERS = 16, (4, 24, 63), (0, 2, 5)
RUN = os.environ.get("RUN", "./run")


def run(*arguments):
    return subprocess.run([RUN, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def share(groups):
    """groups [position][window] of vectors: the components of variance of a one-way analysis."""
    n, dim = len(groups[0]), len(groups[0][0])
    means = [[sum(x[i] for x in g) / n for i in range(dim)] for g in groups]
    mean = [sum(m[i] for m in means) / len(groups) for i in range(dim)]
    within = sum((x[i] - m[i]) ** 2 for g, m in zip(groups, means) for x in g for i in range(dim)) / len(groups) / (n - 1)
    between = n * sum((m[i] - mean[i]) ** 2 for m in means for i in range(dim)) / (len(groups) - 1)
    position = max(0, (between - within) / n)
    return 100 * position / (position + within)


def main():
    options = sys.argv[sys.argv.index("--break"):] if "--break" in sys.argv else []
    models = sys.argv[1:len(sys.argv) - len(options)]
    print(f"{'percent':<18}{'embed':>7}" + "".join(f"{f'layer {l}':>9}" for l in LAYERS))
    for model in models:
        ids = run(model, "-m", "tokenize", "-f", "exercises/text.txt").decode().split()[1:]
        step = (len(ids) - max(POSITIONS)) // WINDOWS
        found = {}
        for w in range(WINDOWS):
            window = "1," + ",".join(ids[w * step:w * step + max(POSITIONS)])
            for pos in POSITIONS:
                for layer in LAYERS:
                    steps = json.loads(run(model, "-m", "trace", "--json", "--tokens", window, "--pos", str(pos), "--layer", str(layer), *options))["steps"]
                    values = {s["name"]: s["values"] for s in steps}
                    found.setdefault((layer, pos), []).append(values["out"])
                    if layer == 0:
                        found.setdefault(("embed", pos), []).append(values["embed"])
        print(f"{model.split('/')[-1]:<18}" + f"{share([found['embed', p] for p in POSITIONS]):>7.0f}"
              + "".join(f"{share([found[layer, p] for p in POSITIONS]):>9.0f}" for layer in LAYERS))


main()

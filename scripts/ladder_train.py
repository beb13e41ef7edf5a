#!/usr/bin/env python3
"""ladder_train - trains the models of ladder_model.py on equal terms.

    ladder_train.py shipped --data tinyshakespeare.txt [NAME ...]   the models of weights/
    ladder_train.py compare --data tinyshakespeare.txt    shorter runs of every rung and every way to tell positions

Needs torch and sentencepiece. Every command resumes where it was interrupted: a run's state lies in the --work directory,
and the batch and the dropout of step i depend on the seed and i alone. ladder_export.py writes weights/ from it.
"""
import argparse
import csv
import json
import math
import os
import random
import re
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# Activations are some MB each: keep freed ones in the heap instead of faulting the pages in again each
# step. glibc reads this once, when the process starts. Two malloc arenas are plenty.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
          "MALLOC_TOP_PAD_": str(1 << 26)}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in MALLOC.items()):
    os.environ.update(MALLOC)
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch
import torch.nn as nn
import torch.nn.functional as F

from ladder_model import DEAD, Model, bakeoff, config_of, count_parameters, ladder, liveness

ROOT = Path(__file__).resolve().parent.parent


# ---- text, tokenizer, evaluation ---------------------------------------------------------------------

def read_splits(path):
    """First 90 % of the bytes to train on, last 10 % to validate."""
    raw = Path(path).read_bytes()
    cut = int(0.9 * len(raw))
    return raw[:cut].decode(), raw[cut:].decode()


def train_tokenizer(text, path):
    """LLaMA's kind of tokenizer: BPE with byte fallback. A "sentence" is a speech with its line ends, so
    that pieces such as ",\\n" exist; nothing is normalised, so that every text comes back as it was."""
    import sentencepiece as spm
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(str(path) + ".tmp", "wb") as f:
        spm.SentencePieceTrainer.train(
            sentence_iterator=(s + "\n\n" for s in text.split("\n\n")), model_writer=f, model_type="bpe",
            vocab_size=1024, byte_fallback=True, character_coverage=1.0, add_dummy_prefix=False,
            normalization_rule_name="identity", remove_extra_whitespaces=False,
            max_sentence_length=1 << 20, num_threads=1, minloglevel=2)
    os.replace(str(path) + ".tmp", path)


@dataclass
class Text:
    train: torch.Tensor     # ids of the training split
    starts: torch.Tensor    # where speeches start in it
    val: torch.Tensor       # BOS and the ids of the validation split
    val_token_bytes: torch.Tensor  # how many bytes each id of val stands for
    bos: int
    characters: str         # the training split itself
    names: list             # who speaks in it
    encode: object          # text -> ids


def load_text(data, work):
    import sentencepiece as spm
    train, val = read_splits(data)
    path = Path(work) / "tokenizer.model"
    if not path.exists():
        train_tokenizer(train, path)
    sp = spm.SentencePieceProcessor(model_file=str(path))
    ids = sp.encode(train)
    pieces = [sp.id_to_piece(i) for i in ids]
    starts = [i for i in range(2, len(ids)) if (pieces[i - 2] + pieces[i - 1]).endswith("\n\n")]
    val_ids = sp.encode(val)
    n_bytes = [1 if sp.is_byte(i) else len(sp.id_to_piece(i).replace("\u2581", " ").encode()) for i in val_ids]
    assert sum(n_bytes) == len(val.encode())
    return Text(torch.tensor(ids), torch.tensor([0] + starts), torch.tensor([sp.bos_id()] + val_ids),
                torch.tensor([0] + n_bytes), sp.bos_id(),
                train, sorted(set(SPEAKER.findall(train))), sp.encode)


SPEAKER = re.compile(r"(?<=\n\n)([A-Z][A-Za-z' ]{1,24})(?=:\n)")


def rename_speakers(chunk, names, share, rng):
    """Gives each speaker of the chunk, with the probability share, a name put together from halves of
    two others, wherever the chunk has it."""
    for name in sorted(set(SPEAKER.findall(chunk))):
        if rng.random() < share:
            a, b = rng.choice(names), rng.choice(names)
            new = (a[:(len(a) + 1) // 2] + b[len(b) // 2:]).strip()
            new = new.upper() if name.isupper() else new.title()
            chunk = re.sub(rf"\b{re.escape(name)}\b", new, chunk)
            chunk = re.sub(rf"\b{re.escape(name.title())}\b", new.title(), chunk)
    return chunk


def renamed_batch(text, seed, step, size, n_ctx, share):
    """Like batch, under other names. The last play of the validation split has speakers that the training
    split never heard; a model that only learned names by heart pays 7 bits a byte for theirs. Who reads
    invented ones learns to copy the name from where the speaker spoke before."""
    rng = random.Random(seed * 1_000_003 + step)
    rows = []
    for _ in range(size):
        at = rng.randrange(len(text.characters) - 8 * n_ctx)
        start = []
        if rng.random() < 1 / 8:
            at, start = text.characters.index("\n\n", at) + 2, [text.bos]
        else:
            at = text.characters.index(" ", at)
        chunk = rename_speakers("\n\n" + text.characters[at:at + 7 * n_ctx], text.names, share, rng)[2:]
        rows.append((start + text.encode(chunk))[:n_ctx + 1])
    x = torch.tensor(rows)
    return x[:, :-1], x[:, 1:]


def batch(text, seed, step, size, n_ctx):
    """Random windows of the training split; one in eight is BOS and the start of a speech."""
    g = torch.Generator().manual_seed(seed * 1_000_003 + step)
    at = torch.randint(0, len(text.train) - n_ctx - 1, (size,), generator=g)
    x = text.train[at[:, None] + torch.arange(n_ctx + 1)]
    pick = text.starts[torch.randint(0, len(text.starts), (size,), generator=g)]
    pick = pick.clamp(max=len(text.train) - n_ctx - 1)
    speech = text.train[pick[:, None] + torch.arange(n_ctx)]
    speech = torch.cat((torch.full((size, 1), text.bos), speech), dim=1)
    x = torch.where(torch.rand(size, 1, generator=g) < 1 / 8, speech, x)
    return x[:, :-1], x[:, 1:]


@torch.no_grad()
def evaluate(model, text, limit=None, window=None, score_from=None):
    """Bits per byte as `./run -m perplexity` counts them: windows of `window` tokens (default n_ctx) at a stride of half
    as many over BOS and the text; each token but BOS is predicted once, with at least half a window before it where there
    are as many. With score_from (`--score-from`), only positions >= score_from of a window count, in the first one too.
    `limit` scores only the first tokens (progress during training)."""
    model.eval()
    ids = text.val[:limit]
    size = window or model.c.n_ctx
    stride, n = size // 2, len(ids)
    begins = [b for b in range(0, n, stride) if b == 0 or b + stride < n]
    nll, n_bytes = torch.zeros((), dtype=torch.float64), 0
    full = [b for b in begins if b + size <= n]
    for group in [full[i:i + 8] for i in range(0, len(full), 8)] + [[b] for b in begins if b + size > n]:
        rows = torch.stack([ids[b:b + size] for b in group])
        logp = F.log_softmax(model(rows)[:, :-1].float(), dim=-1)
        loss = -logp.gather(-1, rows[:, 1:, None])[..., 0].double()
        for b, row in zip(group, loss):
            first = max(1 if b == 0 else size - stride, score_from or 1)
            nll += row[first - 1:].sum()
            n_bytes += int(text.val_token_bytes[b + first:b + 1 + len(row)].sum())
    model.train()
    return nll.item() / math.log(2) / n_bytes


# ---- training ----------------------------------------------------------------------------------------

@dataclass
class Run:
    """lr is that of the matrices in the layers (Muon), adam_lr that of the embeddings (AdamW), vector_lr that of norms and
    biases (AdamW; 0: adam_lr). With one rate for all, norm weights fall to 0.03 within a hundred steps and the first layer
    attends to nothing; at 0.004 it takes some hundred, at VECTOR_LR they stay."""
    name: str
    lr: float
    adam_lr: float
    steps: int
    batch: int = 4
    dropout: float = 0.1
    seed: int = 1
    weight_decay: float = 0.1
    warmup: int = 50
    rename: float = 0.5  # share of the speakers that get an invented name
    vector_lr: float = 0
    start: str = ""      # tag of the run whose weights this one goes on from

    @property
    def tag(self):
        return f"{self.name}-lr{self.lr:g}-adam{self.adam_lr:g}-b{self.batch}-s{self.steps}-seed{self.seed}" + \
            ("" if self.rename else "-names") + (f"-vector{self.vector_lr:g}" if self.vector_lr else "") + ("-on" if self.start else "")


def orthogonalize(g):
    """Newton-Schulz iteration of Muon on a stack of matrices [k, rows, cols]: singular values to about 1."""
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized, for the matrices inside the layers (Jordan et al. 2024,
    kellerjordan.github.io/posts/muon). Matrices of one shape go through in one batch. The step is scaled
    to the RMS of an AdamW step (arXiv:2502.16982, section 2.2), so both share one learning rate."""

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, params in shapes.items():
                for p in params:
                    self.state[p].setdefault("momentum", torch.zeros_like(p)).lerp_(p.grad, 1 - group["momentum"])
                update = torch.stack([p.grad.lerp(self.state[p]["momentum"], group["momentum"]) for p in params])
                update = orthogonalize(update) * (0.2 * math.sqrt(max(shape)))
                for p, u in zip(params, update):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(u, alpha=group["lr"])


def make_optimizers(model, run):
    """Each group keeps its greatest learning rate as "peak"."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("layers.")]
    tables = [p for n, p in model.named_parameters() if p.dim() == 2 and not n.startswith("layers.")]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    adam = [{"params": vectors, "weight_decay": 0.0, "lr": run.vector_lr or run.adam_lr},
            {"params": tables, "weight_decay": run.weight_decay}]
    optimizers = [torch.optim.AdamW(adam, lr=run.adam_lr, betas=(0.9, 0.95), fused=True),
                  Muon(matrices, run.lr, run.weight_decay)]
    for o in optimizers:
        for group in o.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def schedule(run, step):
    """Share of the peak: linear warm-up, then a cosine down to 1 % (arXiv:1608.03983)."""
    if step < run.warmup:
        return (step + 1) / run.warmup
    t = (step - run.warmup) / max(1, run.steps - run.warmup)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * t))


def by_position(model, text):
    """Bits per byte inside of the trained length, positions n_ctx / 2 to n_ctx - 1, and beyond it, n_ctx to 2 n_ctx - 1;
    a learned table is stretched there. Each token has at least that many before it. Of the first 8,192 tokens."""
    n = model.c.n_ctx
    return {"inside_bits_per_byte": round(evaluate(model, text, SHORT_TEXT, score_from=n // 2), 5),
            "beyond_bits_per_byte": round(evaluate(model, text, SHORT_TEXT, window=2 * n, score_from=n), 5)}


def check_alive(model, text, tag):
    """Prints liveness on 8 windows of the validation split and says which layers are dead."""
    n = model.c.n_ctx
    rows = liveness(model.eval(), text.val[:8 * n].view(8, n))
    for r in rows:
        print(f"{tag}: layer {r['layer']}: scores deviate by {r['score_std']:.3f}, entropy {r['entropy']:.3f} of the greatest, "
              f"norm weight {r['norm_weight']:.3f}{'  DEAD' if r['score_std'] < DEAD else ''}", flush=True)
    return rows


def train(run, text, work, every=100):
    """Trains one model; returns its bits per byte. Writes TAG.csv (step, tokens, lr, train loss in bits
    per token, validation bits per byte of the first 4,096 tokens) and TAG.pt, from which it resumes."""
    torch.set_flush_denormal(True)
    done, state_file, log = (Path(work) / (run.tag + ending) for ending in (".json", ".pt", ".csv"))
    if done.exists():
        return json.loads(done.read_text())["val_bits_per_byte"]
    torch.manual_seed(run.seed)
    c = config_of(run.name)
    model = Model(c, run.dropout)
    if run.start:
        model.load_state_dict(torch.load(Path(work) / f"{run.start}.pt")["model"])
    optimizers = make_optimizers(model, run)
    step, rows = 0, []
    if state_file.exists():
        state = torch.load(state_file)
        model.load_state_dict(state["model"])
        for o, s in zip(optimizers, state["optimizers"]):
            o.load_state_dict(s)
        step, rows = state["step"], state["rows"]
        print(f"{run.tag}: resumed at step {step}", flush=True)
    began, began_step, total = time.time(), step, torch.zeros(())
    while step < run.steps:
        share = schedule(run, step)
        for o in optimizers:
            for group in o.param_groups:
                group["lr"] = share * group["peak"]
        torch.manual_seed(run.seed * 7_000_003 + step)  # dropout
        if run.rename:
            x, y = renamed_batch(text, run.seed, step, run.batch, c.n_ctx, run.rename)
        else:
            x, y = batch(text, run.seed, step, run.batch, c.n_ctx)
        loss = F.cross_entropy(model(x).view(-1, c.vocab_size), y.reshape(-1))
        for o in optimizers:
            o.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimizers:
            o.step()
        total += loss.detach()
        step += 1
        if step % every == 0 or step == run.steps:
            n = (step - 1) % every + 1
            val = evaluate(model, text, limit=4097)
            rows.append([step, step * run.batch * c.n_ctx, f"{share * run.lr:.6f}",
                         f"{total.item() / n / math.log(2):.4f}", f"{val:.4f}"])
            total.zero_()
            per_step = (time.time() - began) / (step - began_step)
            print(f"{run.tag}: step {step}/{run.steps}, train {rows[-1][3]} bits/token, "
                  f"validation {val:.4f} bits/byte, {per_step * 1e3:.0f} ms/step, "
                  f"{per_step * (run.steps - step) / 60:.1f} min left", flush=True)
            tmp = f"{state_file}.tmp"
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                        "step": step, "rows": rows}, tmp)
            os.replace(tmp, state_file)
            with open(log, "w", newline="") as f:
                w = csv.writer(f, lineterminator="\n")
                w.writerow(["step", "tokens", "lr", "train_bits_per_token", "val_bits_per_byte"])
                w.writerows(rows)
    val = evaluate(model, text, SHORT_TEXT if run.steps == STEPS else None)
    result = {**asdict(run), "params": count_parameters(c), "tokens": run.steps * run.batch * c.n_ctx,
              "val_bits_per_byte": round(val, 5), **by_position(model, text),
              "layers": check_alive(model, text, run.tag), "config": asdict(c)}
    done.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{run.tag}: done, {val:.4f} bits/byte", flush=True)
    return val


# ---- the models of weights/ --------------------------------------------------------------------------

SECOND_SHARE = 0.85  # of the default's exported weights; the rest is its first run (arXiv:2109.01903)
LR, ADAM_LR, VECTOR_LR = 0.01, 0.004, 0.0005  # of matrices, embeddings, vectors: bracketed by the comparison
OWN_LR = {"rung2": 0.005}  # where another rate of the matrices is better than LR
SHIPPED = (*ladder(), "default")


def shipped_runs(name):
    """The runs behind the weights of one model. The default is trained on the text as it is, then goes on with
    invented names for the speakers."""
    if name != "default":
        return [Run(name, OWN_LR.get(name, LR), ADAM_LR, 2000, batch=8, vector_lr=VECTOR_LR)]
    first = Run("default", LR, ADAM_LR, 2000, batch=8, dropout=0.2, warmup=100, rename=0.0, vector_lr=VECTOR_LR)
    return [first, replace(first, steps=1600, start=first.tag, rename=0.5)]


# ---- the comparison ----------------------------------------------------------------------------------

STEPS, SEEDS = 200, (1, 2, 3)
SHORT_TEXT = 8193  # tokens of the validation split that a short run is measured by
SWEEP_LR = (0.005, 0.01, 0.02)  # of the matrices; while the best is the last on a side, half or twice of it is tried too

# As long as the shipped rung, which is the second, with the rate of the embeddings for norms too.
LONG = [replace(shipped_runs("rung4")[0], vector_lr=vector_lr) for vector_lr in (0, VECTOR_LR)]
# As long too, by the rates of matrices and embeddings; the shipped runs are among them.
RATES = {"rung0": ((0.005, 0.004), (0.01, 0.004)), "rung1b": ((0.005, 0.004), (0.01, 0.004)),
         "rung2": ((0.0025, 0.004), (0.005, 0.004), (0.01, 0.004), (0.01, 0.002)),
         "rung3": ((0.005, 0.004), (0.01, 0.004))}


def result_of(run, work):
    path = Path(work) / f"{run.tag}.json"
    return json.loads(path.read_text()) if path.exists() else None


def best(runs, work):
    """The run that ended lowest, of those where every layer attends to something; None until all ended."""
    results = [result_of(r, work) for r in runs]
    if not all(results):
        return None
    alive = [p for p in zip(runs, results) if min(x["score_std"] for x in p[1]["layers"]) >= DEAD]
    return min(alive, key=lambda p: p[1]["val_bits_per_byte"])[0]


def short_run(name, lr, seed=1):
    return Run(name, lr, ADAM_LR, STEPS, warmup=20, seed=seed)


def sweep_runs(name, work):
    lrs = list(SWEEP_LR)
    while (found := best([short_run(name, lr) for lr in lrs], work)) and found.lr in (lrs[0], lrs[-1]):
        lrs = [lrs[0] / 2, *lrs] if found.lr == lrs[0] else [*lrs, lrs[-1] * 2]
    return [short_run(name, lr) for lr in lrs]


def rate_runs(name):
    return [replace(shipped_runs(name)[0], lr=lr, adam_lr=adam_lr) for lr, adam_lr in RATES[name]]


def seed_runs(name, work):
    """The runs of one model at the best rate of its sweep, one a seed."""
    return [short_run(name, best(sweep_runs(name, work), work).lr, seed) for seed in SEEDS]


def next_run(work):
    """What the comparison does next: the sweeps of all rungs and all ways to tell positions, the other seeds, the runs
    that are as long as the rungs'; None when all is done."""
    names = [*ladder(), *bakeoff()]
    for runs in (sweep_runs, seed_runs):
        for run in (run for name in names for run in runs(name, work)):
            if not result_of(run, work):
                return run
    rates = [run for name in RATES for run in rate_runs(name)]
    return next((run for run in [*LONG, *rates] if not result_of(run, work)), None)


def comparison(work):
    """{name: its sweep, its seeds}, and the long runs."""
    def found(runs):
        return [{k: v for k, v in result_of(run, work).items() if k != "config"} for run in runs]
    return {"models": {name: {"config": asdict(config_of(name)), "sweep": found(sweep_runs(name, work)),
                              "runs": found(seed_runs(name, work))} for name in [*ladder(), *bakeoff()]},
            "long": found(LONG), "rates": {name: found(rate_runs(name)) for name in RATES}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("shipped", "compare"))
    p.add_argument("names", nargs="*", help="of shipped: which models; default: all")
    p.add_argument("--data", required=True, help="text file; its last 10 %% validates")
    p.add_argument("--work", default=str(ROOT / "build/ladder-runs"), help="where runs keep their state")
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    Path(args.work).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    text = load_text(args.data, args.work)
    if args.command == "shipped":
        for name in args.names or SHIPPED:
            for run in shipped_runs(name):
                train(run, text, args.work)
        return
    out = ROOT / "weights/losses/comparison.json"
    while (run := next_run(args.work)) is not None:
        train(run, text, args.work)
    out.write_text(json.dumps(comparison(args.work), indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""train_ladder - from GPT-2 to LLaMA in four swaps: five small models trained on equal terms.

    train_ladder.py all --data tinyshakespeare.txt      tokenizer, learning-rate sweep, five rungs, export
    train_ladder.py default --data tinyshakespeare.txt  the larger LLaMA that `make demo` runs
    train_ladder.py train NAME --lr X --steps N --data F   one run of one rung
    train_ladder.py export                              finished runs -> weights/
    train_ladder.py fixtures                            tiny random models of all 16 combinations of the switches

Needs torch, transformers, safetensors, sentencepiece and gguf. Every command resumes where it was
interrupted: a run's state lies in the --work directory, and the batch and the dropout of step i depend
on the seed and i alone.
"""
import argparse
import csv
import itertools
import json
import math
import os
import random
import re
import subprocess
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

ROOT = Path(__file__).resolve().parent.parent


# ---- the model: one class, four switches -------------------------------------------------------------

@dataclass(frozen=True)
class Config:
    dim: int = 128
    hidden_dim: int = 512
    n_layers: int = 6
    n_heads: int = 8
    n_kv_heads: int = 8         # swap 4: fewer than n_heads is GQA
    head_dim: int = 16
    vocab_size: int = 1024
    n_ctx: int = 256
    norm: str = "layernorm"     # swap 1: layernorm | rmsnorm
    ffn: str = "gelu"           # swap 2: gelu | swiglu
    positions: str = "learned"  # swap 3: learned | rope
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    tied: bool = True

    @property
    def linear_bias(self):
        """The biases of the linear layers leave together with GELU (PaLM, arXiv:2204.02311, section 2)."""
        return self.ffn == "gelu"


class RMSNorm(nn.Module):
    """arXiv:1910.07467, equation 4."""

    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def make_norm(c):
    return nn.LayerNorm(c.dim, c.norm_eps) if c.norm == "layernorm" else RMSNorm(c.dim, c.norm_eps)


def rope_table(c, n):
    """cos and sin [n, head_dim] of arXiv:2104.09864, section 3.4, in the half-split order."""
    inv_freq = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
    angle = torch.outer(torch.arange(n, dtype=torch.float64), inv_freq)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [batch, heads, n, head_dim]: pair i is (x[i], x[i + head_dim / 2])."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention; KV head h // (n_heads / n_kv_heads) serves query head h (arXiv:2305.13245)."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        q, kv = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
        self.q_proj = nn.Linear(c.dim, q, bias=c.linear_bias)
        self.k_proj = nn.Linear(c.dim, kv, bias=c.linear_bias)
        self.v_proj = nn.Linear(c.dim, kv, bias=c.linear_bias)
        self.o_proj = nn.Linear(q, c.dim, bias=c.linear_bias)

    def forward(self, x, rope):
        c = self.c
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, c.n_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        if rope is not None:
            q, k = rotate(q, *rope), rotate(k, *rope)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=c.n_kv_heads != c.n_heads)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, c.n_heads * c.head_dim))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.swiglu = c.ffn == "swiglu"
        if self.swiglu:
            self.gate_proj = nn.Linear(c.dim, c.hidden_dim, bias=False)
        self.up_proj = nn.Linear(c.dim, c.hidden_dim, bias=c.linear_bias)
        self.down_proj = nn.Linear(c.hidden_dim, c.dim, bias=c.linear_bias)

    def forward(self, x):
        if self.swiglu:  # arXiv:2002.05202, equation 5
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return self.down_proj(F.gelu(self.up_proj(x), approximate="tanh"))  # arXiv:1606.08415


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.self_attn = make_norm(c), Attention(c)
        self.post_attention_layernorm, self.mlp = make_norm(c), Mlp(c)

    def forward(self, x, rope, drop):
        x = x + drop(self.self_attn(self.input_layernorm(x), rope))
        return x + drop(self.mlp(self.post_attention_layernorm(x)))


class Model(nn.Module):
    """Parameter names are those of Hugging Face's Llama, without the leading "model."."""

    def __init__(self, c, dropout=0.0):
        super().__init__()
        self.c = c
        self.drop = nn.Dropout(dropout)
        self.embed_tokens = nn.Embedding(c.vocab_size, c.dim)
        if c.positions == "learned":
            self.embed_positions = nn.Embedding(c.n_ctx, c.dim)
        self.layers = nn.ModuleList(Block(c) for _ in range(c.n_layers))
        self.norm = make_norm(c)
        if not c.tied:
            self.lm_head = nn.Linear(c.dim, c.vocab_size, bias=False)
        # GPT-2's initialisation: 0.02, and what is added to the residual stream scaled by its depth.
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * c.n_layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        """tokens [batch, n] -> logits [batch, n, vocab_size]."""
        n = tokens.shape[1]
        x = self.embed_tokens(tokens)
        rope = None
        if self.c.positions == "learned":
            x = x + self.embed_positions.weight[:n]
        else:
            rope = rope_table(self.c, n)
        x = self.drop(x)
        for block in self.layers:
            x = block(x, rope, self.drop)
        head = self.embed_tokens if self.c.tied else self.lm_head
        return F.linear(self.norm(x), head.weight)


def count_parameters(c):
    return sum(p.numel() for p in Model(c).parameters())


# ---- the rungs ---------------------------------------------------------------------------------------

def ladder():
    """Each rung is the one before it with one field changed, and hidden_dim chosen so that the number
    of parameters stays (multiples of 8, within 1 % of rung 0)."""
    rungs = {"rung0": Config()}
    for name, swap in (("rung1", {"norm": "rmsnorm"}), ("rung2", {"ffn": "swiglu"}),
                       ("rung3", {"positions": "rope"}), ("rung4", {"n_kv_heads": 2})):
        c = replace(list(rungs.values())[-1], **swap)
        target = count_parameters(rungs["rung0"])
        hidden = min(range(128, 1025, 8),
                     key=lambda h: abs(count_parameters(replace(c, hidden_dim=h)) - target))
        rungs[name] = replace(c, hidden_dim=hidden)
    return rungs


DEFAULT = Config(dim=256, hidden_dim=640, n_layers=6, n_heads=8, n_kv_heads=4, head_dim=32,
                 norm="rmsnorm", ffn="swiglu", positions="rope")


def config_of(name):
    return DEFAULT if name == "default" else ladder()[name]


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
    val_bytes: int
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
    return Text(torch.tensor(ids), torch.tensor([0] + starts),
                torch.tensor([sp.bos_id()] + sp.encode(val)), len(val.encode()), sp.bos_id(),
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
def evaluate(model, text, limit=None):
    """Bits per byte as `./run -m perplexity` counts them: windows of n_ctx at a stride of n_ctx / 2 over
    BOS and the text; each token but BOS is predicted once, with at least n_ctx / 2 tokens before it where
    there are as many. `limit` scores only the first tokens (progress during training)."""
    model.eval()
    c, ids = model.c, text.val[:limit]
    stride, n = c.n_ctx // 2, len(ids)
    begins = [b for b in range(0, n, stride) if b == 0 or b + stride < n]
    nll = torch.zeros((), dtype=torch.float64)
    full = [b for b in begins if b + c.n_ctx <= n]
    for group in [full[i:i + 8] for i in range(0, len(full), 8)] + [[b] for b in begins if b + c.n_ctx > n]:
        rows = torch.stack([ids[b:b + c.n_ctx] for b in group])
        logp = F.log_softmax(model(rows)[:, :-1].float(), dim=-1)
        loss = -logp.gather(-1, rows[:, 1:, None])[..., 0].double()
        for b, row in zip(group, loss):
            nll += row.sum() if b == 0 else row[c.n_ctx - stride - 1:].sum()
    model.train()
    n_bytes = text.val_bytes if limit is None else text.val_bytes * (n - 1) / (len(text.val) - 1)
    return nll.item() / math.log(2) / n_bytes


# ---- training ----------------------------------------------------------------------------------------

@dataclass
class Run:
    name: str
    lr: float
    steps: int
    batch: int = 8
    dropout: float = 0.1
    seed: int = 1
    weight_decay: float = 0.1
    warmup: int = 50
    optimizer: str = "muon"
    start: str = ""      # tag of the run whose weights this one goes on from
    rename: float = 0.0  # share of the speakers that get an invented name

    @property
    def tag(self):
        return f"{self.name}-lr{self.lr:g}-s{self.steps}" + ("-renamed" if self.rename else "")


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
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("layers.")]
    tables = [p for n, p in model.named_parameters() if p.dim() == 2 and not n.startswith("layers.")]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    adam = [{"params": vectors, "weight_decay": 0.0}, {"params": tables, "weight_decay": run.weight_decay}]
    if run.optimizer == "adamw":
        adam[1]["params"] = tables + matrices
        return [torch.optim.AdamW(adam, lr=run.lr, betas=(0.9, 0.95), fused=True)]
    return [torch.optim.AdamW(adam, lr=run.lr, betas=(0.9, 0.95), fused=True),
            Muon(matrices, run.lr, run.weight_decay)]


def learning_rate(run, step):
    """Linear warm-up, then a cosine down to 1 % (arXiv:1608.03983)."""
    if step < run.warmup:
        return run.lr * (step + 1) / run.warmup
    t = (step - run.warmup) / max(1, run.steps - run.warmup)
    return run.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * t)))


def train(run, text, work, every=100, stop_at=None):
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
        lr = learning_rate(run, step)
        for o in optimizers:
            for group in o.param_groups:
                group["lr"] = lr
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
            rows.append([step, step * run.batch * c.n_ctx, f"{lr:.6f}",
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
    val = evaluate(model, text)
    result = {**asdict(run), "params": count_parameters(c), "tokens": run.steps * run.batch * c.n_ctx,
              "val_bits_per_byte": round(val, 5), "config": asdict(c)}
    done.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{run.tag}: done, {val:.4f} bits/byte on the whole validation split", flush=True)
    return val


# ---- the whole ladder --------------------------------------------------------------------------------

SWEEP_LR, SWEEP_STEPS = (0.005, 0.01, 0.02), 100
STEPS, RENAME = 2000, 0.5  # of every rung
FULL_SWEEP = ("rung2",)    # where 100 steps mislead: the rates they like best stall later
DEFAULT_RUN = Run("default", lr=0.01, steps=2000, dropout=0.2, warmup=100)
SECOND_SHARE = 0.85  # of the default's exported weights; the rest is its first run (arXiv:2109.01903)


def sweep_runs(name):
    if name in FULL_SWEEP:
        return [Run(name, lr, STEPS, rename=RENAME) for lr in SWEEP_LR]
    return [Run(name, lr, SWEEP_STEPS, warmup=20) for lr in SWEEP_LR]


def result_of(run, work):
    path = Path(work) / f"{run.tag}.json"
    return json.loads(path.read_text()) if path.exists() else None


def first_run(name, work):
    """The long run, for a rung at the learning rate whose run of the sweep ended lowest; None until all ended."""
    if name == "default":
        return DEFAULT_RUN
    results = [result_of(r, work) for r in sweep_runs(name)]
    if not all(results):
        return None
    lr = min(results, key=lambda r: r["val_bits_per_byte"])["lr"]
    return Run(name, lr, STEPS, rename=RENAME)


def second_run(first):
    """The default goes on with invented names for the speakers."""
    return replace(first, steps=1600, start=first.tag, rename=RENAME)


def train_all(args):
    """Each run is a process of its own; `--jobs` of them at a time share the cores."""
    from concurrent.futures import ThreadPoolExecutor
    load_text(args.data, args.work)  # the tokenizer exists before the runs start

    def start(run):
        if not result_of(run, args.work):
            subprocess.run([sys.executable, __file__, "train", run.name, "--lr", repr(run.lr), "--steps",
                            str(run.steps), "--warmup", str(run.warmup), "--dropout", repr(run.dropout),
                            "--start", run.start, "--rename", repr(run.rename), "--data", args.data,
                            "--work", args.work, "--threads", str(args.threads)], check=True)

    def rung(name):
        if name != "default":
            for run in sweep_runs(name):
                start(run)
        first = first_run(name, args.work)
        start(first)
        if name == "default":
            start(second_run(first))

    with ThreadPoolExecutor(args.jobs) as pool:
        for f in [pool.submit(rung, name) for name in args.names]:
            f.result()


# ---- export ------------------------------------------------------------------------------------------

def llama_tensors(model):
    """Hugging Face's Llama names; also used, with biases and embed_positions, for the rungs between."""
    return {name if name.startswith("lm_head") else "model." + name: p.detach().float().contiguous()
            for name, p in model.state_dict().items()}


def swap_config(c):
    return {"model_type": "llama_swap", "architectures": ["LlamaSwapForCausalLM"],
            "norm": c.norm, "ffn": c.ffn, "positions": c.positions,
            "hidden_size": c.dim, "intermediate_size": c.hidden_dim, "num_hidden_layers": c.n_layers,
            "num_attention_heads": c.n_heads, "num_key_value_heads": c.n_kv_heads, "head_dim": c.head_dim,
            "vocab_size": c.vocab_size, "max_position_embeddings": c.n_ctx, "rms_norm_eps": c.norm_eps,
            "rope_theta": c.rope_theta, "attention_bias": c.linear_bias, "mlp_bias": c.linear_bias,
            "tie_word_embeddings": c.tied, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}


def as_gpt2(model):
    """The same weights as a transformers GPT2LMHeadModel: Conv1D keeps [in, out], q, k, v are one matrix."""
    from transformers import GPT2Config, GPT2LMHeadModel
    c = model.c
    hf = GPT2LMHeadModel(GPT2Config(
        vocab_size=c.vocab_size, n_positions=c.n_ctx, n_embd=c.dim, n_layer=c.n_layers, n_head=c.n_heads,
        n_inner=c.hidden_dim, activation_function="gelu_new", layer_norm_epsilon=c.norm_eps,
        resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=c.tied))
    w = model.state_dict()
    out = {"wte.weight": w["embed_tokens.weight"], "wpe.weight": w["embed_positions.weight"],
           "ln_f.weight": w["norm.weight"], "ln_f.bias": w["norm.bias"]}
    for i in range(c.n_layers):
        a, b = f"layers.{i}.", f"h.{i}."
        for kind in ("weight", "bias"):
            out[f"{b}ln_1.{kind}"] = w[f"{a}input_layernorm.{kind}"]
            out[f"{b}ln_2.{kind}"] = w[f"{a}post_attention_layernorm.{kind}"]
            qkv = torch.cat([w[f"{a}self_attn.{x}_proj.{kind}"] for x in "qkv"])
            for name, t in (("attn.c_attn", qkv), ("attn.c_proj", w[f"{a}self_attn.o_proj.{kind}"]),
                            ("mlp.c_fc", w[f"{a}mlp.up_proj.{kind}"]),
                            ("mlp.c_proj", w[f"{a}mlp.down_proj.{kind}"])):
                out[f"{b}{name}.{kind}"] = t.T if kind == "weight" else t
    hf.transformer.load_state_dict({k: v.contiguous() for k, v in out.items()})
    if not c.tied:
        hf.lm_head.load_state_dict({"weight": w["lm_head.weight"]})
    return hf.eval()


def as_llama(model):
    """The same weights as a transformers LlamaForCausalLM."""
    from transformers import LlamaConfig, LlamaForCausalLM
    c = model.c
    hf = LlamaForCausalLM(LlamaConfig(
        vocab_size=c.vocab_size, max_position_embeddings=c.n_ctx, hidden_size=c.dim, head_dim=c.head_dim,
        intermediate_size=c.hidden_dim, num_hidden_layers=c.n_layers, num_attention_heads=c.n_heads,
        num_key_value_heads=c.n_kv_heads, rms_norm_eps=c.norm_eps, rope_theta=c.rope_theta,
        bos_token_id=1, eos_token_id=2, tie_word_embeddings=c.tied))
    tensors = llama_tensors(model)
    if c.tied:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    hf.load_state_dict(tensors)
    return hf.eval()


def transformers_twin(model):
    """The transformers model that this combination of switches is, or None for those between."""
    c = model.c
    if (c.norm, c.ffn, c.positions) == ("rmsnorm", "swiglu", "rope"):
        return as_llama(model)
    if (c.norm, c.ffn, c.positions) == ("layernorm", "gelu", "learned") and c.n_kv_heads == c.n_heads:
        return as_gpt2(model)
    return None


@torch.no_grad()
def check_twin(model, tokens):
    """Largest difference of the logits to transformers'; None where transformers has no such model."""
    hf = transformers_twin(model)
    if hf is None:
        return None
    diff = (hf(tokens[None]).logits[0] - model(tokens[None])[0]).abs().max().item()
    if diff > 1e-5:
        sys.exit(f"train_ladder: logits: expected transformers' to 1e-5, found {diff:g}")
    return diff


@torch.no_grad()
def save_directory(model, path, tokens, swap_format=False):
    """config.json, model.safetensors and ref.safetensors (tokens [n] and logits [n, vocab_size])."""
    from safetensors.torch import save_file
    path.mkdir(parents=True, exist_ok=True)
    model.eval()
    diff = check_twin(model, tokens)
    hf = None if swap_format else transformers_twin(model)
    if hf is not None:
        hf.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
    else:
        (path / "config.json").write_text(json.dumps(swap_config(model.c), indent=2) + "\n")
        save_file(llama_tensors(model), path / "model.safetensors", metadata={"format": "pt"})
    save_file({"tokens": tokens.int(), "logits": model(tokens[None])[0].contiguous()},
              path / "ref.safetensors")
    return diff


def fixtures(args):
    """All 16 combinations of the switches, with random weights large enough that every part matters."""
    combinations = itertools.product(("layernorm", "rmsnorm"), ("gelu", "swiglu"), ("learned", "rope"),
                                     ("mha", "gqa"))
    for seed, (norm, ffn, positions, attention) in enumerate(combinations):
        name = "_".join(({"layernorm": "ln", "rmsnorm": "rms"}[norm], ffn, positions, attention))
        c = Config(dim=16, hidden_dim=12, n_layers=2, n_heads=4, n_kv_heads=4 if attention == "mha" else 2,
                   head_dim=4, vocab_size=48, n_ctx=16, norm=norm, ffn=ffn, positions=positions,
                   tied=(positions, attention) != ("rope", "gqa"))
        torch.manual_seed(seed)
        model = Model(c)
        for p in model.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=1.0 / math.sqrt(p.shape[1]) if p.shape[0] != c.vocab_size else 0.7)
            else:
                p.data = p.data + 0.3 * torch.randn(p.shape)
        tokens = torch.randint(0, c.vocab_size, (12,))
        diff = save_directory(model, Path(args.output) / name, tokens, swap_format=True)
        print(name, f"{count_parameters(c)} parameters",
              "" if diff is None else f"transformers differs by {diff:.1e}")
        if name == "ln_gelu_learned_mha":  # the same model as transformers saves it
            save_directory(model, Path(args.output) / "gpt2", tokens)


def load_run(run, work):
    model = Model(config_of(run.name))
    model.load_state_dict(torch.load(Path(work) / f"{run.tag}.pt")["model"])
    return model.eval()


def average(a, b, share):
    """Between the weights of two runs: what the second one forgot comes back, what it learned stays."""
    other = b.state_dict()
    a.load_state_dict({k: v.lerp(other[k], share) for k, v in a.state_dict().items()})
    return a


@torch.no_grad()
def calibrate(model, text):
    """Temperature scaling (Guo et al. 2017, arXiv:1706.04599, section 4.2): who has read a text many times is too
    sure of himself. The logits are divided by the temperature that is best for the first half of the validation split, by
    way of the last norm, whose weight they are proportional to. Returns the temperature."""
    model.eval()
    n = model.c.n_ctx
    rows = text.val[:len(text.val) // 2 // n * n].view(-1, n)
    logits = torch.cat([model(row[None])[0, :-1] for row in rows])
    target = rows[:, 1:].reshape(-1)
    temperature = min((t / 100 for t in range(50, 200)), key=lambda t: F.cross_entropy(logits / t, target).item())
    model.norm.weight.div_(temperature)
    return temperature


def permute_pairs(w, heads):
    """Rows of q or k from half-split order to adjacent pairs, as GGUF's llama has them."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).transpose(1, 2).reshape(w.shape)


def export_gguf(model, tokenizer, path):
    """A GGUF file with Q8_0 matrices, F32 norms and the sentencepiece vocabulary inside. Returns the
    model with the weights that a reader gets back."""
    import gguf
    import sentencepiece as spm
    c, sp = model.c, spm.SentencePieceProcessor(model_file=str(tokenizer))
    w = gguf.GGUFWriter(str(path) + ".tmp", "llama")
    w.add_name("Shakespeare LLaMA")
    w.add_license("MIT")
    w.add_context_length(c.n_ctx)
    w.add_embedding_length(c.dim)
    w.add_block_count(c.n_layers)
    w.add_feed_forward_length(c.hidden_dim)
    w.add_head_count(c.n_heads)
    w.add_head_count_kv(c.n_kv_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_rope_freq_base(c.rope_theta)
    w.add_layer_norm_rms_eps(c.norm_eps)
    w.add_vocab_size(c.vocab_size)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    kinds = gguf.TokenType
    ids = range(sp.vocab_size())
    w.add_tokenizer_model("llama")
    w.add_token_list([sp.id_to_piece(i).encode() for i in ids])
    w.add_token_scores([sp.get_score(i) for i in ids])
    w.add_token_types([kinds.UNKNOWN if sp.is_unknown(i) else kinds.CONTROL if sp.is_control(i)
                       else kinds.BYTE if sp.is_byte(i) else kinds.NORMAL for i in ids])
    w.add_bos_token_id(sp.bos_id())
    w.add_eos_token_id(sp.eos_id())
    w.add_unk_token_id(sp.unk_id())
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(False)
    names = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    for i in range(c.n_layers):
        for ours, theirs in (("input_layernorm", "attn_norm"), ("self_attn.q_proj", "attn_q"),
                             ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
                             ("self_attn.o_proj", "attn_output"), ("post_attention_layernorm", "ffn_norm"),
                             ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
                             ("mlp.down_proj", "ffn_down")):
            names[f"layers.{i}.{ours}.weight"] = f"blk.{i}.{theirs}.weight"
    read_back = {}
    for name, p in model.state_dict().items():
        t = p.float()
        if t.dim() == 1:
            w.add_tensor(names[name], t.numpy())
            read_back[name] = t
            continue
        q8 = gguf.GGMLQuantizationType.Q8_0
        read_back[name] = torch.from_numpy(gguf.dequantize(gguf.quantize(t.numpy(), q8), q8))
        heads = {"q_proj": c.n_heads, "k_proj": c.n_kv_heads}.get(name.split(".")[-2])
        stored = permute_pairs(t, heads).contiguous() if heads else t
        w.add_tensor(names[name], gguf.quantize(stored.numpy(), q8), raw_dtype=q8)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(str(path) + ".tmp", path)
    quantized = Model(c)
    quantized.load_state_dict(read_back)
    return quantized.eval()


def join_losses(runs, work, path):
    """The curves of the runs one after the other, in one CSV."""
    step = tokens = 0
    with open(path, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        for k, run in enumerate(runs):
            with open(Path(work) / f"{run.tag}.csv", newline="") as g:
                header, *rows = list(csv.reader(g))
            if k == 0:
                w.writerow(header)
            w.writerows([step + int(r[0]), tokens + int(r[1]), *r[2:]] for r in rows)
            step, tokens = step + int(rows[-1][0]), tokens + int(rows[-1][1])


def export(args):
    """Finished runs -> weights/: the rungs as directories, the default as GGUF, losses as CSV."""
    import shutil
    out, text = Path(args.output), load_text(args.data, args.work)
    (out / "losses").mkdir(parents=True, exist_ok=True)
    table = json.loads((out / "losses/runs.json").read_text()) if (out / "losses/runs.json").exists() else {}
    for name in args.names:
        first = first_run(name, args.work)
        runs = [first] if name != "default" else [first, second_run(first)]
        results = [run and result_of(run, args.work) for run in runs]
        if not all(runs) or not all(results):
            print(f"{name}: not finished, left out")
            continue
        model = load_run(first, args.work)
        if name == "default":
            model = average(model, load_run(runs[1], args.work), SECOND_SHARE)
            average_val, temperature = evaluate(model, text), calibrate(model, text)
        tokens = text.val[:8]
        join_losses(runs, args.work, out / f"losses/{name}.csv")
        row = {"params": results[0]["params"], "config": results[0]["config"],
               "tokens": sum(r["tokens"] for r in results),
               "runs": [{k: v for k, v in r.items() if k not in ("name", "config", "params")} for r in results]}
        if name == "default":
            diff = check_twin(model, tokens)
            quantized = export_gguf(model, Path(args.work) / "tokenizer.model", out / "shakespeare.gguf")
            row["average_val_bits_per_byte"] = round(average_val, 5)
            row["temperature"] = temperature
            row["val_bits_per_byte"] = round(evaluate(model, text), 5)
            row["q8_0_val_bits_per_byte"] = round(evaluate(quantized, text), 5)
        else:
            diff = save_directory(model, out / name, tokens)
            shutil.copy(Path(args.work) / "tokenizer.model", out / name / "tokenizer.model")
            row["val_bits_per_byte"] = results[0]["val_bits_per_byte"]
            row["sweep"] = {f"{r.lr:g}": result_of(r, args.work)["val_bits_per_byte"]
                            for r in sweep_runs(name)}
        row["transformers_max_diff"] = diff
        table[name] = row
        print(name, json.dumps({k: v for k, v in row.items() if k != "config"}))
    (out / "losses/runs.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    for name, about in (("all", "train the rungs (and default), several at a time"), ("train", "one run")):
        q = sub.add_parser(name, help=about)
        q.add_argument("--data", required=True, help="text file; its last 10 %% validates")
        q.add_argument("--work", default=str(ROOT / "build/ladder"), help="where runs keep their state")
        q.add_argument("--threads", type=int, default=1, help="threads of one run")
        if name == "all":
            q.add_argument("--jobs", type=int, default=2, help="runs at a time")
            q.add_argument("names", nargs="*", default=["default", "rung0", "rung4", "rung1", "rung2", "rung3"])
        else:
            q.add_argument("name")
            q.add_argument("--lr", type=float, required=True)
            q.add_argument("--steps", type=int, default=STEPS)
            q.add_argument("--warmup", type=int, default=50)
            q.add_argument("--dropout", type=float, default=0.1)
            q.add_argument("--start", default="", help="tag of the run to go on from")
            q.add_argument("--rename", type=float, default=0.0, help="share of speakers under invented names")
    q = sub.add_parser("export", help="finished runs into weights/")
    q.add_argument("--data", required=True)
    q.add_argument("--work", default=str(ROOT / "build/ladder"))
    q.add_argument("-o", "--output", default=str(ROOT / "weights"))
    q.add_argument("names", nargs="*", default=["default", *ladder()])
    q = sub.add_parser("fixtures", help="tiny random models of all 16 combinations")
    q.add_argument("-o", "--output", default=str(ROOT / "tests/fixtures/ladder"))
    args = p.parse_args()
    if args.command in ("export", "fixtures"):
        return {"export": export, "fixtures": fixtures}[args.command](args)
    Path(args.work).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    if args.command == "all":
        train_all(args)
    else:
        run = Run(args.name, args.lr, args.steps, dropout=args.dropout, warmup=args.warmup,
                  start=args.start, rename=args.rename)
        train(run, load_text(args.data, args.work), args.work)


if __name__ == "__main__":
    main()

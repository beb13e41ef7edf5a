"""ladder_model - GPT-2, LLaMA and what lies between, as one PyTorch class: read this file from top to bottom.

The switches are fields of Config: norm, ffn (with biases), positions and n_kv_heads. ladder_train.py trains the models,
weights/ holds them, model.c runs them. Parameter names are those of Hugging Face's Llama, without "model.".
"""
import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F


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
    biases: bool = True         # of the linear layers; they leave before swap 2
    ffn: str = "gelu"           # swap 2: gelu | swiglu
    positions: str = "learned"  # swap 3: learned | rope; to compare with: none | sinusoidal | alibi
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    tied: bool = True


class RMSNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + eps) * weight (arXiv:1910.07467, equation 4)."""

    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def make_norm(c):
    return nn.LayerNorm(c.dim, c.norm_eps) if c.norm == "layernorm" else RMSNorm(c.dim, c.norm_eps)


def rope_table(c, n):
    """cos and sin [n, head_dim] of RoFormer (arXiv:2104.09864) in the half-split order."""
    inv_freq = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
    angle = torch.outer(torch.arange(n, dtype=torch.float64), inv_freq)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [batch, heads, n, head_dim]: pair i is (x[i], x[i + head_dim / 2])."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def sinusoid_table(c, n):
    """[n, dim]: sin and cos of n * 10000^(-2i / dim) in turn (arXiv:1706.03762, section 3.5)."""
    inv_freq = 10000.0 ** (-torch.arange(0, c.dim, 2, dtype=torch.float64) / c.dim)
    angle = torch.outer(torch.arange(n, dtype=torch.float64), inv_freq)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2).float()


def attention_bias(c, n):
    """[heads, n, n], added to the scores: -inf after the query's position; before it 0, or with ALiBi
    -2^(-8 (h + 1) / heads) for each token of distance (arXiv:2108.12409, section 3)."""
    position = torch.arange(n)
    distance = position[:, None] - position
    slope = torch.zeros(c.n_heads)
    if c.positions == "alibi":
        slope = 2.0 ** (-8.0 * torch.arange(1, c.n_heads + 1) / c.n_heads)
    bias = -slope[:, None, None] * distance.clamp(min=0)
    return bias.masked_fill(distance < 0, -math.inf)


class Attention(nn.Module):
    """softmax(q k^T / sqrt(head_dim)) v; KV head h // (n_heads / n_kv_heads) serves query head h (arXiv:2305.13245)."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        q, kv = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
        self.q_proj = nn.Linear(c.dim, q, bias=c.biases)
        self.k_proj = nn.Linear(c.dim, kv, bias=c.biases)
        self.v_proj = nn.Linear(c.dim, kv, bias=c.biases)
        self.o_proj = nn.Linear(q, c.dim, bias=c.biases)

    def qkv(self, x, rope):
        """x [batch, n, dim] -> q [batch, n_heads, n, head_dim], k and v [batch, n_kv_heads, n, head_dim]."""
        c = self.c
        q, k, v = (proj(x).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)
                   for proj in (self.q_proj, self.k_proj, self.v_proj))
        if rope is not None:  # queries and keys only
            q, k = rotate(q, *rope), rotate(k, *rope)
        return q, k, v

    def scores(self, x, rope, bias):
        """What the softmax gets [batch, n_heads, n, n]: the text-book form of the fused call in forward."""
        q, k, _ = self.qkv(x, rope)
        k = k.repeat_interleave(self.c.n_heads // self.c.n_kv_heads, dim=1)
        return q @ k.mT / math.sqrt(self.c.head_dim) + bias

    def forward(self, x, rope, bias):
        c = self.c
        q, k, v = self.qkv(x, rope)
        mask = {"attn_mask": bias} if c.positions == "alibi" else {"is_causal": True}
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=c.n_kv_heads != c.n_heads, **mask)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.swiglu = c.ffn == "swiglu"
        if self.swiglu:
            self.gate_proj = nn.Linear(c.dim, c.hidden_dim, bias=c.biases)
        self.up_proj = nn.Linear(c.dim, c.hidden_dim, bias=c.biases)
        self.down_proj = nn.Linear(c.hidden_dim, c.dim, bias=c.biases)

    def forward(self, x):
        if self.swiglu:  # arXiv:2002.05202, equation 6
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return self.down_proj(F.gelu(self.up_proj(x), approximate="tanh"))  # arXiv:1606.08415


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.self_attn = make_norm(c), Attention(c)
        self.post_attention_layernorm, self.mlp = make_norm(c), Mlp(c)

    def forward(self, x, rope, bias, drop):
        x = x + drop(self.self_attn(self.input_layernorm(x), rope, bias))
        return x + drop(self.mlp(self.post_attention_layernorm(x)))


class Model(nn.Module):
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

    def embed(self, tokens):
        """tokens [batch, n] -> x [batch, n, dim], cos and sin of RoPE or None, the mask of the scores or None."""
        c, n = self.c, tokens.shape[1]
        x = self.embed_tokens(tokens)
        if c.positions == "learned":
            table = self.embed_positions.weight
            if n > c.n_ctx:  # stretched: row i of n lies at i * n_ctx / n of the table (arXiv:2306.15595 for learned rows)
                at = torch.arange(n) * (c.n_ctx / n)
                low = at.long()
                high = (low + 1).clamp(max=c.n_ctx - 1)
                table = table[low].lerp(table[high], (at - low)[:, None])
            x = x + table[:n]
        elif c.positions == "sinusoidal":
            x = x * math.sqrt(c.dim) + sinusoid_table(c, n)
        return (x, rope_table(c, n) if c.positions == "rope" else None,
                attention_bias(c, n) if c.positions == "alibi" else None)

    def forward(self, tokens):
        """tokens [batch, n] -> logits [batch, n, vocab_size]."""
        x, rope, bias = self.embed(tokens)
        x = self.drop(x)
        for block in self.layers:
            x = block(x, rope, bias, self.drop)
        head = self.embed_tokens if self.c.tied else self.lm_head
        return F.linear(self.norm(x), head.weight)


DEAD = 0.1  # deviation of the scores


@torch.no_grad()
def liveness(model, tokens):
    """Does each layer attend to anything? For every layer, over tokens [batch, n]: the standard deviation of the
    scores that a query sees, and the entropy of its softmax over the greatest there can be, log(number of keys). A
    layer whose scores deviate by less than DEAD takes the plain mean of the values before it."""
    c, n = model.c, tokens.shape[1]
    x, rope, bias = model.embed(tokens)
    mask = attention_bias(c, n)
    seen = ~torch.ones(n, n, dtype=torch.bool).triu(1)
    count = seen.sum(-1).double()
    rows = []
    for layer, block in enumerate(model.layers):
        s = block.self_attn.scores(block.input_layernorm(x), rope, mask).double()
        p = s.softmax(-1)
        entropy = -(p * p.clamp(min=1e-300).log()).sum(-1)[..., 1:] / count[1:].log()
        s = s.masked_fill(~seen, 0)
        variance = (s ** 2).sum(-1) / count - (s.sum(-1) / count) ** 2
        rows.append({"layer": layer, "score_std": round(variance[..., 1:].clamp(min=0).mean().sqrt().item(), 4),
                     "entropy": round(entropy.mean().item(), 4),
                     "norm_weight": round(block.input_layernorm.weight.abs().mean().item(), 4)})
        x = block(x, rope, bias, lambda y: y)
    return rows


def count_parameters(c):
    with torch.device("meta"):  # shapes without memory
        return sum(p.numel() for p in Model(c).parameters())


# ---- the rungs ---------------------------------------------------------------------------------------

@lru_cache(None)
def ladder():
    """Each rung is the one before it with one field changed, and hidden_dim chosen so that the number of parameters
    stays (multiples of 8, within 1 % of rung 0). The biases are too few for that and leave alone."""
    rungs = {"rung0": Config()}
    for name, swap in (("rung1", {"norm": "rmsnorm"}), ("rung1b", {"biases": False}), ("rung2", {"ffn": "swiglu"}),
                       ("rung3", {"positions": "rope"}), ("rung4", {"n_kv_heads": 2})):
        c = replace(list(rungs.values())[-1], **swap)
        target = count_parameters(rungs["rung0"])
        if name not in ("rung1", "rung1b"):
            c = replace(c, hidden_dim=min(range(128, 1025, 8), key=lambda h: abs(
                count_parameters(replace(c, hidden_dim=h)) - target)))
        rungs[name] = c
    return rungs


def bakeoff():
    """Rung 3 with its positions in five other ways, and RoPE under GELU; learned positions are rung 2."""
    rung3 = ladder()["rung3"]
    return {**{name: replace(rung3, positions=name) for name in ("none", "sinusoidal", "alibi")},
            "gelu-rope": replace(ladder()["rung1b"], positions="rope")}


DEFAULT = Config(dim=256, hidden_dim=640, n_layers=6, n_heads=8, n_kv_heads=4, head_dim=32,
                 norm="rmsnorm", biases=False, ffn="swiglu", positions="rope")


def config_of(name):
    return {"default": DEFAULT, **ladder(), **bakeoff()}[name]

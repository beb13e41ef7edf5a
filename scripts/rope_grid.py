#!/usr/bin/env python3
"""Write tests/fixtures/rope_grid.json: transformers' own frequencies and attention factor under every scaling rule.

    python3 scripts/rope_grid.py [OUT]

Needs torch and transformers. Each table is {name, config, seq_len, attention_scaling, inv_freq}: `config` is what a
config.json would say, `inv_freq` what transformers computes from it (float32) for a sequence of seq_len tokens.
"""
import json
import sys

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.phi.modeling_phi import PhiRotaryEmbedding

ORIGINAL = 2048


def rules(factor, pairs):
    """name, the rope_scaling dictionary, lengths of the sequence that matter"""
    longer = [round(1 + (factor - 1) * i / max(1, pairs - 1), 4) for i in range(pairs)]
    shorter = [round(1 + 0.05 * i / pairs, 4) for i in range(pairs)]
    original = {"original_max_position_embeddings": ORIGINAL}
    yield "linear", {"rope_type": "linear", "factor": factor}, [None]
    yield "dynamic", {"rope_type": "dynamic", "factor": factor}, [ORIGINAL, 3 * ORIGINAL]
    yield "yarn", {"rope_type": "yarn", "factor": factor, **original}, [None]
    yield "yarn-untruncated", {"rope_type": "yarn", "factor": factor, "truncate": False, "beta_fast": 16.0,
                               "beta_slow": 2.0, **original}, [None]
    yield "yarn-mscale", {"rope_type": "yarn", "factor": factor, "mscale": 1.0, "mscale_all_dim": 0.7, **original}, [None]
    yield "yarn-attention", {"rope_type": "yarn", "factor": factor, "attention_factor": 1.25, **original}, [None]
    yield "llama3", {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     **original}, [None]
    yield "longrope", {"rope_type": "longrope", "factor": factor, "short_factor": shorter, "long_factor": longer,
                       **original}, [ORIGINAL, ORIGINAL + 1]


def table(name, head_dim, theta, scaling, seq_len, partial=None):
    config = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim, "rope_theta": theta,
              "max_position_embeddings": ORIGINAL if scaling and scaling["rope_type"] == "dynamic" else 4 * ORIGINAL}
    if partial:
        config["partial_rotary_factor"] = partial
    if scaling:
        config["rope_scaling"] = scaling
    c = LlamaConfig(**json.loads(json.dumps(config)))
    if scaling:
        inv_freq, scale = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](c, None, seq_len=seq_len)
    else:
        rope = PhiRotaryEmbedding(c)  # as Llama's, and it knows partial rotary
        inv_freq, scale = rope.inv_freq, rope.attention_scaling
    return {"name": name, "config": config, "seq_len": seq_len, "attention_scaling": float(scale),
            "inv_freq": [float(f"{x:.8g}") for x in inv_freq.tolist()]}


tables = []
for head_dim in (32, 64, 128, 256):
    for theta in (1e4, 1e5, 1e6):
        tables.append(table(f"default d{head_dim} theta{theta:g}", head_dim, theta, None, None))
        # The larger heads are checked at fewer factors: the file stays small, every rule meets every width.
        for factor in {32: (1.0, 2.5, 8.0, 40.0), 64: (4.0, 40.0), 128: (8.0,), 256: (40.0,)}[head_dim]:
            for name, scaling, lengths in rules(factor, head_dim // 2):
                if head_dim > 64 and (name.startswith("yarn-") or (name == "longrope" and theta != 1e5)):
                    continue
                for seq_len in lengths:
                    tables.append(table(f"{name} d{head_dim} theta{theta:g} factor{factor:g} length{seq_len}",
                                        head_dim, theta, scaling, seq_len))
for partial in (0.25, 0.5, 0.75):
    for name, scaling, lengths in [("default", None, [None]), *rules(4.0, int(64 * partial) // 2)]:
        tables.append(table(f"partial {partial} {name}", 64, 1e4, scaling, lengths[-1], partial))

out = sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/rope_grid.json"
with open(out, "w") as f:
    f.write('{"about": "scripts/rope_grid.py", "tables": [\n')
    f.write(",\n".join(json.dumps(t, separators=(",", ":")) for t in tables))
    f.write("\n]}\n")
print(f"{len(tables)} tables in {out}")

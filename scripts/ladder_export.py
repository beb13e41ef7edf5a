#!/usr/bin/env python3
"""ladder_export - finished runs of ladder_train.py into weights/, and the random models of tests/fixtures/ladder.

    ladder_export.py export --data tinyshakespeare.txt    runs -> weights/: models and losses
    ladder_export.py fixtures                             tiny random models of all 16 combinations of the switches

Needs torch, transformers, safetensors, sentencepiece and gguf.
"""
import argparse
import csv
import itertools
import json
import math
import os
import shutil
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from ladder_model import Config, Model, config_of, count_parameters
from ladder_train import SECOND_SHARE, SHIPPED, evaluate, load_text, result_of, shipped_runs

ROOT = Path(__file__).resolve().parent.parent


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
            "rope_theta": c.rope_theta, "attention_bias": c.biases, "mlp_bias": c.biases,
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
    if (c.norm, c.ffn, c.positions, c.biases) == ("rmsnorm", "swiglu", "rope", False):
        return as_llama(model)
    if (c.norm, c.ffn, c.positions, c.biases, c.n_kv_heads) == ("layernorm", "gelu", "learned", True, c.n_heads):
        return as_gpt2(model)
    return None


@torch.no_grad()
def check_twin(model, tokens):
    """Largest difference of the logits to transformers'; None where transformers has no such model."""
    hf = transformers_twin(model)
    if hf is None:
        return None
    logits = model(tokens[None])[0]
    diff, largest = (hf(tokens[None]).logits[0] - logits).abs().max().item(), logits.abs().max().item()
    if diff > 1e-6 * max(10, largest):  # some roundings of a float32 of this size
        sys.exit(f"ladder_export: logits: expected transformers' to a millionth of {largest:g}, found {diff:g}")
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
                   head_dim=4, vocab_size=48, n_ctx=16, norm=norm, biases=ffn == "gelu", ffn=ffn, positions=positions,
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


def run_row(r):
    """What of a result goes into runs.json; the model's size and shape stand there once."""
    return {k: v for k, v in r.items() if k not in ("name", "config", "params")}


def export_default(text, args, out):
    """The average of the two runs, at the best temperature, as GGUF; its row of runs.json, or None."""
    runs = shipped_runs("default")
    results = [result_of(run, args.work) for run in runs]
    if not all(results):
        return None
    model = average(load_run(runs[0], args.work), load_run(runs[1], args.work), SECOND_SHARE)
    average_val, temperature = evaluate(model, text), calibrate(model, text)
    diff = check_twin(model, text.val[:8])
    quantized = export_gguf(model, Path(args.work) / "tokenizer.model", out / "shakespeare.gguf")
    join_losses(runs, args.work, out / "losses/default.csv")
    return {"params": results[0]["params"], "config": results[0]["config"],
            "tokens": sum(r["tokens"] for r in results), "runs": [run_row(r) for r in results],
            "average_val_bits_per_byte": round(average_val, 5), "temperature": temperature,
            "val_bits_per_byte": round(evaluate(model, text), 5),
            "q8_0_val_bits_per_byte": round(evaluate(quantized, text), 5), "transformers_max_diff": diff}


def export_rung(name, text, args, out):
    """The directory of a rung, and its row of runs.json, or None."""
    run, = shipped_runs(name)
    result = result_of(run, args.work)
    if not result:
        return None
    diff = save_directory(load_run(run, args.work), out / name, text.val[:8])
    shutil.copy(Path(args.work) / "tokenizer.model", out / name / "tokenizer.model")
    join_losses([run], args.work, out / f"losses/{name}.csv")
    return {"params": result["params"], "config": result["config"], "tokens": result["tokens"],
            "runs": [run_row(result)], "val_bits_per_byte": result["val_bits_per_byte"], "transformers_max_diff": diff}


def export(args):
    """Finished runs -> weights/: the rungs as directories, the default as GGUF, losses as CSV."""
    out, text = Path(args.output), load_text(args.data, args.work)
    (out / "losses").mkdir(parents=True, exist_ok=True)
    table = json.loads((out / "losses/runs.json").read_text()) if (out / "losses/runs.json").exists() else {}
    for name in args.names:
        row = export_default(text, args, out) if name == "default" else export_rung(name, text, args, out)
        if row is None:
            print(f"{name}: not finished, left out")
            continue
        table[name] = row
        print(name, json.dumps({k: v for k, v in row.items() if k not in ("config", "runs")}))
    (out / "losses/runs.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    q = sub.add_parser("export", help="finished runs into weights/")
    q.add_argument("--data", required=True)
    q.add_argument("--work", default=str(ROOT / "build/ladder-runs"))
    q.add_argument("-o", "--output", default=str(ROOT / "weights"))
    q.add_argument("names", nargs="*", default=SHIPPED)
    q = sub.add_parser("fixtures", help="tiny random models of all 16 combinations")
    q.add_argument("-o", "--output", default=str(ROOT / "tests/fixtures/ladder"))
    args = p.parse_args()
    {"export": export, "fixtures": fixtures}[args.command](args)


if __name__ == "__main__":
    main()

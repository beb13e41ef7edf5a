#!/usr/bin/env python3
"""Every intermediate of a forward pass as transformers computes it: float32, eager attention, by hooks.

    hf_reference.py MODEL (--prompt TEXT | --tokens 1,2,3) -o REF.safetensors [--logits-only] [--json]

MODEL is a Hugging Face directory, or a GGUF file (arch llama or gpt2), which is dequantized with the gguf
module and loaded into the transformers class. REF holds, for n tokens:
    tokens            [n] i32
    embed             [n, dim] token embedding (GPT-2: plus the position's)
    layers.I.attn_norm, ffn_norm   [n, dim] output of the norm before attention and before the FFN
    layers.I.q, k, v  [n, heads, head_dim] projections, bias included, before RoPE
    layers.I.q_rot, k_rot          the same after RoPE (absent in GPT-2), half-split order
    layers.I.attn_out [n, dim] output of the output projection
    layers.I.ffn_out  [n, dim] output of the down projection
    layers.I.out      [n, dim] the residual stream after the layer
    final_norm        [n, dim]; logits [n, vocab]
Needs: pip install -r scripts/requirements.txt
"""
import argparse, json, os, pathlib, sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def fail(text):
    sys.exit(f"hf_reference: {text}")


try:
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import save_file
except ImportError as missing:
    fail(f"packages: expected those of scripts/requirements.txt, found no {missing.name}")


def gguf_fields(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def unpermute(w, n_heads):
    """Rows of adjacent pairs (GGUF llama) back to half-split (Hugging Face)."""
    return w.reshape(n_heads, w.shape[0] // n_heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


LLAMA_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GPT2_NAMES = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
              "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def load_gguf(path):
    import gguf
    reader = gguf.GGUFReader(path)
    kv = gguf_fields(reader)
    arch = kv.get("general.architecture")
    if arch not in ("llama", "gpt2"):
        fail(f"{path}: general.architecture: expected llama or gpt2, found {arch}")
    key = lambda name, default=None: kv.get(f"{arch}.{name}", default)
    tensors = {t.name: np.array(gguf.dequantize(t.data, t.tensor_type), dtype=np.float32) for t in reader.tensors}
    heads = key("attention.head_count")
    kv_heads = key("attention.head_count_kv", heads)
    freqs = tensors.pop("rope_freqs.weight", None)
    state = {}
    if arch == "llama":
        theta = key("rope.freq_base", 10000.0)
        scaling = {"rope_type": "default", "rope_theta": theta}
        kind = key("rope.scaling.type", "none")
        if kind != "none":
            scaling = {"rope_type": kind, "rope_theta": theta, "factor": key("rope.scaling.factor")}
            if key("rope.scaling.original_context_length"):
                scaling["original_max_position_embeddings"] = key("rope.scaling.original_context_length")
        config = transformers.LlamaConfig(
            hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
            num_hidden_layers=key("block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
            head_dim=key("attention.key_length", key("embedding_length") // heads),
            max_position_embeddings=key("context_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
            vocab_size=tensors["token_embd.weight"].shape[0], rope_parameters=scaling,
            tie_word_embeddings="output.weight" not in tensors, attention_bias="blk.0.attn_q.bias" in tensors,
            mlp_bias="blk.0.ffn_up.bias" in tensors)
        top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
        names, prefix = LLAMA_NAMES, "model.layers."
        cls = transformers.LlamaForCausalLM
    else:
        config = transformers.GPT2Config(
            n_embd=key("embedding_length"), n_inner=key("feed_forward_length"), n_layer=key("block_count"),
            n_head=heads, n_positions=key("context_length"), layer_norm_epsilon=key("attention.layer_norm_epsilon"),
            vocab_size=tensors["token_embd.weight"].shape[0], tie_word_embeddings="output.weight" not in tensors)
        top = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f",
               "output": "lm_head"}
        names, prefix = GPT2_NAMES, "transformer.h."
        cls = transformers.GPT2LMHeadModel
    for name, w in tensors.items():
        part, kind = name.rsplit(".", 1)
        if part in top:
            state[f"{top[part]}.{kind}"] = w
            continue
        _, layer, part = part.split(".", 2)
        if arch == "llama" and part in ("attn_q", "attn_k"):
            w = unpermute(w, heads if part == "attn_q" else kv_heads)
        if arch == "gpt2" and kind == "weight" and w.ndim == 2:
            w = w.T
        state[f"{prefix}{layer}.{names[part]}.{kind}"] = np.ascontiguousarray(w)
    config._attn_implementation = "eager"
    model = cls(config).float().eval()
    missing, unexpected = model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    missing = [m for m in missing if m != "lm_head.weight" or not config.tie_word_embeddings]
    if missing or unexpected:
        fail(f"{path}: tensors: expected those of {cls.__name__}, found missing {missing[:2]}, unexpected {unexpected[:2]}")
    model.tie_weights()
    if freqs is not None:  # Llama 3.1's bands, carried as one divisor a pair
        model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq / torch.from_numpy(freqs)
    return model


def load(path):
    path = pathlib.Path(path)
    if path.is_dir():
        try:
            return transformers.AutoModelForCausalLM.from_pretrained(
                path, torch_dtype=torch.float32, attn_implementation="eager").float().eval()
        except Exception as e:
            fail(f"{path}: model: expected one that transformers loads, found {str(e).splitlines()[0]}")
    if not path.exists():
        fail(f"{path}: file: expected a model, found none")
    return load_gguf(path)


def capture(model, tokens):
    """-> {name: numpy array} as the module's text says."""
    out, hooks = {}, []

    def keep(name, pick=lambda o: o):
        def hook(_module, _args, output):
            out[name] = pick(output)[0].detach().float().contiguous().numpy().copy()
        return hook

    first = lambda o: o[0] if isinstance(o, tuple) else o
    config = model.config
    gpt2 = config.model_type == "gpt2"
    inner = model.transformer if gpt2 else model.model
    heads = config.num_attention_heads
    d = getattr(config, "head_dim", None) or config.hidden_size // heads

    def keep_heads(name):
        def hook(_module, _args, output):
            x = output[0].detach().float()
            out[name] = x.reshape(x.shape[0], -1, d).contiguous().numpy().copy()
        return hook

    def keep_qkv(prefix):
        def hook(_module, _args, output):
            for name, x in zip("qkv", output[0].detach().float().split(config.hidden_size, dim=-1)):
                out[prefix + name] = x.reshape(x.shape[0], heads, d).contiguous().numpy().copy()
        return hook

    add = lambda module, hook: hooks.append(module.register_forward_hook(hook))
    if gpt2:
        add(inner.drop, keep("embed"))
        add(inner.ln_f, keep("final_norm"))
    else:
        add(inner.embed_tokens, keep("embed"))
        add(inner.norm, keep("final_norm"))
    for i, layer in enumerate(inner.h if gpt2 else inner.layers):
        p = f"layers.{i}."
        add(layer, keep(p + "out", first))
        if gpt2:
            add(layer.ln_1, keep(p + "attn_norm"))
            add(layer.attn.c_attn, keep_qkv(p))
            add(layer.attn.c_proj, keep(p + "attn_out"))
            add(layer.ln_2, keep(p + "ffn_norm"))
        else:
            add(layer.input_layernorm, keep(p + "attn_norm"))
            for name in "qkv":
                add(getattr(layer.self_attn, name + "_proj"), keep_heads(p + name))
            add(layer.self_attn, keep(p + "attn_out", first))
            add(layer.post_attention_layernorm, keep(p + "ffn_norm"))
        add(layer.mlp, keep(p + "ffn_out"))

    module = sys.modules[type(model).__module__]
    original, calls = getattr(module, "apply_rotary_pos_emb", None), [0]

    def watched(q, k, *args, **kwargs):
        q_rot, k_rot = original(q, k, *args, **kwargs)
        for name, x in (("q_rot", q_rot), ("k_rot", k_rot)):
            out[f"layers.{calls[0]}.{name}"] = x[0].detach().float().transpose(0, 1).contiguous().numpy().copy()
        calls[0] += 1
        return q_rot, k_rot

    if original:
        module.apply_rotary_pos_emb = watched
    try:
        with torch.no_grad():
            logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    finally:
        if original:
            module.apply_rotary_pos_emb = original
        for hook in hooks:
            hook.remove()
    out["logits"] = logits.float().contiguous().numpy()
    out["tokens"] = np.array(tokens, dtype=np.int32)
    return out


def encode(path, text):
    path = pathlib.Path(path)
    try:
        if path.is_dir():
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        return tokenizer.encode(text)
    except Exception as e:
        fail(f"{path}: tokenizer: expected one that transformers loads, found {str(e).splitlines()[0]} (give --tokens)")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    text = ap.add_mutually_exclusive_group(required=True)
    text.add_argument("--prompt")
    text.add_argument("--tokens")
    ap.add_argument("-o", "--output")
    ap.add_argument("--logits-only", action="store_true", help="only tokens and logits")
    ap.add_argument("--json", action="store_true", help="tokens and the last position's logits on standard output")
    a = ap.parse_args()
    if not a.output and not a.json:
        ap.error("expected -o or --json")
    model = load(a.model)
    try:
        tokens = encode(a.model, a.prompt) if a.prompt is not None else [int(t) for t in a.tokens.split(",")]
    except ValueError:
        fail(f"--tokens: expected ids like 1,2,3, found {a.tokens}")
    if not tokens or min(tokens) < 0 or max(tokens) >= model.config.vocab_size:
        fail(f"tokens: expected at least one, each below {model.config.vocab_size}, found {tokens[:8]}")
    out = capture(model, tokens)
    if a.output:
        keep = {k: v for k, v in out.items() if not a.logits_only or k in ("tokens", "logits")}
        save_file(keep, a.output, metadata={"transformers": transformers.__version__, "model": pathlib.Path(a.model).name})
        print(f"{a.output}: {len(keep)} tensors of {len(tokens)} tokens", file=sys.stderr)
    if a.json:
        print(json.dumps({"tokens": tokens, "logits": [float(f"{x:.9g}") for x in out["logits"][-1]]}))


if __name__ == "__main__":
    main()

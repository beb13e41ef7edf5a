#!/usr/bin/env python3
"""Every intermediate of a forward pass as transformers computes it: float32, eager attention, by hooks.

    hf_reference.py MODEL (--prompt TEXT | --tokens 1,2,3) -o REF.safetensors [--logits-only] [--json]

MODEL is a Hugging Face directory (or its model.safetensors), a GGUF file (arch llama or gpt2), which is dequantized
with the gguf module and loaded into the transformers class, or llama2.c's .bin (v0, v1, v2). REF holds, for n tokens:
    tokens            [n] i32
    embed             [n, dim] token embedding (GPT-2: plus the position's)
    layers.I.attn_norm, ffn_norm   [n, dim] output of the norm before attention and before the FFN
    layers.I.q, k, v  [n, heads, head_dim] projections, bias included, before RoPE
    layers.I.q_rot, k_rot          the same after RoPE (absent in GPT-2), half-split order
    layers.I.attn_out [n, dim] output of the output projection
    layers.I.router   [n, experts] scores, where there are experts; router_weights: what each counts, 0 if not chosen
    layers.I.ffn_out  [n, dim] output of the down projection, or of all experts
    layers.I.out      [n, dim] the residual stream after the layer
    final_norm        [n, dim]; logits [n, vocab]
Needs: pip install -r scripts/requirements.txt
"""
import argparse, json, os, pathlib, struct, sys

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
transformers.utils.logging.disable_progress_bar()


def gguf_fields(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def unpermute(w, n_heads):
    """Rows of adjacent pairs (GGUF llama) back to half-split (Hugging Face)."""
    return w.reshape(n_heads, w.shape[0] // n_heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def filled(path, cls, config, state):
    """The transformers model of a configuration with exactly these weights."""
    config._attn_implementation = "eager"
    model = cls(config).float().eval()
    try:
        missing, unexpected = model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    except RuntimeError as e:
        fail(f"{path}: tensors: expected the shapes of {cls.__name__}, found {str(e).splitlines()[-1].strip()}")
    missing = [m for m in missing if m != "lm_head.weight" or not config.tie_word_embeddings]
    if missing or unexpected:
        fail(f"{path}: tensors: expected those of {cls.__name__}, found missing {missing[:2]}, unexpected {unexpected[:2]}")
    model.tie_weights()
    return model


LLAMA_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GPT2_NAMES = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
              "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def gguf_rope(path, kv, tensors, head_dim, n_ctx):
    """-> transformers' rope_parameters for what a GGUF says; what cannot be said there is refused."""
    rope = {k.removeprefix("llama.rope."): v for k, v in kv.items() if k.startswith("llama.rope.")}
    out = {"rope_type": rope.pop("scaling.type", "none"), "rope_theta": rope.pop("freq_base", 10000.0)}
    factor, original = rope.pop("scaling.factor", None), rope.pop("scaling.original_context_length", n_ctx)
    rope.pop("scaling.finetuned", None)
    if rope.pop("dimension_count", head_dim) != head_dim:
        fail(f"{path}: llama.rope.dimension_count: expected head_dim, {head_dim}, found partial rotary")
    long, short = (tensors.pop(f"rope_factors_{x}.weight", None) for x in ("long", "short"))
    if out["rope_type"] == "none" and long is None:
        out["rope_type"] = "default"
    elif out["rope_type"] == "linear":
        out["factor"] = factor
    elif out["rope_type"] == "yarn":
        out.update(factor=factor, original_max_position_embeddings=original)
        for name in ("beta_fast", "beta_slow"):
            if f"scaling.yarn_{name}" in rope:
                out[name] = rope.pop(f"scaling.yarn_{name}")
        attention = rope.pop("scaling.attn_factor", rope.pop("scaling.yarn_attn_factor", None))
        if attention is not None:  # llama.cpp multiplies it with YaRN's own
            out["attention_factor"] = attention * (0.1 * np.log(factor) + 1)
    elif long is not None and short is not None:
        out.update(rope_type="longrope", factor=n_ctx / original, original_max_position_embeddings=original,
                   long_factor=long.tolist(), short_factor=short.tolist())
        if "scaling.attn_factor" in rope:
            out["attention_factor"] = rope.pop("scaling.attn_factor")
    else:
        fail(f"{path}: llama.rope.scaling.type: expected none, linear, yarn or longrope with its factors, "
             f"found {out['rope_type']}")
    for key, value in rope.items():
        fail(f"{path}: llama.rope.{key}: expected a key this script knows, found it with {value}")
    return out


def load_gguf(path):
    import gguf
    try:
        reader = gguf.GGUFReader(path)
    except Exception as e:
        fail(f"{path}: file: expected a GGUF, found {e}")
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
        head_dim = key("attention.key_length", key("embedding_length") // heads)
        scaling = gguf_rope(path, kv, tensors, head_dim, key("context_length"))
        config = transformers.LlamaConfig(
            hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
            num_hidden_layers=key("block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
            head_dim=head_dim, max_position_embeddings=key("context_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
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
            vocab_size=tensors["token_embd.weight"].shape[0], tie_word_embeddings="output.weight" not in tensors,
            bos_token_id=None, eos_token_id=None)
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
    model = filled(path, cls, config, state)
    if freqs is not None:  # Llama 3.1's bands, carried as one divisor a pair
        model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq / torch.from_numpy(freqs)
    return model


def load_bin(path):
    """llama2.c's .bin: sizes, then each kind of tensor for all layers; theta 10000 and eps 1e-5 go unsaid.

    v0 has 28 bytes before its f32 tensors, v1 and v2 have 256, and all norms before the matrices. A matrix of v2 is
    int8 values, then an f32 scale for each group of them.
    """
    data = path.read_bytes()
    version, at, head = 0, 28, data[:28]
    if data[:4] == b"24ka":
        version, at, head = int.from_bytes(data[4:8], "little"), 256, data[8:36]
        if version not in (1, 2):
            fail(f"{path}: version: expected 1 or 2, found {version}")
    if len(data) < at:
        fail(f"{path}: header: expected {at} bytes, found {len(data)}")
    sizes = struct.unpack("<7i", head)
    dim, hidden, n_layers, heads, kv_heads, vocab, n_ctx = sizes
    tied, vocab = (data[36] == 1, vocab) if version else (vocab > 0, abs(vocab))
    group = struct.unpack("<i", data[37:41])[0] if version == 2 else 1
    if min(dim, hidden, n_layers, heads, kv_heads, vocab, n_ctx, group) < 1 or dim % heads or dim % group or hidden % group:
        fail(f"{path}: header: expected sizes that go together, found {sizes}" + (f" in groups of {group}" if version == 2 else ""))
    d = dim // heads
    shapes = {"attn_norm": (dim,), "attn_q": (heads * d, dim), "attn_k": (kv_heads * d, dim), "attn_v": (kv_heads * d, dim),
              "attn_output": (dim, heads * d), "ffn_norm": (dim,), "ffn_gate": (hidden, dim), "ffn_down": (dim, hidden),
              "ffn_up": (hidden, dim)}
    state = {}

    def take(kind, n):
        nonlocal at
        at += n * np.dtype(kind).itemsize
        if at > len(data):
            fail(f"{path}: tensors: expected {at} bytes, found {len(data)}")
        return np.frombuffer(data, kind, n, at - n * np.dtype(kind).itemsize)

    def read(name, shape):
        n = int(np.prod(shape))
        if version == 2 and len(shape) == 2:
            values = take("<i1", n).reshape(-1, group).astype(np.float32)
            w = (values * take("<f4", n // group)[:, None]).reshape(shape)
        else:
            w = take("<f4", n).reshape(shape).copy()
        if name.endswith(("q_proj", "k_proj")):
            w = np.ascontiguousarray(unpermute(w, heads if name.endswith("q_proj") else kv_heads))
        state[f"{name}.weight"] = w

    def read_layers(*parts):
        for part in parts:
            for i in range(n_layers):
                read(f"model.layers.{i}.{LLAMA_NAMES[part]}", shapes[part])

    mats = [part for part in shapes if not part.endswith("norm")]
    if version:
        read_layers("attn_norm", "ffn_norm")
        read("model.norm", (dim,))
        read("model.embed_tokens", (vocab, dim))
        read_layers(*mats)
    else:
        read("model.embed_tokens", (vocab, dim))
        read_layers(*shapes)
        read("model.norm", (dim,))
        take("<f4", n_ctx * d)  # cos and sin, which llama2.c itself no longer reads
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    else:
        read("lm_head", (vocab, dim))
    if at != len(data):
        fail(f"{path}: tensors: expected {at} bytes, found {len(data)}")
    return filled(path, transformers.LlamaForCausalLM, transformers.LlamaConfig(
        hidden_size=dim, intermediate_size=hidden, num_hidden_layers=n_layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, vocab_size=vocab, max_position_embeddings=n_ctx, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=tied), state)


def load(path):
    path = pathlib.Path(path)
    if path.suffix == ".safetensors" and (path.parent / "config.json").exists():
        path = path.parent
    if path.is_dir():
        try:
            return transformers.AutoModelForCausalLM.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager").float().eval()
        except Exception as e:
            fail(f"{path}: model: expected one that transformers loads, found {str(e).splitlines()[0]}")
    if not path.exists():
        fail(f"{path}: file: expected a model, found none")
    with open(path, "rb") as f:
        magic = f.read(4)
    if magic == b"GGUF":
        return load_gguf(path)
    if path.suffix == ".bin":
        return load_bin(path)
    fail(f"{path}: file: expected a directory, a GGUF or llama2.c's .bin, found neither")


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
    inner = getattr(model, model.base_model_prefix)
    named = lambda module, *names: next((m for n in names if (m := getattr(module, n, None)) is not None), None)
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

    def keep_router(prefix):  # transformers' routers return the scores, the weights of the chosen experts, and which
        def hook(_module, _args, output):
            scores, weights, chosen = (x.detach().float() for x in output)
            out[prefix + "router"] = scores.contiguous().numpy().copy()
            full = torch.zeros_like(scores).scatter(1, chosen.long(), weights)
            out[prefix + "router_weights"] = full.contiguous().numpy().copy()
        return hook

    def keep_embedding(_module, _args, output):  # Granite multiplies what the module gives
        out["embed"] = (output[0].detach().float() * getattr(config, "embedding_multiplier", 1)).contiguous().numpy().copy()

    def keep_fused(prefix):  # all of q, all of k, all of v
        def hook(_module, _args, output):
            kv = config.num_key_value_heads * d
            for name, x in zip("qkv", output[0].detach().float().split([heads * d, kv, kv], dim=-1)):
                out[prefix + name] = x.reshape(x.shape[0], -1, d).contiguous().numpy().copy()
        return hook

    def add(module, hook):  # what a family does not have is not in the reference
        if module is not None:
            hooks.append(module.register_forward_hook(hook))

    if gpt2:
        add(inner.drop, keep("embed"))
        add(inner.ln_f, keep("final_norm"))
    else:
        add(model.get_input_embeddings(), keep_embedding)
        add(named(inner, "norm", "final_layernorm", "final_layer_norm", "ln_f"), keep("final_norm"))
    at = [0]
    for i, layer in enumerate(named(inner, "layers", "h")):
        p = f"layers.{i}."
        add(layer, keep(p + "out", first))
        if gpt2:
            add(layer.ln_1, keep(p + "attn_norm"))
            add(layer.attn.c_attn, keep_qkv(p))
            add(layer.attn.c_proj, keep(p + "attn_out"))
            add(layer.ln_2, keep(p + "ffn_norm"))
        else:
            attention = named(layer, "self_attn", "attention", "self_attention")
            # Gemma's post_attention_layernorm is of what attention adds, OLMo 2 has no norm before either
            after = named(layer, "post_feedforward_layernorm") is not None
            before_ffn = ["pre_feedforward_layernorm"] + ([] if after else ["post_attention_layernorm", "feedforward_layernorm"])
            add(named(layer, "input_layernorm", "attention_layernorm"), keep(p + "attn_norm"))
            for name in "qkv":
                add(named(attention, name + "_proj"), keep_heads(p + name))
            add(named(attention, "qkv_proj"), keep_fused(p))
            add(attention, keep(p + "attn_out", first))
            add(named(layer, *before_ffn), keep(p + "ffn_norm"))
            hooks.append(attention.register_forward_pre_hook(lambda *_, i=i: at.__setitem__(0, i)))
        mixture = getattr(layer, "block_sparse_moe", None) or getattr(layer, "mlp", None)
        if not getattr(layer, "shared_mlp", None):  # a sum outside of both modules
            add(mixture, keep(p + "ffn_out", first))
        router = getattr(mixture, "router", None) or getattr(mixture, "gate", None)
        if router is not None:
            add(router, keep_router(p))

    module = sys.modules[type(model).__module__]
    original = getattr(module, "apply_rotary_pos_emb", None)

    def watched(q, k, *args, **kwargs):
        q_rot, k_rot = original(q, k, *args, **kwargs)
        for name, x in (("q_rot", q_rot), ("k_rot", k_rot)):
            if x.shape[-1] == d:  # else it has the rotated features alone
                out[f"layers.{at[0]}.{name}"] = x[0].detach().float().transpose(0, 1).contiguous().numpy().copy()
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

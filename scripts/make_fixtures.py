#!/usr/bin/env python3
"""Tiny random models with transformers' logits, each in every format that can say it: tests/fixtures.

    make_fixtures.py [tests/fixtures]
    make_fixtures.py --check          # only reads those that are there back, see check()

Weights are random but wide, so that a mistake (pairing, theta, eps, heads, a bias left out) moves the logits by far
more than the tolerance. Reference logits are computed from the weights as stored (rounded or quantized).
models.tsv has a row for each file: name, path, reference file, tolerance.
"""
import json, pathlib, struct, sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hf_reference import capture, load  # noqa: E402

only_check = sys.argv[1:] == ["--check"]
root = pathlib.Path(sys.argv[1] if sys.argv[1:] and not only_check else pathlib.Path(__file__).parent.parent / "tests/fixtures")
rows = []
Q = gguf.GGMLQuantizationType
BASE = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=64, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2)


def tokens_of(n, vocab=64):
    return [1] + [(i * 29 + i * i * 7 + 5) % vocab for i in range(1, n)]


def randomize(model, seed, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=g)
        if p.ndim == 1:
            x = x * 0.3 + (0 if name.endswith("bias") else 1)
        elif "embed" in name or "wte" in name or "wpe" in name:
            x = x * 0.5  # small, so that the norm's eps shows
        else:
            fan_in = p.shape[0] if "c_" in name else p.shape[1]
            x = x * (1.2 / fan_in ** 0.5)
        p.data = x.to(dtype).float()
    return model.eval()


def llama(seed, dtype=torch.float32, rope=None, **changes):
    config = transformers.LlamaConfig(**{**BASE, **changes}, rope_parameters=rope or {"rope_type": "default",
                                                                                      "rope_theta": 10000.0})
    config._attn_implementation = "eager"
    return randomize(transformers.LlamaForCausalLM(config), seed, dtype)


def family(seed, kind, dtype=torch.float32, **changes):
    """A tiny model of another family: kind names its classes ("Qwen2")."""
    config = getattr(transformers, f"{kind}Config")(**{**BASE, **changes})
    config._attn_implementation = "eager"
    return randomize(getattr(transformers, f"{kind}ForCausalLM")(config), seed, dtype)


def row(name, path, ref, tolerance=1e-4):
    rows.append((name, str(path), ref, f"{tolerance:g}"))


def reference(name, model, n=24, full=False):
    out = capture(model, tokens_of(n))
    keep = out if full else {k: out[k] for k in ("tokens", "logits")}
    save_file(keep, root / f"{name}.ref.safetensors")
    spread = float(out["logits"].std())
    assert spread > 1, (name, spread)
    return f"{name}.ref.safetensors"


NUMPY = {torch.float32: np.float32, torch.float16: np.float16}


def write_hf(name, model, dtype=torch.float32, shards=1, legacy=False):
    """config.json and the weights by hand: transformers 5 would hide rope_theta in rope_parameters only."""
    import safetensors.torch
    d = root / f"{name}_hf"
    d.mkdir(parents=True, exist_ok=True)
    c = json.loads(model.config.to_json_string(use_diff=False))
    wanted = ("architectures model_type hidden_act hidden_size intermediate_size num_hidden_layers num_attention_heads "
              "num_key_value_heads head_dim vocab_size max_position_embeddings rms_norm_eps rope_parameters "
              "tie_word_embeddings attention_bias mlp_bias bos_token_id eos_token_id n_embd n_layer n_head n_positions "
              "n_inner layer_norm_epsilon activation_function use_sliding_window sliding_window max_window_layers").split()
    c = {k: c[k] for k in wanted if k in c}
    c["architectures"] = [type(model).__name__]
    if legacy and "rope_parameters" in c:
        rope = c.pop("rope_parameters")
        c["rope_theta"] = rope.pop("rope_theta")
        if rope["rope_type"] != "default":
            c["rope_scaling"] = rope
    (d / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    state = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
             if not (k == "lm_head.weight" and model.config.tie_word_embeddings)}
    if shards == 1:
        safetensors.torch.save_file(state, d / "model.safetensors", metadata={"format": "pt"})
    else:
        keys, index = sorted(state), {}
        for s in range(shards):
            file = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
            part = keys[s::shards]
            safetensors.torch.save_file({k: state[k] for k in part}, d / file, metadata={"format": "pt"})
            index.update({k: file for k in part})
        (d / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": 0}, "weight_map": index}, indent=1) + "\n")
    return d.name


def permute(w, n_heads):
    """Half-split rows (Hugging Face) to adjacent pairs (llama2.c, GGUF llama)."""
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


GGUF_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
              "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GGUF_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
            "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}


GGUF_ARCH = {"mistral": "llama"}  # where it is not model_type
GGUF_PAIRS = {"llama"}  # architectures whose q and k are reordered for adjacent pairs


def write_gguf(name, model, kind=Q.F32, rope_freqs=None, arch=None):
    """-> file name and the model with its weights as stored."""
    c = model.config
    gpt2 = c.model_type == "gpt2"
    arch = arch or GGUF_ARCH.get(c.model_type, c.model_type)
    pairs = arch in GGUF_PAIRS
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    heads = c.num_attention_heads
    kv_heads = getattr(c, "num_key_value_heads", heads)
    path = root / f"{name}.gguf"
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.n_inner if gpt2 else c.intermediate_size)
    w.add_head_count(heads)
    if gpt2:
        w.add_layer_norm_eps(c.layer_norm_epsilon)
    else:
        w.add_head_count_kv(kv_heads)
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
        rope = c.rope_parameters
        w.add_rope_freq_base(rope["rope_theta"])
        w.add_rope_dimension_count(head_dim)
        if head_dim != c.hidden_size // heads:
            w.add_key_length(head_dim)
            w.add_value_length(head_dim)
        if rope["rope_type"] == "longrope":
            w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
            w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            for which in ("long", "short"):
                w.add_tensor(f"rope_factors_{which}.weight", np.array(rope[f"{which}_factor"], dtype=np.float32))
        elif rope["rope_type"] == "linear":
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(rope["factor"])
        elif rope["rope_type"] == "yarn":
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            w.add_rope_scaling_factor(rope["factor"])
            w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope_freqs is not None:
        w.add_tensor("rope_freqs.weight", rope_freqs)
    stored = {}
    for key, p in model.state_dict().items():
        if key == "lm_head.weight" and c.tie_word_embeddings:
            continue
        part, suffix = key.rsplit(".", 1)
        x = p.numpy()
        layer = None
        if part in GGUF_TOP:
            target = GGUF_TOP[part]
        else:
            pieces = part.split(".")
            layer = pieces[2]
            target = f"blk.{layer}.{GGUF_NAMES['.'.join(pieces[3:])]}"
        n = heads if target.endswith("attn_q") else kv_heads if target.endswith("attn_k") else 0
        if n and pairs:
            x = permute(x, n)
        conv1d = gpt2 and suffix == "weight" and x.ndim == 2 and layer is not None
        if conv1d:
            x = x.T
        x = np.ascontiguousarray(x)
        if x.ndim == 2 and kind != Q.F32:
            data = gguf.quantize(x, kind)
            w.add_tensor(f"{target}.{suffix}", data, raw_dtype=kind)
            x = gguf.dequantize(data, kind).astype(np.float32)
        else:
            w.add_tensor(f"{target}.{suffix}", x)
        if conv1d:
            x = x.T
        if n and pairs:
            x = x.reshape(n, x.shape[0] // n // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        stored[key] = torch.from_numpy(np.ascontiguousarray(x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    as_stored = type(model)(c).eval()
    as_stored.load_state_dict(stored, strict=False)
    as_stored.tie_weights()
    return path.name, as_stored


def split_gguf(name, parts):
    """The tensors of a GGUF over several files, as llama-gguf-split makes them: the keys are in the first."""
    source = gguf.GGUFReader(root / f"{name}.gguf")
    n = len(source.tensors)
    for i in range(parts):
        w = gguf.GGUFWriter(root / f"{name}_split-{i + 1:05d}-of-{parts:05d}.gguf", source.fields["general.architecture"].contents())
        for key, field in source.fields.items() if i == 0 else ():
            if not key.startswith("GGUF.") and key != "general.architecture":
                w.add_key_value(key, field.contents(), field.types[0])
        w.add_key_value("split.no", i, gguf.GGUFValueType.UINT16)
        w.add_key_value("split.count", parts, gguf.GGUFValueType.UINT16)
        w.add_key_value("split.tensors.count", n, gguf.GGUFValueType.INT32)
        for t in source.tensors[i * n // parts:(i + 1) * n // parts]:
            w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
    return f"{name}_split-00001-of-{parts:05d}.gguf"


def write_bin(name, model, version, group=32):
    """llama2.c's .bin; -> file name and the model with its weights as stored."""
    c = model.config
    s = model.state_dict()
    layers = range(c.num_hidden_layers)
    lay = lambda part: [f"model.layers.{i}.{part}.weight" for i in layers]
    wq, wk, wv, wo = (lay(f"self_attn.{x}_proj") for x in "qkvo")
    w1, w2, w3 = lay("mlp.gate_proj"), lay("mlp.down_proj"), lay("mlp.up_proj")
    n1, n2 = lay("input_layernorm"), lay("post_attention_layernorm")
    emb, final, head = ["model.embed_tokens.weight"], ["model.norm.weight"], ["lm_head.weight"]
    tied = c.tie_word_embeddings
    stored = {}

    def rows_of(key):
        x = s[key].numpy()
        n = c.num_attention_heads if key in wq else c.num_key_value_heads if key in wk else 0
        return (permute(x, n) if n else x), n

    def plain(f, keys):
        for key in keys:
            x, _ = rows_of(key)
            f.write(np.ascontiguousarray(x, dtype="<f4").tobytes())
            stored[key] = s[key]

    def quantized(f, keys):
        for key in keys:
            x, n = rows_of(key)
            g = np.ascontiguousarray(x).reshape(-1, group)
            scale = (np.abs(g).max(1) / 127).astype(np.float32)
            q = np.round(g / scale[:, None]).astype(np.int8)
            f.write(q.tobytes() + scale.astype("<f4").tobytes())
            x = (q.astype(np.float32) * scale[:, None]).reshape(x.shape)
            if n:
                x = x.reshape(n, x.shape[0] // n // 2, 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
            stored[key] = torch.from_numpy(np.ascontiguousarray(x))

    ints = [c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads,
            c.vocab_size, c.max_position_embeddings]
    path = root / f"{name}.bin"
    with open(path, "wb") as f:
        if version == 0:
            ints[5] *= 1 if tied else -1
            f.write(struct.pack("<7i", *ints))
            plain(f, emb + n1 + wq + wk + wv + wo + n2 + w1 + w2 + w3 + final)
            f.write(b"\0" * (4 * c.max_position_embeddings * c.head_dim))
            plain(f, [] if tied else head)
        else:
            header = struct.pack("<2I7iB", 0x616b3432, version, *ints, tied)
            if version == 2:
                header += struct.pack("<i", group)
            f.write(header.ljust(256, b"\0"))
            plain(f, n1 + n2 + final)
            (plain if version == 1 else quantized)(f, emb + wq + wk + wv + wo + w1 + w2 + w3 + ([] if tied else head))
    as_stored = type(model)(c).eval()
    as_stored.load_state_dict(stored, strict=False)
    as_stored.tie_weights()
    return path.name, as_stored


def architecture(path):
    return gguf.GGUFReader(path).fields["general.architecture"].contents()


def check():
    """The files say what their references were computed from: read each back through hf_reference's own reader."""
    lines = (root / "models.tsv").read_text().splitlines()[1:]
    lines = [line.split("\t") for line in lines]
    lines = [line for line in lines if line[0] not in ("qkv_bias_gguf", "base_split") and  # no class has exactly these biases
             (not line[1].endswith(".gguf") or architecture(root / line[1]) in ("llama", "gpt2"))]
    for name, path, ref, _ in lines:
        expected = load_file(root / ref)
        found = capture(load(root / path), expected["tokens"].tolist())["logits"]
        worst = np.abs(found - expected["logits"]).max()
        assert worst < 2e-5, (name, worst)
    print(f"{len(lines)} files say what their references were computed from")


def main():
    root.mkdir(parents=True, exist_ok=True)
    # one model in all three formats, with every intermediate
    m = llama(1, num_key_value_heads=2)
    ref = reference("base", m, full=True)
    row("base_hf", write_hf("base", m), ref)
    row("base_gguf", write_gguf("base", m)[0], ref)
    for version in (0, 1):
        row(f"base_bin_v{version}", write_bin(f"base_v{version}", m, version)[0], ref)
    path, stored = write_bin("base_v2", m, 2)
    row("base_bin_v2", path, reference("base_v2", stored))
    for kind in (Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1):
        name = f"base_{kind.name.lower()}"
        path, stored = write_gguf(name, m, kind)
        row(name, path, reference(name, stored))
    row("base_split", split_gguf("base_q4_1", 3), "base_q4_1.ref.safetensors")
    # heads, tied heads, thetas, eps, types
    m = llama(2, torch.bfloat16, {"rope_type": "default", "rope_theta": 500000.0}, num_key_value_heads=4,
              tie_word_embeddings=True, rms_norm_eps=1e-6)
    ref = reference("mha_tied", m)
    row("mha_tied_hf", write_hf("mha_tied", m, torch.bfloat16), ref)
    row("mha_tied_gguf", write_gguf("mha_tied", m, Q.BF16)[0], ref)
    m = llama(3, torch.float16, {"rope_type": "default", "rope_theta": 1000000.0}, num_key_value_heads=1, head_dim=16,
              rms_norm_eps=1e-3)
    ref = reference("mqa_head_dim", m)
    row("mqa_head_dim_hf", write_hf("mqa_head_dim", m, torch.float16, shards=2, legacy=True), ref)
    row("mqa_head_dim_gguf", write_gguf("mqa_head_dim", m, Q.F16)[0], ref)
    m = llama(4, tie_word_embeddings=True)
    row("tied_bin_v0", write_bin("tied_v0", m, 0)[0], reference("tied", m))
    m = llama(5, torch.float16, attention_bias=True, mlp_bias=True)
    row("biases_hf", write_hf("biases", m, torch.float16), reference("biases", m))
    # every scaling rule, below and above the original context
    pairs = 4
    rules = {
        "linear": {"factor": 4.0},
        "dynamic": {"factor": 4.0},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        "longrope": {"factor": 4.0, "original_max_position_embeddings": 16, "short_factor": [1.0, 1.1, 1.2, 1.3],
                     "long_factor": [1.0, 1.5, 2.5, 4.0]},
    }
    for i, (rule, extra) in enumerate(rules.items()):
        m = llama(10 + i, torch.float16, {"rope_type": rule, "rope_theta": 1000.0, **extra},
                  max_position_embeddings=16 if rule == "dynamic" else 64)
        ref = reference(f"rope_{rule}", m, 16), reference(f"rope_{rule}_long", m, 48)
        path = write_hf(f"rope_{rule}", m, torch.float16, legacy=i % 2 == 0)
        row(f"rope_{rule}_hf", path, ref[0])
        row(f"rope_{rule}_hf_long", path, ref[1])
        if rule in ("linear", "yarn", "longrope"):
            path = write_gguf(f"rope_{rule}", m, Q.F16)[0]
        elif rule == "llama3":
            plain = llama(10 + i, torch.float16, {"rope_type": "default", "rope_theta": 1000.0})
            freqs = 1000.0 ** (-np.arange(0, 2 * pairs, 2) / (2 * pairs))
            divisor = (freqs / m.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
            path = write_gguf(f"rope_{rule}", plain, Q.F16, rope_freqs=divisor)[0]
        else:
            continue
        row(f"rope_{rule}_gguf", path, ref[0])
        row(f"rope_{rule}_gguf_long", path, ref[1])
    # another family: biases on q, k and v only, GGUF in half-split pairs; and as a GGUF llama
    m = family(30, "Qwen2", torch.float16, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
    ref = reference("qwen2", m)
    row("qwen2_hf", write_hf("qwen2", m, torch.float16), ref)
    row("qwen2_gguf", write_gguf("qwen2", m, Q.F16)[0], ref)
    row("qkv_bias_gguf", write_gguf("qkv_bias", m, Q.F16, arch="llama")[0], ref)
    # GPT-2
    config = transformers.GPT2Config(n_embd=32, n_inner=48, n_layer=2, n_head=4, n_positions=32, vocab_size=64,
                                     bos_token_id=1, eos_token_id=2)
    config._attn_implementation = "eager"
    m = randomize(transformers.GPT2LMHeadModel(config), 20)
    ref = reference("gpt2", m, full=True)
    row("gpt2_hf", write_hf("gpt2", m), ref)
    row("gpt2_gguf", write_gguf("gpt2", m)[0], ref)
    for p in root.glob("*.safetensors"):
        p.chmod(0o644)
    with open(root / "models.tsv", "w") as f:
        f.write("# name\tpath\treference\ttolerance (made by scripts/make_fixtures.py)\n")
        for r in rows:
            f.write("\t".join(r) + "\n")
    check()
    print(f"{len(rows)} rows, {sum(p.stat().st_size for p in root.rglob('*') if p.is_file())} bytes")


if __name__ == "__main__":
    check() if only_check else main()
